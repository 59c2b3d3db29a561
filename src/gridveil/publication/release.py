"""A release: the public model, its guarantee, and what it is good for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.engine import SchemeName
from gridveil.dynamics.ensemble import Ensemble, with_band
from gridveil.dynamics.events import Event
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import Clock, Mode, modes, simulate
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.archive import check_free
from gridveil.foundation.arguments import Unfit, takes
from gridveil.foundation.errors import GridveilError
from gridveil.foundation.looks import looks
from gridveil.grid.derived import BOUND_FACTS, RATED_SIZES, VOLTAGE_CLASSES
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array, GridFacts, IntArray
from gridveil.grid.parameters import SWING, WEIGHT, Bounds, parameters_of
from gridveil.inference.fit import EstimatedEvent, FitResult, Observation, Verdict
from gridveil.inference.fit.misfit import PlaceMisfit, mismatches
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.guarantee import (
    DETAILED_NOT_PROTECTED,
    GOVERNORS_NOT_PROTECTED,
    LOADS_NOT_PROTECTED,
    MACHINES_NOT_PROTECTED,
    NETWORK_NOT_PROTECTED,
    OPERATING_POINT_NOT_PROTECTED,
    OPERATING_POINT_NOT_PROTECTED_IN_RATIOS,
    PUBLISHED_NOT_PROTECTED,
    RATINGS_NOT_PROTECTED,
    SIZES_NOT_PROTECTED,
    TRAJECTORY_NOT_PROTECTED,
    VOLTAGES_NOT_PROTECTED,
    Guarantee,
)
from gridveil.privacy.ledger import Ledger, Receipt
from gridveil.privacy.noisy import NoisyGrid
from gridveil.privacy.provenance import Provenance
from gridveil.publication.interop import InTools
from gridveil.publication.replay import Replay, replays_of

if TYPE_CHECKING:
    import pandas as pd

    from gridveil.inference.fit.detailed import DetailedFit
    from gridveil.publication.bundle import Report
    from gridveil.publication.detailed import Shown
    from gridveil.publication.signing import Signer

VALID_FOR = (
    "frequency response of the machines and loaded buses to lasting steps of load or generation"
)
COMMON_FACTORS = "common-factors"  # the method of a detailed fit
# public inputs that stand for them
RATINGS, RULES, PORTS = ("machine ratings", "rules for awkward data", "ports for load")
BOUND_FACTS_NOT_PROTECTED = {
    RATED_SIZES: SIZES_NOT_PROTECTED,
    VOLTAGE_CLASSES: VOLTAGES_NOT_PROTECTED,
}
LOAD_MODEL = "how loads depend on voltage"
PORTS_TOLD = (
    "loaded buses that share a column of K_ac, or a zone, are one port, chosen by the "
    "topology alone"
)
NOT_VALID_FOR = (
    "voltages, protection, flows on single lines, faults, and deviations so large that limits act"
)


@dataclass(frozen=True)
class FitSummary:
    """How step 3 went. mismatch : J of the noisy and of the fitted model [p.u.² s].

    method : the one that was run.
    by_records, by_release : of the two-stage fit, how many directions of the parameters the records
    fix, and how many the noisy release or its bounds.
    misfit : of a detailed model, how near it and its controls are to every recorded place.
    sigma_mhz : largest deviation of a sample that the fit counted with, sensor noise and model
    error together [mHz].
    verdict : of the guard. Where it is discarded, the model is the unfitted one, and so are its
    figures. Both are None in bundles of an earlier gridveil, and of methods without them.
    """

    mismatch_before: float
    mismatch_after: float
    iterations: int
    converged: bool
    method: str = ""
    by_records: int | None = None
    by_release: int | None = None
    misfit: tuple[PlaceMisfit, ...] = ()
    sigma_mhz: float | None = None
    verdict: Verdict | None = None

    @classmethod
    def of(cls, fitted: FitResult | DetailedFit, method: str, **known: Any) -> FitSummary:
        """Summarise a fit; known : fields that it does not tell, or that others tell better."""
        stated: dict[str, Any] = {
            "mismatch_before": fitted.mismatch_before,
            "mismatch_after": fitted.mismatch_after,
            "iterations": len(fitted.history) - 1,
            "converged": fitted.converged,
            "verdict": fitted.verdict,
        }
        return cls(**stated | known, method=method)


def _no_path(value: Any) -> Any:
    """Take a model, and no bundle's path."""
    if isinstance(value, str | Path):
        raise Unfit("a model; of a path, use load(path)")
    return value


