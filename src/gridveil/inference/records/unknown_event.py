"""Events of which not all is known, in words: "unknown:total=+0.3@10s", or "unknown"."""

from __future__ import annotations

import re

from gridveil.foundation.limits import LONGEST_OPTION
from gridveil.inference.records.refusing import refusal

EXPECTED = (
    '"unknown", or "unknown:total=+0.3" in p.u. or "unknown:total=+30MW", each with an '
    'optional time such as "@10s"'
)
SIZE_EXPECTED = 'two sizes above 0, the smaller first, such as "0.05:2" p.u. or "5:200MW"'
_NUMBER = r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?"
_SIZE = rf"({_NUMBER})\s*(MW|pu|p\.u\.)?"


def is_unknown(event: str) -> bool:
    """Whether an event in words is one of unknown place."""
    return re.match(r"\s*unknown\b", event) is not None


def read_unknown(event: str, base_mva: float, file: str) -> tuple[float, float]:
    """Read what is known of it: the load it adds in all [p.u. power], 0 where that is unknown too,
    and its time [s].
    """
    pattern = rf"\s*unknown\s*(?::\s*total\s*=\s*{_SIZE}\s*)?(?:@\s*({_NUMBER})\s*s?\s*)?"
    match = re.fullmatch(pattern, event) if len(event) <= LONGEST_OPTION else None
    if not match:
        raise refusal(f"the event {event!r} cannot be read", file=file, expected=EXPECTED)
    number, unit, time = match.groups()
    total = _per_unit(number, unit, base_mva) if number else 0.0
    if number and not total:
        raise refusal("the event's total is 0", file=file, expected="what it added or took in all")
    if time and float(time) < 0:
        raise refusal(
            "the event's time is negative", file=file, expected="seconds after event_time"
        )
    return total, float(time) if time else 0.0


def read_size(text: str, base_mva: float, file: str) -> tuple[float, float]:
    """Read public bounds of a size [p.u. power]; a unit behind the last stands for both."""
    match = (
        re.fullmatch(rf"\s*{_SIZE}\s*:\s*{_SIZE}\s*", text) if len(text) <= LONGEST_OPTION else None
    )
    if match:
        low, low_unit, high, high_unit = match.groups()
        lower, upper = (
            _per_unit(low, low_unit or high_unit, base_mva),
            _per_unit(high, high_unit, base_mva),
        )
        if 0 < lower < upper < float("inf"):
            return lower, upper
    raise refusal(f"event_size {text!r} cannot be used", file=file, expected=SIZE_EXPECTED)


def _per_unit(number: str, unit: str | None, base_mva: float) -> float:
    return float(number) / base_mva if unit == "MW" else float(number)
