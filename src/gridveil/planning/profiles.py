"""Profiles: settings that belong together, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gridveil.grid.parameters import (
    DAMPING,
    INERTIA,
    REDUCED_WEIGHT,
    WEIGHT,
    Bounds,
    Range,
)
from gridveil.inference.fit import FitSettings
from gridveil.inference.posterior import Start
from gridveil.privacy.adjacency import Rule
from gridveil.privacy.allocation import MechanismName

ProfileName = Literal["default", "paper"]


@dataclass(frozen=True)
class Profile:
    """Neighbours, public bounds, mechanism and fit of a release.

    mechanism : without a trajectory; with one, items are drawn.
    start : what the reduction and the fit start from.
    """

    rule: Rule = "one-asset"
    bounds: Bounds = field(default_factory=Bounds)
    settings: FitSettings = field(default_factory=FitSettings)
    mechanism: MechanismName = "aggregates"
    start: Start = "posterior"


PROFILES: Mapping[ProfileName, Profile] = {
    "default": Profile(),
    # Section IV-A of the paper: one box for k and k_r, 500 steps of η = 100, Euler at 0.01 s.
    "paper": Profile(
        rule="one-per-group",
        bounds=Bounds(
            {
                WEIGHT.name: Range(1, 100),
                REDUCED_WEIGHT.name: Range(1, 100),
                INERTIA.name: Range(1, 40),
                DAMPING.name: Range(1, 40),
            },
            origin="the paper",
        ),
        settings=FitSettings(
            method="projected-gradient", scheme="euler", dt_s=0.01, iterations=500, step=100.0
        ),
        mechanism="items",
        start="clipped",
    ),
}
