"""Recompute what a bundle states: every sentence and figure that follows from its facts, and
whether the facts fit together.

Each function gives problems in words, which name what is wrong; none of them raises because of what
a bundle says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import astuple
from fractions import Fraction
from itertools import permutations

import numpy as np
from pydantic import BaseModel

from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.errors import OptionError
from gridveil.grid.derived import VOLTAGE_CLASSES
from gridveil.grid.detailed import SOLVED_ON_THE_RELEASE
from gridveil.grid.facts import OPERATING_POINTS, Array, GridFacts
from gridveil.grid.parameters import DAMPING, DECLARED, SWING, Bounds, assets, parameters_of
from gridveil.inference.fit.unknown import Unknown
from gridveil.privacy.allocation import Allocation, Sharing, asked, taken_of
from gridveil.privacy.epsilon import exact
from gridveil.privacy.guarantee import Guarantee, whole_loss
from gridveil.privacy.mechanisms import for_demos_only, parts
from gridveil.publication.release import (
    LOAD_MODEL,
    PORTS,
    RATINGS,
    RULES,
    Release,
    bound_facts,
    declared_inputs,
)

# What any public number of a model lies below, or is 0; and what inertia and the like lie above.
# p.u., 1/s, rad/s, Hz, MVA.
MOST, LEAST = 1e15, 1e-15
# The same of what an owner declares, so that sums over all buses and shares of them stay within the
# others.
DECLARED_MOST, DECLARED_LEAST = 1e9, 1e-9
# Elimination leaves weights and shares this far below 0, or above 1 [p.u. of the largest].
ROUNDING = 1e-9
MECHANISM = re.compile(r"OpenDP [0-9][0-9A-Za-z.+-]* (.*)")
DEMO_MECHANISM = re.compile(r"[A-Za-z0-9 ,]{1,60}\(demo: no privacy\)")
RULE = re.compile(r"[a-z_]{1,30} = [a-z]{1,30}|one island chosen")
# How far the loss that was charged may lie above distance / scale: roundings, and what OpenDP adds
# for long vectors.
SLACK = Fraction(1, 10**5)


def differing(stated: BaseModel, derived: BaseModel) -> list[str]:
    """Name the fields in which a document differs from the one that its facts give."""
    return [
        place
        for name in type(derived).model_fields
        for place in _differing(name, getattr(stated, name), getattr(derived, name))
    ]


def _differing(name: str, stated: object, derived: object) -> Iterator[str]:
    if isinstance(stated, BaseModel) and isinstance(derived, BaseModel):
        yield from (f"{name}.{inner}" for inner in differing(stated, derived))
    elif isinstance(stated, dict) and isinstance(derived, dict) and list(stated) == list(derived):
        for key, value in derived.items():
            if isinstance(value, BaseModel):
                yield from _differing(f"{name}.{key}", stated[key], value)
            elif stated[key] != value:
                yield name
                return
    elif stated != derived or isinstance(stated, dict):
        yield name


def model_problems(model: ReducedModel) -> Iterator[str]:
    """A model that swings and settles: m > 0 and d, k_r, T, G ≥ 0 make it stable, whatever their
    values are.
    """
    yield from named_problems(model)
    # A NaN has bits to spare: only the one that gridveil writes hides nothing.
    withheld = model.loads.tobytes() == np.full(model.loads.shape, np.nan).tobytes()
    public = ("governor_rate", "droop_gain", "K_ac", "loads")
    for name, values in {**model.values, **{name: getattr(model, name) for name in public}}.items():
        if not (values.size == 0 or (name == "loads" and withheld)) and not _within(values, name):
            yield f"{name} of its model holds a number that no release has"
            return
    if model.K_ac.size and not np.allclose(model.K_ac.sum(axis=0), 1, rtol=0, atol=1e-6):
        yield "the shares in K_ac do not add up to 1"

    if model.compact and not all(0 <= share <= 1 for share in astuple(model.compact)):
        yield "what its model leaves out is no share"


def named_problems(model: ReducedModel | DetailedModel) -> Iterator[str]:
    """Neutral names, and public numbers of a size that a release has."""
    g = len(model.machines)
    if model.ports != (
        *(f"G{i + 1}" for i in range(g)),
        *(f"L{i + 1}" for i in range(len(model.ports) - g)),
    ):
        yield "its buses are not called G1, G2, … and L1, L2, …"
    for name in ("omega_b", "frequency_hz", "base_mva"):
        if not LEAST <= getattr(model, name) <= MOST:
            yield f"{name} of its model is no number that a release has"


def _within(values: Array, name: str) -> bool:
    """Whether all numbers of an array are finite and within what a release has; a NaN compares as
    neither.
    """
    low, high = float(values.min()), float(values.max())
    if name == "loads":
        return low >= -MOST and high <= MOST
    parameter = DECLARED.get(name)
    if parameter and parameter.positive:
        return low >= LEAST and high <= MOST
    reduced = parameter and parameter.reduces
    least = -ROUNDING * (high if reduced else 1) if reduced or name == "K_ac" else 0.0
    return least <= low and high <= (1 + ROUNDING if name == "K_ac" else MOST)


def check_declared(facts: GridFacts, bounds: Bounds) -> None:
    """Refuse public numbers of which no bundle could be loaded again, before anything is drawn."""
    arrays = {
        name: getattr(facts, name) for name in ("governor_rate", "droop_gain", "load_damping")
    }
    arrays |= {"loads": facts.loads} if facts.loads_are_public else {}
    largest = {name: float(np.max(np.abs(values), initial=0.0)) for name, values in arrays.items()}
    largest |= {name: getattr(facts, name) for name in ("omega_b", "frequency_hz", "base_mva")}
    largest |= {f"the upper bound of {name}": public.upper for name, public in bounds.items()}
    least = {name: largest[name] for name in ("omega_b", "frequency_hz", "base_mva")}
    least |= {
        f"the lower bound of {name}": public.lower
        for name, public in bounds.items()
        if DECLARED[name].positive
    }
    for name in [
        *(n for n, v in largest.items() if v > DECLARED_MOST),
        *(n for n, v in least.items() if v < DECLARED_LEAST),
    ]:
        raise OptionError(
            f"A release cannot have {name} of such a size.",
            expected=f"public numbers between {DECLARED_LEAST:g} and {DECLARED_MOST:g}",
            outcome="Nothing was drawn and nothing was spent.",
        )


def release_problems(release: Release) -> Iterator[str]:
    """Facts of a release that do not fit together, the noise's scale and its ε above all."""
    swing = release.guarantee.family == SWING
    if isinstance(release.model, ReducedModel) != swing:
        yield "its model is none of those that its guarantee speaks of"
        return
    model = release.model
    if isinstance(model, ReducedModel):
        yield from model_problems(model)
    elif release.shown is None:
        yield "it shows no case beside its model"
        return
    else:
        from gridveil.publication.detailed import detailed_problems, drawn_problems, misfit_problems

        yield from named_problems(model)
        yield from detailed_problems(model, release.shown)
        yield from drawn_problems(
            release.shown, release.guarantee, release.bounds, fitted=release.fitted is not None
        )
        if release.fitted and release.fitted.misfit:
            yield from misfit_problems(
                release.fitted, len(release.provenance), release.model.frequency_hz
            )
    for name, public in release.bounds.items():
        if public.upper > MOST:
            yield f"the bounds of {name} are none that a release has"
    yield from _mechanism_problems(release.guarantee)
    if swing:
        yield from _swing_problems(release)
    elif release.guarantee.operating_point != SOLVED_ON_THE_RELEASE:
        yield "its operating point is none that gridveil knows"
    yield from guarantee_problems(release)


