"""The records of a PSS/E RAW file: its lines cut into fields, and into the sections of its
revision.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import MOST_VALUES
from gridveil.foundation.reading import fortran_number, read_lines

REVISIONS = range(30, 36)
INTEGER = re.compile(r"[-+]?\d{1,9}", re.ASCII)
WORD = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|[^\s,'"/]+|[,/'"]""")
CUT_OFF = "Copy the whole file again."

_HEAD = ("bus", "load", "fixed shunt", "generator", "branch")
_DC = ("area", "two-terminal DC", "VSC DC")
_MIDDLE = (
    "impedance correction",
    "multi-terminal DC",
    "multi-section line",
    "zone",
    "inter-area transfer",
    "owner",
    "FACTS",
)
_TAIL = ("switched shunt", "GNE", "induction machine")
ORDER: Mapping[int, tuple[str, ...]] = {
    30: ("bus", "load", "generator", "branch", "transformer", *_DC, "switched shunt", *_MIDDLE),
    31: (*_HEAD, "transformer", *_DC, *_MIDDLE, *_TAIL[:1]),
    32: (*_HEAD, "transformer", *_DC, *_MIDDLE, *_TAIL[:2]),
    33: (*_HEAD, "transformer", *_DC, *_MIDDLE, *_TAIL),
    34: (
        "system-wide",
        *_HEAD,
        "switching device",
        "transformer",
        *_DC,
        *_MIDDLE,
        *_TAIL,
        "substation",
    ),
}
# What a terminator's comment calls its section; the first that fits counts.
TITLES = (
    ("impedance correction", "IMP"),
    ("branch", "BRANCH"),
    ("inter-area transfer", "INTER-?AREA"),
    ("system-wide", "SYSTEM-WIDE"),
    ("switching device", "SWITCHING DEVICE"),
    ("switched shunt", "SWITCHED"),
    ("fixed shunt", "FIXED"),
    ("substation", "SUBSTATION"),
    ("multi-terminal DC", "MULTI-?TERMINAL"),
    ("two-terminal DC", "TWO-?TERMINAL"),
    ("VSC DC", "VSC|VOLTAGE SOURCE"),
    ("multi-section line", "MULTI-?SECTION"),
    ("induction machine", "INDUCTION"),
    ("transformer", "TRANSFORMER"),
    ("generator", "GENERATOR"),
    ("FACTS", "FACTS"),
    ("owner", "OWNER"),
    ("area", "AREA"),
    ("zone", "ZONE"),
    ("load", "LOAD"),
    ("bus", "BUS"),
    ("GNE", "GNE"),
)


class RawLine(NamedTuple):
    """A line of data.

    row : from 0, in its section.
    line : from 1, in the file.
    fields : None where left blank.
    """

    row: int
    line: int
    fields: list[str | None]


@dataclass(frozen=True, eq=False)
class Case:
    """A file cut into sections. frequency_hz : None if the header does not say."""

    file: str
    revision: int
    base_mva: float
    frequency_hz: float | None
    sections: Mapping[str, list[RawLine]]


def fields_of(text: str) -> list[str | None] | None:
    """Split a record at commas and blanks, up to a slash; texts keep an opening quote. None: a
    quote is not closed.

    >>> fields_of("1, 'A, B ',, 2.5 7 / comment")
    ['1', "'A, B ", None, '2.5', '7']
    """
    found = _between_commas(text)
    if found is None:
        found, blank = [], True  # blank : whether the field before the next comma is still empty
        for word in WORD.findall(text):
            if word == "/":
                break
            if word in ("'", '"'):
                return None
            if word == ",":
                found += (None,) if blank else ()
                blank = True
            else:
                found.append("'" + word[1:-1].replace("''", "'") if word[0] in "'\"" else word)
                blank = False
    while found and found[-1] is None:
        found.pop()
    return found


def _between_commas(text: str) -> list[str | None] | None:
    """Split at commas alone, None where the record has more to it; most have not, and this is four
    times as quick.
    """
    if "/" in text or '"' in text:
        return None
    found: list[str | None] = []
    for part in text.split(","):
        field = part.strip()
        if not field:
            found.append(None)
        elif field[0] == "'":
            if field[-1] != "'" or field.count("'") != 2:
                return None
            found.append(field[:-1])
        elif " " in field or "\t" in field or "'" in field:
            return None
        else:
            found.append(field)
    return found


def read_case(path: Path) -> Case:
    """Read the header and cut the file into the sections of its revision."""
    file, lines = path.name, read_lines(path, "a PSS/E RAW file")
    numbered = ((number, text) for number, text in enumerate(lines, start=1))
    first, header = next((line for line in numbered if not line[1].startswith("@!")), (1, ""))
    base_mva, revision, frequency_hz = _header(file, first, header)
    for _ in range(2):
        next(numbered, None)  # two lines of title
    return Case(
        file, revision, base_mva, frequency_hz, _sections(file, revision, len(lines), numbered)
    )


