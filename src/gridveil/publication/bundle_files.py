"""The files of a bundle: made of a release, by nothing but the release and its signer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from gridveil.dynamics.compact import is_compact
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.archive import DOCUMENT, SIGNATURE, SUMS, checksums
from gridveil.foundation.errors import GridveilError
from gridveil.foundation.progress import stage
from gridveil.foundation.shown import json_file
from gridveil.grid.facts import Array, GridFacts, IntArray, complete_edges
from gridveil.grid.parameters import Bounds
from gridveil.publication.card import CARD, CARD_VERSION, card_page
from gridveil.publication.certificate import certify, in_plain_words
from gridveil.publication.compact import SHARES, SPARSE, from_sparse_arrays, sparse_arrays
from gridveil.publication.document import to_document
from gridveil.publication.ensemble import ensemble_document, ensemble_file
from gridveil.publication.export import export, format_named
from gridveil.publication.matfile import FEWER, check_size, from_mat, to_mat
from gridveil.publication.readme import readme
from gridveil.publication.release import Release
from gridveil.publication.replay_files import REPLAY_FILES, replay_files
from gridveil.publication.schema import (
    EDGES_UP_TO,
    ExportDocument,
    ModelDocument,
    ReferenceDocument,
)
from gridveil.publication.signing import Signer
from gridveil.publication.stated import check_declared

ARRAYS, REFERENCE, README, ENSEMBLE = "model.mat", "reference.csv", "README.md", "ensemble.mat"
CERTIFICATE, IN_WORDS = "certificate.json", "certificate.txt"
OWN_FILES = {
    DOCUMENT,
    ARRAYS,
    REFERENCE,
    README,
    ENSEMBLE,
    CARD,
    CERTIFICATE,
    IN_WORDS,
    SUMS,
    SIGNATURE,
    *REPLAY_FILES,
}


def contents(
    release: Release, signer: Signer | None = None, formats: Sequence[str] = ()
) -> dict[str, bytes]:
    """Make the files of a bundle: a function of its arguments alone (no time, no user, no
    platform).
    """
    if not release.demo and release.receipt is None:
        raise GridveilError(
            "A release that was loaded cannot be written again: its certificate belongs to the "
            "bundle it came in.",
            remedy="Copy that bundle.",
        )
    exported = {name: export(release, name) for name in formats}
    listed = tuple(_described(name, made) for name, made in exported.items())
    document = to_document(release).model_copy(update={"exports": listed, "card": CARD_VERSION})
    run = document.reference
    if release.ensemble is not None:
        bars = ensemble_document(release, run)
        document = document.model_copy(update={"ensemble": bars})
    stage("simulating the reference")
    reference = reference_of(release, run)
    stage("writing the bundle")
    files = {
        DOCUMENT: document_file(document),
        ARRAYS: to_mat(_arrays(release)),
        REFERENCE: reference.to_csv().encode(),
        README: readme(release, document).encode(),
        **replay_files(release),
    }
    if release.ensemble is not None:
        files[ENSEMBLE] = ensemble_file(release.ensemble)
    for made in exported.values():
        files |= made
    certificate = None
    if not release.demo:  # nobody certifies or signs a demo
        certificate = certify(release, signer.public_key if signer else None)
        files |= {
            CERTIFICATE: document_file(certificate),
            IN_WORDS: in_plain_words(certificate).encode(),
        }
    files[CARD] = card_page(release, document, certificate).encode()
    files[SUMS] = checksums(files)
    if signer and certificate:
        files[SIGNATURE] = signer.sign(files[SUMS])
    return dict(sorted(files.items()))


def _described(name: str, made: Mapping[str, bytes]) -> ExportDocument:
    known = format_named(name)
    return ExportDocument(format=known.name, version=known.version, files=tuple(made))  # pyright: ignore[reportArgumentType]


def reference_of(release: Release, run: ReferenceDocument) -> Trajectory:
    """Simulate the reference event."""
    return release.simulate(
        run.event,
        horizon_s=run.horizon_s,
        dt_s=run.dt_s,
        scheme=run.scheme,
        buses=run.buses or None,
    )


def document_file(document: BaseModel) -> bytes:
    """Write a document; one that was read has no more fields than were in it, as in a bundle of an
    earlier gridveil.
    """
    return json_file(document.model_dump(mode="json", exclude_unset=True))


def _arrays(release: Release) -> dict[str, Any]:
    """The arrays of a model of either kind, as a file has them."""
    if isinstance(release.model, ReducedModel):
        arrays = release.model.arrays
        if release.model.compact:
            arrays |= sparse_arrays(release.model)
        return arrays | _edges(len(release.model.machines))
    # What knows devices is imported where there are some: most bundles have none.
    from gridveil.publication.detailed import arrays_of

    assert release.shown is not None, "a detailed release shows a case"
    return dict(arrays_of(release.model, release.shown))


def arrays_in(data: bytes, model: ModelDocument) -> dict[str, Array]:
    """Read the model's arrays; whether they are a model's, `release_problems` says."""
    if model.detailed is not None:
        from gridveil.publication.detailed import shapes_of

        return from_mat(data, shapes_of(model), {})
    machines = len(model.machines)
    shapes = ReducedModel.shapes(machines, len(model.loaded_buses))
    if model.compact is None:
        return from_mat(data, shapes, _edges(machines))
    arrays = from_mat(data, shapes, _edges(machines), sparse_ones=SPARSE)
    return arrays | from_sparse_arrays(arrays)


def check_fits(facts: GridFacts, bounds: Bounds, loaded: int) -> None:
    """Refuse a model that no bundle can hold, by its public sizes and numbers, before anything is
    drawn.
    """
    check_declared(facts, bounds)
    compact = is_compact(len(facts.machines), loaded)
    for name, shape in ReducedModel.shapes(len(facts.machines), loaded).items():
        if compact and name == SHARES:  # of which few are kept
            continue
        check_size(name, shape, "Nothing was drawn and nothing was written.", FEWER)


def _edges(machines: int) -> dict[str, IntArray]:
    """The pairs that k_r belongs to, from 1; left out of large models, where they would outweigh
    k_r.
    """
    return {"edges": complete_edges(machines) + 1} if machines <= EDGES_UP_TO else {}
