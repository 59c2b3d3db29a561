"""The versioned JSON document of a bundle, `release.json`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
FractionText = Annotated[str, Field(pattern=r"^[0-9]+(/[1-9][0-9]*)?$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class GroupDocument(_Strict):
    """Privacy of one group of parameters."""

    unit: str
    alpha: FractionText = Field(description="distance between neighbours that the guarantee speaks of, exact, in `unit`")
    epsilon: FractionText = Field(description="ε asked for, exact")
    spent: Positive = Field(description="ε that the mechanism's own map gives; never above `epsilon`")
    scale: Positive = Field(description="scale of the Laplace noise, in `unit`")


class GroupsDocument(_Strict):
    """Privacy of line weights, inertia and damping."""

    k: GroupDocument
    m: GroupDocument
    d: GroupDocument


class GuaranteeDocument(_Strict):
    """What the release promises."""

    epsilon: FractionText
    spent: FractionText = Field(description="ε spent under the adjacency's rule, exact; never above `epsilon`")
    adjacency: Literal["one-asset", "one-item", "one-per-group"]
    groups: GroupsDocument
    mechanism: str
    operating_point: str
    conditional_on: tuple[str, ...]
    in_words: str
    claim: str
    not_protected: tuple[str, ...]


class ModelDocument(_Strict):
    """How to read model.mat."""

    equations: tuple[str, ...]
    sign_convention: str
    units: dict[str, str]
    machines: tuple[str, ...]
    loaded_buses: tuple[str, ...]
    omega_b: Positive = Field(description="rad/s")
    frequency_hz: Positive
    base_mva: Positive
    loads_published: bool


class BoundsDocument(_Strict):
    """Public bounds [lower, upper]."""

    k: tuple[Finite, Finite]
    k_r: tuple[Finite, Finite]
    m: tuple[Finite, Finite]
    d: tuple[Finite, Finite]


class FitDocument(_Strict):
    """How step 3 went; absent where there was no trajectory."""

    mismatch_before: Finite = Field(description="J of the noisy model, p.u.^2 s")
    mismatch_after: Finite = Field(description="J of the fitted model, p.u.^2 s")
    iterations: int
    converged: bool


class ReferenceDocument(_Strict):
    """How reference.csv was made."""

    event: str
    horizon_s: Positive
    dt_s: Positive
    scheme: Literal["exact"]


class ReleaseDocument(_Strict):
    """release.json of a bundle."""

    schema_version: Literal[1]
    kind: Literal["gridveil release: Kron-reduced, synthetic frequency dynamics"]
    demo: bool
    guarantee: GuaranteeDocument
    model: ModelDocument
    bounds: BoundsDocument
    clipped: dict[Literal["k", "m", "d"], int]
    fit: FitDocument | None
    reference: ReferenceDocument
    valid_for: str
    not_valid_for: str
    licence: str
