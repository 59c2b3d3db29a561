"""Error bars in a bundle: the members of an ensemble in ensemble.mat, and what release.json says of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from gridveil.dynamics.ensemble import LEVEL, Ensemble, system_band
from gridveil.dynamics.events import Event
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import Clock, simulate
from gridveil.dynamics.trajectory import in_hz
from gridveil.dynamics.truncation import is_stable
from gridveil.grid.facts import Array
from gridveil.grid.parameters import released
from gridveil.publication.matfile import from_mat, to_mat
from gridveil.publication.release import Release
from gridveil.publication.schema import EnsembleDocument, ReferenceDocument

# Single precision of what a model has in double, and of numbers that no member has.
ROUNDING, MOST, LEAST = 1e-4, 1e15, 1e-15
FURTHEST_OFFSET = 10.0
CLOSE = 1e-6  # of a band: two machines round differently


def ensemble_document(release: Release, run: ReferenceDocument) -> EnsembleDocument | None:
    """Say what an ensemble is and what bands it gives of the reference event."""
    found = release.ensemble
    if found is None:
        return None
    event = Event.parse(run.event, base_mva=release.model.base_mva)
    clock = Clock(run.horizon_s, run.dt_s)
    centre = simulate(release.model, event, horizon_s=run.horizon_s, dt_s=run.dt_s)
    band, hz = system_band(centre, found, release.model, event, clock), release.model.frequency_hz
    assert band is not None, "a reference is short"
    return EnsembleDocument(
        members=found.members,
        states=0 if found.swing else found.A.shape[1],
        level=LEVEL,
        counts=found.counts,
        truncation=found.truncation,
        nadir_hz=in_hz(band.nadir, hz),
        rocof_hz_s=in_hz(band.rocof, hz),
        settling_hz=in_hz(band.settling, hz),
    )


def gives_bands(release: Release, run: ReferenceDocument, stated: EnsembleDocument) -> bool:
    """Whether an ensemble gives the bands that a bundle states."""
    with np.errstate(all="ignore"):
        again = ensemble_document(release, run)
    assert again is not None, "asked of releases with an ensemble"
    pairs = (
        (getattr(stated, name), getattr(again, name))
        for name in ("nadir_hz", "rocof_hz_s", "settling_hz")
    )
    # Not `>`: a NaN compares as neither.
    return all(
        abs(one - two) <= CLOSE * max(map(abs, theirs))
        for theirs, ours in pairs
        for one, two in zip(theirs, ours, strict=True)
    )


def ensemble_file(ensemble: Ensemble) -> bytes:
    """The members in single precision, one row each."""
    flat = {
        name: values.reshape(len(values), -1).astype(np.float32)
        for name, values in ensemble.arrays.items()
    }
    return to_mat(flat)


def read_ensemble(data: bytes, release: Release, stated: EnsembleDocument) -> Release:
    """The release with the ensemble that its file holds. ValueError: it is not as we write it, or
    holds what no ensemble has.
    """
    model, k = release.model, stated.members
    if stated.counts != _counted(release):
        raise ValueError("its spread counts something else")
    ports, units = len(model.ports), len(model.machines)
    if isinstance(model, ReducedModel):
        if stated.states or stated.truncation:
            raise ValueError("a swing model's members are kept by their parameters")
        own = ReducedModel.shapes(units, ports - units)
        shapes = {name: (k, *own[name]) for name in (*released(), "K_ac")}
        shapes["offset"] = (k, ports)
    else:
        shapes = Ensemble.shapes(k, stated.states, ports, units)
    flat = {name: (k, prod(shape[1:])) for name, shape in shapes.items()}
    arrays = {
        name: values.astype(np.float64, order="C").reshape(shapes[name])
        for name, values in from_mat(data, flat, {}, "f4").items()
    }
    if problem := next(_problems(arrays, swing=isinstance(model, ReducedModel)), None):
        raise ValueError(problem)
    if isinstance(model, ReducedModel):
        offset = arrays.pop("offset")
        found = Ensemble.of_swing(model, arrays, offset, stated.counts)
    else:
        found = Ensemble(
            model.ports,
            units,
            *arrays.values(),
            truncation=stated.truncation,
            counts=stated.counts,
        )
    return replace(release, ensemble=found)


def _counted(release: Release) -> tuple[str, ...]:
    """What the spread of a release's ensemble counts."""
    known = release.fitted
    fitted = known is not None and not (known.verdict is not None and known.verdict.discarded)
    if isinstance(release.model, ReducedModel):
        from gridveil.inference.ensemble import counted

        return counted(release.guarantee, fitted=fitted)
    from gridveil.inference.detailed_ensemble import counted_words

    return counted_words(fitted)


def _problems(arrays: Mapping[str, Array], *, swing: bool) -> Iterator[str]:
    """What no ensemble that gridveil writes has; of a swing model, m > 0 and k_r, d ≥ 0 make every
    member stable.
    """
    for name, values in arrays.items():
        if not (np.isfinite(values).all() and (np.abs(values) <= MOST).all()):
            yield f"{name} of a member holds a number that no member has"
            return
    if (np.abs(arrays["offset"]) > FURTHEST_OFFSET).any():
        yield "a member's model error is no share"
    if not swing:
        if not is_stable(arrays["A"]):
            yield "a member is not stable"
        return
    if not (arrays["m"] >= LEAST).all() or not (arrays["d"] >= 0).all():
        yield "m or d of a member is not positive"
    weights, shares = arrays["k_r"], arrays["K_ac"]
    if (weights < -ROUNDING * np.abs(weights).max(initial=0.0)).any():
        yield "k_r of a member is negative"
    if shares.size and not np.allclose(shares.sum(axis=1), 1, rtol=0, atol=ROUNDING):
        yield "the shares in a member's K_ac do not add up to 1"
