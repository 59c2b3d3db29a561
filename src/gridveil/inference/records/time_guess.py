"""Which columns of a file are its times, and in which format: a guess for its owner to check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from gridveil.foundation.reading import plain_number
from gridveil.inference.records.refusing import refusal
from gridveil.inference.records.times import (
    FORMATS,
    LATEST_EPOCH_S,
    NUMBERS,
    check_format,
    seconds_of,
)

DAYS = (
    *("%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%d-%B-%Y", "%d %B %Y", "%d-%b-%y"),
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y"),
)
CLOCKS = ("%H:%M:%S", "%I:%M:%S %p", "%H:%M:%S %z", "%H:%M:%S%z")
PATTERNS = tuple(
    f"{day}{between}{clock}" for day, between, clock in product(DAYS, (" ", ", ", "T"), CLOCKS)
)
EARLIEST_EPOCH_S = 1e8  # 1973
MOST_COLUMNS = 50  # among which times are looked for
_CLOCK = re.compile(r"\d:\d\d")
ABOVE, FEWEST = 3, 3  # rows of names and units, and of samples


@dataclass(frozen=True)
class Times:
    """Where times stand, and how they are written."""

    places: tuple[int, ...]
    time_format: str

    def is_time(self, cells: Sequence[str], decimal: str) -> bool:
        """Whether a row has a time there."""
        return seconds_of(_text(cells, self.places, decimal), self.time_format) is not None


def find_times(
    rows: Sequence[Sequence[str]], decimal: str, time_format: str | None, file: str
) -> Times:
    """Find the times in rows of one width, of which the first few may be no samples.

    Timestamps come before numbers, and one column before two; of numbers, the first column that
    grows.
    """
    if time_format is not None:
        check_format(time_format, file)
    sample = rows[ABOVE:][:200]
    width = min(len(sample[0]), MOST_COLUMNS) if sample else 0
    singles = [(place,) for place in range(width)]
    pairs = [(place, place + 1) for place in range(width - 1)]
    growing: Times | None = None
    for places in (*singles, *pairs):
        texts = [_text(cells, places, decimal) for cells in sample]
        found = _format(texts, time_format) if len(texts) >= FEWEST else None
        if found == "seconds" and time_format is None:
            growing = growing or (Times(places, found) if len(places) == 1 else None)
        elif found is not None:
            return Times(places, found)
    if growing is not None:
        return growing
    raise refusal(
        "no column looks like times" if time_format is None else "no column has such times",
        file=file,
        expected=f"times in {FORMATS}",
        remedy="Say how they are written with --time-format, such as '%d-%b-%Y %H:%M:%S'.",
    )


def _text(cells: Sequence[str], places: Sequence[int], decimal: str) -> str:
    if max(places) >= len(cells):
        return ""
    text = " ".join(cells[place] for place in places)
    return text.replace(",", ".", 1) if decimal == "," and "." not in text else text


def _format(texts: Sequence[str], wanted: str | None) -> str | None:
    """The format in which all texts are times that do not go back; None: there is none."""
    if wanted is not None:
        return wanted if _span(texts, wanted) is not None else None
    numbers = [plain_number(text) for text in texts]
    if None not in numbers:
        first = numbers[0] or 0.0
        for name in ("epoch", "epoch-ms", "epoch-us", "epoch-ns"):
            scale = NUMBERS[name]
            if EARLIEST_EPOCH_S * scale <= first < LATEST_EPOCH_S * scale:
                return name if _span(texts, name) is not None else None
        return "seconds" if _span(texts, "seconds") else None
    if _span(texts, "iso") is not None:
        return "iso"
    if not all(_CLOCK.search(text) for text in texts):
        return None
    # A day and a month may be told apart only by which order makes the shorter record.
    spans = {
        pattern: span
        for pattern in PATTERNS
        if seconds_of(texts[0], pattern) is not None and (span := _span(texts, pattern)) is not None
    }
    return min(spans, key=lambda pattern: spans[pattern]) if spans else None


def _span(texts: Sequence[str], time_format: str) -> float | None:
    """From the first to the last time [s]; None where one is no time, or goes back."""
    last = first = None
    for text in texts:
        found = seconds_of(text, time_format)
        if found is None or (last is not None and found[0] < last):
            return None
        last = found[0]
        first = last if first is None else first
    return None if first is None or last is None else last - first
