"""Events: steps and ramps of load or generation, and trips, at one time or at several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from gridveil.dynamics.models import Places, port_positions
from gridveil.foundation.arguments import a_number, names, of_type, several, takes
from gridveil.foundation.errors import EventError
from gridveil.foundation.limits import LONGEST_EVENT, LONGEST_NUMBER, MOST_STEPS
from gridveil.foundation.looks import looks
from gridveil.grid.facts import Array

NOT_SIMULATED = "Nothing was simulated."
GRAMMAR = (
    "one of 'uniform:+20%', 'load:BUS=+0.2,BUS=+15MW', 'gen:BUS=-0.5', 'lost:BUS,BUS', "
    "'trip:MACHINE=650MW' or 'ramp:BUS=+0.2@5s..15s', each with an optional time such as '@10s', "
    "or '@5s..15s' for a change that takes so long; sizes are p.u. unless they end in MW; several "
    "are separated by ';'"
)
WORDS = "an Event, or words such as 'load:G1=+0.1' or 'uniform:+5%@10s'"
_SIZES = of_type(Mapping, "sizes by name, such as {'G1': 0.1} [p.u.]", dict)
_TIME = a_number("a time of 0 or more [s]")
_POWER = a_number("a power [p.u.]")


@dataclass(frozen=True)
class Step:
    """A lasting change of load, at one time or as a ramp.

    at_s : when, or from when on [s].
    over_s : how long the change takes, at an even rate [s]; 0: all at once.
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
    over_s: float = 0.0

    def loads(self, model: Places) -> Array:
        """Load that is added at once at every port of a model (ports,) [p.u. power].

        A ramp is refused: what asks for this knows steps alone.
        """
        if self.over_s:
            raise EventError(
                "a ramp cannot be used here",
                expected="changes that come at once",
                outcome="Nothing was computed.",
                remedy="Leave its end away, as in load:BUS=+0.2@5s; gridveil simulate and export "
                "take ramps.",
            )
        return self.whole(model)

    def whole(self, model: Places) -> Array:
        """Load that is added in the end at every port of a model (ports,) [p.u. power].

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


@looks(lambda event: event.in_words())
@takes(
    outcome=NOT_SIMULATED,
    error=EventError,
    steps=several(of_type(Step, ""), "steps; of words, use Event.parse('load:G1=+0.1')"),
)
@dataclass(frozen=True)
class Event:
    """Steps, ramps and trips, in order of time.

    >>> Event.parse("uniform:+5%@10s")
    <Event uniform:+5%@10s>
    >>> Event.parse("ramp:G1=+20MW@5s..15s", base_mva=100).steps[0].over_s
    10.0
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
            numbers = [step.at_s, step.over_s, step.uniform, *step.change.values(), *lost]
            finite = all(isfinite(number) for number in numbers)
            if not finite or step.at_s < 0 or step.over_s < 0:
                raise EventError(
                    "an event's times and sizes must be finite, and its times not negative",
                    outcome=NOT_SIMULATED,
                )
            if step.trips and step.over_s:
                raise EventError(
                    "a machine leaves at once: a trip has one time",
                    expected="trip:MACHINE@5s",
                    outcome=NOT_SIMULATED,
                )

    @classmethod
    @takes(
        outcome=NOT_SIMULATED,
        error=EventError,
        share=a_number("a share, such as 0.2 for +20 %"),
        at_s=_TIME,
    )
    def uniform(cls, share: float, *, at_s: float = 0.0) -> Event:
        """Raise every bus's load by a share of its nominal load (0.2 for +20 %)."""
        return cls((Step(at_s, uniform=share),))

    @classmethod
    @takes(outcome=NOT_SIMULATED, error=EventError, change=_SIZES, at_s=_TIME, over_s=_TIME)
    def load(cls, change: Mapping[str, float], *, at_s: float = 0.0, over_s: float = 0.0) -> Event:
        """Raise the load of some buses [p.u. power]; over_s : as a ramp that takes so long [s]."""
        sizes = {str(bus): _power(bus, size) for bus, size in change.items()}
        return cls((Step(at_s, change=sizes, over_s=over_s),))

    @classmethod
    @takes(outcome=NOT_SIMULATED, error=EventError, change=_SIZES, at_s=_TIME)
    def generation(cls, change: Mapping[str, float], *, at_s: float = 0.0) -> Event:
        """Raise the generation of some buses [p.u. power]: the opposite of load."""
        sizes = {bus: -_power(bus, size) for bus, size in change.items()}
        return cls.load(sizes, at_s=at_s)

    @classmethod
    @takes(
        outcome=NOT_SIMULATED,
        error=EventError,
        buses=names("names of buses, such as ['L3']"),
        at_s=_TIME,
    )
    def lost(cls, buses: Sequence[str], *, at_s: float = 0.0) -> Event:
        """Lose the nominal load of some buses."""
        return cls((Step(at_s, lost=tuple(str(bus) for bus in buses)),))

    @classmethod
    @takes(
        outcome=NOT_SIMULATED,
        error=EventError,
        machines=of_type(
            Mapping,
            "machines, such as 'G3' or {'G3': 0.5} with the power that it gave [p.u.]",
            lambda listed: dict.fromkeys(names("")(listed)),
        ),
        at_s=_TIME,
    )
    def trip(
        cls, machines: Mapping[str, float | None] | Sequence[str] | str, *, at_s: float = 0.0
    ) -> Event:
        """Lose some machines, with the power that each gave [p.u.]; None: as the model has it."""
        assert isinstance(machines, Mapping), "names were read"
        powers = {
            str(machine): None if power is None else _power(machine, power)
            for machine, power in machines.items()
        }
        return cls((Step(at_s, trips=powers),))

    @property
    def tripped(self) -> tuple[str, ...]:
        """Machines that leave, in order of time."""
        return tuple(machine for step in self.steps for machine in step.trips)

    def then(self, other: Event) -> Event:
        """This event and another, on the same clock."""
        return Event(tuple(sorted((*self.steps, *other.steps), key=lambda step: step.at_s)))

    @property
    def places(self) -> tuple[str, ...]:
        """Places that it names, the largest change of load or generation first."""
        sizes: dict[str, float] = {}
        for step in self.steps:
            for place in (*step.lost, *step.trips):
                sizes[place] = float("inf")  # a nominal load, or all that a machine gave
            for place, size in step.change.items():
                sizes[place] = sizes.get(place, 0.0) + abs(size)
        return tuple(sorted(sizes, key=lambda place: -sizes[place]))

    def in_words(self) -> str:
        """The event as `parse` reads it, sizes in p.u."""
        return "; ".join(
            words + _time_in_words(step) for step in self.steps for words in _step_in_words(step)
        )

    @classmethod
    @takes(
        outcome=NOT_SIMULATED,
        error=EventError,
        text=of_type(str, GRAMMAR),
        base_mva=a_number("the base power, above 0 [MVA]", above=0.0),
    )
    def parse(cls, text: str, *, base_mva: float | None = None) -> Event:
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

    @classmethod
    def of(cls, event: Event | str, base_mva: float) -> Event:
        """The event that is meant: itself, or its words read."""
        return cls.parse(event, base_mva=base_mva) if isinstance(event, str) else event


