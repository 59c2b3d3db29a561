"""What records were found to tell: in numbers, words, JSON's types, and drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.foundation.drawing import CYCLE, new_figure, plain, plain_ticks, written
from gridveil.grid.facts import Array
from gridveil.grid.parameters import SWING, parameters_of
from gridveil.inference.fit.scale import FREE_SCALE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A group is given away below this relative standard deviation; it stays hidden above that share of
# what the bounds leave.
GIVEN_AWAY, HIDDEN = 0.10, 0.90
MOST_COLUMNS = 4  # of panels in a figure


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """What records tell about a group's entries: standard deviations of their logarithms.

    bound : (n,) Cramér-Rao, inf where the records leave an entry open.
    with_bounds : (n,) the same with the public bounds as a prior.
    prior : by the bounds alone.
    mean : of the mean over all entries, with the bounds; None: not looked at.
    """

    bound: Array
    with_bounds: Array
    prior: float
    mean: float | None = None

    @property
    def typical(self) -> float:
        """Median over the entries, with the public bounds."""
        return float(np.median(self.with_bounds)) if len(self.with_bounds) else self.prior

    @property
    def best(self) -> float:
        """Least over the entries, with the public bounds: of a machine at a recorded bus, say."""
        return float(self.with_bounds.min(initial=self.prior))


@dataclass(frozen=True, eq=False)
class Attacker:
    """What an attacker gets who knows the total load of the events, or does not.

    rank : directions of the size entries of (log k, log m, log d) that the records see at all.
    seen : those that they fix better than the public bounds do.
    items : by group, topology known.
    reduced : Cramér-Rao of (k_r, m, d) without topology, relative.
    scale : relative standard deviation of the common factor of k, m, d and u without topology (0:
    it is known).
    mu : (n,) by group, each item's largest ‖ω(θ) − ω(θ′)‖/σ.
    mu_neighbours : the largest by the rule of the adjacency.
    """

    total_known: bool
    rank: int
    size: int
    seen: int
    items: Mapping[str, Uncertainty]
    reduced: Mapping[str, Array]
    scale: float
    mu: Mapping[str, Array]
    mu_neighbours: float


@dataclass(frozen=True, eq=False)
class Leakage:
    """What records give away by themselves.

    known, unknown : with the total load of the events public, and not; the latter of swing tables
    alone.
    origin : what ω was computed at, in words.
    records : how many.
    samples : values that they hold.
    sigma : of each [p.u. frequency].
    locations : buses that were recorded.
    """

    known: Attacker
    unknown: Attacker | None
    sigma: float
    samples: int
    locations: tuple[str, ...]
    rule: str
    origin: str
    notes: tuple[str, ...] = field(default=())
    records: int = 1
    family: str = SWING

    def verdict(self) -> str:
        """What that means, in plain words."""
        records = (
            "This trajectory" if self.records == 1 else f"This set of {self.records} trajectories"
        )
        records += f", of bus {self.locations[0]} only," if len(self.locations) == 1 else ""
        known, declared = self.known.items, parameters_of(self.family)
        states = {name: _state(entries) for name, entries in known.items()}
        given = [
            f"{declared[name].plural} to about {percent(known[name].typical)}"
            for name in known
            if states[name] == "given"
        ]
        narrowed = [
            f"{declared[name].plural} to about {percent(known[name].typical)} (the best known "
            f"one to {percent(known[name].best)}, the public bounds alone: "
            f"{percent(known[name].prior)})"
            for name in known
            if states[name] == "narrowed"
        ]
        hidden = [declared[name].plural for name in known if states[name] == "hidden"]
        said = []
        if given:
            said.append(
                f"{records} alone gives {_and(given)}: there no ε protects them any more, and a "
                "release can only add to it."
            )
        if narrowed:
            said.append(f"{'It' if said else records} narrows {_and(narrowed)}.")
        if hidden:
            subject = f"{records} leaves" if not said else "It leaves"
            said.append(
                f"{subject} single values of {_and(hidden)} about where the public bounds do."
            )
        singles = [
            f"{well} of {len(known[name].with_bounds)} {declared[name].several}"
            for name in known
            if states[name] == "hidden"
            and (well := int((known[name].with_bounds <= GIVEN_AWAY).sum()))
        ]
        if singles:
            said.append(f"But {_and(singles)} it gives to {percent(GIVEN_AWAY)} or better.")
        means = [
            f"{declared[name].title} to about {percent(entries.mean)}"
            for name, entries in known.items()
            if states[name] != "given" and entries.mean is not None and entries.mean <= GIVEN_AWAY
        ]
        if means:
            said.append(
                f"Over the whole grid it gives the mean of {_and(means)}: no ε takes that back."
            )
        if self.unknown is None:
            return " ".join(said)
        free = self.unknown.scale
        said.append(
            f"Without the event's total load one scale stays free ({FREE_SCALE}, to "
            f"{percent(free)}); ratios do not."
            if free > GIVEN_AWAY
            else f"Governors fix the scale of all values to {percent(free)}, even without the "
            "event's total load."
        )
        return " ".join(said)

    def to_json(self) -> dict[str, Any]:
        """All of it in JSON's types; null for what is not bounded."""
        return {
            "computed_at": self.origin,
            "sigma_pu": self.sigma,
            "values": self.samples,
            "locations": list(self.locations),
            "adjacency": self.rule,
            "verdict": self.verdict(),
            "notes": list(self.notes),
            "total_load_public": _attacker_json(self.known),
            **(
                {"total_load_unknown": {**_attacker_json(self.unknown), "scale": FREE_SCALE}}
                if self.unknown
                else {}
            ),
        }


