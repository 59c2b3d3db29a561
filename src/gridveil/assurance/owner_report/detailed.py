"""The owner's exit for detailed releases: how near a bundle, and noise like its own, come to the
truth of each drawn parameter. Results are `Private`; only the sign-off writer opens them.

Figures of noise and of several releases come from seeded demo draws of the source, which never
leave this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gridveil.adversary.attack.detailed import (
    inertia_by_rates,
    inertia_by_rows,
    read_off,
    unshrunk,
)
from gridveil.adversary.attack.guess import bound, distance, within
from gridveil.assurance.owner_report.redraws import RELEASES, SINGLE_DRAWS, SURE, Progress
from gridveil.dynamics.detailed.entries import entries_of
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.foundation.errors import InputError
from gridveil.foundation.sealed import sealed
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array
from gridveil.grid.parameters import DETAILED, Range, assets
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.mechanisms import GroupLoss, Noise, parts
from gridveil.publication.detailed import Shown
from gridveil.publication.release import Release
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import Private, SourceGrid

MOST_ENTRIES = 5000  # of a table whose demo draws are averaged: a hundred take a minute
GRID = 4000  # points of a distribution that a median is taken of
SIMULATED = 2**18  # draws behind an advantage that has no formula: good to 0.002


@dataclass(frozen=True)
class ParameterRow:
    """What was drawn of one parameter, and how near it comes.

    typical : public value, the median over entries [unit].
    deviation : of the noise on one value, as a part of it, or in its unit where it is absolute.
    Errors are medians of |guess/truth − 1|, or of |guess − truth| where it is absolute: bundle, of
    the entries that the shown case has (None: it has none); noisy, of what demo draws drew, beside
    expected, of honest noise; blind, of the public value.
    within, low, high : share of demo draws within α of what was drawn, with its 99.9 % interval,
    where no bound is near; theory : of honest noise. None: a bound is near all of them.
    advantage : of the best test between neighbours that differ in one entry.
    """

    name: str
    title: str
    unit: str
    drawn: str
    entries: int
    absolute: bool
    typical: float
    scale: float
    deviation: float
    bundle: float | None
    noisy: float | None
    expected: float
    blind: float
    within: float | None
    low: float | None
    high: float | None
    theory: float
    advantage: float


@dataclass(frozen=True)
class ModelRow:
    """What a published model gives back: median relative error against what was released, None
    where that is what is read, and against the truth, beside the blind one.
    """

    what: str
    released: float | None
    truth: float
    blind: float


@dataclass(frozen=True)
class AssetRow:
    """The all-but-one adversary of a whole asset: advantage of the best test.

    draws : in how many independent draws it shows; exact : whether a formula gives it.
    """

    asset: str
    moved: str
    draws: int
    exact: bool
    advantage: float
    bound: float


@dataclass(frozen=True)
class AveragedDraws:
    """Several releases together: median errors by parameter, and of one release of that ε."""

    releases: int
    epsilon: float
    averaged: Mapping[str, float]
    single: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class DetailedAssessment:
    """What all attacks came to; left_out : those that the grid is too large for, in sentences."""

    parameters: tuple[ParameterRow, ...]
    model: tuple[ModelRow, ...]
    assets: tuple[AssetRow, ...]
    averaging: tuple[AveragedDraws, ...]
    draws: int
    left_out: tuple[str, ...]


@sealed
def detailed_steps() -> int:
    """Count the steps that `assess_detailed` tells its progress."""
    return 2 + max(RELEASES) + SINGLE_DRAWS * len(RELEASES)


@sealed
def check_same(source: SourceGrid[DetailedFacts], release: Release) -> tuple[DetailedModel, Shown]:
    """Refuse a bundle that cannot be of the grid, by public structure."""
    facts, shown, model = source.facts, release.shown, release.model
    assert shown is not None and isinstance(model, DetailedModel), "a detailed release"
    devices = [
        sorted((table.model, tuple(table.unit.tolist())) for table in case.devices)
        for case in (facts.public, shown.case)
    ]
    if (
        devices[0] != devices[1]
        or tuple(facts.parameters) != release.guarantee.parameters
        or len(facts.units) != model.units
    ):
        raise InputError(
            "the bundle has other units, devices or parameters than the grid",
            expected="a detailed bundle of this grid, and the grid as it was released",
            outcome="Nothing was attacked and nothing was written.",
        )
    return model, shown


@sealed
def assess_detailed(
    source: SourceGrid[DetailedFacts],
    release: Release,
    *,
    seed: int = 1,
    progress: Progress | None = None,
) -> Private[DetailedAssessment]:
    """Compare a detailed release, and noise like its own, with the truth of every drawn parameter.

    Privacy
    -------
    For the owner alone: it compares with the truth, and no ε covers it. The result is `Private`.
    Nothing private is solved.
    """
    told = progress or (lambda _: None)
    model, shown = check_same(source, release)
    facts, groups = source.facts, release.guarantee.groups
    truth = {name: Private.open(source.values[name]) for name in facts.parameters}
    told("reading the bundle")
    seen = read_off(shown)
    again = _Again(source, release, seed)
    few = sum(facts.sizes.values()) <= MOST_ENTRIES
    count = max(RELEASES) if few else min(RELEASES[1:])
    drawn = [again.noisy(release.guarantee.epsilon, n, told) for n in range(count)]
    noisy = {name: np.array([each[name] for each in drawn]) for name in groups}
    public = {name: values for name, (values, _) in entries_of(facts.public).items()}
    rows = tuple(
        _parameter(
            facts,
            release,
            name,
            truth[name],
            noisy=noisy[name],
            shown=seen.get(name),
            public=public[name],
        )
        for name in groups
    )
    told("the linear model")
    from_model = tuple(_model_rows(model, shown, release, facts, truth, public))
    too_large = (
        f"The table has {sum(facts.sizes.values())} entries: several releases are averaged of up "
        f"to {MOST_ENTRIES}, and nobody tried here.",
    )
    return Private(
        DetailedAssessment(
            parameters=rows,
            model=from_model,
            assets=tuple(_asset_rows(release)),
            averaging=_averaging(again, noisy, truth, told) if few else (),
            draws=count,
            left_out=() if few else too_large,
        )
    )


@dataclass(frozen=True, eq=False)
class _Again:
    """Seeded demo draws of the source, made as the release's was."""

    source: SourceGrid[DetailedFacts]
    release: Release
    seed: int

    def noisy(self, epsilon: Fraction, number: int, told: Progress) -> Mapping[str, Array]:
        told("demo draws")
        guarantee = self.release.guarantee
        draws = dict.fromkeys(self.source.facts.parameters, "nothing")
        draws |= {name: loss.drawn for name, loss in guarantee.groups.items()}
        shares = {name: loss.epsilon / guarantee.epsilon for name, loss in guarantee.groups.items()}
        return perturb(
            self.source,
            epsilon=epsilon,
            adjacency=Adjacency(guarantee.rule, guarantee.adjacency.alpha, family=DETAILED),
            bounds=self.release.bounds,
            ledger=None,
            sampler=DemoSampler((self.seed, number, epsilon.numerator, epsilon.denominator)),
            allocation=Allocation(draws, shares),
        ).values