def guarantee_problems(release: Release) -> Iterator[str]:
    """What a release of any family says of its noise, its inputs and its conditions."""
    yield from _loss_problems(release)
    yield from _clipped_problems(release)
    yield from _input_problems(release)
    yield from _condition_problems(release)


def _swing_problems(release: Release) -> Iterator[str]:
    """An operating point, a network and damping that a swing model cannot have."""
    guarantee, model, g = release.guarantee, release.swing, len(release.model.machines)
    if guarantee.operating_point not in {*OPERATING_POINTS, *OPERATING_POINTS.values()}:
        yield "its operating point is none that gridveil knows"
    shown = _lines_drawn(release) or model.ports[g:] != ("L1",)
    if guarantee.hides_network and (shown or not _alike(model)):
        yield "it claims to hide the network, and shows one"
    yield from _drawn_problems(release)
    if release.load_damping and not (release.publishes_loads and release.load_damping <= MOST):
        yield "its damping of loads is none that a release has"


def _alike(model: ReducedModel) -> bool:
    """Whether a model tells its machines apart by nothing of a network."""
    return bool((np.asarray(model.K_ac) == 1 / len(model.machines)).all()) and all(
        len(np.unique(values)) <= 1
        for name, values in model.values.items()
        if DECLARED[name].reduces
    )


def _mechanism_problems(guarantee: Guarantee) -> Iterator[str]:
    """A demo says so; a real draw is of proven mechanisms alone, and names what sampled each
    noise.
    """
    drawn = [loss.mechanism for loss in guarantee.groups.values()]
    samplers = dict.fromkeys(mechanism.noise.measured_by for mechanism in drawn)
    said = (DEMO_MECHANISM if guarantee.demo else MECHANISM).fullmatch(guarantee.mechanism)
    if not said or (not guarantee.demo and said[1] != ", ".join(samplers)):
        yield "its demo flag and its mechanism contradict each other"
    if not guarantee.demo and any(for_demos_only(mechanism) for mechanism in drawn):
        yield "it was drawn by a mechanism that serves demos alone"


