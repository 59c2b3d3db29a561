"""The versioned JSON document of a bundle, `release.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
)
from pydantic_core import core_schema, from_json

from gridveil.foundation.limits import PLAIN
from gridveil.grid.parameters import (
    DETAILED,
    FAMILIES,
    SWING,
    Parameter,
    assets,
    family_of,
    of_asset,
    parameters_of,
)
from gridveil.privacy.adjacency import Rule
from gridveil.privacy.guarantee import Guarantee
from gridveil.privacy.mechanisms import NOISY, REGISTERED, GroupLoss, parts

SCHEMA_VERSION = 1
# machines; above, model.mat leaves `edges` out. With another number old bundles would not verify
EDGES_UP_TO = 400
# of a detailed case and its model: the algebra is dense, and whoever verifies does it again
MOST_BUSES, MOST_STATES = 3000, 6000
# of an ensemble, and of one of its members
MOST_MEMBERS, MOST_MEMBER_STATES = 256, 400

Finite = Annotated[float, Field(allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
FractionText = Annotated[str, Field(pattern=r"^[0-9]+(/[1-9][0-9]*)?$", max_length=9000)]
T = TypeVar("T")
# Read from a list, as JSON has it; a forged one may be wrong in every entry, and one error is
# enough.
Many = Annotated[tuple[T, ...], Strict(strict=False), FailFast()]
Ends = Annotated[tuple[Finite, Finite], Strict(strict=False)]
Count = Annotated[int, Field(ge=0, le=10**9)]
# What the owner, or gridveil, says in words: one line, which nothing but a reader takes for more.
Words = Annotated[str, Field(pattern=PLAIN, max_length=10_000)]
Machine = Annotated[str, Field(pattern=r"^G[1-9][0-9]*$", max_length=8)]
LoadedBus = Annotated[str, Field(pattern=r"^L[1-9][0-9]*$", max_length=8)]
Port = Annotated[str, Field(pattern=r"^[GL][1-9][0-9]*$", max_length=8)]
State = Annotated[str, Field(pattern=r"^G[1-9][0-9]* [a-z]+\.[A-Za-z0-9_.]+$", max_length=60)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=60)]


class Document(BaseModel):
    """Nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Read it from JSON, or raise a ValueError; of a forged one, each error keeps all of it, so
        that it is parsed once.
        """
        return cls.model_validate(from_json(data))


def _drawing(name: str) -> str:
    """Refuse a mechanism that is unknown here, or draws nothing."""
    if name not in REGISTERED or REGISTERED[name].takes not in NOISY:
        raise ValueError("no mechanism of this name draws anything")
    return name


class GroupDocument(Document):
    """Privacy of one group of parameters."""

    unit: Words
    alpha: FractionText = Field(
        description="distance between neighbours that the guarantee speaks of, exact, in `unit`; a "
        "ratio if `relative`"
    )
    epsilon: FractionText = Field(description="ε asked for, exact")
    spent: Positive = Field(
        description="ε that the mechanism's own map gives; never above `epsilon`"
    )
    scale: Positive = Field(
        description="scale of the noise, in `unit`; of the logarithm's noise if `relative`"
    )
    drawn: Annotated[str, AfterValidator(_drawing), Field(max_length=40)] = Field(
        default="items",
        description="what was drawn, by the mechanism's name: items (every entry), sum (their sum "
        "alone), box (every entry, jointly with others of its asset), box-means (their mean, "
        "jointly with others), hexagon-c (their sum, jointly with another)",
    )
    entries: Annotated[int, Field(ge=1, le=10**9)] | None = Field(
        default=None, description="where their mean alone was drawn, over how many entries it is"
    )
    relative: bool = Field(
        default=False,
        description="whether the noise was added to logarithms, for a distance of log(1 + alpha)",
    )
    together: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1,
        description="how many parameters were drawn jointly, this one included: ε is spent once on "
        "all of them",
    )


@dataclass(frozen=True)
class _Of:
    """A mapping that names parameters of one family, in the registry's order: of a swing model each
    once, of a detailed one those that its table has.

    reduced : whether what follows from parameters is among them.
    """

    reduced: bool = False

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        swing, detailed = (list(self._declared(family)) for family in (SWING, DETAILED))
        return handler(schema) | {
            "anyOf": [
                {"propertyNames": {"enum": swing}, "required": swing},
                {"propertyNames": {"enum": detailed}, "minProperties": 1},
            ]
        }

    def _check(self, given: dict[str, T]) -> dict[str, T]:
        family = family_of(given)
        expected = list(self._declared(family))
        if family != SWING:
            expected = [name for name in expected if name in given]
        if list(given) != expected:
            raise ValueError(f"expected the parameters {', '.join(expected)}")
        return given

    def _declared(self, family: str) -> Mapping[str, Parameter]:
        return FAMILIES[family] if self.reduced else parameters_of(family)


def _drawn_of_machines(
    groups: dict[str, GroupDocument | None],
) -> dict[str, GroupDocument | None]:
    if family_of(groups) == SWING and any(groups[name] is None for name in of_asset("machine")):
        raise ValueError("something is drawn of every parameter of machines")
    return groups


Groups = Annotated[
    dict[str, GroupDocument | None],
    _Of(),
    AfterValidator(_drawn_of_machines),
    Field(
        description="privacy by parameter; null: nothing of it was drawn, nothing was spent on it"
    ),
]


def _published(names: tuple[str, ...]) -> tuple[str, ...]:
    if names != tuple(name for name in parameters_of(DETAILED) if name in names):
        raise ValueError("expected entries of a detailed table, in the registry's order")
    return names


Published = Annotated[
    Many[str],
    AfterValidator(_published),
    Field(
        description="parameters whose true values go out as they are, without noise: their owner "
        "declares them public, and neighbours share them"
    ),
]


class GuaranteeDocument(Document):
    """What the release promises."""

    epsilon: FractionText
    spent: FractionText = Field(
        description="ε spent under the adjacency's rule, exact; never above `epsilon`"
    )
    adjacency: Rule
    groups: Groups
    mechanism: Words
    operating_point: Words
    conditional_on: Many[Words]
    in_words: Words
    claim: Words
    not_protected: Many[Words]
    hides_network: bool = Field(
        default=False, description="topology mode: the model shows nothing of the grid's network"
    )
    published: Published = ()


def groups_document(guarantee: Guarantee) -> dict[str, GroupDocument | None]:
    """Describe what each group was charged."""
    described = {
        name: GroupDocument(
            unit=loss.unit,
            alpha=str(loss.alpha),
            epsilon=str(loss.epsilon),
            spent=loss.spent,
            scale=loss.scale,
            drawn=loss.drawn,
            relative=loss.relative,
            **({"entries": guarantee.means[name]} if name in guarantee.means else {}),
            **({"together": loss.together} if loss.together > 1 else {}),
        )
        for name, loss in guarantee.groups.items()
    }
    return {name: described.get(name) for name in guarantee.parameters}


def group_losses(groups: Mapping[str, GroupDocument | None]) -> dict[str, GroupLoss]:
    """Read back what each group was charged; one of which nothing was drawn is left out."""
    drawn = {name: loss.drawn for name, loss in groups.items() if loss is not None}
    # groups are in the registry's order, in which a joint draw takes them
    place = {
        name: number
        for _, names in parts(drawn, assets(family_of(groups)))
        for number, name in enumerate(names)
    }
    return {
        name: GroupLoss(
            loss.unit,
            Fraction(loss.alpha),
            Fraction(loss.epsilon),
            loss.spent,
            loss.scale,
            loss.drawn,
            loss.relative,
            loss.together,
            place[name],
        )
        for name, loss in groups.items()
        if loss is not None
    }


def means_of(groups: Mapping[str, GroupDocument | None]) -> dict[str, int]:
    """Read back over how many entries each mean is."""
    return {name: loss.entries for name, loss in groups.items() if loss and loss.entries}


class DeviceDocument(Document):
    """Devices of one model."""

    model: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=20)]
    count: Annotated[int, Field(ge=1, le=10**6)]


class CaseDocument(Document):
    """The case that a detailed release shows, in model.mat: how many there are of each thing."""

    form: Literal["reduced", "network"] = Field(
        description="reduced: units on the reduced admittance; network: the whole released case"
    )
    buses: Annotated[int, Field(ge=1, le=MOST_BUSES)]
    branches: Annotated[int, Field(ge=0, le=MOST_BUSES**2)]
    loads: Count
    units: Annotated[int, Field(ge=1, le=10**6)]
    slack: Count = Field(description="the unit whose bus holds the angle, from 0")
    devices: Annotated[Many[DeviceDocument], Field(min_length=1, max_length=100)]
    words: Words = Field(description="what it shows, and what it cannot carry")


class DetailedDocument(Document):
    """What a detailed model has beside its matrices."""

    states: Annotated[Many[State], Field(min_length=1, max_length=MOST_STATES)] = Field(
        description="names of x"
    )
    angles: Many[Count] = Field(description="positions in x of angles, which turn together")
    case: CaseDocument
    moved: Annotated[float, Field(ge=0, le=1)] = Field(
        description="how far released values were moved toward public ones, for the model to be "
        "stable: 0 not at all, 1 all the way"
    )
    moved_words: Words = Field(description="which values those are")


class CompactDocument(Document):
    """What a large model leaves out; model.mat then holds k_r and K_ac as sparse matrices."""

    share_moved: Share = Field(
        description="largest share of a bus's load that other machines feel than in the whole model"
    )
    weight_left_out: Share = Field(
        description="largest share of a machine's weights that k_r leaves out"
    )
    response_error: Share = Field(
        description="largest difference of frequency between the whole model and this one, as a "
        "share of the response's peak, in steps of load at a few buses"
    )


class ModelDocument(Document):
    """How to read model.mat."""

    equations: Many[Words]
    sign_convention: Words
    units: dict[Words, Words]
    machines: Annotated[Many[Machine], Field(min_length=1, description="G1, G2, …")]
    loaded_buses: Many[LoadedBus] = Field(description="L1, L2, …")
    omega_b: Positive = Field(description="rad/s")
    frequency_hz: Positive
    base_mva: Positive
    loads_published: bool
    load_damping: NotNegative | None = Field(
        default=None,
        description="damping that the owner declared of a p.u. of load, in p.u. power / p.u. "
        "frequency; d includes it. null: not known, as in a bundle of an earlier gridveil",
    )
    detailed: DetailedDocument | None = Field(
        default=None, description="of a model with detailed devices"
    )
    compact: CompactDocument | None = Field(
        default=None, description="of a large model, what it leaves out; else absent"
    )


class RmsDocument(Document):
    """Root mean square of what models leave of one place's record, in mHz; null: not computed."""

    seconds: NotNegative = Field(description="recorded time that counts")
    release: NotNegative | None = Field(description="the release, as fitted")
    unfitted: NotNegative | None = Field(description="the release before its fit")
    public_values: NotNegative | None = Field(
        description="control, no release: the structure with public values, fitted to the records"
    )
    frequency_response: NotNegative | None = Field(
        description="control, no release: one machine for the whole grid, five parameters, fitted "
        "to the records"
    )