def _parameter(
    facts: DetailedFacts,
    release: Release,
    name: str,
    truth: Array,
    *,
    noisy: Array,
    shown: Array | None,
    public: Array,
) -> ParameterRow:
    own, loss = facts.parameters[name], release.guarantee.groups[name]
    of_drawn = drawn_of(loss, truth)
    free = _free(of_drawn, loss, release.bounds[name])
    near = np.array([within(values, of_drawn, loss) for values in noisy])[:, free]
    share = float(near.mean()) if near.size else None
    theory = within_alpha(loss)
    reach = SURE * math.sqrt(max(theory * (1 - theory), 1e-12) / max(near.size, 1))
    return ParameterRow(
        name=name,
        title=own.title,
        unit=own.unit,
        drawn=loss.mechanism.each,
        entries=len(truth),
        absolute=not loss.relative,
        typical=float(np.median(public)),
        scale=loss.scale,
        deviation=loss.noise.deviation * loss.scale,
        bundle=None if shown is None else error(shown, truth, loss),
        noisy=error(noisy, of_drawn, loss),
        expected=expected_error(loss),
        blind=error(public, truth, loss),
        within=share,
        low=None if share is None else max(share - reach, 0.0),
        high=None if share is None else min(share + reach, 1.0),
        theory=theory,
        advantage=loss.noise.advantage([moved_by(loss, len(truth))]),
    )


