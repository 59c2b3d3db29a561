"""Choose ε by what matters: the least that meets targets in mHz or % on a public surrogate, and
what meets them.

Everything is found by seeded trials on a public case. The private grid has no part in it, so a plan
costs nothing, and says nothing for certain about that grid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.dynamics.engine.compute import CPU, Compute
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.events import Event
from gridveil.dynamics.metrics import Metrics
from gridveil.foundation.drawing import (
    CYCLE,
    STYLES,
    labelled,
    mark_level,
    new_figure,
    plain,
    plain_ticks,
    written,
)
from gridveil.foundation.errors import OptionError
from gridveil.foundation.executors import Crew, here
from gridveil.foundation.progress import counted
from gridveil.foundation.shards import Kept
from gridveil.grid.parameters import PARAMETERS, Bounds
from gridveil.grid.tables import PublicTable
from gridveil.planning.plan.search import CURVE, MOST, Choice, Curve
from gridveil.planning.plan.targets import NO_PLAN, Target
from gridveil.planning.plan.tasks import (
    SearchSettings,
    SearchTask,
    choice_of,
    curve_of,
    gathered,
    searching,
)
from gridveil.privacy.adjacency import ABSOLUTE, Adjacency, Rule
from gridveil.privacy.allocation import MECHANISMS, MechanismName, Sharing
from gridveil.privacy.epsilon import SMALL, float_at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Of mechanisms whose ε differ by less, the first is proposed; topology comes last, since it keeps
# nothing of the network.
TIE = 1.05


@dataclass(frozen=True)
class Drawn:
    """Noise of one drawn group.

    scale : of the noise, beside a typical value of what it is added to [unit].
    """

    name: str
    unit: str
    epsilon: Fraction
    scale: float
    typical: float


@dataclass(frozen=True, eq=False)
class Plan:
    """What was found on a surrogate. choices : of every rule and mechanism; chosen : the one that
    is proposed, if any.

    curves : of the mechanisms under the proposed rule.
    reference : the surrogate's own figures.
    control : errors of a model that knows the public bounds alone, without any release.
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
        """Whether the control meets all targets: the surrogate lies in the middle of the bounds,
        and does not test ε.
        """
        return all(self.control[target.error] <= target.limit for target in self.targets)

    def outside(self) -> dict[str, int]:
        """How many values of each group of the surrogate lie outside the public bounds, where no ε
        finds them.
        """
        counts = {}
        for name in PARAMETERS:
            public, values = self.bounds[name], self.surrogate.values[name]
            counts[name] = int(((values < public.lower) | (values > public.upper)).sum())
        return {name: count for name, count in counts.items() if count}

    def noise(self) -> list[Drawn]:
        """Scales of the proposal's noise beside typical values of the surrogate: a median entry, or
        the sum.
        """
        assert self.chosen is not None
        rows = []
        for name, loss in self.chosen.losses().items():
            values, mechanism = self.surrogate.values[name], self.chosen.allocation.of(name)
            is_sum = mechanism.takes == "sum"
            scale = float(mechanism.noise.scale(self.chosen.adjacency.distance(name), loss))
            typical = float(values.sum() if is_sum else np.median(values))
            unit = "of its logarithm" if self.chosen.adjacency.relative else PARAMETERS[name].unit
            rows.append(Drawn(f"Σ{name}" if is_sum else name, unit, loss, scale, typical))
        return rows

    def counted_by(self) -> dict[Rule, Fraction]:
        """What the proposed draw costs by each rule of the same kind: ε of two rules do not
        compare, this does.
        """
        assert self.chosen is not None
        relative = "-relative" if self.chosen.adjacency.relative else ""
        losses, assets = self.chosen.losses(), self.chosen.allocation.assets
        rules: list[Rule] = [f"{rule}{relative}" for rule in ABSOLUTE]  # pyright: ignore[reportAssignmentType]
        return {
            rule: Adjacency(rule, self.chosen.adjacency.alpha).loss(losses, assets)
            for rule in rules
        }


