"""PSS/E dynamics (DYR): inertia and damping of machines, gain and rate of governors.

A record is `BUS 'MODEL' ID constants /`, over as many lines as it likes. Per unit of the machine's
own base MBASE they are scaled to the system's: M = 2 H MBASE/SBASE, D MBASE/SBASE, G = K
MBASE/SBASE; GGOV1 has a base Trate of its own.

How a governor becomes a gain and a rate is in `gridveil.readers.governors`.

The constants of each are in `GOVERNORS`. Dt adds to D; of IEEEG1 and WSIEG1, odd K are for the
machine, even ones for the second.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from math import isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import MOST_VALUES
from gridveil.foundation.reading import fortran_number, read_lines
from gridveil.readers import governors
from gridveil.readers.governors import Response
from gridveil.readers.network import FileGrid, unknown_dynamics
from gridveil.readers.psse.records import INTEGER, fields_of
from gridveil.readers.roles import LIMITER, role_of

Key = tuple[int, str]  # bus and identifier of a machine
# Where H and D stand, and how many constants there are: PSS/E has written GENTPJ with one or two
# after the 15 of GENTPF.
MACHINES: Mapping[str, tuple[int, range]] = {
    "GENCLS": (0, range(2, 3)),
    **dict.fromkeys(("GENROU", "GENROE"), (4, range(14, 15))),
    **dict.fromkeys(("GENSAL", "GENSAE"), (3, range(12, 13))),
    **dict.fromkeys(("GENTPF", "GENTPF1", "GENTPJ", "GENTPJ1", "GENTPJU1"), (4, range(15, 18))),
}
# Compensators of reactive power, which act on voltage alone, as exciters do.
COMPENSATOR = re.compile(r"SVSMO|CSVGN|CSSCST")


class DyrGovernor(NamedTuple):
    """A governor.

    response : p.u. of base_mva, which is 0 for the machine's own, or for that of the machine `of`.
    """

    response: Response
    base_mva: float = 0.0
    of: Key | None = None


class DyrEntry(NamedTuple):
    """A record. fields : all after the model's name."""

    row: int
    line: int
    bus: str | None
    model: str
    fields: list[str | None]


@dataclass(frozen=True, eq=False)
class DyrDynamics:
    """What a DYR file says: H and D of machines, governors, which machines have one that is not
    read, what is left out; and all its records.
    """

    file: str
    machines: Mapping[Key, tuple[float, float]]
    governors: Mapping[Key, DyrGovernor]
    unread: frozenset[Key]
    notes: tuple[str, ...]
    entries: Sequence[DyrEntry]


class DyrModel(NamedTuple):
    """A governor model.

    respond : how it acts, from the constants that it takes by name.
    constants : all, in PSS/E's order; limits and flags, which may be negative, with a minus.
    droop : the one that must lie above 0, if any.
    more : how many may follow; paired : whether a second machine comes before the constants.
    """

    respond: Callable[..., Response]
    constants: str
    droop: str = ""
    more: int = 0
    paired: bool = False

    @property
    def names(self) -> list[str]:
        """Names of the constants, without signs."""
        return [name.removeprefix("-") for name in self.constants.split()]

    @property
    def counts(self) -> range:
        """How many constants there may be, a second machine aside."""
        fewest = len(self.constants.split())
        return range(fewest, fewest + self.more + 1)

    @property
    def signed(self) -> frozenset[int]:
        """Where constants stand that may be negative."""
        signs = [name.startswith("-") for name in self.constants.split()] + [True] * self.more
        return frozenset(place for place, sign in enumerate(signs) if sign)

    def governors(self, constants: Sequence[float]) -> list[DyrGovernor]:
        """The governor of a record, or two where it has a second machine."""
        named = dict(zip(self.names, constants, strict=False))
        taken = [name for name in signature(self.respond).parameters if name in named]
        respond = partial(self.respond, **{name: named[name] for name in taken})
        if self.paired:
            shares = [tuple(named[f"K{n}"] for n in range(first, 9, 2)) for first in (1, 2)]
            return [DyrGovernor(respond(shares=own)) for own in shares]
        if "Rselect" not in named:
            return [DyrGovernor(respond())]
        if named["Rselect"] == 0:
            return [DyrGovernor(Response(nan, nan))]  # isochronous: no droop, hence no gain
        response = respond(on_electric_power=named["Rselect"] == 1)
        return [DyrGovernor(response, base_mva=max(named["Trate"], 0.0))]


