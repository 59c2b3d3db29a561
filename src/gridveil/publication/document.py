"""A release as its JSON document, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction

from gridveil.dynamics.compact import Compaction
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.devices import devices_of
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import default_scheme
from gridveil.grid.facts import Array
from gridveil.grid.parameters import FAMILIES, SWING, Bounds, Range, family_of, released
from gridveil.inference.fit.guard import Verdict
from gridveil.inference.fit.misfit import PlaceMisfit, Rms
from gridveil.privacy.guarantee import Guarantee
from gridveil.privacy.provenance import Provenance
from gridveil.publication.release import (
    NOT_VALID_FOR,
    VALID_FOR,
    FitSummary,
    Release,
    bound_facts,
    reference_event,
)
from gridveil.publication.schema import (
    SCHEMA_VERSION,
    CompactDocument,
    FitDocument,
    GuaranteeDocument,
    ModelDocument,
    ProvenanceDocument,
    ReferenceDocument,
    ReleaseDocument,
    group_losses,
    groups_document,
    means_of,
)

EQUATIONS = (
    "M omega' = -L delta + p - D omega - u",
    "delta' = omega_b omega",
    "p' = -T (p + G omega)",
    "u = load at the machines + K_ac (load at the loaded buses)",
    "omega at the loaded buses = K_ac^T omega",
)
SIGN_CONVENTION = (
    "All variables are deviations. L = C diag(k_r) C^T is positive semidefinite and enters as -L "
    "delta; more load (u > 0) lowers the frequency; a droop R enters as the gain G = 1/R."
)
OTHER_UNITS: Mapping[str, str] = {
    "governor_rate": "1/s",
    "droop_gain": "p.u. power / p.u. frequency",
    "K_ac": "p.u. power / p.u. power",
    "loads": "p.u. power of base_mva",
    "omega": "p.u. of frequency_hz",
    "delta": "rad",
    "omega_b": "rad/s",
    "time": "s",
}


def model_units() -> dict[str, str]:
    """Units of a model's quantities, by name."""
    return {**{name: own.unit for name, own in released().items()}, **OTHER_UNITS}


def equations(model: ReducedModel) -> tuple[str, ...]:
    """The equations of a model, those of its devices among them."""
    return (*EQUATIONS, *(line for one in devices_of(model.device) for line in one.equations))


def to_document(release: Release) -> ReleaseDocument:
    """Describe a release; its arrays go elsewhere."""
    guarantee, model, bounds = release.guarantee, release.model, release.bounds
    valid_for, not_valid_for = VALID_FOR, NOT_VALID_FOR
    if not isinstance(model, ReducedModel):
        from gridveil.publication import detailed

        valid_for, not_valid_for = detailed.VALID_FOR, detailed.NOT_VALID_FOR
    return ReleaseDocument(
        schema_version=SCHEMA_VERSION,
        kind="gridveil release: Kron-reduced, synthetic frequency dynamics",
        demo=release.demo,
        guarantee=GuaranteeDocument(
            epsilon=str(guarantee.epsilon),
            spent=str(guarantee.spent),
            adjacency=guarantee.rule,
            groups=groups_document(guarantee),
            mechanism=guarantee.mechanism,
            operating_point=guarantee.operating_point,
            conditional_on=guarantee.conditional_on,
            in_words=guarantee.in_words(),
            claim=guarantee.claim,
            not_protected=release.not_protected,
            hides_network=guarantee.hides_network,
            **({"published": guarantee.published} if guarantee.published else {}),
        ),
        model=_model_document(release),
        bounds=bounds_document(bounds, guarantee),
        clipped=release.clipped,
        fit=_fit_document(release.fitted) if release.fitted else None,
        reference=_reference(model),
        public_inputs=dict(release.public_inputs),
        provenance=tuple(ProvenanceDocument(**asdict(one)) for one in release.provenance),
        valid_for=valid_for,
        not_valid_for=not_valid_for,
        licence="as its publisher states; gridveil claims none",
    )


