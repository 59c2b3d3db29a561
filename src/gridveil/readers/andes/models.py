"""ANDES's models: which are left out, under which word, and which columns the read ones have."""

from __future__ import annotations

from collections.abc import Mapping

from gridveil.readers.table import words

# Neither equipment nor a machine's data: events, areas, measurements and outputs say nothing about
# the grid itself.
IGNORED = words(
    "_config Summary Output Toggle Toggler Fault Alter TimeSeries Area ACE ACEc Owner Region COI "
    "BusFreq BusROCOF PMU PLL1 PLL2 FreqDiv"
)
LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "exciters left out": words(
        "EXDC2 IEEEX1 ESDC1A ESDC2A EXST1 ESST3A SEXS IEEET1 EXAC1 EXAC2 EXAC4 ESST4B AC8B IEEET3 "
        "ESAC1A ESST1A ESAC5A"
    ),
    "stabilizers and compensators left out": ("IEEEST", "ST2CUT", "IEEEVC"),
    "switched shunts held at their first value": ("ShuntSw",),
    "playback generators left out; their static generators are machines without dynamics": (
        "PLBVFU1",
    ),
    "converters left out; their static generators are machines without dynamics": words(
        "REGCA1 REGCP1 REGCV1 REGCV2 REGCVSG REGCVSG2 REGF1 REGF2 REGF3 PVD1 ESD1 EV1 EV2"
    ),
    "controls of converters left out": words(
        "REECA1 REECA1E REECA1G REECB1 REPCA1 WTDTA1 WTDS WTARA1 WTPTA1 WTTQA1 WTARV1 DGPRCT1 "
        "DGPRCTExt"
    ),
    "loads' own dynamics left out": ("ZIP", "FLoad"),
    "motors left out": ("Motor3", "Motor5"),
    "multi-mass shafts left out": ("SHAFT5",),
    "DC devices left out": words("Node Ground R L C RCp RCs RLs RLCs RLCp VSCShunt"),
    "three-phase interfaces left out": ("Fortescue",),
}
# Models of LEFT_OUT that are no part of a generating unit.
BESIDE = words(
    "ZIP FLoad Motor3 Motor5 SHAFT5 Node Ground R L C RCp RCs RLs RLCs RLCp VSCShunt Fortescue"
)

_DEVICE = "uid idx u name owner"
_STATIC = f"{_DEVICE} Sn Vn bus busr subidx p0 q0 pmax pmin qmax qmin v0 vmax vmin ra xs wmod"
_SHUNT = f"{_DEVICE} bus Sn Vn g b fn"
# A misspelt name would silently leave its default in place: where that would change k, it is said.
KNOWN_COLUMNS: Mapping[str, frozenset[str]] = {
    name: frozenset(words(columns))
    for name, columns in {
        "Bus": f"{_DEVICE} Vn vmax vmin v0 a0 xcoord ycoord area zone",
        "PQ": f"{_DEVICE} bus Vn p0 q0 vmax vmin",
        "PV": _STATIC,
        "Slack": f"{_STATIC} a0",
        "Shunt": _SHUNT,
        "ShuntSw": f"{_SHUNT} gs bs ns vref dv dt",
        "ShuntTD": _SHUNT,
        "Line": f"{_DEVICE} bus1 bus2 Sn fn Vn1 Vn2 r x b g b1 g1 b2 g2 trans tap phi rate_a "
        "rate_b rate_c xcoord ycoord",
        "Jumper": f"{_DEVICE} bus1 bus2",
    }.items()
}