_IEEEG1 = "K T1 T2 T3 -Uo -Uc -Pmax -Pmin T4 K1 K2 T5 K3 K4 T6 K5 K6 T7 K7 K8"
_GGOV1 = (
    "-Rselect -Flag R Tpelec -maxerr -minerr Kpgov Kigov Kdgov Tdgov -vmax -vmin Tact Kturb -Wfnl "
    "Tb Tc Teng -Tfload -Kpload -Kiload -Ldref -Dm -Ropen -Rclose -Kimw -Aset -Ka -Ta -Trate -db "
    "-Tsa -Tsb -Rup -Rdown"
)
GOVERNORS: Mapping[str, DyrModel] = {
    "TGOV1": DyrModel(governors.tgov1, "R T1 -Vmax -Vmin T2 T3 Dt", "R"),
    "GAST": DyrModel(governors.gast, "R T1 T2 T3 AT KT -Vmax -Vmin Dt", "R"),
    "IEEEG1": DyrModel(governors.ieeeg1, _IEEEG1, paired=True),
    "WSIEG1": DyrModel(governors.ieeeg1, _IEEEG1, more=15, paired=True),
    "IEEEG2": DyrModel(governors.ieeeg2, "K T1 T2 T3 -Pmax -Pmin T4"),
    "IEEEG3": DyrModel(
        governors.ieeeg3, "TG TP -Uo -Uc -Pmax -Pmin sigma delta TR TW a11 a13 a21 a23", "sigma"
    ),
    "IEESGO": DyrModel(governors.ieesgo, "T1 T2 T3 T4 T5 T6 K1 K2 K3 -Pmax -Pmin"),
    "HYGOV": DyrModel(governors.hygov, "R r Tr Tf Tg -Velm -Gmax -Gmin Tw At Dturb -qNL", "R"),
    "GGOV1": DyrModel(governors.ggov1, _GGOV1, "R"),
}


def read_dyr(path: Path) -> DyrDynamics:
    """Read the machines and governors of a DYR file; every other model is counted by name."""
    file = path.name
    machines: dict[Key, tuple[float, float]] = {}
    governed: dict[Key, DyrGovernor] = {}
    unread: set[Key] = set()
    others: Counter[str] = Counter()
    isochronous = 0
    entries = _entries(path)
    for entry in entries:
        if entry.model in MACHINES:
            key, (at, counts) = key_of(file, entry, entry.fields), MACHINES[entry.model]
            constants = constants_of(
                file, entry, entry.fields[1:], counts, frozenset(range(counts.stop)) - {at, at + 1}
            )
            _once(file, entry, key in machines)
            machines[key] = (constants[at], constants[at + 1])
        elif entry.model in GOVERNORS:
            for key, governor in _governors(file, entry):
                _once(file, entry, key in governed or key in unread)
                if isfinite(governor.response.gain):
                    governed[key] = governor
                else:
                    unread.add(key)
                    isochronous += 1
        else:
            others[entry.model] += 1
            if role_of(entry.model) == "governor" and (key := loose_key(entry)):
                unread.add(key)
    notes = _notes(others)
    if isochronous:
        notes.append(f"{isochronous} isochronous governors left out: the settings' droop stands in")
    return DyrDynamics(file, machines, governed, frozenset(unread), tuple(notes), entries)


def entry_error(
    file: str,
    entry: DyrEntry,
    problem: str,
    expected: str,
    remedy: str = "Fix that record and try again.",
) -> InputError:
    """Say what is wrong with a record, by its place in the file."""
    return InputError(
        problem,
        file=file,
        table=entry.model,
        row=entry.row,
        line=entry.line,
        expected=expected,
        remedy=remedy,
    )


