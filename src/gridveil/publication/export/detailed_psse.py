"""PSS/E: a case with devices as RAW of revision 33 with its DYR."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from gridveil.dynamics.detailed.fields import INERTIA, PAIR, RECORDS, WRITTEN, DyrRecord
from gridveil.foundation.errors import GridveilError
from gridveil.grid.case import DetailedCase
from gridveil.publication.export.common import BASE_KV, NOT_WRITTEN
from gridveil.publication.export.detailed import Written
from gridveil.publication.export.raw import OWNERS, raw_text

RAW, DYR = "network.raw", "network.dyr"
# Devices that are written as another one, and what is lost.
WRITTEN_AS = {"TGOV1N": "TGOV1"}
# What ANDES's reader of DYR files makes of a model.
IN_ANDES = {
    "GENSAL": "ANDES reads GENSAL as GENROU, with Tq10 equal to Td10.",
    "REGFMA1": "ANDES does not read REGFMA1: use another program.",
}
WHOLE = frozenset(
    ("BUS2", "ID2", "MODE", "BUSR", "MODE2", "BUSR2", "Switch", "VFlag", "QVFlag", "Lvplsw")
)
ANDES_HZ = 60.0
MOST_OF_A_KIND = 99  # identifiers have two characters
# Reactances of a source that PSS/E has in ZSORCE, by machine.
SOURCE = {"GENROU": "xd2", "GENSAL": "xd2"}
NO_SOURCE = 9999.0  # of a current source [p.u.]


def detailed_raw_dyr(case: DetailedCase) -> dict[str, bytes]:
    """Write the network at its operating point, and every device; contents by file name.

    Loads are split into PL, IP and YP at the case's own voltages.
    """
    written = Written.of(case)
    _check(written)
    return {
        RAW: _raw(written).encode("ascii"),
        DYR: _dyr(written, (*raw_dyr_notes(case), *written.notes)).encode("ascii"),
    }


def raw_dyr_notes(case: DetailedCase) -> tuple[str, ...]:
    """Say what the files cannot carry, and what ANDES cannot read of them."""
    notes = ["MBASE is SBASE for every machine: ratings are not released."]
    for table in case.devices:
        record = RECORDS.get(WRITTEN_AS.get(table.model, table.model))
        if record is None:
            notes.append(f"PSS/E has no {table.model}: left out.")
            continue
        if record.model != table.model and table.model in WRITTEN_AS:
            notes.append(f"{table.model} is written as {record.model}.")
        for own, other in record.same.items():
            if own in table.values and np.any(table.values[own] != table.values[other]):
                notes.append(f"{record.model} has no {own} of its own: {other} stands for it.")
        if record.model in IN_ANDES:
            notes.append(IN_ANDES[record.model])
    notes.append("ANDES takes loads as constant impedances unless its settings say otherwise.")
    if case.frequency_hz != ANDES_HZ:
        notes.append(
            f"ANDES takes {ANDES_HZ:g} Hz for machines of a DYR: set their fn to "
            f"{case.frequency_hz!r}."
        )
    return tuple(notes)


def _check(written: Written) -> None:
    """Refuse what two characters cannot number, and a unit whose model PSS/E does not have."""
    pairs = np.sort(written.case.branches.ends, axis=1)
    _, parallel = np.unique(pairs, axis=0, return_counts=True)
    most = max(*written.number, *parallel.tolist(), 0)
    if most > MOST_OF_A_KIND:
        raise GridveilError(
            f"A bus has more than {MOST_OF_A_KIND} units, or a pair of buses as many branches, "
            "which PSS/E cannot number.",
            outcome=NOT_WRITTEN,
            remedy="Use the ANDES format.",
        )
    for unit in range(len(written.number)):
        if (model := written.source(unit)[0]) not in RECORDS:
            raise GridveilError(
                f"PSS/E has no {model}, which a unit of this case is.",
                outcome=NOT_WRITTEN,
                remedy="Use another format.",
            )


def _raw(written: Written) -> str:
    case = written.case
    records: dict[str, Iterable[str]] = {
        "BUS": _buses(written),
        "LOAD": _loads(written),
        "FIXED SHUNT": _shunts(case),
        "GENERATOR": _generators(written),
        "BRANCH": _lines(case),
        "TRANSFORMER": _transformers(case),
        "AREA": ("1, 0, 0.0, 10.0, 'RELEASE     '",),
        "ZONE": ("1, 'RELEASE     '",),
        "OWNER": ("1, 'RELEASE     '",),
    }
    text = [
        f"0, {case.base_mva!r}, 33, 0, 0, {case.frequency_hz!r} / SBASE [MVA], BASFRQ [Hz]",
        "gridveil release: a synthetic case with devices",
        "buses have neutral names; voltages are those of its own power flow",
    ]
    return raw_text(text, records)


def _record(*fields: object) -> str:
    return ", ".join(
        field
        if isinstance(field, str)
        else repr(float(field))
        if isinstance(field, float)
        else repr(field)
        for field in fields
    )


def _identifier(number: int) -> str:
    return f"'{number:<2}'"


def _buses(written: Written) -> Iterator[str]:
    """I, NAME, BASKV, IDE, AREA, ZONE, OWNER, VM, VA, NVHI, NVLO, EVHI, EVLO."""
    held = set(written.case.units.bus.tolist())
    angle = np.rad2deg(np.angle(written.equilibrium.voltage))
    for bus, name in enumerate(written.names):
        kind = 3 if bus == written.reference else 2 if bus in held else 1
        place = (float(written.voltage[bus]), float(angle[bus]))
        yield _record(bus + 1, f"'{name:<12}'", BASE_KV, kind, 1, 1, 1, *place, 1.1, 0.9, 1.1, 0.9)


def _loads(written: Written) -> Iterator[str]:
    """I, ID, STATUS, AREA, ZONE, PL, QL, IP, IQ, YP, YQ, OWNER, SCALE, INTRPT."""
    loads, base, seen = written.case.loads, written.case.base_mva, {}
    for row, bus in enumerate(loads.bus.tolist()):
        seen[bus] = seen.get(bus, 0) + 1
        v = float(written.voltage[bus])
        parts: list[float] = []
        for share, scale in (
            (1 - loads.impedance[row] - loads.current[row], 1.0),
            (loads.current[row], v),
            (loads.impedance[row], v * v),
        ):
            power = loads.power[row]
            parts += [float(share[0] * power.real / scale), float(share[1] * power.imag / scale)]
        parts[5] = -parts[5]  # YQ is a susceptance
        mw = [part * base + 0.0 for part in parts]
        yield _record(bus + 1, _identifier(seen[bus]), 1, 1, 1, *mw, 1, 1, 0)


def _transforming(case: DetailedCase) -> np.ndarray:
    return case.branches.ratio != 1


def _shunts(case: DetailedCase) -> Iterator[str]:
    """I, ID, STATUS, GL, BL; the charging of transformers is part of it."""
    branches, total = case.branches, case.shunt.astype(complex)
    turns = _transforming(case)
    half = 0.5j * branches.charging[turns]
    np.add.at(total, branches.ends[turns, 0], half / np.abs(branches.ratio[turns]) ** 2)
    np.add.at(total, branches.ends[turns, 1], half)
    for bus in np.flatnonzero(total):
        power = total[bus] * case.base_mva
        yield _record(int(bus) + 1, "'1 '", 1, float(power.real), float(power.imag))


def _generators(written: Written) -> Iterator[str]:
    """I, ID, PG, QG, QT, QB, VS, IREG, MBASE, ZR, ZX, RT, XT, GTAP, STAT, RMPCT, PT, PB, owners."""
    case = written.case
    for unit, bus in enumerate(case.units.bus.tolist()):
        power = written.equilibrium.power[unit] * case.base_mva
        yield _record(
            bus + 1,
            _identifier(written.number[unit]),
            float(power.real),
            float(power.imag),
            9999.0,
            -9999.0,
            float(written.voltage[bus]),
            0,
            float(case.base_mva),
            *_source(written, unit),
            0.0,
            0.0,
            1.0,
            1,
            100.0,
            9999.0,
            -9999.0,
            *OWNERS,
            0,
            1.0,
        )


def _source(written: Written, unit: int) -> tuple[float, float]:
    """ZSORCE, r and x [p.u.]."""
    model, values = written.source(unit)
    named = {part: own for own, part in RECORDS[model].source.items()}
    r = values.get(named.get("r", ""), 0.0)
    return r, values.get(named.get("x") or SOURCE.get(model, ""), NO_SOURCE)


def _circuits(case: DetailedCase) -> list[int]:
    """The number of each branch among those of its pair of buses."""
    seen: dict[tuple[int, ...], int] = {}
    found = []
    for pair in np.sort(case.branches.ends, axis=1).tolist():
        seen[tuple(pair)] = seen.get(tuple(pair), 0) + 1
        found.append(seen[tuple(pair)])
    return found


def _lines(case: DetailedCase) -> Iterator[str]:
    """I, J, CKT, R, X, B, RATEA, RATEB, RATEC, GI, BI, GJ, BJ, ST, MET, LEN, O1, F1, ..."""
    branches, circuits = case.branches, _circuits(case)
    for row in np.flatnonzero(~_transforming(case)).tolist():
        i, j = (branches.ends[row] + 1).tolist()
        z, b = branches.series[row], float(branches.charging[row])
        yield _record(
            i, j, _identifier(circuits[row]), float(z.real), float(z.imag), b, *([0.0] * 7),
            1, 1, 0.0, *OWNERS,
        )  # fmt: skip


def _transformers(case: DetailedCase) -> Iterator[str]:
    """Four lines each: I, J, K, CKT, CW, CZ, CM, MAG1, MAG2, NMETR, NAME, STAT, O1, F1; R1-2, X1-2,
    SBASE1-2; WINDV1, NOMV1, ANG1, ratings, controls; WINDV2, NOMV2.
    """
    branches, circuits = case.branches, _circuits(case)
    for number, row in enumerate(np.flatnonzero(_transforming(case)).tolist(), start=1):
        i, j = (branches.ends[row] + 1).tolist()
        z, t = branches.series[row], branches.ratio[row]
        size = float(np.abs(t))
        name = f"'{f'T{number}':<12}'"
        yield _record(i, j, 0, _identifier(circuits[row]), 1, 1, 1, 0.0, 0.0, 2, name, 1, *OWNERS)
        yield _record(float(z.real), float(z.imag), float(case.base_mva))
        limits = (0, 0, 1.1, 0.9, 1.1, 0.9, 33, 0, 0.0, 0.0, 0.0)
        yield _record(size, 0.0, float(np.rad2deg(np.angle(t))), 0.0, 0.0, 0.0, *limits)
        yield _record(1.0, 0.0)


def _dyr(written: Written, notes: Iterable[str]) -> str:
    text = [
        f"// {line}"
        for line in (
            "gridveil release: a synthetic case with devices. Constants are in the order of PSS/E,",
            f"in p.u. of MBASE = {written.case.base_mva!r} MVA.",
            *notes,
        )
    ]
    for unit, bus in enumerate(written.case.units.bus.tolist()):
        for model, values in written.devices[unit].values():
            record = RECORDS.get(WRITTEN_AS.get(model, model))
            if record is not None:
                constants = " ".join(_constants(record, values))
                text.append(f"{bus + 1} '{record.model}' {written.number[unit]} {constants} /")
    return "\n".join([*text, ""])


def _constants(record: DyrRecord, values: Mapping[str, float]) -> Iterator[str]:
    for name in record.constants:
        value = values["M"] / 2 if name == INERTIA else values.get(name, WRITTEN.get(name, 0.0))
        yield str(int(value)) if name in WHOLE or name in PAIR else repr(float(value))
