"""Seeded demo releases of a private grid, for the owner's figures over ε and over many releases.

They never leave the vault.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from gridveil.adversary.attack.guess import best_guesses, combined, distance, noisy_values, within
from gridveil.adversary.attack.network import LARGEST, Inversion, invert
from gridveil.grid.facts import Array, GridFacts, IntArray
from gridveil.grid.parameters import INERTIA, PARAMETERS, WEIGHT, Range
from gridveil.inference.posterior import middle
from gridveil.inference.prior import AROUND_MIDDLE, Prior, prior_of
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.mechanisms import GroupLoss, Mechanism, named
from gridveil.privacy.noisy import NoisyGrid
from gridveil.publication.release import RATINGS, Release, loaded_buses
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.workflow.publish import publish

Progress = Callable[[str], object]

EPSILON_FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
RELEASES = (1, 3, 10, 30, 100)
SINGLE_DRAWS = 10  # of one release that costs as much as several
# Redraws per ε. Up to this many lines, 100 releases are each inverted: a larger grid takes seconds
# for each.
FEW_LINES, DRAWS, DRAWS_OF_MANY = 100, 20, 3
SURE = 3.2905  # standard deviations of a 99.9 % interval


@dataclass(frozen=True)
class EpsilonRow:
    """Seeded demo draws at one ε. Shares of lines within α of the truth, and median relative
    errors.

    noisy : of the noisy value, for fixed lines further than α from the bounds, with its 99.9 %
    interval and 1 − e^(−ε_k);
    best : of the best attack, over all lines, chosen with hindsight, and error_k its error. None
    where nothing is drawn of lines or seen of them; error_k is then that of a blind guess, and None
    where there are too many lines to attack.
    """

    epsilon: float
    draws: int
    error_k: float | None
    error_m: float
    noisy: float | None = None
    low: float | None = None
    high: float | None = None
    expected: float | None = None
    best: float | None = None


@dataclass(frozen=True)
class AveragingRow:
    """Several releases together: median relative error of what was drawn, beside one release that
    costs as much.

    error_k is of lines that a release fixes, None where they are not attacked.
    """

    releases: int
    epsilon: float
    error_m: float
    error_k: float | None
    single_m: float


@dataclass(frozen=True, eq=False)
class Redraws:
    """Demo releases of a grid, made as a release of it was, without a fit.

    patterns : of its ports; None: they say nothing.
    """

    source: SourceGrid
    release: Release
    patterns: Array | None
    seed: int

    def of(self, name: str) -> Mechanism:
        """What drew a group."""
        loss = self.release.guarantee.groups.get(name)
        return named(loss.drawn if loss else "nothing")

    def range(self, name: str) -> Range:
        """Public bounds of what was drawn of a group."""
        public = self.release.bounds[name]
        return self.of(name).range(public, self.source.facts.sizes[name])

    def at(self, epsilon: Fraction, number: int) -> Release:
        """A demo release at some ε."""
        settings = self._settings(epsilon, number)
        return publish(self.source, **settings, ports=None, error_bars=False)

    def noisy(self, epsilon: Fraction, number: int) -> NoisyGrid:
        """What perturb drew for the demo release of that number."""
        return perturb(self.source, **self._settings(epsilon, number))

    def _settings(self, epsilon: Fraction, number: int) -> dict[str, Any]:
        guarantee, groups = self.release.guarantee, self.release.guarantee.groups
        shares = {name: loss.epsilon / guarantee.epsilon for name, loss in groups.items()}
        draws = {name: self.of(name).name for name in PARAMETERS}
        sharing = "rating" if RATINGS in self.release.public_inputs else "equal"
        return {
            "epsilon": epsilon,
            "adjacency": guarantee.adjacency,
            "bounds": self.release.bounds,
            "ledger": None,
            "sampler": DemoSampler((self.seed, number, epsilon.numerator, epsilon.denominator)),
            "allocation": Allocation(draws, shares, sharing, guarantee.hides_network),
        }

    def inverted(self, made: Release) -> Inversion | None:
        """The known topology's inversion of a demo release, from one start."""
        facts = self.source.facts
        if self.patterns is None or len(facts.edges) > LARGEST:
            return None
        shares = self.patterns[np.searchsorted(facts.interior, loaded_buses(facts))]
        model = replace(
            made.swing,
            ports=(*made.swing.machines, *(f"L{n}" for n in range(1, shares.shape[1] + 1))),
            K_ac=made.swing.K_ac @ shares,
            loads=np.full(len(made.swing.machines) + shares.shape[1], np.nan),
        )
        return invert(model, facts, made.bounds[WEIGHT.name], self.patterns, starts=1)