def _entries(path: Path) -> list[DyrEntry]:
    """Split the file into records, each up to a slash; what follows the slash in its line is a
    comment.
    """
    entries: list[DyrEntry] = []
    fields: list[str | None] = []
    start = count = 0
    lines = read_lines(path, "a PSS/E DYR file")
    for line, text in enumerate(lines, start=1):
        if text.startswith("@!"):
            continue
        parts = fields_of(text)
        if parts is None:
            raise InputError(
                "a quote is not closed",
                file=path.name,
                line=line,
                expected="texts in pairs of quotes",
            )
        start = start if fields else line
        fields += parts
        count += len(parts)
        if count > MOST_VALUES:
            problem = f"the file has more than {MOST_VALUES} fields"
            raise InputError(problem, file=path.name, line=line, expected="models of machines")
        if "/" in re.sub(r"'[^']*'|\"[^\"]*\"", "", text):
            if fields:
                entries.append(_entry(path.name, len(entries) + 1, start, fields))
            fields = []
    if fields or not entries:
        raise InputError(
            "the file ends inside a record: it is cut off" if fields else "there is no record",
            file=path.name,
            line=start if fields else None,
            expected="BUS 'MODEL' ID constants /",
            remedy="Copy the whole file again.",
        )
    return entries


def _entry(file: str, row: int, line: int, fields: list[str | None]) -> DyrEntry:
    name = (fields[1] or "") if len(fields) > 1 else ""
    model = name.removeprefix("'").strip().upper()
    if not name.startswith("'") or not re.fullmatch(r"[A-Z][\w-]{0,15}", model, re.ASCII):
        raise InputError(
            "the second item is no model's name",
            file=file,
            row=row,
            line=line,
            expected="BUS 'MODEL' ID constants /",
            remedy="Check whether the slash of the record before it is missing.",
        )
    own = (fields[3] or "").removeprefix("'").strip().upper() if len(fields) > 3 else ""
    if model == "USRMDL" and own in MACHINES:  # ID 'MODEL' IC IT NI NC NS NV, then the constants
        return DyrEntry(row, line, fields[0], own, [fields[2], *fields[10:]])
    entry = DyrEntry(row, line, fields[0], model, fields[2:])
    inside = {
        (text or "").removeprefix("'").strip().upper()
        for text in fields[3:]
        if (text or "").startswith("'")
    }
    if inside & (MACHINES.keys() | GOVERNORS.keys()):
        raise entry_error(
            file, entry, "another record begins inside this one", "a slash after every record"
        )
    return entry


def loose_key(entry: DyrEntry) -> Key | None:
    """The machine of a record that is not read any further, if it looks like one's."""
    if not entry.fields or entry.fields[0] is None or not INTEGER.fullmatch(entry.bus or ""):
        return None
    return int(entry.bus or ""), entry.fields[0].removeprefix("'").strip()


def key_of(file: str, entry: DyrEntry, fields: Sequence[str | None]) -> Key:
    """The machine of a record; fields : from its identifier on."""
    name = (fields[0] or "").removeprefix("'").strip() if fields else ""
    if entry.bus is None or not INTEGER.fullmatch(entry.bus) or int(entry.bus) <= 0:
        raise entry_error(
            file, entry, "the record does not begin with a bus number", "BUS 'MODEL' ID constants /"
        )
    if not 1 <= len(name) <= 2:
        raise entry_error(
            file, entry, "the third item is no identifier of a machine", "one or two characters"
        )
    return int(entry.bus), name


def _once(file: str, entry: DyrEntry, twin: bool) -> None:
    if twin:
        raise entry_error(
            file,
            entry,
            "the machine has such a model already",
            "one machine model and one governor a machine",
        )


def constants_of(
    file: str, entry: DyrEntry, fields: Sequence[str | None], counts: range, signed: frozenset[int]
) -> list[float]:
    """Finite numbers, as many as counts; only those at signed places may be negative."""
    if len(fields) not in counts:
        expected = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        remedy = "Check whether the record was cut off, or lacks its slash."
        raise entry_error(file, entry, f"the record has {len(fields)} constants", expected, remedy)
    values = [fortran_number(text) for text in fields]
    for position, value in enumerate(values):
        # The text is not quoted: it may hold a private figure.
        if value is None or not isfinite(value):
            raise entry_error(
                file, entry, f"constant {position + 1} is not a finite number", "plain numbers"
            )
        if value < 0 and position not in signed:
            raise entry_error(
                file, entry, f"constant {position + 1} is negative", "a number of 0 or more"
            )
    return [value for value in values if value is not None]


