"""Choose ε by what matters: the least that meets targets in mHz or % on a public surrogate, and what meets them.

Everything is found by seeded trials on a public case. The private grid has no part in it, so a plan costs nothing, and says
nothing for certain about that grid.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from gridveil.allocation import MECHANISMS, Allocation, Mechanism, Sharing, candidates
from gridveil.errors import OptionError
from gridveil.events import Event
from gridveil.grid import Array
from gridveil.groups import UNITS, Bounds
from gridveil.metrics import Metrics
from gridveil.noisy import PublicTable
from gridveil.privacy.adjacency import ABSOLUTE, Adjacency, Rule
from gridveil.privacy.epsilon import float_at_least
from gridveil.trials import Errors, Trials

Figure = Literal["nadir", "rocof", "settling"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
# ε outside of these is not looked at: below, noise drowns any grid; above, next to nothing is hidden.
LEAST, MOST = Fraction(1, 100), Fraction(100)
# Of mechanisms whose ε differ by less, the first is proposed; topology comes last, since it keeps nothing of the network.
TIE = 1.05
# With more machines, curves are drawn with all of them as one, as the search for ε sees them; the check never does.
WHOLE_CURVES = 20
# An ε that fails its check is raised by this factor, then by its square, and so on.
STEP = 1.03
SEARCH_SEED, CHECK_SEED = 0, 1
CURVE = tuple(2.0**n for n in range(-4, 4))  # ε of a trade-off curve, as multiples of the proposed one
NO_PLAN = "Nothing was planned."
UNITS_OF: Mapping[Figure, Mapping[str, tuple[str, float]]] = {
    "nadir": {"mhz": ("nadir_mhz", 1.0), "hz": ("nadir_mhz", 1e3), "%": ("nadir_percent", 1.0)},
    "rocof": {"mhz/s": ("rocof_mhz_s", 1.0), "hz/s": ("rocof_mhz_s", 1e3), "%": ("rocof_percent", 1.0)},
    "settling": {"mhz": ("settling_mhz", 1.0), "hz": ("settling_mhz", 1e3), "%": ("settling_percent", 1.0)},
}
UNIT_NAMES = {"nadir_mhz": "mHz", "rocof_mhz_s": "mHz/s", "settling_mhz": "mHz"}
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Target:
    """A largest error of one figure. error : its name in `Comparison`; limit : in that one's unit.

    >>> Target.parse("nadir", "5mHz").in_words
    'nadir within 5 mHz'
    """

    figure: Figure
    error: str
    limit: float

    @classmethod
    def parse(cls, figure: Figure, text: str) -> Target:
        """Read a limit as it is written on the command line: 5mHz, 0.01 Hz, 10 %, or 20mHz/s of a RoCoF."""
        known = UNITS_OF[figure]
        found = re.fullmatch(r"([0-9.eE+-]+)\s*(\D+)", text.strip())
        try:
            error, factor = known[found[2].strip().lower()] if found else ("", 0.0)
            limit = float(found[1]) * factor if found else math.nan
        except (KeyError, ValueError):
            error, limit = "", math.nan
        if not (math.isfinite(limit) and limit > 0):
            usual = "10mHz/s or 10%" if figure == "rocof" else "5mHz or 10%"
            raise OptionError(
                f"--{figure}-error {text} cannot be read.",
                expected=f"a size above 0 with its unit, such as {usual}",
                outcome=NO_PLAN,
            )
        return cls(figure, error, limit)

    @property
    def unit(self) -> str:
        """mHz, mHz/s or %."""
        return UNIT_NAMES.get(self.error, "%")

    @property
    def in_words(self) -> str:
        """Such as "nadir within 5 mHz"."""
        return f"{'RoCoF' if self.figure == 'rocof' else self.figure} within {self.limit:g} {self.unit}"


@dataclass(frozen=True)
class Drawn:
    """Noise of one drawn group. scale : of the Laplace noise, beside a typical value of what it is added to [unit]."""

    name: str
    unit: str
    epsilon: Fraction
    scale: float
    typical: float


@dataclass(frozen=True, eq=False)
class Choice:
    """The least ε of one mechanism under one rule that meets the targets; None: none up to 100 does.

    share : of fresh draws that meet all targets; share_low : its 95 % lower confidence bound.
    errors : quantile of each error's size over those draws, by the names of `Comparison` (modes: the worst one's);
    L : mean of L [p.u.² s].
    """

    adjacency: Adjacency
    mechanism: Mechanism
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
class Plan:
    """What was found on a surrogate. choices : of every rule and mechanism; chosen : the one that is proposed, if any.

    curves : of the mechanisms under the proposed rule; reference : the surrogate's own figures; control : errors of a model
    that knows the public bounds alone, without any release.
    """

    surrogate: PublicTable
    event: Event
    targets: tuple[Target, ...]
    bounds: Bounds
    quantile: float
    draws: int
    choices: tuple[Choice, ...]
    chosen: Choice | None
    curves: tuple[Curve, ...]
    reference: Metrics
    control: Mapping[str, float]

    @property
    def met_without(self) -> bool:
        """Whether the control meets all targets: the surrogate lies in the middle of the bounds, and does not test ε."""
        return all(self.control[target.error] <= target.limit for target in self.targets)

    def outside(self) -> dict[str, int]:
        """How many values of each group of the surrogate lie outside the public bounds, where no ε finds them."""
        found = {}
        for name in ("k", "m", "d"):
            public, values = getattr(self.bounds, name), getattr(self.surrogate, name)
            found[name] = int(((values < public.lower) | (values > public.upper)).sum())
        return {name: count for name, count in found.items() if count}

    def noise(self) -> list[Drawn]:
        """Scales of the proposal's noise beside typical values of the surrogate: a median entry, or the sum."""
        assert self.chosen is not None
        found = []
        for name, loss in self.chosen.losses().items():
            values, is_sum = getattr(self.surrogate, name), self.chosen.allocation.draws[name] == "sum"
            scale = float(self.chosen.adjacency.distance(name) / loss)
            typical = float(values.sum() if is_sum else np.median(values))
            unit = "of its logarithm" if self.chosen.adjacency.relative else UNITS[name]
            found.append(Drawn(f"Σ{name}" if is_sum else name, unit, loss, scale, typical))
        return found

    def counted_by(self) -> dict[Rule, Fraction]:
        """What the proposed draw costs by each rule of the same kind: ε of two rules do not compare, this does."""
        assert self.chosen is not None
        relative = "-relative" if self.chosen.adjacency.relative else ""
        losses, assets = self.chosen.losses(), self.chosen.allocation.assets
        rules: list[Rule] = [f"{rule}{relative}" for rule in ABSOLUTE]  # pyright: ignore[reportAssignmentType]
        return {rule: Adjacency(rule, self.chosen.adjacency.alpha).loss(losses, assets) for rule in rules}