def _undone(released: list[Array], loss: GroupLoss, bounds: Range, prior: Prior) -> Array:
    """Noisy values behind estimates of several releases, (R, n)."""
    return noisy_values(np.concatenate(released), loss, bounds, prior).reshape(len(released), -1)


def draws_of(facts: GridFacts) -> int:
    """Demo releases per ε: few of a large grid."""
    return DRAWS if len(facts.edges) <= FEW_LINES else DRAWS_OF_MANY


def drawn_of(mechanism: Mechanism, values: Array, truth: Array) -> tuple[Array, Array]:
    """Values and truth of what was drawn of a group: its items, or its sum."""
    if mechanism.takes == "sum":
        return np.array([values.sum()]), np.array([truth.sum()])
    return values, truth


def epsilon_row(again: Redraws, factor: Fraction, k: Array, m: Array, told: Progress) -> EpsilonRow:
    """Attack demo releases at a multiple of the release's ε."""
    epsilon = again.release.guarantee.epsilon * factor
    bounds, blind = (
        again.release.bounds[WEIGHT.name],
        np.full(len(k), middle(again.release.bounds[WEIGHT.name])),
    )
    tried = again.patterns is None or len(k) <= LARGEST
    near, hits, errors, error_m = [], [], [], []
    loss = None
    for number in range(draws_of(again.source.facts)):
        told(f"demo releases at ε = {float(epsilon):g}")
        made = again.at(epsilon, number)
        inversion = again.inverted(made)
        loss = made.guarantee.groups.get(WEIGHT.name)
        guesses = line_guesses(inversion, made, blind)
        if loss is not None and inversion is not None:
            _, behind, _ = guesses
            felt = np.log(k) if loss.relative else k
            low, high = (
                np.log(end) if loss.relative else end for end in (bounds.lower, bounds.upper)
            )
            free = inversion.fixed & (felt - distance(loss) > low) & (felt + distance(loss) < high)
            near.append(within(behind, k, loss)[free])
            hits.append([within(guess, k, loss).mean() for guess in guesses])
        errors.append([np.abs(guess / k - 1) for guess in guesses])
        error_m.append(
            median_error(*drawn_of(again.of(INERTIA.name), made.swing.values[INERTIA.name], m))
        )
    noisy = np.concatenate(near) if near else np.zeros(0)
    expected = None if loss is None else -math.expm1(-distance(loss) / loss.scale)
    share = np.mean(hits, axis=0) if hits else np.zeros(1)
    best = int(share.argmax())
    row = EpsilonRow(
        epsilon=float(epsilon),
        draws=draws_of(again.source.facts),
        best=float(share[best]) if hits else None,
        error_k=float(np.median([one[best] for one in errors])) if tried else None,
        error_m=float(np.mean(error_m)),
    )
    if not noisy.size or expected is None:
        return row
    reach = SURE * math.sqrt(max(expected * (1 - expected), 1e-12) / noisy.size)
    mean = float(noisy.mean())
    return replace(
        row, noisy=mean, low=max(mean - reach, 0.0), high=min(mean + reach, 1.0), expected=expected
    )


