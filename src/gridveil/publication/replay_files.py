"""Records of a release as files of its bundle: replay.json says what they are, replay.csv holds
samples, and what the unfitted and the fitted model give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from gridveil.foundation.shown import json_file
from gridveil.grid.facts import Array
from gridveil.publication.replay import (
    LONGEST_S,
    LONGEST_WORDS,
    MOST_PLACES,
    MOST_RECORDS,
    MOST_VALUES,
    Replay,
    fitted_answer,
    rms_mhz,
    tried,
)
from gridveil.publication.schema import Count, Document, Many, NotNegative, Port, Words

if TYPE_CHECKING:
    from gridveil.publication.release import Release

REPLAY, SAMPLES = "replay.json", "replay.csv"
REPLAY_FILES = {REPLAY, SAMPLES}
HEADER = "record,time_s,bus,measured_pu,unfitted_pu,fitted_pu"
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
EventWords = Annotated[str, Field(pattern=r"^[A-Za-z0-9:;=,@%.+\- ]+$", max_length=LONGEST_WORDS)]


class PlaceDocument(Document):
    """One recorded place."""

    bus: Port
    samples: Count = Field(description="values that were measured")
    rms_unfitted_mhz: NotNegative = Field(description="root mean square, before the fit")
    rms_fitted_mhz: NotNegative = Field(description="the same of this bundle's model")


class RecordDocument(Document):
    """One record, and what happened then."""

    record: Annotated[int, Field(ge=1, le=10**6)] = Field(
        description="among the trajectories that the fit used, from 1"
    )
    event: EventWords = Field(description="in words that `gridveil simulate` reads")
    estimated: Words = Field(description="what of the event was estimated; empty: nothing")
    sha256: Annotated[Many[Digest], Field(max_length=200)] = Field(
        description="of the files of the record, as they were published"
    )
    carried: bool = Field(description="whether replay.csv holds what was measured")
    every: Annotated[int, Field(ge=1, le=10**6)] = Field(
        description="each so many-th sample is kept"
    )
    places: Annotated[Many[PlaceDocument], Field(min_length=1, max_length=MOST_PLACES)]


class ReplayDocument(Document):
    """replay.json of a bundle. Models are run in steps of 0.01 s, and read off the line between."""

    replay_version: Literal[1]
    records: Annotated[Many[RecordDocument], Field(min_length=1, max_length=MOST_RECORDS)]


def replay_files(release: Release) -> dict[str, bytes]:
    """The files of a release's records; none where it keeps none."""
    if not release.replays:
        return {}
    fitted = [fitted_answer(release, one) for one in release.replays]
    document = ReplayDocument(
        replay_version=1,
        records=tuple(
            _described(one, answer, release.model.frequency_hz)
            for one, answer in zip(release.replays, fitted, strict=True)
        ),
    )
    return {REPLAY: _json(document), SAMPLES: _csv(release.replays, fitted)}


def _described(one: Replay, fitted: Array, frequency_hz: float) -> RecordDocument:
    return RecordDocument(
        record=one.record,
        event=one.event,
        estimated=one.estimated,
        sha256=one.digests,
        carried=one.carried,
        every=one.every,
        places=tuple(
            PlaceDocument(
                bus=bus,
                samples=samples,
                rms_unfitted_mhz=float(left[0]),
                rms_fitted_mhz=float(left[1]),
            )
            for bus, samples, left in zip(
                one.buses, one.samples, rms_mhz(one, fitted, frequency_hz), strict=True
            )
        ),
    )


def _json(document: ReplayDocument) -> bytes:
    return json_file(document.model_dump(mode="json", exclude_unset=True))


def _csv(replays: tuple[Replay, ...], fitted: list[Array]) -> bytes:
    lines = [HEADER]
    for one, answer in zip(replays, fitted, strict=True):
        measured = one.measured if one.carried else None
        for row, time in enumerate(one.time_s.tolist()):
            for place, bus in enumerate(one.buses):
                value = float("nan") if measured is None else float(measured[row, place])
                shown = "" if np.isnan(value) else repr(value)
                rest = f"{float(one.unfitted[row, place])!r},{float(answer[row, place])!r}"
                lines.append(f"{one.record},{time!r},{bus},{shown},{rest}")
    return ("\n".join(lines) + "\n").encode()