def plan(
    surrogate: PublicTable,
    targets: Sequence[Target],
    *,
    event: Event,
    adjacencies: Sequence[Adjacency],
    bounds: Bounds,
    mechanisms: Sequence[Mechanism] = MECHANISMS,
    sharing: Sharing = "equal",
    draws: int = 200,
    quantile: float = 0.9,
    progress: Progress | None = None,
) -> Plan:
    """Find the least ε of each mechanism and rule that meets all targets in a share `quantile` of releases; propose one.

    The proposal is under the first adjacency: which rule suits is for the owner to say, since it says what is hidden. Splits
    are chosen by the targets too. Each ε is found on one set of draws, rounded up to two digits and checked on another.
    """
    _check(targets, draws, quantile)
    trials = Trials(surrogate, event, bounds, draws=draws, seed=SEARCH_SEED, lumped=True)
    fresh = Trials(surrogate, event, bounds, draws=draws, seed=CHECK_SEED)
    search = _Search(trials, fresh, tuple(targets), quantile)
    pairs: list[tuple[Adjacency, Mechanism]] = [(adjacency, mechanism) for adjacency in adjacencies for mechanism in mechanisms]
    tell = progress or (lambda *_: None)
    choices = []
    for number, (adjacency, mechanism) in enumerate(pairs):
        tell(number, len(pairs) + 1, f"{adjacency.rule}, {mechanism}")
        choices.append(search.choose(adjacency, mechanism, sharing))
    tell(len(pairs), len(pairs) + 1, "trade-off")
    ours = [one for one in choices if one.adjacency is adjacencies[0]]
    chosen = _propose(ours)
    middle = float(chosen.epsilon) if chosen and chosen.epsilon else float(MOST) / CURVE[-1]
    curves = tuple(search.curve(one, middle) for one in ours)
    tell(len(pairs) + 1, len(pairs) + 1, "done")
    return Plan(
        trials.surrogate,
        event,
        tuple(targets),
        bounds,
        quantile,
        draws,
        tuple(choices),
        chosen,
        curves,
        fresh.reference,
        {name: float(abs(value[0])) for name, value in fresh.control().items()},
    )


def _check(targets: Sequence[Target], draws: int, quantile: float) -> None:
    if not targets:
        raise OptionError(
            "A plan needs a target.", expected="--nadir-error, --rocof-error or --settling-error, such as 5mHz", outcome=NO_PLAN
        )
    if not 0 < quantile < 1:
        raise OptionError(f"--quantile {quantile:g} is no share.", expected="a number between 0 and 1", outcome=NO_PLAN)
    least = math.ceil(5 / (1 - quantile) - 1e-6)
    if not least <= draws <= 10_000:
        raise OptionError(
            f"--draws {draws} does not suit a quantile of {quantile:g}.",
            expected=f"{least} to 10000, so that at least five draws may miss",
            outcome=NO_PLAN,
        )


