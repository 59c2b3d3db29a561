"""A plan: the least ε that meets targets, found on a public surrogate alone. It charges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

from gridveil.dynamics.engine.compute import Where, compute_on
from gridveil.dynamics.events import Event
from gridveil.foundation.errors import OptionError
from gridveil.foundation.executors import Crew
from gridveil.foundation.shards import Kept
from gridveil.grid.parameters import DETAILED, PARAMETERS, SWING, Bounds, parameters_of
from gridveil.planning.plan import Plan
from gridveil.planning.plan import plan as search
from gridveil.planning.plan.targets import FIGURES, NO_PLAN, Target
from gridveil.privacy.adjacency import ABSOLUTE, Adjacency
from gridveil.privacy.allocation import MECHANISMS
from gridveil.privacy.ledger import Ledger
from gridveil.readers.cases import declared_public, open_grid, public_detailed
from gridveil.workflow.bounds import choose_bounds
from gridveil.workflow.places import check_figure, writing
from gridveil.workflow.plan_detailed import DRAWS as DETAILED_DRAWS
from gridveil.workflow.plan_detailed import DetailedPlan, plan_detailed
from gridveil.workflow.settings import (
    SHARINGS,
    USUAL_RULES,
    GridSettings,
    adjacency_over,
    alpha_of,
    bounds_over,
    check_one_of,
    derives,
    pairs_of,
)

# Of a plan for swing models: what its figures are of, and draws of each trial.
EVENT, SWING_DRAWS = "uniform:+10%", 200


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """What a plan is asked for.

    surrogate : a public case, a file or a name.
    public : whether a surrogate that is a file is public, which its user has to say.
    targets : the largest errors of nadir, RoCoF and settling frequency.
    event : what they are of; on the surrogate's own buses. None: uniform:+10%, and of a detailed
    model steps of load at single buses.
    quantile : share of releases that must meet all targets.
    model : as in `GridSettings`; of a detailed one, treatments are tried.
    adjacency : None: one-asset, the others beside; of a detailed model one-asset-relative.
    mechanism : None: all are tried.
    derive : whether bounds that are not given are derived from public facts of the surrogate, in
    place of its own; so they are where it has none.
    draws : None: 200, or 50 of a detailed model.
    dynamics, reading : how the surrogate is read, as in `GridSettings`.
    plot : a figure.
    compute : cpu or gpu: where trials of swing models are reduced and simulated.
    """

    surrogate: str
    targets: tuple[Target, ...]
    event: str | None = None
    quantile: float = 0.9
    model: str = "auto"
    adjacency: str | None = None
    mechanism: str | None = None
    share_by: str = "equal"
    alpha: Mapping[str, Fraction] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)
    derive: bool = False
    draws: int | None = None
    dynamics: Path | None = None
    reading: Mapping[str, Any] = field(default_factory=dict, repr=False)
    plot: Path | None = None
    compute: str = "cpu"
    public: bool = False

    def __post_init__(self) -> None:
        check_one_of("share-by", self.share_by, SHARINGS)
        check_one_of("compute", self.compute, get_args(Where))
        if self.mechanism:
            check_one_of("mechanism", self.mechanism, MECHANISMS)
        if self.family == DETAILED:
            self.check_detailed()
        for adjacency in self.neighbours(self.family or SWING):
            self._check_ratios(adjacency)

    @property
    def family(self) -> str | None:
        """The family that the settings name; None: the surrogate decides."""
        if self.model == "auto" and (self.mechanism or self.share_by != "equal"):
            return SWING
        return GridSettings(
            grid=self.surrogate,
            reading=self.reading,
            adjacency=self.adjacency,
            model=self.model,
            alpha=self.alpha,
            bounds=self.bounds,
        ).said_family

    def check_detailed(self) -> None:
        """Refuse what a plan for a detailed model has no place for."""
        if self.mechanism or self.share_by != "equal" or self.plot or self.compute != "cpu":
            raise OptionError(
                "--mechanism, --share-by, --plot and --compute are for plans of swing models.",
                outcome=NO_PLAN,
                remedy="Leave them out, or choose --model swing.",
            )

    def _check_ratios(self, adjacency: Adjacency) -> None:
        """Refuse bounds that a release would refuse: ratios need a lower end above 0."""
        for name, public in self.bounds.items():
            if name in adjacency.alpha and adjacency.in_ratios(name) and public.lower <= 0:
                raise OptionError(
                    f"A relative adjacency needs a lower bound of {name} above 0, and the release "
                    "would be refused",
                    outcome=NO_PLAN,
                    remedy=f"Raise --bounds {name}=…, or choose an adjacency without -relative.",
                )

    @classmethod
    def of(cls, **given: Any) -> PlanSettings:
        """Read settings as options have them: nadir_error="5mHz", bounds="k=1:100"."""
        errors: list[tuple[Any, Any]] = [
            (figure, given.pop(f"{figure}_error", None)) for figure in FIGURES
        ]
        targets = [Target.parse(figure, text) for figure, text in errors if text is not None]
        alpha, bounds = alpha_of(given.pop("alpha", None)), given.pop("bounds", None)
        pairs_of("bounds", bounds, (*PARAMETERS, *parameters_of(DETAILED)))
        return cls(
            **{name: value for name, value in given.items() if value is not None},
            targets=tuple(targets),
            alpha=alpha,
            bounds=bounds_over(Bounds(), bounds),
            derive=derives(bounds),
        )

    def neighbours(
        self, family: str = SWING, derived: Mapping[str, Fraction] | None = None
    ) -> list[Adjacency]:
        """The rule that was asked for, or the three absolute ones, the default first; of a detailed
        model its usual one.

        derived : α of groups to take before the usual ones.
        """
        rules = [USUAL_RULES[family]] if family == DETAILED else list(ABSOLUTE)
        rules = [self.adjacency] if self.adjacency else rules
        alpha = {**(derived or {}), **self.alpha}
        return [adjacency_over(None, rule, alpha, family) for rule in rules]


def plan_release(
    settings: PlanSettings,
    ledger: Ledger | None = None,
    *,
    crew: Crew | None = None,
    kept: Kept[Any] | None = None,
) -> Plan | DetailedPlan:
    """Find the least ε of each mechanism and rule that meets the targets, or of a detailed model
    that of the best treatments; propose one; draw the figure that was asked for.

    ledger : knows private grids, which are refused as surrogates; None: the usual one.
    crew, kept : who draws, and what was drawn already, as in `plan`.
    """
    if settings.plot:
        check_figure(settings.plot)
    where: Any = settings.compute
    compute = compute_on(where)
    mechanisms: Any = [settings.mechanism] if settings.mechanism else MECHANISMS
    sharing: Any = settings.share_by
    model: Any = settings.family or settings.model
    how: dict[str, Any] = {"dynamics_file": settings.dynamics, "options": settings.reading}
    source = open_grid(settings.surrogate, model=model, **how)
    event = None
    if settings.event:
        event = Event.parse(settings.event, base_mva=source.facts.base_mva)
    if source.facts.family == DETAILED:
        settings.check_detailed()
        table, whole = public_detailed(
            source, settings.surrogate, **how, ledger=ledger, said=settings.public
        )
        bounds = settings.bounds
        return plan_detailed(
            source,
            whole,
            table.values,
            settings.targets,
            event=event,
            adjacency=settings.neighbours(DETAILED)[0],
            bounds=bounds if bounds.family == DETAILED else Bounds(family=DETAILED),
            draws=settings.draws or DETAILED_DRAWS,
            quantile=settings.quantile,
            crew=crew,
            kept=kept,
        )
    chosen = choose_bounds(
        settings.bounds, source.facts, derive_others=settings.derive, rule=settings.adjacency
    )
    planned = search(
        declared_public(source, ledger, said=settings.public),
        settings.targets,
        event=event or Event.parse(EVENT, base_mva=source.facts.base_mva),
        adjacencies=settings.neighbours(derived=chosen.alpha),
        bounds=chosen.bounds,
        mechanisms=mechanisms,
        sharing=sharing,
        draws=settings.draws or SWING_DRAWS,
        quantile=settings.quantile,
        compute=compute,
        crew=crew,
        kept=kept,
    )
    if settings.plot:
        from gridveil.planning.plan import plot_plan

        with writing(settings.plot, "--plot") as place:
            plot_plan(planned, str(place))
    return planned
