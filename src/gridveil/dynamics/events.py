"""Events: steps of load or generation, at one time or at several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from gridveil.dynamics.models import Places, port_positions
from gridveil.foundation.errors import EventError
from gridveil.foundation.limits import LONGEST_EVENT, LONGEST_NUMBER, MOST_STEPS
from gridveil.grid.facts import Array

NOT_SIMULATED = "Nothing was simulated."
GRAMMAR = (
    "one of 'uniform:+20%', 'load:BUS=+0.2,BUS=+15MW', 'gen:BUS=-0.5', 'lost:BUS,BUS' or "
    "'trip:MACHINE=650MW', each with an optional time such as '@10s'; sizes are p.u. unless they "
    "end in MW; several steps are separated by ';'"
)


@dataclass(frozen=True)
class Step:
    """A lasting change of load at one time.

    at_s : when [s].
    change : added load by bus [p.u. power].
    uniform : added share of every bus's nominal load;
    lost : buses whose nominal load goes to zero.
    trips : machines that leave, with inertia and controls, and the power that each gave [p.u.];
    None: as the model has it.
    """

    at_s: float = 0.0
    change: Mapping[str, float] = field(default_factory=dict)
    uniform: float = 0.0
    lost: tuple[str, ...] = ()
    trips: Mapping[str, float | None] = field(default_factory=dict)

    def loads(self, model: Places) -> Array:
        """Added load at every port of a model (ports,) [p.u. power].

        A trip is no load: only a model that can lose a machine answers it (see `simulate`).
        """
        if self.trips:
            raise EventError(
                "a machine cannot leave this model, which does not know what its machines deliver",
                expected="a detailed model, which carries what each of its units gives",
                outcome=NOT_SIMULATED,
                remedy="Write the lost power as gen:BUS=-0.5, in p.u. or MW; the machine stays.",
            )
        if (self.uniform or self.lost) and not np.isfinite(model.loads).all():
            raise EventError(
                "the model carries no nominal loads, so a share of them means nothing",
                expected="an event given bus by bus",
                outcome=NOT_SIMULATED,
                remedy="Write it as load:BUS=+0.2 in p.u. or MW. (An owner may publish loads: "
                "--publish-loads.)",
            )
        added = self.uniform * model.loads if self.uniform else np.zeros(len(model.ports))
        lost = port_positions(model, dict.fromkeys(self.lost))
        added[lost] -= model.loads[lost]
        added[port_positions(model, self.change)] += np.array(list(self.change.values()))
        return added


@dataclass(frozen=True)
class Event:
    """Steps of load or generation, in order of time.

    >>> Event.parse("uniform:+5%@10s", base_mva=100).steps[0]
    Step(at_s=10.0, change={}, uniform=0.05, lost=(), trips={})
    """

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise EventError(
                "an event has no steps", expected="at least one step", outcome=NOT_SIMULATED
            )
        if len(self.steps) > MOST_STEPS:
            raise EventError(
                f"an event has {len(self.steps)} steps",
                expected=f"at most {MOST_STEPS}",
                outcome=NOT_SIMULATED,
            )
        for step in self.steps:
            lost = [power for power in step.trips.values() if power is not None]
            numbers = [step.at_s, step.uniform, *step.change.values(), *lost]
            if not all(isfinite(number) for number in numbers) or step.at_s < 0:
                raise EventError(
                    "an event's times and sizes must be finite, and its times not negative",
                    outcome=NOT_SIMULATED,
                )

    @classmethod
    def uniform(cls, share: float, *, at_s: float = 0.0) -> Event:
        """Raise every bus's load by a share of its nominal load (0.2 for +20 %)."""
        return cls((Step(at_s, uniform=share),))

    @classmethod
    def load(cls, change: Mapping[str, float], *, at_s: float = 0.0) -> Event:
        """Raise the load of some buses [p.u. power]."""
        return cls((Step(at_s, change={str(bus): float(size) for bus, size in change.items()}),))

    @classmethod
    def generation(cls, change: Mapping[str, float], *, at_s: float = 0.0) -> Event:
        """Raise the generation of some buses [p.u. power]: the opposite of load."""
        return cls.load({bus: -size for bus, size in change.items()}, at_s=at_s)

    @classmethod
    def lost(cls, buses: Sequence[str], *, at_s: float = 0.0) -> Event:
        """Lose the nominal load of some buses."""
        return cls((Step(at_s, lost=tuple(str(bus) for bus in buses)),))

    @classmethod
    def trip(cls, machines: Mapping[str, float | None], *, at_s: float = 0.0) -> Event:
        """Lose some machines, with the power that each gave [p.u.]; None: as the model has it."""
        return cls((Step(at_s, trips=dict(machines)),))

    @property
    def tripped(self) -> tuple[str, ...]:
        """Machines that leave, in order of time."""
        return tuple(machine for step in self.steps for machine in step.trips)

    def then(self, other: Event) -> Event:
        """This event and another, on the same clock."""
        return Event(tuple(sorted((*self.steps, *other.steps), key=lambda step: step.at_s)))

    @classmethod
    def parse(cls, text: str, *, base_mva: float) -> Event:
        """Read an event as it is written on the command line; base_mva turns MW into p.u."""
        parts = (
            [part.strip() for part in text.split(";") if part.strip()]
            if len(text) <= LONGEST_EVENT
            else []
        )
        if not parts:
            raise _unreadable(text)
        steps = [_parse_step(part, base_mva) for part in parts]
        return cls(tuple(sorted(steps, key=lambda step: step.at_s)))


def _parse_step(text: str, base_mva: float) -> Step:
    what, at, time = text.rpartition("@") if "@" in text else (text, "", "")
    kind, colon, body = (part.strip() for part in what.partition(":"))
    if not (colon and body):
        raise _unreadable(text)
    at_s = _number(time.strip().removesuffix("s"), text) if at else 0.0
    if kind == "uniform":
        share = _number(body[:-1], text) / 100 if body.endswith("%") else _number(body, text)
        return Step(at_s, uniform=share)
    if kind == "lost":
        return Step(at_s, lost=tuple(part.strip() for part in body.split(",")))
    if kind == "trip":
        return Step(at_s, trips=dict(_trip(part, text, base_mva) for part in body.split(",")))
    if kind not in ("load", "gen"):
        raise _unreadable(text)
    sign = 1.0 if kind == "load" else -1.0
    change: dict[str, float] = {}
    for part in body.split(","):
        bus, equals, size = part.partition("=")
        if not equals:
            raise _unreadable(text)
        value = _size(size.strip(), text, base_mva)
        change[bus.strip()] = change.get(bus.strip(), 0.0) + sign * value
    return Step(at_s, change=change)


def _trip(part: str, whole: str, base_mva: float) -> tuple[str, float | None]:
    machine, equals, size = (piece.strip() for piece in part.partition("="))
    return machine, _size(size, whole, base_mva) if equals else None


def _size(text: str, whole: str, base_mva: float) -> float:
    """A power, in MW where it says so [p.u.]."""
    if text.upper().endswith("MW"):
        return _number(text[:-2], whole) / base_mva
    return _number(text.removesuffix("pu"), whole)


def _number(text: str, whole: str) -> float:
    try:
        return float(text if len(text) <= LONGEST_NUMBER else "")
    except ValueError:
        raise _unreadable(whole) from None


def _unreadable(text: str) -> EventError:
    return EventError(f"the event {text!r} cannot be read", expected=GRAMMAR, outcome=NOT_SIMULATED)