def read_replays(files: Mapping[str, bytes]) -> tuple[tuple[Replay, ...], list[Array]]:
    """Read what a bundle keeps of its records, and what it says its model gives; raise a ValueError
    for what is not as gridveil writes it.
    """
    if not REPLAY_FILES & files.keys():
        return (), []
    if not files.keys() >= REPLAY_FILES or files[SAMPLES].count(b"\n") > 2 * MOST_VALUES + 1:
        raise ValueError("a replay is two files")
    document = ReplayDocument.read(files[REPLAY])
    lines = files[SAMPLES].decode("ascii").splitlines()[1:]
    groups: dict[int, list[list[str]]] = {}
    for line in lines:
        cells = line.split(",")
        if len(cells) != 6 or not cells[0].isdecimal():
            raise ValueError("a row has six cells")
        groups.setdefault(int(cells[0]), []).append(cells)
    if list(groups) != [one.record for one in document.records]:
        raise ValueError("the records are not those of replay.json")
    found = [_read(one, groups[one.record]) for one in document.records]
    replays, fitted = tuple(one for one, _ in found), [answer for _, answer in found]
    if _csv(replays, fitted) != files[SAMPLES] or _json(document) != files[REPLAY]:
        raise ValueError("not written as gridveil writes it")
    return replays, fitted


def _read(one: RecordDocument, rows: list[list[str]]) -> tuple[Replay, Array]:
    buses = tuple(place.bus for place in one.places)
    count = len(rows) // len(buses)
    if count < 2 or [row[2] for row in rows] != list(buses) * count:
        raise ValueError("the places are not those of replay.json")
    numbers = np.array([[float(cell or "nan") for cell in row[3:]] for row in rows])
    numbers = numbers.reshape(count, len(buses), 3)
    time_s = np.array([float(row[1]) for row in rows[:: len(buses)]])
    plain = np.isfinite(time_s).all() and np.isfinite(numbers[..., 1:]).all()
    if not plain or (np.diff(time_s) <= 0).any() or not -1 < time_s[0] <= time_s[-1] < LONGEST_S:
        raise ValueError("times and answers are finite, and times increase")
    seen = np.isfinite(numbers[..., 0]).sum(axis=0)
    stated = tuple(place.samples for place in one.places)
    if tuple(int(each) for each in seen) != (stated if one.carried else (0,) * len(buses)):
        raise ValueError("as many samples as replay.json says")
    left = [[place.rms_unfitted_mhz, place.rms_fitted_mhz] for place in one.places]
    replay = Replay(
        record=one.record,
        event=one.event,
        estimated=one.estimated,
        digests=one.sha256,
        carried=one.carried,
        every=one.every,
        time_s=time_s,
        buses=buses,
        measured=numbers[..., 0] if one.carried else None,
        unfitted=numbers[..., 1],
        samples=stated,
        rms_mhz=np.array(left),
    )
    return replay, numbers[..., 2]


def replay_problems(release: Release, fitted: list[Array]) -> Iterator[str]:
    """Say what in a bundle's replay does not follow from its model, event and samples.

    fitted : what it says the model gives. The unfitted model is not in the bundle: only the
    checksums vouch for its answer.
    """
    for one, stated in zip(release.replays, fitted, strict=True):
        if one.record > len(release.provenance):
            yield f"{REPLAY} names record {one.record}, of which nothing is said"
        again = tried(lambda one=one: fitted_answer(release, one))
        scale = max(float(np.abs(stated).max()), 1e-12)
        if again is None or np.abs(again - stated).max() > 1e-9 * scale:
            yield f"the model does not answer the event of record {one.record} as {SAMPLES} says"
        elif one.measured is not None and one.rms_mhz is not None:
            left = rms_mhz(one, stated, release.model.frequency_hz)
            if np.abs(left - one.rms_mhz).max() > 1e-6 * max(float(left.max()), 1e-9):
                yield f"what is left of record {one.record} is not what {REPLAY} says"
