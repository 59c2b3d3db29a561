"""Shared by the writers: a format's facts, opening words, network and events as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import fsum, pi

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.errors import EventError, GridveilError
from gridveil.grid.facts import Array
from gridveil.grid.parameters import REDUCED_WEIGHT
from gridveil.publication.release import NOT_VALID_FOR, VALID_FOR, Release

NOT_WRITTEN = "Nothing was written."
DEMO_MARK = "DEMO: made with a seed; it protects nothing and must not be taken for a real release."
# In p.u. nothing depends on it, and no real voltage is meant.
BASE_KV = 1.0
# A weight this much below the largest is what rounding left of a zero.
NO_LINE = 1e-12
# Steps of load that stand for a ramp, in a tool that knows steps alone.
STAIRS = 100
# More states than the devices of any unit have.
MOST_STATES_EACH = 30


@dataclass(frozen=True)
class Format:
    """A format that a release is written in.

    version : of the bytes; it rises whenever the same release would give others, so that `verify`
    knows what to recompute.
    write : makes the files of a release, by name; event is None where the format carries none.
    runs : the line that runs the files, in the folder that holds them.
    largest, largest_ports : most machines and most ports that it takes, None for any number.
    because : what grows too large beyond them.
    carries_devices : whether it holds the parameters of devices.
    write_detailed : makes the files of a release with a detailed model; None: it has no words for
    one. runs_detailed : the line that runs those, where it is another.
    build : adds to a file what a compiler makes of it, on this machine; never inside a bundle.
    runs_built : the line that runs what was built.
    """

    name: str
    version: int
    write: Callable[[Release, Event | None], Mapping[str, bytes]]
    runs: str
    carries_event: bool = False
    largest: int | None = None
    largest_ports: int | None = None
    because: str = ""
    carries_devices: bool = False
    write_detailed: Callable[[Release, Event | None], Mapping[str, bytes]] | None = None
    runs_detailed: str = ""
    build: Callable[[bytes], bytes] | None = None
    runs_built: str = ""

    def line(self, *, detailed: bool) -> str:
        """The line that runs the files of a release."""
        return self.runs_detailed if detailed and self.runs_detailed else self.runs

    def check_model(self, release: Release) -> None:
        """Refuse a model, or devices of one, that the format has no words for."""
        if not isinstance(release.model, ReducedModel):
            self.check_detailed()
            return
        if release.model.device and not self.carries_devices:
            raise GridveilError(
                f"The format {self.name} cannot hold {', '.join(release.model.device)}, which "
                "devices of this model have.",
                outcome=NOT_WRITTEN,
                remedy="Use the format mat or csv.",
            )

    def check_detailed(self) -> None:
        """Refuse a detailed model where the format has no words for one; a release asks this before
        it draws.
        """
        if self.write_detailed is None:
            raise GridveilError(
                f"The format {self.name} has no words for a detailed model.",
                outcome=NOT_WRITTEN,
                remedy="Use andes, psse, mat, statespace, modelica, fmu or matrices.",
            )

    def check_size(self, machines: int, ports: int) -> None:
        """Refuse a model that is too large for the format; a release asks this before it draws."""
        for what, count, largest in (
            ("machines", machines, self.largest),
            ("ports", ports, self.largest_ports),
        ):
            if largest is not None and count > largest:
                raise GridveilError(
                    f"{count} {what} are too many for the format {self.name}: {self.because}, and "
                    f"it is written for up to {largest} {what}.",
                    outcome=NOT_WRITTEN,
                    remedy="Use the format mat, which takes any number.",
                )


# A format that writes dense matrices as text: about 100 MB of it at most.
TextFormat = partial(
    Format, largest=100, largest_ports=500, because="it writes dense matrices as text"
)


@dataclass(frozen=True)
class Line:
    """A line between two machines, numbered from 1.

    x : reactance 1/k_r [p.u.] at voltages of 1 p.u.
    """

    start: int
    end: int
    x: float


def about(release: Release) -> tuple[str, ...]:
    """Say what a file is, in ASCII, which every tool reads; the demo's mark comes first."""
    model, guarantee = release.model, release.guarantee
    meant = (
        "All variables are deviations from the operating point that k_r holds: loads, generation "
        "and angles start at 0.",
        f"Valid for: {VALID_FOR}.",
        f"Not valid for: {NOT_VALID_FOR}.",
    )
    if release.shown is not None:
        from gridveil.publication import detailed

        meant = (
            detailed.FORMS[release.shown.form],
            f"Valid for: {detailed.VALID_FOR}.",
            f"Not valid for: {detailed.NOT_VALID_FOR}.",
        )
    return (
        *((DEMO_MARK,) if release.demo else ()),
        "gridveil release: Kron-reduced, synthetic frequency dynamics. Buses have neutral names.",
        f"epsilon = {guarantee.epsilon}, adjacency {guarantee.rule}.",
        f"omega_b = {model.omega_b!r} rad/s; nominal frequency {model.frequency_hz!r} Hz; p.u. of "
        f"{model.base_mva!r} MVA.",
        *meant,
    )