def _lines_drawn(release: Release) -> bool:
    """Whether anything of the lines was drawn."""
    return any(DECLARED[name].asset == "line" for name in release.guarantee.groups)


def _drawn_problems(release: Release) -> Iterator[str]:
    """Find parameters of machines that cannot come of what was drawn: beyond the public bounds, or
    not shared out of a sum as stated.

    A fit may leave them anywhere; damping holds public damping of loads as well, where there is
    any.
    """
    machines, groups = release.swing.of_machines, release.guarantee.groups
    if missing := [name for name in machines if name not in groups]:
        yield f"nothing was drawn of {missing[0]}"
        return
    sums = [name for name in machines if groups[name].mechanism.takes == "sum"]
    if release.fitted and (sums or not _lines_drawn(release)):
        yield "a fit needs noisy items, and none were drawn"
    by_rating = RATINGS in release.public_inputs
    for name, values in machines.items():
        if release.fitted or (name == DAMPING.name and release.load_damping != 0):
            continue
        public = groups[name].mechanism.range(release.bounds[name], len(values))
        drawn = np.array([values.sum()]) if name in sums else values
        if drawn.min() < public.lower * (1 - ROUNDING) or drawn.max() > public.upper * (
            1 + ROUNDING
        ):
            yield f"{name} of its model lies outside its public bounds"
        if name in sums and not by_rating and np.ptp(values) > ROUNDING * values.max():
            yield f"{name} of its model is not a sum shared in equal parts"
    if by_rating and release.load_damping == 0:
        for name in sums[1:]:
            ratio = machines[name] / machines[sums[0]]
            if np.ptp(ratio) > ROUNDING * ratio.max():
                yield f"{sums[0]} and {name} of its model are not sums shared by rating"


def _loss_problems(release: Release) -> Iterator[str]:
    """rule(distance / scale) ≤ ε, group by group and for the whole, in exact numbers."""
    guarantee = release.guarantee
    try:
        exact(guarantee.epsilon)
        adjacency = guarantee.adjacency
    except OptionError:
        yield "its ε or α is no number that a release has"
        return
    declared, kinds = parameters_of(guarantee.family), assets(guarantee.family)
    if not {*guarantee.groups, *guarantee.published} <= set(guarantee.parameters) or (
        guarantee.groups.keys() & set(guarantee.published)
    ):
        yield "it publishes what its table has not, or what was drawn with noise"
        return
    for mechanism, names in parts(
        {name: loss.drawn for name, loss in guarantee.groups.items()}, kinds
    ):
        drawn = [guarantee.groups[name] for name in names]
        if any(loss.together != len(names) for loss in drawn) or (
            len({(loss.epsilon, loss.spent) for loss in drawn}) > 1
            or (len(names) > 1 and adjacency.counts not in mechanism.at_once)
        ):
            yield f"{', '.join(names)} cannot have been drawn together as stated"
    for name, loss in guarantee.groups.items():
        mechanism = loss.mechanism
        if (
            (loss.unit, loss.relative) != (declared[name].unit, adjacency.in_ratios(name))
            or mechanism.takes not in taken_of(declared[name])
            or (mechanism.takes == "mean") != (name in guarantee.means)
        ):
            yield f"guarantee.groups.{name} is none that gridveil draws"
        # Only the owner knows whether entries were sums of parts, parallel circuits say: roundings
        # of such may be counted. How many lines there were, the distance does not depend on.
        public, entries = release.bounds[name], _entries(release, name)
        least, most = (
            mechanism.noise.cost(
                mechanism.distance(
                    asked(adjacency, name, public, entries, loss.epsilon, summed=summed)
                ),
                Fraction(loss.scale),
            )
            for summed in (False, True)
        )
        if not least <= Fraction(loss.spent) <= loss.epsilon:
            yield f"the noise on {name} has a scale that costs more than the ε stated for it"
        elif Fraction(loss.spent) > most * (1 + SLACK):
            yield f"the noise on {name} has another scale than the ε stated for it needs"
    shares = adjacency.loss({name: loss.epsilon for name, loss in guarantee.groups.items()}, kinds)
    if (
        guarantee.spent != whole_loss(adjacency, guarantee.groups, kinds)
        or not guarantee.spent <= shares <= guarantee.epsilon
    ):
        yield f"ε of its groups does not make up its own, by the rule of {guarantee.rule}"


