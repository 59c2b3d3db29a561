"""What every RAW file of revision 33 has: its sections, in order, and how they end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

SECTIONS = (
    "BUS",
    "LOAD",
    "FIXED SHUNT",
    "GENERATOR",
    "BRANCH",
    "TRANSFORMER",
    "AREA",
    "TWO-TERMINAL DC",
    "VOLTAGE SOURCE CONVERTER",
    "IMPEDANCE CORRECTION",
    "MULTI-TERMINAL DC",
    "MULTI-SECTION LINE",
    "ZONE",
    "INTER-AREA TRANSFER",
    "OWNER",
    "FACTS DEVICE",
    "SWITCHED SHUNT",
    "GNE DEVICE",
    "INDUCTION MACHINE",
)
OWNERS = (1, 1.0, 0, 1.0, 0, 1.0, 0, 1.0)


def raw_text(heading: Sequence[str], records: Mapping[str, Iterable[str]]) -> str:
    """Put a file together: three lines of heading, then the records of each section."""
    text = [*heading]
    for section, following in zip(SECTIONS, (*SECTIONS[1:], ""), strict=True):
        text += records.get(section, ())
        text.append(
            f"0 / END OF {section} DATA" + (f", BEGIN {following} DATA" if following else "")
        )
    return "\n".join([*text, "Q", ""])