def _header(file: str, line: int, text: str) -> tuple[float, int, float | None]:
    def refuse(
        problem: str,
        expected: str,
        remedy: str = "Check that this is a PSS/E RAW file, copied whole.",
    ) -> NoReturn:
        raise InputError(
            problem, file=file, table="header", line=line, expected=expected, remedy=remedy
        )

    fields = fields_of(text) or []
    fields += [None] * (6 - len(fields))
    change, base, written, frequency = fields[0], fields[1], fields[2], fields[5]
    if change is None or not INTEGER.fullmatch(change):
        refuse(
            "the first line is no header of a RAW file", "IC, SBASE, REV, XFRRAT, NXFRAT, BASFRQ"
        )
    if int(change) != 0:
        refuse(
            "IC is not 0: the file holds changes to another case",
            "IC = 0, a whole case",
            "Save the case as a whole.",
        )
    base_mva = fortran_number(base)
    if base_mva is None or not (isfinite(base_mva) and base_mva > 0):
        refuse("SBASE is missing or unusable", "a finite number of MVA above 0")
    if written is None:  # old files say it in the comment only
        found = re.search(r"PSS\S{0,6}E-?\s?(\d\d)", text)
        written = found[1] if found else ""
    if not INTEGER.fullmatch(written) or int(written) not in REVISIONS:
        refuse(
            "the revision is missing or not one that is read",
            f"REV from {REVISIONS[0]} to {REVISIONS[-1]}",
            "Save the case as revision 33 of RAW.",
        )
    hertz = fortran_number(frequency) if frequency is not None else None
    if frequency is not None and (hertz is None or not 0 < hertz < 1e4):
        refuse("BASFRQ is unusable", "a finite number of Hz above 0")
    return base_mva, int(written), hertz


def _sections(
    file: str, revision: int, last_line: int, lines: Iterator[tuple[int, str]]
) -> dict[str, list[RawLine]]:
    order = ORDER[min(revision, 34)]
    sections: dict[str, list[RawLine]] = {name: [] for name in order}
    # What a truncated file must not lose; the very last section of a newer revision is missing from
    # some writers' files.
    needed, complete = order.index("transformer") + 1, len(order) - (revision > 31)
    ended, pending, count = 0, 0, 0
    for number_, text in lines:
        if not text.strip() or text.startswith("@!"):
            continue
        name = order[min(ended, len(order) - 1)]
        fields = fields_of("Q" if text.strip() == "q" else text)
        if (
            name == "substation"
        ):  # nodes and switches inside substations: lists within lists, none of which is read
            if fields == ["Q"]:
                return sections
            sections[name].append(RawLine(len(sections[name]), number_, []))
            continue
        records = sections[name]
        place = {"file": file, "table": name, "line": number_}
        count += len(fields or ())
        if count > MOST_VALUES:
            raise InputError(
                f"the file has more than {MOST_VALUES} fields",
                **place,
                expected="a case of a power grid",
            )
        if fields is None:
            raise InputError(
                "a quote is not closed",
                row=len(records) + 1,
                **place,
                expected="texts in pairs of quotes",
            )
        if fields in (["0"], ["Q"]) and pending:
            raise InputError(
                "the record is not complete",
                **place,
                expected=f"{pending} more lines",
                remedy=CUT_OFF,
            )
        if fields == ["Q"] and ended < needed:
            raise InputError(
                f"the file ends before its {name} data do",
                **place,
                expected="a record 0",
                remedy=CUT_OFF,
            )
        if fields == ["Q"]:
            return sections
        if fields == ["0"]:
            _check_title(text, name, ended < len(order), place)
            ended += 1
            continue
        if ended == len(order):
            raise InputError(
                "data follow the last section",
                file=file,
                line=number_,
                expected=f"{name} data last, in revision {revision}",
            )
        if not fields:
            continue  # a comment
        if name == "transformer":
            pending = pending - 1 if pending else lines_after(RawLine(0, number_, fields))
        records.append(RawLine(len(records), number_, fields))
    if ended < complete:
        name = order[ended]
        raise InputError(
            f"the file ends inside its {name} data: it is cut off",
            file=file,
            table=name,
            line=last_line,
            expected="a record 0 after every section, and Q at the end",
            remedy=CUT_OFF,
        )
    return sections


def lines_after(head: RawLine) -> int:
    """How many lines belong to a transformer after its first, whose third column is 0 where there
    are two windings.
    """
    return 3 if len(head.fields) < 3 or fortran_number(head.fields[2]) in (None, 0) else 4


def _check_title(text: str, name: str, known: bool, place: Mapping[str, Any]) -> None:
    """Refuse a terminator that names another section: a record 0 is missing or one too many before
    it.
    """
    found = re.search(r"END OF\s+(.*?)(?:,|\bDATA\b|\bBEGIN\b|$)", text, re.IGNORECASE)
    titled = next(
        (title for title, words in TITLES if found and re.search(words, found[1], re.IGNORECASE)),
        name,
    )
    if known and titled != name:
        raise InputError(
            f"the {titled} data end where the {name} data should",
            **place,
            expected="the sections in the order of the file's revision, each ended by one record 0",
            remedy="Check the revision in the header, and whether a line is missing.",
        )