def drawn_of(loss: GroupLoss, truth: Array) -> Array:
    """What noise was put on: the entries, or their mean (of logarithms, where it is in ratios)."""
    if loss.mechanism.takes == "items":
        return truth
    return np.array([np.exp(np.log(truth).mean()) if loss.relative else truth.mean()])


def error(guess: Array, truth: Array, loss: GroupLoss) -> float:
    """Median of |guess/truth − 1|, or of |guess − truth| of what is counted in its unit."""
    apart = guess / truth - 1 if loss.relative else guess - truth
    return float(np.median(np.abs(apart)))


def expected_error(loss: GroupLoss) -> float:
    """The same of honest noise, bounds left aside."""
    z = loss.scale * loss.noise.quantile((np.arange(GRID) + 0.5) / GRID - 0.5)
    return float(np.median(np.abs(np.expm1(z) if loss.relative else z)))


def within_alpha(loss: GroupLoss) -> float:
    """P(|noise| ≤ α) of one value: 1 − e^(−ε) of Laplace items, the marginal's of a box."""
    return float(2 * loss.noise.cdf(np.array(distance(loss) / loss.scale)) - 1)


def moved_by(loss: GroupLoss, entries: int) -> float:
    """How far a change of one entry by α moves what was drawn, in scales."""
    return distance(loss) / loss.scale / (entries if loss.mechanism.takes == "mean" else 1)


def _free(truth: Array, loss: GroupLoss, public: Range) -> NDArray[np.bool_]:
    """Where no bound lies within α: clipping tells nothing there."""
    felt = np.log if loss.relative else np.asarray
    reach = distance(loss)
    low, high = felt(public.lower) + reach, felt(public.upper) - reach
    return np.asarray((felt(truth) > low) & (felt(truth) < high))


def _model_rows(
    model: DetailedModel,
    shown: Shown,
    release: Release,
    facts: DetailedFacts,
    truth: Mapping[str, Array],
    public: Mapping[str, Array],
) -> Iterator[ModelRow]:
    """What the linear model, and the case beside it, give back."""
    if "M" in truth:
        at = facts.positions("M")
        true, blind = truth["M"], _off(public["M"], truth["M"])
        read = model.inertia[at]
        yield ModelRow("inertia M, read off the case", None, _off(read, true), blind)
        by_rows = inertia_by_rows(model, shown.case)
        if by_rows is not None and (by_rows[at] > 0).all():
            found = by_rows[at]
            words = "inertia M, by the rows of A with the case's devices"
            yield ModelRow(words, _off(found, read), _off(found, true), blind)
        found = inertia_by_rates(model)[at]
        words = "inertia M, by B and C alone: how fast each speed begins to fall"
        yield ModelRow(words, _off(found, read), _off(found, true), blind)
        loss = release.guarantee.groups.get("M")
        if loss is not None and loss.relative and loss.mechanism.takes == "items":
            behind = unshrunk(read, loss.noise.deviation * loss.scale)
            words = "inertia M, the noisy values behind those that were moved toward their mean"
            yield ModelRow(words, None, _off(behind, true), blind)
    if "p_gen" in truth:
        read = np.abs(shown.case.units.power[facts.positions("p_gen")])
        words = "dispatch, read off the case: scaled to load and losses"
        yield ModelRow(
            words, None, _off(read, truth["p_gen"]), _off(public["p_gen"], truth["p_gen"])
        )
    yield from _load_row(model, facts, truth, public)