def lines(model: ReducedModel) -> tuple[Line, ...]:
    """List the lines, x = 1/k_r; pairs of machines without a weight have none."""
    weights = model.values[REDUCED_WEIGHT.name]
    least = NO_LINE * float(np.max(np.abs(weights), initial=0.0))
    return tuple(
        Line(i + 1, j + 1, 1.0 / weight)
        for (i, j), weight in zip(model.edges.tolist(), weights.tolist(), strict=True)
        if abs(weight) > least
    )


def reference_machines(model: ReducedModel) -> frozenset[int]:
    """Find the first machine, from 1, of every island: where a power flow needs its angle."""
    first = list(range(len(model.machines) + 1))
    for line in lines(model):
        a, b = first[line.start], first[line.end]
        if a != b:
            first = [min(a, b) if root in (a, b) else root for root in first]
    return frozenset(first[1:])


def governed(model: ReducedModel) -> tuple[int, ...]:
    """List the machines, from 1, whose governor acts: T > 0 and G > 0."""
    acting = (model.governor_rate > 0) & (model.droop_gain > 0)
    return tuple(int(i) + 1 for i in np.flatnonzero(acting))


def rated_hz(model: ReducedModel) -> float:
    """omega_b / 2 pi [Hz]: the frequency by which a tool turns p.u. speed into rad/s.

    Of physical models, the nominal one.
    """
    return (
        model.frequency_hz
        if model.omega_b == 2 * pi * model.frequency_hz
        else model.omega_b / (2 * pi)
    )


def machine_steps(model: ReducedModel, event: Event) -> tuple[tuple[float, tuple[float, ...]], ...]:
    """Share an event over machines: times [s] with the load u = l + K_ac l of each [p.u. power].

    A ramp becomes stairs, each step in the middle of its stair. Sums are rounded once (fsum), so
    that every platform writes the same digits.
    """
    steps = []
    for step in event.steps:
        added, shares = step.whole(model).tolist(), model.port_map.tolist()
        if not np.isfinite(added).all():
            raise EventError("an event's load is not finite", outcome=NOT_WRITTEN)
        felt = [fsum(s * load for s, load in zip(row, added, strict=True)) for row in shares]
        stairs = STAIRS if step.over_s else 1
        first = 0.5 if step.over_s else 0.0
        for stair in range(stairs):
            at_s = step.at_s + step.over_s * (stair + first) / stairs
            steps.append((at_s, tuple(load / stairs for load in felt)))
    return tuple(steps)


def total_weights(model: ReducedModel) -> Array:
    """L_ii = sum of the weights at each machine (g,) [p.u. power / rad], rounded once."""
    of_machines: list[list[float]] = [[] for _ in model.machines]
    reduced = model.values[REDUCED_WEIGHT.name].tolist()
    for (i, j), weight in zip(model.edges.tolist(), reduced, strict=True):
        of_machines[i].append(weight)
        of_machines[j].append(weight)
    return np.array([fsum(weights) for weights in of_machines])


def source_reactance(model: ReducedModel, share: float) -> float:
    """Choose a classical machine's reactance [p.u.]: a small share of what the network shows it.

    The released model has none: where the sum of weights is L_ii, a reactance of share / L_ii costs
    about that share.
    """
    largest = float(np.max(total_weights(model)))
    return share / largest if largest > 0 else share
