"""The certificate of a release: what was promised, what was charged and where, in JSON and in plain
words.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from importlib.metadata import version
from math import ceil, exp, expm1
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from gridveil.foundation.version import __version__
from gridveil.grid.parameters import SWING, family_of, parameters_of
from gridveil.privacy.adjacency import Rule
from gridveil.privacy.epsilon import SMALL
from gridveil.privacy.ledger.accounts import Receipt
from gridveil.privacy.ledger.chain import Head, head_is_genuine
from gridveil.privacy.ledger.checkpoint import LATEST
from gridveil.publication.release import Release
from gridveil.publication.schema import (
    Document,
    FractionText,
    Groups,
    Many,
    Published,
    Words,
    group_losses,
    groups_document,
)

CERTIFICATE_VERSION = 2

Hex = Annotated[str, Field(pattern=r"^([0-9a-f]{2})+$", max_length=128)]
Key = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]  # a raw Ed25519 public key
Nonce = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Version = Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+-]*$", max_length=40)]

# Below the first, e^ε is a float. The second is rounded up, so that the power of ten it gives is
# never too small.
LARGEST_POWER, LOG10_E = Fraction("709.78"), Fraction("0.43429448190325182765112891892")

SELECTION = (
    "N draws cost N ε, and that covers publishing all of them or choosing among them by public "
    "data. Choosing among draws, or vetoing one, by figures that saw the confidential grid has no "
    "ε bound: decide the settings on a public surrogate, then draw once."
)


class HeadDocument(Document):
    """Where the ledger stood after the draw: whoever keeps it can tell later whether rows were
    lost.
    """

    ledger: Hex
    count: Annotated[int, Field(ge=1, le=10**12)]
    mac: Hex
    public_key: Key
    signature: Hex


class CertificateDocument(Document):
    """certificate.json of a bundle."""

    certificate_version: Literal[2]
    adjacency: Rule
    neighbours: Words
    epsilon_asked: FractionText
    epsilon_charged: FractionText
    groups: Groups
    mechanism: Words
    software: dict[Literal["gridveil", "opendp", "numpy"], Version]
    operating_point: Words
    conditional_on: Many[Words]
    claim: Words
    not_protected: Many[Words]
    public_inputs: dict[Words, Words]
    selection: Words
    lineage_spent: FractionText = Field(
        description="ε spent on this grid so far, this draw included"
    )
    lineage_budget: FractionText = Field(description="ε that may be spent on this grid")
    ledger_entry: Annotated[int, Field(ge=1, le=10**12)]
    ledger_nonce: Annotated[Nonce, Field(description="random, of this entry")]
    earlier_draws: Annotated[
        Many[Nonce],
        Field(
            max_length=LATEST,
            description="nonces of the ledger's latest charges before this one: a later "
            "certificate names them",
        ),
    ]
    draw_commitment: Annotated[
        Digest, Field(description="SHA-256 of the nonce and of the noisy values that were drawn")
    ]
    ledger_head: HeadDocument
    signed_by: Key | None = Field(
        description="raw Ed25519 public key whose signature over SHA256SUMS is SHA256SUMS.sig, in "
        "hex"
    )
    published: Published = ()


def certify(release: Release, public_key: bytes | None) -> CertificateDocument:
    """Certify a real release.

    public_key : of whoever will sign the bundle, None for an unsigned one.
    """
    g, receipt = release.guarantee, release.receipt
    assert receipt is not None, "a demo gets no certificate"
    return CertificateDocument(
        certificate_version=CERTIFICATE_VERSION,
        adjacency=g.rule,
        neighbours=g.neighbours,
        epsilon_asked=str(g.epsilon),
        epsilon_charged=str(g.spent),
        groups=groups_document(g),
        mechanism=g.mechanism,
        software={"gridveil": __version__, "opendp": version("opendp"), "numpy": np.__version__},
        operating_point=g.operating_point,
        conditional_on=g.conditional_on,
        claim=g.claim,
        not_protected=release.not_protected,
        public_inputs=dict(release.public_inputs),
        selection=SELECTION,
        lineage_spent=str(receipt.spent),
        lineage_budget=str(receipt.budget),
        ledger_entry=receipt.entry,
        ledger_nonce=receipt.nonce,
        earlier_draws=receipt.earlier,
        draw_commitment=receipt.commitment,
        ledger_head=HeadDocument(**receipt.head.__dict__),
        signed_by=public_key.hex() if public_key else None,
        **({"published": g.published} if g.published else {}),
    )


def receipt_of(certificate: CertificateDocument) -> Receipt:
    """Read back what the ledger gave: the owner's figures, of which a recipient can check the
    head's signature alone.
    """
    return Receipt(
        entry=certificate.ledger_entry,
        nonce=certificate.ledger_nonce,
        commitment=certificate.draw_commitment,
        earlier=certificate.earlier_draws,
        head=Head(**certificate.ledger_head.model_dump()),
        spent=Fraction(certificate.lineage_spent),
        budget=Fraction(certificate.lineage_budget),
    )


def certificate_problems(certificate: CertificateDocument, receipt: Receipt) -> Iterator[str]:
    """Figures of the owner's ledger that cannot be: a recipient has no ledger to compare them
    with.
    """
    if not head_is_genuine(receipt.head):
        yield "the ledger's head does not bear its signature"
    if not len(receipt.earlier) < receipt.entry < receipt.head.count:
        yield (
            "the ledger's head is older than the entry, or the entry than draws that are named "
            "before it"
        )
    if len({receipt.nonce, *receipt.earlier}) <= len(receipt.earlier):
        yield "a draw of the ledger is named twice"
    if not Fraction(certificate.epsilon_charged) <= receipt.spent <= receipt.budget:
        yield "what was charged, spent and may be spent contradict each other"
    if list(certificate.software) != ["gridveil", "opendp", "numpy"]:
        yield "software does not name gridveil, opendp and numpy"
    elif f"OpenDP {certificate.software['opendp']} " not in certificate.mechanism:
        yield "software and mechanism name two versions of OpenDP"


def contradiction(one: CertificateDocument, other: CertificateDocument) -> str | None:
    """Say why two certificates of one ledger cannot be of one history of it; None: they can, or it
    cannot be told.
    """
    earlier, later = sorted((one, other), key=lambda certificate: certificate.ledger_entry)
    head, other_head = earlier.ledger_head, later.ledger_head
    if head.count == other_head.count and head.mac != other_head.mac:
        return f"row {head.count} of the ledger is in both certificates, and differs"
    if earlier.ledger_entry == later.ledger_entry:
        same = (earlier.ledger_nonce, earlier.draw_commitment) == (
            later.ledger_nonce,
            later.draw_commitment,
        )
        return (
            None
            if same
            else f"entry {earlier.ledger_entry} of the ledger is in both certificates, and differs"
        )
    # Each draw is a row of its own: one that is fewer rows before than draws are named must be
    # among them.
    named = len(later.earlier_draws)
    must_be_named = named < LATEST or later.ledger_entry - earlier.ledger_entry <= named
    if must_be_named and earlier.ledger_nonce not in later.earlier_draws:
        return f"entry {earlier.ledger_entry} of the ledger is not named in the later certificate"
    return None


def in_plain_words(certificate: CertificateDocument) -> str:
    """Say the same for people."""
    losses, family = group_losses(certificate.groups), family_of(certificate.groups)
    declared = parameters_of(family)
    alone = {"sum": " (their sum alone)", "mean": " (their mean alone)"}
    groups = "\n".join(
        f"  {name}{alone.get(loss.mechanism.takes, '')}: α = "
        f"{loss.alpha_in_words}, ε asked {loss.epsilon}, ε charged {loss.spent!r}, "
        f"{loss.mechanism.noise.name} scale {loss.scale!r} "
        f"{'of the logarithm' if loss.relative else loss.unit}"
        for name, loss in losses.items()
    )
    undrawn = "".join(
        f"  {name}: {declared[name].plural}, PUBLISHED as it is, without noise: its owner declares "
        "that it is public already\n"
        if name in certificate.published
        else f"  {name}: nothing of the {declared[name].plural} was drawn, and nothing was spent "
        f"on {'them' if family == SWING else 'it'}\n"
        for name in certificate.groups
        if name not in losses
    )
    conditions = (
        "\n".join(f"  {one}" for one in certificate.conditional_on)
        or "  nothing: no trajectory was used"
    )
    head = certificate.ledger_head
    lists = {
        "Not protected": certificate.not_protected,
        "Public inputs, declared": tuple(
            f"{name}: {origin}" for name, origin in certificate.public_inputs.items()
        ),
        "Software": tuple(f"{name} {number}" for name, number in certificate.software.items()),
    }
    rest = "\n\n".join(
        f"{title}:\n" + "\n".join(f"  {item}" for item in items) for title, items in lists.items()
    )
    return f"""CERTIFICATE OF A GRIDVEIL RELEASE

