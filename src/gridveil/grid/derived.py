"""Public bounds and distances that follow from public facts of a grid, and from ranges that
textbooks and guides give for its kind of asset; never from a protected value.

Ranges, all in p.u. of the system's base:

- inertia: H of 1 to 10 s on each machine's rating S; a machine may stand for a neighbouring system
  of up to twice the size of all machines together, so that m = 2 H S lies between 2 · 1 · min S and
  2 · 10 · 2 ΣS;
- damping: D of 0 to 3 p.u. on the same sizes;
- line weights: the voltage V [kV] of a branch's higher end tells its impedance: a transformer has
  V/4 MVA or more at 20 % or less, a line 0.25 Ω/km or more over 5 km or more. So k lies between
  1.25 V of the lowest class and 0.8 V² of the highest, over the base in MVA.

Distances: a tenth of what is typical (the median rating at H = √10 s and D = 1.5; the geometric
middle of the bounds of k), rounded down to 1, 2 or 5 times a power of ten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import (
    DAMPING,
    DETAILED,
    INERTIA,
    WEIGHT,
    Bounds,
    Range,
    parameters_of,
)

DERIVED = "derived by gridveil from public facts and ranges of the class"
# Public facts of a file that bounds may follow from, as a certificate names them.
RATED_SIZES, VOLTAGE_CLASSES = "machine ratings behind the bounds", "voltages behind the bounds"
BOUND_FACTS = (RATED_SIZES, VOLTAGE_CLASSES)

H_S, D_PU = (1.0, 10.0), 3.0  # [s], [p.u. power / p.u. frequency], on a machine's rating
AREAS = 2.0  # what one machine may stand for, as a share of all of them
CLASS_MVA, TYPICAL_MVA = (10.0, 2000.0), 150.0  # of a machine whose rating is not known
CLASS_KV = (66.0, 765.0)  # where voltages are not known
TRANSFORMER, LINE = 1.25, 0.8  # [MVA/kV], [MVA/kV²]: least and largest weight per p.u. of base
# The base that the ranges of detailed parameters are declared for [MVA], and how each goes with it.
DETAILED_BASE = 100.0
WITH_BASE: Mapping[str, int] = {
    "x": 1,
    "b_ratio": -2,
    "b_shunt": -1,
    "p_load": -1,
    "p_gen": -1,
    "M": -1,
    "gov_gain": -1,
}


@dataclass(frozen=True)
class Derived:
    """Bounds and distances that follow from public facts.

    alpha : distances, by group [unit of the group].
    sources : what each group's bounds come from, in words.
    """

    bounds: Bounds
    alpha: Mapping[str, Fraction]
    sources: Mapping[str, str]

    def over(self, given: Bounds) -> Bounds:
        """These bounds, and in place of some those that were given."""
        names = [name for name in self.sources if name not in given.given]
        if not names:
            return given
        kept = {name: given[name] for name in given.given}
        origin = DERIVED
        if kept:
            origin = f"{DERIVED}; {', '.join(sorted(kept))}: {given.origin}"
        needed = {
            fact: words
            for fact, words in self.bounds.facts.items()
            if any(fact in _FACTS_OF[name] for name in names)
        }
        ranges = {name: self.bounds[name] for name in names if name in self.bounds} | kept
        return replace(self.bounds, ranges=ranges, origin=origin, facts=needed)


# Which facts the bounds of a group follow from.
_FACTS_OF: Mapping[str, tuple[str, ...]] = {
    WEIGHT.name: (VOLTAGE_CLASSES,),
    INERTIA.name: (RATED_SIZES,),
    DAMPING.name: (RATED_SIZES,),
}


def derive(facts: GridFacts, *, relative: bool = False, hides_network: bool = False) -> Derived:
    """Derive bounds and distances of a swing model.

    relative : whether distances are ratios, for which no lower bound may be 0.
    hides_network : whether nothing of the network may be used: voltages are not.

    Privacy
    -------
    A function of base power, ratings and voltages alone, which neighbours share and which its owner
    declares public by using it; `Bounds.facts` names those that were used.
    """
    told: dict[str, str] = {}
    sizes, source = _sizes(facts)
    if source is None:
        source = f"machines of {CLASS_MVA[0]:g} to {CLASS_MVA[1]:g} MVA"
    else:
        told[RATED_SIZES] = source
    base = facts.base_mva
    least, typical, most = (size / base for size in sizes)
    voltages = None if hides_network else facts.voltages_kv
    low_kv, high_kv = CLASS_KV if voltages is None else voltages
    classes = f"{low_kv:g} to {high_kv:g} kV" if low_kv < high_kv else f"{low_kv:g} kV"
    if voltages is not None:
        told[VOLTAGE_CLASSES] = classes
    weights = _outward(TRANSFORMER * low_kv / base, LINE * high_kv**2 / base)
    damping = _outward(0.0, D_PU * most)
    if relative:
        damping = Range(damping.least, damping.upper)
    ranges = {
        WEIGHT.name: weights,
        INERTIA.name: _outward(2 * H_S[0] * least, 2 * H_S[1] * most),
        DAMPING.name: damping,
    }
    typical_values = {
        WEIGHT.name: math.sqrt(weights.lower * weights.upper),
        INERTIA.name: 2 * math.sqrt(H_S[0] * H_S[1]) * typical,
        DAMPING.name: D_PU / 2 * typical,
    }
    names = [name for name in ranges if name in facts.parameters]
    sources = {
        WEIGHT.name: f"x of lines and transformers of {classes}",
        INERTIA.name: f"H of {H_S[0]:g} to {H_S[1]:g} s; {source}",
        DAMPING.name: f"D of 0 to {D_PU:g} p.u.; {source}",
    }
    return Derived(
        Bounds(ranges, origin=DERIVED, facts=told),
        {name: _tenth(typical_values[name]) for name in names},
        {name: sources[name] for name in names},
    )


def derive_detailed(base_mva: float) -> Bounds:
    """Bounds of a detailed model: the ranges that are declared of each parameter, on this base."""
    factor = base_mva / DETAILED_BASE
    if factor == 1:
        return Bounds(family=DETAILED)
    declared = parameters_of(DETAILED)
    ranges = {
        name: Range(public.lower * factor**power, public.upper * factor**power)
        for name, power in WITH_BASE.items()
        for public in (declared[name].bounds,)
    }
    return Bounds(ranges, family=DETAILED)


def _sizes(facts: GridFacts) -> tuple[tuple[float, float, float], str | None]:
    """Least, typical and largest size of what a machine stands for [MVA]; and the ratings that
    tell, in words, None where ranges of the class do.

    Ratings that all equal the base are a file's way to say that it has none.
    """
    count = len(facts.machines)
    rated = facts.rated_mva
    told = rated is not None and (np.isfinite(rated) & (rated > 0)).all()
    if rated is None or not told or (rated == facts.base_mva).all():
        largest = AREAS * max(CLASS_MVA[1], count * TYPICAL_MVA)
        return (CLASS_MVA[0], TYPICAL_MVA, largest), None
    least, typical, whole = float(rated.min()), float(np.median(rated)), math.fsum(rated)
    said = [f"{float(f'{size:.4g}'):g}" for size in (least, typical, whole)]
    words = f"ratings of {said[0]} MVA or more, median {said[1]}, together {said[2]}"
    return (least, typical, AREAS * whole), words


def _outward(lower: float, upper: float) -> Range:
    """A range around two numbers, with ends of two digits."""
    return Range(_rounded(lower, math.floor), _rounded(upper, math.ceil))


def _rounded(value: float, whole: Callable[[float], int]) -> float:
    if value == 0:
        return 0.0
    digit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{whole(value / digit) * digit:.2g}")


def _tenth(value: float) -> Fraction:
    """A tenth of a number, rounded down to 1, 2 or 5 times a power of ten, exactly."""
    power = math.floor(math.log10(value / 10))
    lead = value / 10 / 10.0**power
    step = max(step for step in (1, 2, 5) if step <= max(lead, 1))
    return step * Fraction(10) ** power