class MisfitDocument(Document):
    """How near models are to one place of a record."""

    record: Annotated[int, Field(ge=1, le=10**6)] = Field(
        description="among the trajectories that the fit used, from 1"
    )
    place: Annotated[int, Field(ge=1, le=10**6)] = Field(
        description="among the places of the record, in its own order, from 1"
    )
    whole: RmsDocument = Field(description="fitted to all of the records")
    held_out: RmsDocument | None = Field(
        description="fitted to their first parts, judged by the rest; null: not computed"
    )


class VerdictDocument(Document):
    """What a recipient may make of the fit, by checks on public data."""

    grade: Literal["good", "doubtful", "discarded"] = Field(
        description="discarded: the unfitted model is published"
    )
    reasons: Annotated[Many[Words], Field(max_length=100)]


class FitDocument(Document):
    """How step 3 went; absent where there was no trajectory."""

    mismatch_before: Finite = Field(description="J of the noisy model, p.u.^2 s")
    mismatch_after: Finite = Field(description="J of the fitted model, p.u.^2 s")
    iterations: Count
    converged: bool
    method: Literal["", "two-stage", "l-bfgs-b", "projected-gradient", "common-factors"] = Field(
        default="",
        description="two-stage, l-bfgs-b or projected-gradient; of a detailed model common-factors",
    )
    by_records: Count | None = Field(
        default=None, description="directions of the parameters that the records fix (two-stage)"
    )
    by_release: Count | None = Field(
        default=None, description="directions that the noisy release or its bounds fix (two-stage)"
    )
    misfit: Annotated[Many[MisfitDocument], Field(max_length=10_000)] = Field(
        default=(), description="of a detailed model: how near it and its controls are to records"
    )
    sigma_mhz: Finite | None = Field(
        default=None,
        description="largest deviation of a sample that the fit counted with, sensor noise and "
        "model error together, mHz",
    )
    verdict: VerdictDocument | None = Field(
        default=None, description="of the guard; null: a method, or a gridveil, without one"
    )