ε-differential privacy with ε = {certificate.epsilon_asked}, adjacency {certificate.adjacency}: two grids are neighbours if
{certificate.neighbours}.

{undrawn}{groups}
  mechanism: {certificate.mechanism}
  {operating_point(family)}: {certificate.operating_point}

{odds_in_words(certificate)}
{spent_in_words(certificate)}

{certificate.claim}

Conditional on:
{conditions}

{rest}

Several draws: {certificate.selection}

Ledger {head.ledger}: entry {certificate.ledger_entry}, nonce {certificate.ledger_nonce},
commitment to the draw {certificate.draw_commitment}; head after the draw: {head.count} rows, {head.mac}
Signed by: {certificate.signed_by or "nobody: this bundle carries no signature"}
"""  # noqa: E501


def odds_in_words(certificate: CertificateDocument) -> str:
    """What the promise comes to, in one sentence."""
    factor = _odds(Fraction(certificate.epsilon_asked))
    return f"At most, an observer's odds between two neighbours change by a factor of {factor}."


def spent_in_words(certificate: CertificateDocument) -> str:
    """What was spent on the grid, this release included, in one sentence."""
    spent = at_least(Fraction(certificate.lineage_spent), 6)
    return (
        f"Releases add up: with this one, ε = {spent} of a budget of "
        f"{certificate.lineage_budget} was spent on this grid."
    )


def operating_point(family: str) -> str:
    """Call the operating point: it is inside the weights of a swing model, and in no entry of a
    detailed one.
    """
    return "operating point inside k" if family == SWING else "operating point"


def _odds(epsilon: Fraction) -> str:
    """e^ε to three digits, never less; beyond every float the power of ten above it, since
    1e1000000 reads as a misprint.

    >>> _odds(Fraction(1, 1000)), _odds(Fraction(1, 2)), _odds(Fraction(1, 4))
    ('1 + 0.00101', '1.65', '1.29')
    """
    if epsilon < SMALL:
        return f"1 + {at_least(expm1(epsilon), 3)}"
    return at_least(exp(epsilon), 3) if epsilon < LARGEST_POWER else f"10^{ceil(epsilon * LOG10_E)}"


def at_least(value: float | Fraction, digits: int) -> str:
    """Write a positive number to so many digits, rounded up.

    >>> at_least(1.2840, 3), at_least(Fraction(1, 3), 6), at_least(0.5, 6)
    ('1.29', '0.333334', '0.5')
    """
    numerator, denominator = Fraction(value).as_integer_ratio()
    with localcontext(Context(prec=digits, rounding=ROUND_CEILING)):
        return f"{float(Decimal(numerator) / Decimal(denominator)):.{digits}g}"
