"""A plan: the least ε that meets targets, found on a public surrogate alone. It charges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from gridveil.dynamics.events import Event
from gridveil.grid.parameters import PARAMETERS, Bounds
from gridveil.planning.plan import Plan
from gridveil.planning.plan import plan as search
from gridveil.planning.plan.targets import FIGURES, Target
from gridveil.privacy.adjacency import ABSOLUTE, Adjacency
from gridveil.privacy.allocation import MECHANISMS
from gridveil.privacy.ledger import Ledger
from gridveil.readers.cases import declared_public, open_grid
from gridveil.workflow.places import check_figure, writing
from gridveil.workflow.settings import SHARINGS, alpha_of, bounds_over, check_one_of, pairs_of


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """What a plan is asked for.

    surrogate : a public case, a file or a name.
    targets : the largest errors of nadir, RoCoF and settling frequency.
    event : what they are of; on the surrogate's own buses.
    quantile : share of releases that must meet all targets.
    adjacency : None: one-asset, the others beside.
    mechanism : None: all are tried.
    dynamics, reading : how the surrogate is read, as in `GridSettings`.
    plot : a figure.
    """

    surrogate: str
    targets: tuple[Target, ...]
    event: str = "uniform:+10%"
    quantile: float = 0.9
    adjacency: str | None = None
    mechanism: str | None = None
    share_by: str = "equal"
    alpha: Mapping[str, Fraction] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)
    draws: int = 200
    dynamics: Path | None = None
    reading: Mapping[str, Any] = field(default_factory=dict, repr=False)
    plot: Path | None = None

    def __post_init__(self) -> None:
        self.neighbours()
        check_one_of("share-by", self.share_by, SHARINGS)
        if self.mechanism:
            check_one_of("mechanism", self.mechanism, MECHANISMS)

    @classmethod
    def of(cls, **given: Any) -> PlanSettings:
        """Read settings as options have them: nadir_error="5mHz", bounds="k=1:100"."""
        errors: list[tuple[Any, Any]] = [
            (figure, given.pop(f"{figure}_error", None)) for figure in FIGURES
        ]
        targets = [Target.parse(figure, text) for figure, text in errors if text is not None]
        alpha, bounds = alpha_of(given.pop("alpha", None)), given.pop("bounds", None)
        pairs_of("bounds", bounds, PARAMETERS)
        return cls(
            **{name: value for name, value in given.items() if value is not None},
            targets=tuple(targets),
            alpha=alpha,
            bounds=bounds_over(Bounds(), bounds),
        )

    def neighbours(self) -> list[Adjacency]:
        """The rule that was asked for, or the three absolute ones, the default first."""
        rules: list[Any] = [self.adjacency] if self.adjacency else list(ABSOLUTE)
        return [Adjacency(rule, {**Adjacency(rule).alpha, **self.alpha}) for rule in rules]


def plan_release(settings: PlanSettings, ledger: Ledger | None = None) -> Plan:
    """Find the least ε of each mechanism and rule that meets the targets; propose one; draw the
    figure that was asked for.

    ledger : knows private grids, which are refused as surrogates; None: the usual one.
    """
    if settings.plot:
        check_figure(settings.plot)
    mechanisms: Any = [settings.mechanism] if settings.mechanism else MECHANISMS
    sharing: Any = settings.share_by
    source = open_grid(
        settings.surrogate, dynamics_file=settings.dynamics, options=settings.reading
    )
    planned = search(
        declared_public(source, ledger),
        settings.targets,
        event=Event.parse(settings.event, base_mva=source.facts.base_mva),
        adjacencies=settings.neighbours(),
        bounds=settings.bounds,
        mechanisms=mechanisms,
        sharing=sharing,
        draws=settings.draws,
        quantile=settings.quantile,
    )
    if settings.plot:
        from gridveil.planning.plan import plot_plan

        with writing(settings.plot, "--plot"):
            plot_plan(planned, str(settings.plot))
    return planned