def _governors(file: str, entry: DyrEntry) -> list[tuple[Key, DyrGovernor]]:
    model, fields = GOVERNORS[entry.model], list(entry.fields)
    keys = [key_of(file, entry, fields)]
    fields = fields[1:]
    if model.paired:
        if len(fields) > 1 and fortran_number(fields[0]) not in (None, 0):
            keys.append(key_of(file, entry._replace(bus=fields[0]), fields[1:]))
        fields = fields[2:]
    constants = constants_of(file, entry, fields, model.counts, model.signed)
    isochronous = entry.model == "GGOV1" and constants[0] == 0
    if model.droop and not isochronous:
        place = model.names.index(model.droop)
        if not constants[place] > 0:
            problem = f"constant {place + 1}, the droop, is unusable"
            raise entry_error(file, entry, problem, "a number above 0")
    first, *others = model.governors(constants)
    governed = [first, *(governor._replace(of=keys[0]) for governor in others)]
    return list(zip(keys, governed, strict=False))


def _notes(others: Mapping[str, int]) -> list[str]:
    def listed(names: Sequence[str]) -> str:
        return ", ".join(f"{others[name]} {name}" for name in names)

    roles = {name: role_of(name) for name in sorted(others)}
    on_voltage = ("exciter", "stabiliser", LIMITER)
    voltage = [n for n, role in roles.items() if role in on_voltage or COMPENSATOR.match(n)]
    governors = [name for name, role in roles.items() if role == "governor"]
    rest = [name for name in sorted(others) if name not in voltage and name not in governors]
    reasons = (
        (voltage, "not part of frequency dynamics"),
        (governors, "governors that are not read, for which the settings' droop stands in"),
        (rest, "models that are not known"),
    )
    return [f"{listed(names)} left out: {reason}" for names, reason in reasons if names]


def with_dynamics(grid: FileGrid, ids: Sequence[Key], dynamics: DyrDynamics) -> FileGrid:
    """Give the machines their dynamics, on the system base. ids : bus and identifier of each."""
    machines, notes = grid.machines, [*grid.notes, *dynamics.notes]
    values: dict[str, Any] = unknown_dynamics(len(ids))
    rated = dict(zip(ids, machines.rated_mva.tolist(), strict=True))
    still = 0
    for unit, key in enumerate(ids):
        own = dynamics.machines.get(key)
        governor = dynamics.governors.get(key)
        if own is None and governor is None:
            continue
        scale = rated[key] / grid.base_mva
        if not scale > 0:
            problem = (
                f"machine {key[1]} at bus {key[0]} has no MBASE, on which {dynamics.file} "
                "gives its dynamics"
            )
            raise machines.error(unit, problem, expected="MBASE above 0")
        turbine = 0.0
        if governor is not None:
            base = governor.base_mva or rated.get(governor.of or key, nan)
            turbine = governor.response.damping * base / grid.base_mva
            values["droop_gain"][unit] = governor.response.gain * base / grid.base_mva
            if governor.response.gain > 0:
                if not governor.response.rate > 0:
                    problem = (
                        f"the governor of machine {key[1]} at bus {key[0]} in "
                        f"{dynamics.file} never acts"
                    )
                    raise machines.error(unit, problem, expected="time constants of seconds")
                values["governor_rate"][unit] = governor.response.rate
        elif key not in dynamics.unread:
            values["droop_gain"][unit] = 0.0
        if own is not None:
            values["inertia"][unit] = 2 * own[0] * scale
            values["damping"][unit] = own[1] * scale + turbine
            still += own[0] == 0
    missing = [key for key in {**dynamics.machines, **dynamics.governors} if key not in rated]
    if missing:
        notes.append(
            f"{len(missing)} machines of {dynamics.file} left out: the case does not have them"
        )
    if still:
        notes.append(
            f"{still} machines have H = 0 in {dynamics.file}, an infinite bus in PSS/E: give them "
            "an inertia"
        )
    without = sum(key not in dynamics.machines for key in ids)
    if without:
        notes.append(f"{without} machines of the case have no machine model in {dynamics.file}")
    return replace(grid, machines=replace(machines, **values), notes=tuple(notes))
