"""Constants of devices in the order of PSS/E's DYR records, by the names that ANDES has for them.

A record is `BUS 'MODEL' ID constants /`. Readers and exports share this one table. The order is
that of the PSS/E model library; that of REGFMA1 is what its authors at PNNL set by number in their
PSS/E tests. Constants that no equation has (flags, remote buses) keep their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DyrRecord:
    """How PSS/E writes a device.

    model : its name in a DYR file.
    constants : names in order; H stands for M / 2.
    brief : constants of an older form of the record, told by its length.
    source : what comes from the machine's ZSORCE in the RAW file: "r" or "x", by name.
    same : what PSS/E has no constant for, because it equals another.
    """

    model: str
    constants: tuple[str, ...]
    brief: tuple[str, ...] = ()
    source: Mapping[str, str] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)


def _record(model: str, constants: str, *, brief: str = "", **more: Mapping[str, str]) -> DyrRecord:
    return DyrRecord(model, tuple(constants.split()), tuple(brief.split()), **more)


_DC = "TR KA TA TB TC VRMAX VRMIN KE TE {} TF1 Switch E1 SE1 E2 SE2"
_REGFM = "TPf TQf TVf Imax Emax Emin Pmax Pmin Qmax Qmin mp mq kppmax kipmax kpqmax kiqmax kpv kiv"
INERTIA = "H"  # [s]; everywhere else it is M = 2 H
PAIR = ("BUS2", "ID2")  # a second machine that the governor drives
# Constants of no equation that a record must have all the same, wide or usual; others are 0.
WRITTEN: Mapping[str, float] = {
    "VFlag": 1.0,
    "QVFlag": 1.0,
    "Qmax": 9.9,
    "Qmin": -9.9,
    "kppmax": 0.01,
    "kipmax": 0.1,
    "kpqmax": 3.0,
    "kiqmax": 20.0,
    "Rrpwr": 10.0,
    "Brkpt": 0.9,
    "Zerox": 0.5,
    "Lvpl1": 1.22,
    "Tfltr": 0.02,
    "Iqrmax": 99.0,
    "Iqrmin": -99.0,
    "Accel": 0.7,
}

# By the device's name.
RECORDS: Mapping[str, DyrRecord] = {
    "GENCLS": _record("GENCLS", "H D", source={"ra": "r", "xd1": "x"}),
    "GENROU": _record(
        "GENROU",
        "Td10 Td20 Tq10 Tq20 H D xd xq xd1 xq1 xd2 xl S10 S12",
        source={"ra": "r"},
        same={"xq2": "xd2"},
    ),
    "GENSAL": _record(
        "GENSAL",
        "Td10 Td20 Tq20 H D xd xq xd1 xd2 xl S10 S12",
        source={"ra": "r"},
        same={"xq2": "xd2"},
    ),
    "SEXS": _record("SEXS", "TATB TB K TE EMIN EMAX"),
    "EXST1": _record("EXST1", "TR VIMAX VIMIN TC TB KA TA VRMAX VRMIN KC KF TF"),
    "EXDC2": _record("EXDC2", _DC.format("KF1")),
    "IEEEX1": _record("IEEEX1", _DC.format("KF1")),
    "ESDC1A": _record("ESDC1A", _DC.format("KF")),
    "ESDC2A": _record("ESDC2A", _DC.format("KF")),
    "IEEET1": _record("IEEET1", "TR KA TA VRMAX VRMIN KE TE KF TF Switch E1 SE1 E2 SE2"),
    "IEEEST": _record(
        "IEEEST", "MODE BUSR A1 A2 A3 A4 A5 A6 T1 T2 T3 T4 T5 T6 KS LSMAX LSMIN VCU VCL"
    ),
    "TGOV1": _record("TGOV1", "R T1 VMAX VMIN T2 T3 Dt"),
    "IEEEG1": _record(
        "IEEEG1",
        "BUS2 ID2 K T1 T2 T3 UO UC PMAX PMIN T4 K1 K2 T5 K3 K4 T6 K5 K6 T7 K7 K8",
    ),
    "HYGOV": _record("HYGOV", "R r Tr Tf Tg VELM GMAX GMIN Tw At Dt qNL"),
    "GAST": _record("GAST", "R T1 T2 T3 AT KT VMAX VMIN Dt"),
    "REGFM_A1": _record(
        "REGFMA1",
        f"VFlag QVFlag {_REGFM}",
        brief=f"VFlag {_REGFM}",
        source={"Re": "r", "XL": "x"},
    ),
    "ESST3A": _record(
        "ESST3A",
        "TR VIMAX VIMIN KM TC TB KA TA VRMAX VRMIN KG KP KI VBMAX KC XL VGMAX THETAP TM VMMAX "
        "VMMIN",
    ),
    "IEESGO": _record("IEESGO", "T1 T2 T3 T4 T5 T6 K1 K2 K3 PMAX PMIN"),
    "ST2CUT": _record(
        "ST2CUT",
        "MODE BUSR MODE2 BUSR2 K1 K2 T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 LSMAX LSMIN VCU VCL",
    ),
    "REGCA1": _record(
        "REGCA1",
        "Lvplsw Tg Rrpwr Brkpt Zerox Lvpl1 Volim Lvpnt1 Lvpnt0 Iolim Tfltr Khv Iqrmax Iqrmin Accel",
    ),
}
# What a DYR file calls a device, by that name: PSS/E's own, and others that are in use.
NAMES: Mapping[str, str] = {
    **{record.model: name for name, record in RECORDS.items()},
    "REGFM_A1": "REGFM_A1",
}