def _load_row(
    model: DetailedModel,
    facts: DetailedFacts,
    truth: Mapping[str, Array],
    public: Mapping[str, Array],
) -> Iterator[ModelRow]:
    """Load at each port that is no unit's."""
    buses = [bus for bus in dict.fromkeys(facts.loads.tolist()) if bus not in facts.machines]
    if "p_load" not in truth or len(buses) != len(model.ports) - model.units:
        return
    at = facts.positions("p_load")
    signs = np.sign(facts.public.loads.power.real[at])
    column = {bus: n for n, bus in enumerate(buses)}

    def by_port(values: Array) -> Array:
        total = np.zeros(len(buses))
        for bus, value in zip(facts.loads[at].tolist(), signs * values, strict=True):
            if bus in column:
                total[column[bus]] += value
        return total

    true = by_port(truth["p_load"])
    some = true != 0
    read, blind = model.loads[model.units :], by_port(public["p_load"])
    yield ModelRow(
        "load of each port, read off the model",
        None,
        _off(read[some], true[some]),
        _off(blind[some], true[some]),
    )


def _off(guess: Array, truth: Array) -> float:
    return float(np.median(np.abs(guess / truth - 1))) if len(truth) else 0.0


def _asset_rows(release: Release) -> Iterator[AssetRow]:
    """The adversary who knows all but one asset, each of whose entries moves as far as the rule
    lets all of them.
    """
    guarantee, kinds = release.guarantee, assets(DETAILED)
    counts = guarantee.adjacency.counts
    for asset in dict.fromkeys(kinds[name] for name in guarantee.groups):
        names = [name for name in guarantee.groups if kinds[name] == asset]
        if len(names) > 1 and counts == "one-item" and guarantee.rule != "asset-l1-relative":
            continue  # one entry alone moves
        part = 1.0 if counts == "one-asset" else 1 / len(names)
        draws = list(_draws(release, names, part))
        yield AssetRow(
            asset,
            ", ".join(names) + ("" if part == 1 else f", each by 1/{len(names)} of its α"),
            len(draws),
            len(draws) == 1,
            whole_advantage(draws),
            bound(float(guarantee.epsilon)),
        )


def _draws(
    release: Release, names: Sequence[str], part: float
) -> Iterator[tuple[Noise, tuple[float, ...]]]:
    """The laws of an asset's draws, and how far each moves."""
    groups, entries = release.guarantee.groups, release.guarantee.means
    for _, together in parts({name: groups[name].drawn for name in names}, assets(DETAILED)):
        losses = (part * moved_by(groups[name], entries.get(name, 1)) for name in together)
        yield groups[together[0]].noise, tuple(losses)


def whole_advantage(draws: Sequence[tuple[Noise, tuple[float, ...]]]) -> float:
    """Advantage of the best test on independent draws: by formula of one, else E tanh(|ℓ|/2) of
    their log-likelihood ratios' sum ℓ, from a seeded simulation.
    """
    if len(draws) == 1:
        noise, losses = draws[0]
        return noise.advantage(losses)
    random, ratio = np.random.default_rng(0), np.zeros(SIMULATED)
    for noise, losses in draws:
        loss = np.array(losses)
        z = loss / 2 + noise.seeded(random, 1.0, (SIMULATED, len(losses)))
        ratio += noise.ratio_of_rows(z, loss)
    return float(np.tanh(np.abs(ratio) / 2).mean())


def _averaging(
    again: _Again, noisy: Mapping[str, Array], truth: Mapping[str, Array], told: Progress
) -> tuple[AveragedDraws, ...]:
    """Mean values (of logarithms, where they are in ratios) of several demo draws, beside one draw
    that costs as much.
    """
    groups, rows = again.release.guarantee.groups, list[AveragedDraws]()
    aims = {name: drawn_of(loss, truth[name]) for name, loss in groups.items()}
    for count in RELEASES:
        averaged = {
            name: error(_mean(noisy[name][:count], loss), aims[name], loss)
            for name, loss in groups.items()
        }
        epsilon = again.release.guarantee.epsilon * count
        singles = [again.noisy(epsilon, 2000 + number, told) for number in range(SINGLE_DRAWS)]
        single = {
            name: float(np.mean([error(one[name], aims[name], loss) for one in singles]))
            for name, loss in groups.items()
        }
        rows.append(AveragedDraws(count, float(epsilon), averaged, single))
    return tuple(rows)


def _mean(values: Array, loss: GroupLoss) -> Array:
    return np.exp(np.log(values).mean(axis=0)) if loss.relative else values.mean(axis=0)