def averaging_rows(
    again: Redraws, k: Array, m: Array, fixed: IntArray, told: Progress
) -> tuple[AveragingRow, ...]:
    """Average 100 demo releases: undo the posterior means, then the joint posterior of all the
    noisy values.
    """
    guarantee = again.release.guarantee
    with_lines = len(k) <= FEW_LINES and WEIGHT.name in guarantee.groups and bool(fixed.size)
    seen_m, seen_k = [], []
    made = again.release
    for number in range(max(RELEASES)):
        told("many releases together")
        made = again.at(guarantee.epsilon, 1000 + number)
        seen_m.append(drawn_of(again.of(INERTIA.name), made.swing.values[INERTIA.name], m)[0])
        if with_lines and (found := again.inverted(made)) is not None:
            seen_k.append(found.weights[fixed])
    noisy_m = _undone(
        seen_m,
        made.guarantee.groups[INERTIA.name],
        again.range(INERTIA.name),
        prior_of(INERTIA.name, again.of(INERTIA.name).takes, len(m)),
    )
    noisy_k = (
        _undone(seen_k, made.guarantee.groups[WEIGHT.name], made.bounds[WEIGHT.name], AROUND_MIDDLE)
        if seen_k
        else None
    )
    rows = []
    truth_m = drawn_of(again.of(INERTIA.name), m, m)[1]
    for count in RELEASES:
        together = combined(
            noisy_m[:count], made.guarantee.groups[INERTIA.name], again.range(INERTIA.name)
        )
        error_k = None
        if noisy_k is not None:
            error_k = median_error(
                combined(
                    noisy_k[:count], made.guarantee.groups[WEIGHT.name], made.bounds[WEIGHT.name]
                ),
                k[fixed],
            )
        epsilon = guarantee.epsilon * count
        singles = [again.at(epsilon, 2000 + number) for number in range(SINGLE_DRAWS)]
        single = [
            median_error(*drawn_of(again.of(INERTIA.name), one.swing.values[INERTIA.name], m))
            for one in singles
        ]
        rows.append(
            AveragingRow(
                count,
                float(epsilon),
                median_error(together, truth_m),
                error_k,
                float(np.mean(single)),
            )
        )
    return tuple(rows)


def median_error(guess: Array, truth: Array) -> float:
    """Median of |guess/truth − 1|, where the truth is not 0; 0 where all of it is."""
    return (
        0.0
        if not truth.any()
        else float(np.median(np.abs(guess[truth != 0] / truth[truth != 0] - 1)))
    )


def line_guesses(inversion: Inversion | None, release: Release, blind: Array) -> list[Array]:
    """What an attacker may make of an inversion: its values, the noisy ones behind them, or the
    likeliest windows of ± α.

    The last two for fixed lines; of others, what the inversion gave.
    """
    loss, bounds = release.guarantee.groups.get(WEIGHT.name), release.bounds[WEIGHT.name]
    if loss is None or inversion is None:
        return [blind]
    given = np.clip(inversion.weights, bounds.lower, bounds.upper)
    y = noisy_behind(inversion.weights[inversion.fixed], loss, bounds)
    noisy, window = given.copy(), given.copy()
    noisy[inversion.fixed], window[inversion.fixed] = y, best_guesses(y, loss, bounds)
    return [given, noisy, window]


def best_guess(guesses: list[Array], k: Array, loss: GroupLoss | None) -> Array:
    """The guess with most lines within α of the truth: chosen with hindsight, so that no choice of
    the attacker's is better.
    """
    return (
        guesses[0]
        if loss is None
        else max(guesses, key=lambda guess: int(within(guess, k, loss).sum()))
    )


def noisy_behind(released: Array, loss: GroupLoss, bounds: Range) -> Array:
    """Noisy weights of lines behind released ones: those themselves where some lie on a bound,
    which no estimate does.
    """
    inside = np.clip(released, bounds.lower, bounds.upper)
    on_bound = np.isclose(inside, bounds.lower, rtol=1e-9) | np.isclose(
        inside, bounds.upper, rtol=1e-9
    )
    return inside if on_bound.any() else noisy_values(inside, loss, bounds, AROUND_MIDDLE)