def _power(place: object, size: object) -> float:
    """A size that was given by name [p.u.]."""
    try:
        return _POWER(size)
    except ValueError:
        raise EventError(
            f"the size at {place!r} is no number",
            expected="sizes by name in p.u., such as {'G1': 0.1}",
            outcome=NOT_SIMULATED,
        ) from None


def _step_in_words(step: Step) -> list[str]:
    percent = f"{100 * step.uniform:+.12g}"
    share = f"{percent}%" if float(percent) / 100 == step.uniform else f"{step.uniform:+}"
    words = [f"uniform:{share}"] if step.uniform else []
    if step.change:
        sizes = ",".join(f"{bus}={size:+}" for bus, size in step.change.items())
        words.append(f"{'ramp' if step.over_s else 'load'}:{sizes}")
    words += [f"lost:{','.join(step.lost)}"] if step.lost else []
    if step.trips:
        gone = (m if p is None else f"{m}={p}" for m, p in step.trips.items())
        words.append(f"trip:{','.join(gone)}")
    return words or ["uniform:+0%"]


def _time_in_words(step: Step) -> str:
    if step.over_s:
        return f"@{step.at_s:.12g}s..{step.at_s + step.over_s:.12g}s"
    return f"@{step.at_s:.12g}s" if step.at_s else ""


def _parse_step(text: str, base_mva: float | None) -> Step:
    what, at, time = text.rpartition("@") if "@" in text else (text, "", "")
    kind, colon, body = (part.strip() for part in what.partition(":"))
    if not (colon and body):
        raise _unreadable(text)
    begin, until, end = time.partition("..")
    at_s = _number(begin.strip().removesuffix("s"), text) if at else 0.0
    over_s = _number(end.strip().removesuffix("s"), text) - at_s if until else 0.0
    if (until and over_s <= 0) or (kind == "ramp" and not until):
        raise EventError(
            f"the ramp {text!r} does not say from when to when",
            expected="a time and a later one, such as ramp:BUS=+0.2@5s..15s",
            outcome=NOT_SIMULATED,
        )
    if kind == "uniform":
        share = _number(body[:-1], text) / 100 if body.endswith("%") else _number(body, text)
        return Step(at_s, uniform=share, over_s=over_s)
    if kind == "lost":
        return Step(at_s, lost=tuple(part.strip() for part in body.split(",")), over_s=over_s)
    if kind == "trip":
        trips = dict(_trip(part, text, base_mva) for part in body.split(","))
        return Step(at_s, trips=trips, over_s=over_s)
    if kind not in ("load", "gen", "ramp"):
        raise _unreadable(text)
    sign = -1.0 if kind == "gen" else 1.0
    change: dict[str, float] = {}
    for part in body.split(","):
        bus, equals, size = part.partition("=")
        if not equals:
            raise _unreadable(text)
        value = _size(size.strip(), text, base_mva)
        change[bus.strip()] = change.get(bus.strip(), 0.0) + sign * value
    return Step(at_s, change=change, over_s=over_s)


def _trip(part: str, whole: str, base_mva: float | None) -> tuple[str, float | None]:
    machine, equals, size = (piece.strip() for piece in part.partition("="))
    return machine, _size(size, whole, base_mva) if equals else None


def _size(text: str, whole: str, base_mva: float | None) -> float:
    """A power, in MW where it says so [p.u.]."""
    if text.upper().endswith("MW"):
        if base_mva is None:
            raise EventError(
                f"the event {whole!r} has a size in MW, and no base power is given",
                expected="base_mva, such as 100, or sizes in p.u.",
                outcome=NOT_SIMULATED,
                remedy="Pass base_mva=model.base_mva.",
            )
        return _number(text[:-2], whole) / base_mva
    return _number(text.removesuffix("pu"), whole)


def _number(text: str, whole: str) -> float:
    try:
        return float(text if len(text) <= LONGEST_NUMBER else "")
    except ValueError:
        raise _unreadable(whole) from None


def _unreadable(text: str) -> EventError:
    return EventError(f"the event {text!r} cannot be read", expected=GRAMMAR, outcome=NOT_SIMULATED)