def _entries(release: Release, name: str) -> int:
    """How many entries a parameter has, where that is published: those of a swing model's machines,
    and those behind a mean; else 1.
    """
    guarantee = release.guarantee
    of_machines = guarantee.family == SWING and DECLARED[name].asset == "machine"
    return guarantee.means.get(name, len(release.model.machines) if of_machines else 1)


def _clipped_problems(release: Release) -> Iterator[str]:
    """Counts of values on a bound: no more than were drawn.

    The number of lines, and of the items of a detailed model, is not published.
    """
    guarantee, drawn = release.guarantee, release.guarantee.groups
    if tuple(release.clipped) != guarantee.parameters or any(
        count and name not in drawn for name, count in release.clipped.items()
    ):
        yield "clipped does not count what was drawn"
    elif any(
        release.clipped[name] > loss.mechanism.size(_entries(release, name))
        for name, loss in drawn.items()
        if name in guarantee.means
        or (guarantee.family == SWING and DECLARED[name].asset == "machine")
    ):
        yield "clipped counts more than was drawn"


def _input_problems(release: Release) -> Iterator[str]:
    """What it says of public inputs: gridveil's own sentences, around the owner's words."""
    stated, guarantee = release.public_inputs, release.guarantee
    draws = {
        name: guarantee.groups[name].drawn if name in guarantee.groups else "nothing"
        for name in guarantee.parameters
    } | dict.fromkeys(guarantee.published, "published")
    shares = {name: loss.epsilon / guarantee.epsilon for name, loss in guarantee.groups.items()}
    # A detailed allocation has its parameters in one order; those of a swing model are few.
    swing = guarantee.family == SWING
    orders = permutations(shares.items()) if swing else [shares.items()]
    given = [None, *(dict(order) for order in orders)]
    words, rules = stated.get("allocation", ""), stated.get(RULES, "")
    if rules and not all(RULE.fullmatch(rule) for rule in rules.split(", ")):
        yield f"public_inputs.{RULES} is none that gridveil states"
    sharings: tuple[Sharing, ...] = ("equal", "rating")
    try:
        possible = [
            Allocation(draws, split, sharing, guarantee.hides_network, words.partition("), ")[2])
            for split in given
            for sharing in sharings
        ]
        allocation = next(own for own in possible if own.in_words() == words)
    except (OptionError, StopIteration):
        yield "public_inputs.allocation does not say what was drawn"
        return
    facts = bound_facts(stated) if swing else {}
    if guarantee.hides_network:
        facts.pop(VOLTAGE_CLASSES, None)
    derived = declared_inputs(
        bounds=stated.get("bounds", ""),
        facts=facts,
        loads=swing and release.publishes_loads,
        load_model=stated.get(LOAD_MODEL, ""),
        allocation=allocation,
        rules=rules,
        merged=PORTS in stated and not guarantee.hides_network,
    )
    if list(derived.items()) != list(stated.items()):
        names = [
            name for name in {**derived, **stated} if derived.get(name) != stated.get(name)
        ] or list(stated)
        yield f"public_inputs.{names[0]} is not what gridveil states of such a release"


def _condition_problems(release: Release) -> Iterator[str]:
    """What the guarantee is conditional on: the trajectories that the fit used, each by its
    provenance.
    """
    guarantee = release.guarantee
    estimated = [
        Unknown(split, size, window)
        for split, size in ((False, None), (True, None), (True, (1, 2)))
        for window in (0, 1)
    ]
    if len(guarantee.conditional_on) != len(release.provenance) or bool(release.provenance) != bool(
        release.fitted
    ):
        yield "its fit, its trajectories and its conditions do not belong together"
        return
    for said, provenance in zip(guarantee.conditional_on, release.provenance, strict=True):
        if said not in {
            "; ".join(filter(None, (provenance.in_words(), event.in_words())))
            for event in estimated
        }:
            yield "guarantee.conditional_on does not say where a trajectory comes from"
        if provenance.origin != "measured" and not guarantee.demo:
            yield "a trajectory that was simulated from the source is not public"
    fitted = release.fitted
    if fitted and min(fitted.mismatch_before, fitted.mismatch_after) < 0:
        yield "fit holds a mismatch below 0"
    verdict = fitted and fitted.verdict
    if fitted and verdict:
        if (verdict.grade == "good") == bool(verdict.reasons):
            yield "fit.verdict gives reasons for a good fit, or none for another"
        if verdict.discarded and fitted.mismatch_after != fitted.mismatch_before:
            yield "fit.verdict discards a fit that its mismatch says was kept"
    if fitted and fitted.sigma_mhz is not None and fitted.sigma_mhz < 0:
        yield "fit holds a deviation below 0"
    if fitted and fitted.misfit and guarantee.family == SWING:
        yield "fit speaks of controls, which only a detailed fit has"