def plan(
    surrogate: PublicTable,
    targets: Sequence[Target],
    *,
    event: Event,
    adjacencies: Sequence[Adjacency],
    bounds: Bounds,
    mechanisms: Sequence[MechanismName] = MECHANISMS,
    sharing: Sharing = "equal",
    draws: int = 200,
    quantile: float = 0.9,
    compute: Compute = CPU,
    crew: Crew | None = None,
    kept: Kept[Any] | None = None,
) -> Plan:
    """Find the least ε of each mechanism and rule that meets all targets in a share `quantile` of
    releases; propose one.

    The proposal is under the first adjacency: which rule suits is for the owner to say, since it
    says what is hidden. Splits are chosen by the targets too. Each ε is found on one set of draws,
    rounded up to two digits and checked on another.

    crew : who searches; None: this process, which a GPU is used from in any case.
    kept : what was found already, from which a plan goes on that was stopped.
    """
    check_asked(targets, draws, quantile)
    asked = SearchSettings(
        surrogate, event, bounds, tuple(targets), sharing, draws, quantile, compute
    )
    crew = here() if crew is None or compute is not CPU else crew
    with one_blas_thread():
        fresh = searching(asked).fresh
        control = {name: float(abs(value[0])) for name, value in fresh.control().items()}
    pairs = [
        SearchTask(asked, adjacency, mechanism)
        for adjacency in adjacencies
        for mechanism in mechanisms
    ]
    with counted("drawing", len(pairs) + 1) as more, crew:
        choices = gathered(pairs, choice_of, crew, kept, more)
        more(0, "trade-off")
        ours = [choice for choice in choices if choice.adjacency is adjacencies[0]]
        chosen = _propose(ours)
        middle = float(chosen.epsilon) if chosen and chosen.epsilon else float(MOST) / CURVE[-1]
        around = [SearchTask(asked, own.adjacency, own.mechanism, own, middle) for own in ours]
        curves = gathered(around, curve_of, crew, kept)
    searching.cache_clear()  # the draws of a large case are large
    return Plan(
        surrogate,
        event,
        tuple(targets),
        bounds,
        quantile,
        draws,
        tuple(choices),
        chosen,
        tuple(curves),
        fresh.reference,
        control,
    )


def check_asked(targets: Sequence[Target], draws: int, quantile: float) -> None:
    """Refuse a plan without targets, and draws too few for its quantile."""
    if not targets:
        raise OptionError(
            "A plan needs a target.",
            expected="--nadir-error, --rocof-error or --settling-error, such as 5mHz",
            outcome=NO_PLAN,
        )
    if not 0 < quantile < 1:
        raise OptionError(
            f"--quantile {quantile:g} is no share.",
            expected="a number between 0 and 1",
            outcome=NO_PLAN,
        )
    least = math.ceil(5 / (1 - quantile) - 1e-6)
    if not least <= draws <= 10_000:
        raise OptionError(
            f"--draws {draws} does not suit a quantile of {quantile:g}.",
            expected=f"{least} to 10000, so that at least five draws may miss",
            outcome=NO_PLAN,
        )


def _propose(choices: Sequence[Choice]) -> Choice | None:
    met = [choice for choice in choices if choice.epsilon is not None]
    if not met:
        return None
    least = min(choice.epsilon for choice in met if choice.epsilon is not None)
    return next(
        choice for choice in met if choice.epsilon is not None and choice.epsilon <= TIE * least
    )


def odds_in_words(epsilon: Fraction) -> str:
    """What ε means for an observer."""
    factor = math.exp(min(float_at_least(epsilon), 700.0))
    before = factor / (1 + factor)
    size = f"{factor:.3g}" if factor < 1e6 else f"{factor:.1e}"
    sure = f"{100 * before:.3g} % sure at most" if factor < 1e3 else "as good as certain"
    if epsilon < SMALL:
        size, sure = (
            f"1 + {math.expm1(epsilon):.3g}",
            f"50 + {50 * math.tanh(epsilon / 2):.3g} % sure at most",
        )
    return (
        "an observer's odds between two neighbouring grids change by a factor of at most "
        f"e^{float(epsilon):g} = {size}: from 50 % sure to {sure}"
    )


def plot_plan(plan: Plan, path: str | None = None) -> Figure:
    """Draw the trade-off of a plan: error against ε of each mechanism, one panel a target, with the
    proposed point.
    """
    figure, axes = new_figure(4.6 * len(plan.targets) + 0.4, 3.8, columns=len(plan.targets))
    for panel, target in zip(axes, plan.targets, strict=True):
        for number, curve in enumerate(plan.curves):
            # Mechanisms may lie on top of each other: another width for each.
            panel.loglog(
                curve.epsilon,
                curve.errors[target.error],
                STYLES[number % len(STYLES)],
                color=CYCLE[number % len(CYCLE)],
                linewidth=3.0 - 0.7 * number,
                label=curve.choice.mechanism,
            )
        mark_level(panel, target.limit, f"target, {target.limit:g} {target.unit}")
        if plan.chosen is not None and plan.chosen.epsilon is not None:
            at = float(plan.chosen.epsilon), plan.chosen.errors[target.error]
            panel.plot(*at, "o", color="#000000", markersize=6, label=f"proposed, ε = {at[0]:g}")
        plain_ticks(panel.xaxis)
        plain_ticks(panel.yaxis)
        name = "RoCoF" if target.figure == "rocof" else target.figure
        rule = plan.curves[0].choice.adjacency.rule
        labelled(panel, f"ε ({rule})", f"error of the {name} [{target.unit}]")
        panel.legend(fontsize=8, frameon=False)
    figure.suptitle(
        plain(
            f"{plan.surrogate.facts.name} (public surrogate): {100 * plan.quantile:g} % of "
            "releases are nearer than this"
        ),
        fontsize=9,
    )
    return written(figure, path)
