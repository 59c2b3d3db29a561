"""A declaration for records as they come: look at their files, and write a TOML to edit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridveil.foundation.archive import check_free
from gridveil.foundation.arguments import a_place, of_type, takes
from gridveil.foundation.errors import InputError, OptionError
from gridveil.inference.records.look import Looked, look
from gridveil.inference.records.skeleton import skeleton
from gridveil.workflow.places import check_place, writing

if TYPE_CHECKING:
    import pandas as pd

MOST_RECORDS = 100
NOTHING_WRITTEN = "Nothing was written."


@dataclass(frozen=True, eq=False)
class Begun:
    """A declaration that is to be edited: where it lies, its text, and what was found."""

    path: Path
    text: str
    found: tuple[Looked, ...]


RECORDS = "CSV or .cfg files, or a DataFrame whose index is the time"


def _records(value: Any) -> list[Any]:
    """Read one record or several."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    return [one if _is_frame(one) else a_place(RECORDS)(one) for one in listed]


@takes(
    outcome=NOTHING_WRITTEN,
    source=_records,
    out=a_place("a path for the TOML"),
    time_format=of_type(str, 'words such as "epoch-ms"'),
)
def init_record(
    source: str | Path | pd.DataFrame | Sequence[str | Path | pd.DataFrame],
    out: str | Path | None = None,
    *,
    time_format: str | None = None,
) -> Begun:
    """Look at the files of one event, and write a commented TOML that declares them, to edit.

    source : CSV files, .cfg files of COMTRADE pairs, or data frames whose index is the time; these
    are written as CSV beside the TOML.
    out : the TOML; default: beside the first file, under its name.
    time_format : of the times, where it cannot be told, such as "%d-%b-%Y %H:%M:%S".
    """
    listed = _records(source)
    if not 1 <= len(listed) <= MOST_RECORDS:
        raise OptionError(
            "There is no record to look at, or too many.",
            expected=f"1 to {MOST_RECORDS} files of one event",
            outcome=NOTHING_WRITTEN,
        )
    paths = [one for one in listed if not _is_frame(one)]
    if out is None and not paths:
        raise OptionError(
            "It is not said where the declaration of a data frame goes.",
            expected='out="record.toml"',
            outcome=NOTHING_WRITTEN,
        )
    place = Path(out) if out is not None else paths[0].with_suffix(".toml")
    check_free(place)
    check_place(place, "--out")
    files = [
        _written(one, place, number) if _is_frame(one) else one
        for number, one in enumerate(listed, start=1)
    ]
    try:
        found = tuple(look(path, time_format) for path in files)
    except InputError as error:
        raise InputError(error.problem, outcome=NOTHING_WRITTEN, remedy=error.remedy) from None
    text = skeleton(found, [_seen_from(path, place.parent) for path in files])
    with writing(place, "--out") as half:
        half.write_bytes(text.encode())
    return Begun(place, text, found)


def _seen_from(path: Path, folder: Path) -> str:
    """A path from a folder, with slashes, which every system reads; whole on another drive."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:
        return path.absolute().as_posix()


def _is_frame(source: object) -> bool:
    return hasattr(source, "to_csv") and hasattr(source, "columns")


def _written(frame: object, place: Path, number: int) -> Path:
    """A data frame as a CSV beside the declaration; its index is the time."""
    table: pd.DataFrame = frame  # pyright: ignore[reportAssignmentType]
    path = place.with_name(f"{place.stem}{f'-{number}' if number > 1 else ''}.csv")
    check_free(path)
    # A range of row numbers is no time: the times then stand in a column.
    counted = type(table.index).__name__ == "RangeIndex"
    with writing(path, "--out") as half:
        table.to_csv(half, index=not counted, index_label=None if counted else "time")
    return path