class ProvenanceDocument(Document):
    """Where a public trajectory and its event data come from."""

    origin: Literal["measured", "simulated"]
    source: Words
    date: Words
    link: Words
    event_source: Words


class ReferenceDocument(Document):
    """How reference.csv was made."""

    event: Words
    horizon_s: Positive
    dt_s: Positive
    scheme: Literal["exact", "trapezoidal"]
    buses: Many[Port] = Field(
        default=(), description="buses whose frequency it holds; empty: all machines"
    )


class ExportDocument(Document):
    """A release in another tool's format, beside the other files of the bundle."""

    format: Literal[
        "andes", "psse", "matpower", "mat", "csv", "statespace", "modelica", "fmu", "matrices"
    ]
    version: int = Field(
        ge=1,
        le=1000,
        description="of the format's bytes; a gridveil that writes this version can "
        "make them again",
    )
    files: Annotated[Many[FileName], Field(min_length=1, max_length=20)]


class EnsembleDocument(Document):
    """Error bars: ensemble.mat, and the bands that it gives of the reference event."""

    members: Annotated[int, Field(ge=2, le=MOST_MEMBERS)]
    states: Annotated[int, Field(ge=0, le=MOST_MEMBER_STATES)] = Field(
        description="of each member of a detailed model; 0: members are kept by their parameters"
    )
    level: Annotated[float, Field(gt=0, lt=1)] = Field(
        description="share of cases in which a band is to hold the truth"
    )
    counts: Annotated[Many[Words], Field(max_length=10)] = Field(
        description="what the spread of the members counts"
    )
    truncation: NotNegative = Field(
        description="largest error that cutting states left, as a share of a response's peak"
    )
    nadir_hz: Ends = Field(description="band of the system's nadir in the reference event")
    rocof_hz_s: Ends = Field(description="band of its rate of change over 0.5 s")
    settling_hz: Ends = Field(description="band of what it settles at")


class ReleaseDocument(Document):
    """release.json of a bundle."""

    schema_version: Literal[1]
    kind: Literal["gridveil release: Kron-reduced, synthetic frequency dynamics"]
    demo: bool
    guarantee: GuaranteeDocument
    model: ModelDocument
    bounds: Annotated[
        dict[str, Ends], _Of(reduced=True), Field(description="public bounds [lower, upper]")
    ]
    clipped: Annotated[dict[str, Count], _Of()]
    fit: FitDocument | None
    reference: ReferenceDocument
    public_inputs: dict[Words, Words] = Field(
        description="where bounds, loads and other public inputs come from"
    )
    provenance: Many[ProvenanceDocument] = Field(
        description="public trajectories that the fit used"
    )
    valid_for: Words
    not_valid_for: Words
    licence: Words
    exports: Many[ExportDocument] = Field(
        default=(), max_length=9, description="formats of other tools that the bundle holds"
    )
    ensemble: EnsembleDocument | None = Field(
        default=None, description="error bars; absent in large grids and old bundles"
    )
    card: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None,
        description="version of card.html's bytes, as of an export; absent in old bundles, which "
        "have none",
    )