def _propose(choices: Sequence[Choice]) -> Choice | None:
    met = [one for one in choices if one.epsilon is not None]
    if not met:
        return None
    least = min(one.epsilon for one in met if one.epsilon is not None)
    return next(one for one in met if one.epsilon is not None and one.epsilon <= TIE * least)


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for ε and split. A miss is the largest of error/limit over the targets, at the quantile of draws."""

    trials: Trials
    fresh: Trials
    targets: tuple[Target, ...]
    quantile: float

    def choose(self, adjacency: Adjacency, mechanism: Mechanism, sharing: Sharing) -> Choice:
        """Find the least ε of a mechanism under a rule, with the split that needs it."""
        splits = [one for one in candidates(adjacency, mechanism, sharing) if one.mechanism == mechanism]
        best = splits[len(splits) // 2]
        found = self._least(lambda at: self._miss(adjacency, best, at), float(MOST), within=1.5)
        for _ in range(2):  # a better split at that ε, then its own ε
            at = found or float(MOST)
            better = min(splits, key=lambda one: self._miss(adjacency, one, at))
            if better is best and found is None:
                break
            found = self._least(
                lambda at, split=better: self._miss(adjacency, split, at), min(1.3 * at, float(MOST)), within=1.02
            )
            if better is best:
                break
            best = better
        return self._checked(Choice(adjacency, mechanism, best, None), found)

    def curve(self, choice: Choice, middle: float) -> Curve:
        """Errors of a mechanism around an ε."""
        at = [neat(min(max(factor * middle, float(LEAST)), float(MOST))) for factor in CURVE]
        at = sorted(set(at) | ({choice.epsilon} if choice.epsilon else set()))
        trials = self.fresh if len(self.fresh.surrogate.m) <= WHOLE_CURVES else self.trials
        found = [self._sizes(trials.errors(choice.adjacency, choice.allocation, epsilon)) for epsilon in at]
        names = {target.error for target in self.targets}
        return Curve(choice, np.array([float(one) for one in at]), {n: np.array([one[n] for one in found]) for n in names})

    def _checked(self, choice: Choice, found: float | None) -> Choice:
        """Round ε up and check it on fresh draws of the whole model; raise it until enough of them meet the targets."""
        if found is None:
            return choice
        at, factor, fails = neat(found), STEP, None
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
        return Choice(choice.adjacency, choice.mechanism, choice.allocation, epsilon, share, low, sizes, L)

    def _misses(self, errors: Errors) -> Array:
        return np.max([np.abs(errors[target.error]) / target.limit for target in self.targets], axis=0)

    def _miss(self, adjacency: Adjacency, split: Allocation, epsilon: float) -> float:
        errors = self.trials.errors(adjacency, split, Fraction(epsilon).limit_denominator(10**6))
        return float(np.quantile(self._misses(errors), self.quantile, method="inverted_cdf"))

    def _sizes(self, errors: Errors) -> dict[str, float]:
        """Quantile of the size of each error; of modes, the worst one's of each draw."""
        found: dict[str, float] = {}
        for name, values in errors.items():
            if name == "L" or not values.size:
                continue
            size = np.abs(values)
            size = size if size.ndim == 1 else np.fmax.reduce(size, axis=1)
            found[name] = float(np.quantile(size, self.quantile, method="inverted_cdf"))
        return found

    def _least(self, miss: Callable[[float], float], start: float, *, within: float) -> float | None:
        """Come down from an ε until the miss exceeds 1, and return the least ε before that, to a factor.

        From above, since the errors of posterior means need not fall with ε where noise drowns the values: there they are the
        errors of the public bounds, and a target that these happen to meet says nothing about ε. Far above, they fall as 1/ε.
        """
        low, high = float(LEAST), float(MOST)
        at, found = start, miss(start)
        while found > 1:
            if at >= high:
                return None
            at = min(at * max(1.2 * found, 2.0), high)
            found = miss(at)
        meets = (at, found)
        while found <= 1:
            meets = (at, found)
            if at <= low:
                return low
            at = max(at * min(max(1.4 * found, 0.125), 0.75), low)
            found = miss(at)
        fails = (at, found)
        while meets[0] / fails[0] > within:
            part = math.log(fails[1]) / math.log(fails[1] / max(meets[1], 1e-9))
            at = fails[0] * (meets[0] / fails[0]) ** min(max(part, 0.2), 0.8)  # on a line in logarithms
            found = miss(at)
            if found <= 1:
                meets = (at, found)
            else:
                fails = (at, found)
        return meets[0]


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


def odds_in_words(epsilon: Fraction) -> str:
    """What ε means for an observer."""
    factor = math.exp(min(float_at_least(epsilon), 700.0))
    before = factor / (1 + factor)
    size = f"{factor:.3g}" if factor < 1e6 else f"{factor:.1e}"
    sure = f"{100 * before:.3g} % sure at most" if factor < 1e3 else "as good as certain"
    return (
        f"an observer's odds between two neighbouring grids change by a factor of at most e^{float(epsilon):g} = {size}: "
        f"from 50 % sure to {sure}"
    )
