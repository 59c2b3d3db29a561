"""Search for the least ε, and the split, of one mechanism under one rule that meet the targets on a
surrogate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from gridveil.grid.facts import Array
from gridveil.planning.plan.targets import Target
from gridveil.planning.trials import Errors, Trials
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation, MechanismName, Sharing, candidates

# ε outside of these is not looked at: below, noise drowns any grid; above, next to nothing is
# hidden.
LEAST, MOST = Fraction(1, 100), Fraction(100)
# With more machines, curves are drawn with all of them as one, as the search for ε sees them; the
# check never does.
WHOLE_CURVES = 20
# An ε that fails its check is raised by this factor, then by its square, and so on.
STEP = 1.03
CURVE = tuple(
    2.0**n for n in range(-4, 4)
)  # ε of a trade-off curve, as multiples of the proposed one


@dataclass(frozen=True, eq=False)
class Choice:
    """The least ε of one mechanism under one rule that meets the targets; None: none up to 100
    does.

    share : of fresh draws that meet all targets.
    share_low : its 95 % lower confidence bound.
    errors : quantile of each error's size over those draws, by the names of `Comparison` (modes:
    the worst one's);
    L : mean of L [p.u.² s].
    """

    adjacency: Adjacency
    mechanism: MechanismName
    allocation: Allocation
    epsilon: Fraction | None
    share: float = math.nan
    share_low: float = math.nan
    errors: Mapping[str, float] = field(default_factory=dict)
    L: float = math.nan

    def losses(self) -> dict[str, Fraction]:
        """ε of each drawn group."""
        assert self.epsilon is not None
        return self.allocation.over(self.adjacency).split(self.epsilon, self.allocation.assets)


@dataclass(frozen=True, eq=False)
class Curve:
    """Trade-off of one mechanism: errors at the quantile (points,) over ε (points,), by name."""

    choice: Choice
    epsilon: Array
    errors: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Search:
    """The search for ε and split.

    A miss is the largest of error/limit over the targets, at the quantile of draws.
    """

    trials: Trials
    fresh: Trials
    targets: tuple[Target, ...]
    quantile: float

    def choose(
        self, adjacency: Adjacency, mechanism: MechanismName, splits: Sequence[Allocation]
    ) -> Choice:
        """Find the least ε of a mechanism under a rule, with the split that needs it."""
        best = splits[len(splits) // 2]
        least = self._least(lambda at: self._miss(adjacency, best, at), float(MOST), within=1.5)
        for _ in range(2):  # a better split at that ε, then its own ε
            at = least or float(MOST)
            better = min(splits, key=lambda allocation: self._miss(adjacency, allocation, at))
            if better is best and least is None:
                break
            least = self._least(
                lambda at, split=better: self._miss(adjacency, split, at),
                min(1.3 * at, float(MOST)),
                within=1.02,
            )
            if better is best:
                break
            best = better
        return self._checked(Choice(adjacency, mechanism, best, None), least)

    def curve(self, choice: Choice, middle: float) -> Curve:
        """Errors of a mechanism around an ε."""
        at = [neat(min(max(factor * middle, float(LEAST)), float(MOST))) for factor in CURVE]
        at = sorted(set(at) | ({choice.epsilon} if choice.epsilon else set()))
        trials = (
            self.fresh if len(self.fresh.surrogate.facts.machines) <= WHOLE_CURVES else self.trials
        )
        found = [
            self._sizes(trials.errors(choice.adjacency, choice.allocation, epsilon))
            for epsilon in at
        ]
        names = dict.fromkeys(target.error for target in self.targets)
        return Curve(
            choice,
            np.array([float(one) for one in at]),
            {n: np.array([one[n] for one in found]) for n in names},
        )

    def _checked(self, choice: Choice, least: float | None) -> Choice:
        """Round ε up and check it on fresh draws of the whole model; raise it until enough of them
        meet the targets.
        """
        if least is None:
            return choice
        at, factor, fails = neat(least), STEP, None
        while (met := self._check(choice, at)) is None:
            if at >= MOST:
                return choice
            fails, at, factor = at, min(neat(factor * float(at)), MOST), factor**2
        while fails is not None and at > STEP**2 * float(fails):  # the last step was a large one
            between = neat(math.sqrt(float(at) * float(fails)))
            if not fails < between < at:
                break
            if better := self._check(choice, between):
                at, met = between, better
            else:
                fails = between
        return met

    def _check(self, choice: Choice, epsilon: Fraction) -> Choice | None:
        errors = self.fresh.errors(choice.adjacency, choice.allocation, epsilon, whole=True)
        met = int((self._misses(errors) <= 1).sum())
        if met < self.quantile * self.fresh.draws:
            return None
        share, low = met / self.fresh.draws, _lower_bound(met, self.fresh.draws)
        sizes, L = self._sizes(errors), float(errors["L"].mean())
        return Choice(
            choice.adjacency, choice.mechanism, choice.allocation, epsilon, share, low, sizes, L
        )

    def _misses(self, errors: Errors) -> Array:
        return np.max(
            [np.abs(errors[target.error]) / target.limit for target in self.targets], axis=0
        )

    def _miss(self, adjacency: Adjacency, split: Allocation, epsilon: float) -> float:
        errors = self.trials.errors(adjacency, split, Fraction(epsilon).limit_denominator(10**6))
        return float(np.quantile(self._misses(errors), self.quantile, method="inverted_cdf"))

    def _sizes(self, errors: Errors) -> dict[str, float]:
        """Quantile of the size of each error; of modes, the worst one's of each draw."""
        sizes: dict[str, float] = {}
        for name, values in errors.items():
            if name == "L" or not values.size:
                continue
            size = np.abs(values)
            size = size if size.ndim == 1 else np.fmax.reduce(size, axis=1)
            sizes[name] = float(np.quantile(size, self.quantile, method="inverted_cdf"))
        return sizes

    def _least(
        self, miss: Callable[[float], float], start: float, *, within: float
    ) -> float | None:
        """Come down from an ε until the miss exceeds 1, and return the least ε before that, to a
        factor.

        From above, since the errors of posterior means need not fall with ε where noise drowns the
        values: there they are the errors of the public bounds, and a target that these happen to
        meet says nothing about ε. Far above, they fall as 1/ε.
        """
        low, high = float(LEAST), float(MOST)
        at, missed = start, miss(start)
        while missed > 1:
            if at >= high:
                return None
            at = min(at * max(1.2 * missed, 2.0), high)
            missed = miss(at)
        meets = (at, missed)
        while missed <= 1:
            meets = (at, missed)
            if at <= low:
                return low
            at = max(at * min(max(1.4 * missed, 0.125), 0.75), low)
            missed = miss(at)
        fails = (at, missed)
        while meets[0] / fails[0] > within:
            part = math.log(fails[1]) / math.log(fails[1] / max(meets[1], 1e-9))
            at = fails[0] * (meets[0] / fails[0]) ** min(
                max(part, 0.2), 0.8
            )  # on a line in logarithms
            missed = miss(at)
            if missed <= 1:
                meets = (at, missed)
            else:
                fails = (at, missed)
        return meets[0]


def splits(adjacency: Adjacency, mechanism: MechanismName, sharing: Sharing) -> list[Allocation]:
    """List the splits of ε that a mechanism is tried with."""
    return [
        allocation
        for allocation in candidates(adjacency, mechanism, sharing)
        if allocation.mechanism == mechanism
    ]


def neat(epsilon: float | Fraction) -> Fraction:
    """Round up to two digits.

    >>> neat(1.234), neat(0.5)
    (Fraction(13, 10), Fraction(1, 2))
    """
    digit = Fraction(10) ** (math.floor(math.log10(epsilon)) - 1)
    steps = Fraction(epsilon).limit_denominator(10**9) / digit
    return math.ceil(steps - Fraction(1, 10**6)) * digit


def _lower_bound(met: int, draws: int) -> float:
    """Clopper and Pearson's 95 % lower bound of a share."""
    from scipy.stats import beta

    return float(beta.ppf(0.05, met, draws - met + 1)) if met else 0.0