def _model_document(release: Release) -> ModelDocument:
    """Describe a model of either kind."""
    model = release.model
    if isinstance(model, ReducedModel):
        own = {
            "equations": equations(model),
            "sign_convention": SIGN_CONVENTION,
            "units": model_units(),
            "load_damping": release.load_damping,
        }
        if model.compact:
            own["compact"] = CompactDocument(**asdict(model.compact))
    else:
        from gridveil.publication import detailed

        assert release.shown is not None, "a detailed release shows a case"
        own = {
            "equations": detailed.EQUATIONS,
            "sign_convention": detailed.SIGN_CONVENTION,
            "units": dict(detailed.UNITS),
            "detailed": detailed.detailed_document(model, release.shown),
        }
    return ModelDocument(
        machines=model.machines,
        loaded_buses=model.ports[len(model.machines) :],
        omega_b=model.omega_b,
        frequency_hz=model.frequency_hz,
        base_mva=model.base_mva,
        loads_published=bool((model.loads == model.loads).all()),
        **own,
    )


def _fit_document(fitted: FitSummary) -> FitDocument:
    """Describe a fit; one without controls, noise or verdict says nothing of them."""
    said = asdict(fitted)
    sparing = ("misfit", "sigma_mhz", "verdict")
    return FitDocument(**{name: said[name] for name in said if name not in sparing or said[name]})


def _fit_summary(fit: FitDocument) -> FitSummary:
    said = fit.model_dump(exclude={"misfit", "verdict"})
    places = (
        PlaceMisfit(
            place.record,
            place.place,
            Rms(**place.whole.model_dump()),
            Rms(**place.held_out.model_dump()) if place.held_out else None,
        )
        for place in fit.misfit
    )
    verdict = Verdict(fit.verdict.grade, fit.verdict.reasons) if fit.verdict else None
    return FitSummary(**said, misfit=tuple(places), verdict=verdict)


def bounds_document(bounds: Bounds, guarantee: Guarantee) -> dict[str, tuple[float, float]]:
    """Public bounds: of a swing model, those of reduced parameters too; of a detailed one, of those
    that its table has.
    """
    names = bounds if bounds.family == SWING else guarantee.parameters
    return {name: (bounds[name].lower, bounds[name].upper) for name in names}


def _reference(model: ReducedModel | DetailedModel) -> ReferenceDocument:
    """Choose a run that a recipient can repeat: exact, or for many machines a short one of a few of
    them.
    """
    event = reference_event(model)
    if default_scheme(model) == "exact":
        return ReferenceDocument(event=event, horizon_s=30.0, dt_s=0.1, scheme="exact")
    return ReferenceDocument(
        event=event, horizon_s=2.0, dt_s=0.01, scheme="trapezoidal", buses=model.machines[:20]
    )


def from_document(document: ReleaseDocument, arrays: Mapping[str, Array]) -> Release:
    """Build a release from its document and its arrays."""
    g, m = document.guarantee, document.model
    family = family_of(g.groups)
    signed = {name: of.bounds.signed for name, of in FAMILIES[family].items()}
    if m.detailed is None:
        shown, model = (
            None,
            ReducedModel.of_arrays(
                arrays,
                ports=m.machines + m.loaded_buses,
                omega_b=m.omega_b,
                frequency_hz=m.frequency_hz,
                base_mva=m.base_mva,
                compact=m.compact and Compaction(**m.compact.model_dump()),
            ),
        )
    else:
        from gridveil.publication.detailed import read_detailed

        model, shown = read_detailed(m, arrays)
    return Release(
        model=model,
        shown=shown,
        guarantee=Guarantee(
            epsilon=Fraction(g.epsilon),
            spent=Fraction(g.spent),
            rule=g.adjacency,
            groups=group_losses(g.groups),
            mechanism=g.mechanism,
            operating_point=g.operating_point,
            conditional_on=g.conditional_on,
            demo=document.demo,
            hides_network=g.hides_network,
            parameters=tuple(g.groups),
            means=means_of(g.groups),
            published=g.published,
        ),
        bounds=Bounds(
            {name: Range(*ends, signed[name]) for name, ends in document.bounds.items()},
            origin=document.public_inputs["bounds"],
            family=family,
            facts=bound_facts(document.public_inputs),
        ),
        clipped=document.clipped,
        fitted=_fit_summary(document.fit) if document.fit else None,
        public_inputs=document.public_inputs,
        provenance=tuple(Provenance(**one.model_dump()) for one in document.provenance),
        load_damping=m.load_damping,
    )
