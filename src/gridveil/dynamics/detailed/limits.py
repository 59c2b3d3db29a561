"""Limits that are active at an operating point: there a linear model is blind on one side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gridveil.dynamics.detailed.dual import Dual
from gridveil.dynamics.detailed.equilibrium import Equilibrium, at_units
from gridveil.dynamics.detailed.linearise import Layout, port_labels, rest
from gridveil.dynamics.detailed.numbers import numbers_of
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array, IntArray


@dataclass(frozen=True)
class ActiveLimit:
    """A limiter at, or beyond, a bound.

    unit : label of its place. device : its model. limit : the limiter's name. side : of the bound.
    """

    unit: str
    device: str
    limit: str
    side: str


@dataclass(frozen=True, eq=False)
class Limiter:
    """A limiter of several units at rest.

    units : (n,) positions. device, limit : as in `ActiveLimit`.
    signal, lower, upper : (n,) what passes through it, and its bounds.
    """

    units: IntArray
    device: str
    limit: str
    signal: Array
    lower: Array
    upper: Array


def active_limits(
    case: DetailedCase, equilibrium: Equilibrium, *, margin: float = 1e-6
) -> tuple[ActiveLimit, ...]:
    """List the limiters that stand at a bound; none of it is quoted.

    margin : how near counts as at it [p.u.].
    """
    labels = port_labels(Layout.of(case, np.array([], dtype=np.int64)))
    active = []
    for limiter in limiters(case, equilibrium):
        y, low, high = limiter.signal, limiter.lower, limiter.upper
        for side, reached in (("lower", y <= low + margin), ("upper", y >= high - margin)):
            active += [
                ActiveLimit(labels[unit], limiter.device, limiter.limit, side)
                for unit in limiter.units[reached]
            ]
    return tuple(active)


def limiters(case: DetailedCase, equilibrium: Equilibrium) -> Iterator[Limiter]:
    """Evaluate every limiter of a case at rest."""
    layout = Layout.of(case, np.array([], dtype=np.int64))
    voltage = equilibrium.voltage
    at = rest(layout, numbers_of(case), np.concatenate([voltage.real, voltage.imag]))
    V = at_units(layout.wiring, at.V)
    for group, settled in zip(layout.groups, at.settled, strict=True):
        values = dict(zip(settled.names, settled.z.T, strict=True))
        own = V[group.units]
        diagram, _ = group.diagram(
            group.parameters(at.numbers), values, (own[:, 0], own[:, 1]), (0.0 * own[:, 0],) * 2
        )
        for name, (signal, lower, upper) in diagram.limits.items():
            role, _, limit = name.partition(".")
            parts = (
                np.broadcast_to(part.value if isinstance(part, Dual) else part, len(own))
                for part in (signal, lower, upper)
            )
            yield Limiter(group.units, group.models[role], limit, *parts)