@looks(
    lambda own: (
        f"{'DEMO, ' if own.demo else ''}ε = {own.guarantee.epsilon} under "
        f"{own.guarantee.rule}: {len(own.model.machines)} machines, {len(own.model.ports)} ports"
    ),
    lambda own: {
        "machines": ", ".join(own.model.machines[:24]),
        "ε": own.guarantee.epsilon,
        "adjacency": own.guarantee.rule,
        "promise": own.guarantee.in_words(),
        "not protected": "; ".join(own.not_protected),
    },
)
@takes(model=_no_path)
@dataclass(frozen=True, eq=False)
class Release(InTools):
    """A Kron-reduced, synthetic model of a grid's frequency dynamics that may be published.

    model : buses carry neutral names, G1 … for machines and L1 … for loaded buses.
    clipped : entries of each noisy group that lie on a public bound.
    public_inputs : where bounds, loads and the like come from.
    provenance : of the trajectories that the fit used.
    receipt : what the ledger gave for the draw; None for a demo, and for a release that was loaded.
    ledger : where `save` notes the bundle.
    events : what the fit found of events that were not wholly known; a bundle does not carry them.
    replays : the records that the fit used, on the release's own buses, with what happened then.
    load_damping : public damping per p.u. of load [p.u. power / p.u. frequency], which d includes;
    None: not known, as in a bundle of an earlier gridveil.
    shown : what a detailed release shows beside its linear model.
    ensemble : models that the release leaves possible, which bands are made of; None: too large a
    grid, or a bundle of an earlier gridveil.
    """

    model: ReducedModel | DetailedModel
    guarantee: Guarantee
    bounds: Bounds
    clipped: dict[str, int]
    fitted: FitSummary | None
    public_inputs: Mapping[str, str]
    provenance: tuple[Provenance, ...]
    receipt: Receipt | None = None
    events: tuple[EstimatedEvent, ...] = ()
    replays: tuple[Replay, ...] = ()
    load_damping: float | None = None
    shown: Shown | None = None
    ensemble: Ensemble | None = None
    ledger: Ledger | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles know no ledger: a connection cannot be carried along."""
        return {**self.__dict__, "ledger": None}

    @classmethod
    def of(
        cls,
        noisy: NoisyGrid,
        reduced: ReducedModel,
        fitted: FitResult | None,
        observed: Sequence[Observation],
    ) -> Release:
        """Put a release together, under neutral names; the guarantee becomes conditional on what
        was fitted to.
        """
        known = fitted and fitted.identifiability
        summary = fitted and FitSummary.of(
            fitted,
            fitted.method,
            by_records=known.by_data if known else None,
            by_release=known.by_prior if known else None,
            sigma_mhz=in_mhz(fitted.sigma, noisy.facts.frequency_hz),
        )
        hidden = noisy.allocation.hides_network
        return _put_together(
            noisy,
            observed,
            {"loads": noisy.facts.loads_are_public},
            model=reduced if hidden else neutral(fitted.model if fitted else reduced, noisy.facts),
            fitted=summary,
            events=fitted.events if fitted else (),
            replays=replays_of(
                reduced,
                fitted,
                observed,
                neutral_names(noisy.facts),
                loads_are_public=noisy.facts.loads_are_public,
            )
            if fitted
            else (),
            load_damping=noisy.facts.damping_of_load,
        )

    @property
    def swing(self) -> ReducedModel:
        """Its model, for whatever knows swing models alone."""
        if not isinstance(self.model, ReducedModel):
            raise GridveilError(
                "This release has a detailed model, and swing models alone are known here.",
                outcome="Nothing was written.",
                remedy="Use simulate, verify or export, or a swing release of the grid.",
            )
        return self.model

    @property
    def not_protected(self) -> tuple[str, ...]:
        """What this very release does not protect."""
        return not_protected(
            self.guarantee,
            self.public_inputs,
            loads=self.guarantee.family == SWING and self.publishes_loads,
            fitted=bool(self.provenance),
        )

    @property
    def machines(self) -> pd.DataFrame:
        """Its machines as a table, units in `attrs`."""
        from gridveil.publication.frames import machines_frame

        return machines_frame(self)

    @property
    def lines(self) -> pd.DataFrame:
        """Its lines as a table, units in `attrs`."""
        from gridveil.publication.frames import lines_frame

        return lines_frame(self)

    @property
    def demo(self) -> bool:
        """Whether a seed made this release, which then protects nothing."""
        return self.guarantee.demo

    @property
    def publishes_loads(self) -> bool:
        """Whether it carries the nominal loads."""
        return bool(np.isfinite(self.model.loads).all())

    def simulate(
        self,
        event: Event | str,
        *,
        horizon_s: float = 30.0,
        dt_s: float = 0.01,
        scheme: SchemeName | None = None,
        buses: Sequence[str] | None = None,
    ) -> Trajectory:
        """Simulate an event, given as an `Event` or in words such as "load:G1=+0.1"; with bands
        where the release has an ensemble.
        """
        if isinstance(event, str):
            event = Event.parse(event, base_mva=self.model.base_mva)
        trajectory = simulate(
            self.model, event, horizon_s=horizon_s, dt_s=dt_s, scheme=scheme, buses=buses
        )
        if self.ensemble is not None:
            clock = Clock(horizon_s, dt_s)
            trajectory = with_band(trajectory, self.ensemble, self.model, event, clock)
        return replace(trajectory, demo=self.demo)

    def modes(self) -> list[Mode]:
        """List the oscillatory modes, slowest first."""
        return modes(self.model)

    def save(
        self, path: str | Path, signer: Signer | None = None, formats: Sequence[str] = ()
    ) -> Report:
        """Write the bundle, signed if a signer is given: a folder, or one canonical zip if the path
        ends in .zip. The ledger then notes that it was published.

        formats : other tools' formats to put beside the rest, such as "andes"; see
        `gridveil.publication.export`.
        """
        from gridveil.publication.bundle import write

        check_free(Path(path))
        return write(self, Path(path), signer, formats)


def in_mhz(sigma: Array | None, frequency_hz: float) -> float | None:
    """The largest deviation [mHz] of some in p.u."""
    return None if sigma is None else 1000 * frequency_hz * float(np.max(sigma))


def not_protected(
    guarantee: Guarantee, inputs: Mapping[str, str], *, loads: bool, fitted: bool
) -> tuple[str, ...]:
    """What a release does not protect.

    inputs : public ones; loads : whether those of a swing model are published; fitted : whether it
    is fitted to a record.
    """
    trajectory = [TRAJECTORY_NOT_PROTECTED] if fitted else []
    if guarantee.family != SWING:
        declared = parameters_of(guarantee.family)
        published = [
            f"{declared[name].words}: {PUBLISHED_NOT_PROTECTED}" for name in guarantee.published
        ]
        return (*DETAILED_NOT_PROTECTED, *published, *trajectory)
    found: list[str] = (
        [MACHINES_NOT_PROTECTED] if guarantee.hides_network else list(NETWORK_NOT_PROTECTED)
    )
    found.append(GOVERNORS_NOT_PROTECTED)
    if RATINGS in inputs:
        found.append(RATINGS_NOT_PROTECTED)
    found += [BOUND_FACTS_NOT_PROTECTED[name] for name in BOUND_FACTS if name in inputs]
    if loads:
        found.append(LOADS_NOT_PROTECTED)
    weights = guarantee.groups.get(WEIGHT.name)
    if weights and not guarantee.operating_point.startswith("flat"):
        found.append(
            OPERATING_POINT_NOT_PROTECTED_IN_RATIOS
            if weights.relative
            else OPERATING_POINT_NOT_PROTECTED
        )
    return (*found, *trajectory)


def detailed_release(
    noisy: NoisyGrid[DetailedFacts],
    model: DetailedModel,
    shown: Shown,
    ledger: Ledger | None,
    fitted: DetailedFit | None = None,
    observed: Sequence[Observation] = (),
    misfit: tuple[PlaceMisfit, ...] = (),
    replays: tuple[Replay, ...] = (),
) -> Release:
    """Put a detailed release together; model, shown and replays have neutral names already."""
    summary = None
    if fitted is not None:
        before, after = mismatches(misfit, model.frequency_hz)
        stated = {"mismatch_before": before, "mismatch_after": after}
        if fitted.verdict and fitted.verdict.discarded:  # where no place could be computed
            stated["mismatch_after"] = stated["mismatch_before"] = before or fitted.mismatch_before
        stated = {name: value for name, value in stated.items() if value is not None}
        sigma_mhz = in_mhz(fitted.sigma, model.frequency_hz)
        summary = FitSummary.of(
            fitted, COMMON_FACTORS, misfit=misfit, sigma_mhz=sigma_mhz, **stated
        )
    return _put_together(
        noisy,
        observed,
        {"load_model": noisy.facts.zip_model},
        model=model,
        fitted=summary,
        replays=replays,
        shown=shown,
        ledger=ledger,
    )


def _put_together(
    noisy: NoisyGrid[Any], observed: Sequence[Observation], declared: Mapping[str, Any], **own: Any
) -> Release:
    """Add what a release of any model says of its draw and its records.

    declared : public inputs, besides those of any model, as `declared_inputs` takes them.
    """
    return Release(
        guarantee=replace(
            noisy.guarantee, conditional_on=tuple(record.in_words() for record in observed)
        ),
        bounds=noisy.bounds,
        clipped=noisy.clipped(),
        public_inputs=inputs_of(noisy.facts, noisy.bounds, noisy.allocation, **declared),
        provenance=tuple(record.provenance for record in observed),
        receipt=noisy.receipt,
        **own,
    )


def inputs_of(
    facts: GridFacts | DetailedFacts, bounds: Bounds, allocation: Allocation, **declared: Any
) -> dict[str, str]:
    """Say where public inputs of a draw come from; declared : as `declared_inputs` takes them."""
    return declared_inputs(
        bounds=bounds.origin,
        facts=bounds.facts,
        allocation=allocation,
        rules=_policies(facts.policy, hides_network=allocation.hides_network),
        **declared,
    )


def bound_facts(inputs: Mapping[str, str]) -> dict[str, str]:
    """The facts of a grid that bounds follow from, as public inputs name them."""
    return {name: inputs[name].rpartition("; ")[0] for name in BOUND_FACTS if name in inputs}


def declared_inputs(
    *,
    bounds: str,
    allocation: Allocation,
    facts: Mapping[str, str] | None = None,
    loads: bool = False,
    load_model: str = "",
    rules: str = "",
    merged: bool = False,
) -> dict[str, str]:
    """Say where public inputs come from; also for whoever verifies a bundle, from what it says
    itself.

    bounds : their origin, in the owner's words.
    facts : of the grid, that they follow from.
    loads : whether those of a swing model are published.
    load_model : of a detailed model, in the owner's words.
    rules : for awkward data.
    merged : whether loaded buses share ports.
    """
    declared = {
        "loads": "declared public by the owner" if loads else "withheld",
        "T, G, omega_b": "of the owner's grid file or settings, or gridveil's defaults; declared "
        "public by the owner",
    }
    if allocation.family != SWING:
        declared = {
            LOAD_MODEL: load_model,
            "values that are not drawn": "typical ones of each device model, with the signs and "
            "zeros of the grid's own",
        }
    told = {name: f"{words}; declared public by the owner" for name, words in (facts or {}).items()}
    inputs = {"bounds": bounds, **told, **declared, "allocation": allocation.in_words()}
    if allocation.shares_by_rating:
        inputs[RATINGS] = "declared public by the owner"
    if rules:
        inputs[RULES] = rules
    if merged:
        inputs[PORTS] = PORTS_TOLD
    return inputs


def _policies(policy: Mapping[str, str], *, hides_network: bool) -> str:
    """Declare how awkward data was treated; the island is not named, since its name is one of the
    owner's buses.

    A rule about branches says something about them (refuse: that there are none such), so topology
    mode leaves those out.
    """
    shown = {"without_dynamics"} if hides_network else policy.keys() - {"island"}
    rules = [f"{name} = {value}" for name, value in policy.items() if name in shown]
    rules += ["one island chosen"] if policy.get("island") and not hides_network else []
    return ", ".join(rules)


def loaded_buses(facts: GridFacts) -> IntArray:
    """Positions of the buses without a machine that carry load: those that a bundle has columns of
    K_ac for.
    """
    return facts.interior[facts.loads[facts.interior] != 0]


def neutral_names(facts: GridFacts) -> dict[str, str]:
    """Map the owner's buses to neutral names: G1 … for machines, L1 … for other buses with load.
    Others have none.
    """
    names = {facts.buses[bus]: f"G{number}" for number, bus in enumerate(facts.machines, start=1)}
    return names | {
        facts.buses[bus]: f"L{number}" for number, bus in enumerate(loaded_buses(facts), start=1)
    }


def detailed_names(facts: DetailedFacts) -> dict[str, str]:
    """Map the owner's units and loaded buses to the names of a detailed bundle's ports."""
    names = {unit: f"G{number}" for number, unit in enumerate(facts.units, start=1)}
    loaded = [bus for bus in dict.fromkeys(facts.loads.tolist()) if bus not in facts.machines]
    return names | {facts.buses[bus]: f"L{n}" for n, bus in enumerate(loaded, start=1)}


def neutral(model: ReducedModel, facts: GridFacts) -> ReducedModel:
    """Rename buses and leave out those without load."""
    names = neutral_names(facts)
    if set(model.ports) == names.keys():
        # nothing to leave out: K_ac may be large, so it is not copied
        return replace(model, ports=tuple(names[port] for port in model.ports))
    kept = [position for position, port in enumerate(model.ports) if port in names]
    return replace(
        model,
        ports=tuple(names[model.ports[position]] for position in kept),
        K_ac=model.K_ac[
            :, [position - len(model.machines) for position in kept[len(model.machines) :]]
        ],
        loads=model.loads[kept],
    )


def reference_event(model: ReducedModel | DetailedModel) -> str:
    """The event of a bundle's reference trajectory, in words that `simulate` reads."""
    return "uniform:+10%" if np.isfinite(model.loads).all() else f"load:{model.machines[0]}=+0.1"