def percent(share: float) -> str:
    """A relative standard deviation in words: two digits, and no more than makes sense."""
    if not share < 10:
        return "more than 1000 %"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _state(entries: Uncertainty) -> str:
    if entries.typical <= GIVEN_AWAY:
        return "given"
    return "hidden" if entries.typical >= HIDDEN * entries.prior else "narrowed"


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _attacker_json(attacker: Attacker) -> dict[str, Any]:
    return {
        "rank": attacker.rank,
        "directions": attacker.size,
        "fixed_by_records": attacker.seen,
        "relative_deviation": {
            name: {
                "cramer_rao": _spread(entries.bound),
                "with_public_bounds": _spread(entries.with_bounds),
                "public_bounds_alone": entries.prior,
                **({} if entries.mean is None else {"of_the_mean": entries.mean}),
            }
            for name, entries in attacker.items.items()
        },
        "relative_deviation_without_topology": {
            name: _spread(values) for name, values in attacker.reduced.items()
        },
        "relative_deviation_of_scale": _finite(attacker.scale),
        "mu": {name: [float(value) for value in values] for name, values in attacker.mu.items()},
        "mu_of_neighbours": attacker.mu_neighbours,
    }


def _spread(values: Array) -> dict[str, float | None] | None:
    if not len(values):
        return None
    return {
        "least": _finite(values.min()),
        "median": _finite(np.median(values)),
        "most": _finite(values.max()),
    }


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def plot_leakage(leakages: Mapping[str, Leakage], path: str | None = None) -> Figure:
    """Draw the relative error that records leave in each item; a line marks what bounds leave."""
    import numpy as np
    from matplotlib.ticker import MaxNLocator

    first = next(iter(leakages.values()))
    names, declared = list(first.known.items), parameters_of(first.family)
    columns = min(len(names), MOST_COLUMNS)
    rows = -(-len(names) // columns)
    figure, axes = new_figure(3.0 * columns, 3.4 * rows, rows=rows, columns=columns)
    for panel in axes[len(names) :]:
        panel.set_visible(False)
    for panel, name in zip(axes, names, strict=False):
        for number, (words, leakage) in enumerate(leakages.items()):
            for known, attacker in ((True, leakage.known), (False, leakage.unknown)):
                if attacker is None:
                    continue
                values = np.sort(attacker.items[name].with_bounds)
                panel.plot(
                    np.arange(1, len(values) + 1),
                    100 * values,
                    "o" if known else "x",
                    color=CYCLE[number % len(CYCLE)],
                    markersize=4,
                    label=plain(f"{words}, total load {'public' if known else 'unknown'}"),
                )
        prior = 100 * first.known.items[name].prior
        panel.axhline(
            prior, color="#888888", linestyle="--", linewidth=0.9, label="public bounds alone"
        )
        panel.set_yscale("log")
        plain_ticks(panel.yaxis)
        # a decade at least, or hardly a tick would be left
        panel.set_ylim(bottom=min(panel.get_ylim()[0], prior / 10))
        panel.set_title(f"{declared[name].plural} {name}", fontsize=9)
        panel.set_xlabel("item, best known first", fontsize=9)
        panel.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes[0].set_ylabel("relative error [%]", fontsize=9)
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=2,
        fontsize=8,
        frameon=False,
    )
    return written(figure, path)
