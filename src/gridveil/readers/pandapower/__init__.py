"""pandapower nets: JSON files, which need no pandapower to be read, and net objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array
from gridveil.readers.network import (
    CONTROLLED,
    ISOLATED,
    LOAD,
    REFERENCE,
    Buses,
    Complex,
    FileGrid,
    Machines,
    known_kv,
    unknown_dynamics,
)
from gridveil.readers.pandapower.branches import BusPlaces, Model, branches_of
from gridveil.readers.pandapower.frames import (
    INDEX,
    Net,
    buses_of,
    net_from_json,
    net_from_object,
    numbering,
)
from gridveil.readers.start import first_guess
from gridveil.readers.table import Flags, Rows, Table, check_labels, words

if TYPE_CHECKING:
    from gridveil.vault.source import SourceGrid

POWERS = {"load": 1, "sgen": -1, "storage": 1, "asymmetric_load": 1, "asymmetric_sgen": -1}
LEFT_OUT = {
    "dcline": "two-terminal DC lines",
    "svc": "static var compensators",
    "ssc": "static synchronous compensators",
    "vsc": "voltage source converters",
    "vsc_stacked": "stacked voltage source converters",
    "vsc_bipolar": "bipolar voltage source converters",
    "b2b_vsc": "back-to-back converters",
}
TABLES = (
    *words("bus line trafo trafo3w impedance switch shunt ward xward motor gen ext_grid tcsc"),
    *("res_bus", "res_trafo3w"),
    *POWERS,
    *LEFT_OUT,
)


def read_pandapower_json(path: Path, document: Any) -> FileGrid:
    """Read a net from its parsed JSON, as pandapower.to_json wrote it."""
    return _grid(net_from_json(path.name, document, TABLES))


def from_pandapower(net: Any, name: str = "") -> FileGrid:
    """Take the grid out of a net object. name : for errors and facts, else the net's own."""
    if not isinstance(net, Mapping) or not hasattr(net.get("bus"), "columns"):
        raise InputError(
            "this is no pandapower net", expected="a net of pandapower 2 or later, with a table bus"
        )
    own = net.get("name")
    return _grid(
        net_from_object(
            name or (own if isinstance(own, str) else "") or "pandapower net", net, TABLES
        )
    )


def source_from_net(
    net: Any, *, name: str = "", options: Mapping[str, Any] | None = None
) -> SourceGrid:
    """Lock a net object's private values away.

    options : fields of `Dynamics` and `Policy`, as for `open_grid`.
    """
    from gridveil.readers.assemble import assemble
    from gridveil.readers.dynamics import Dynamics

    return assemble(from_pandapower(net, name), Dynamics().over(options or {}))


@np.errstate(all="ignore")  # what overflows is refused later, by its row
def _grid(net: Net) -> FileGrid:
    _check_format(net)
    base = net.number("sn_mva")
    notes: list[str] = []
    bus, star = net.frame("bus"), net.frame("trafo3w")
    if not len(bus):
        raise InputError(
            "the table bus is missing or empty",
            file=net.file,
            table="bus",
            expected="a row for each bus",
        )
    numbers = numbering(bus)
    labels = (
        *(str(number) for number in numbers),
        *(f"star of trafo3w {number}" for number in numbering(star)),
    )
    where = Rows.of((bus.where, range(len(bus))), (star.where, range(len(star))))
    check_labels(where, labels)
    known = {number: position for position, number in enumerate(numbers)}
    kv = bus.numbers("vn_kv", above=0)
    places = BusPlaces(
        known,
        np.concatenate([kv, kv[buses_of(star, "hv_bus", known)]]),
        np.arange(len(bus), len(labels)),
    )
    connected = np.concatenate([bus.flags("in_service", True), star.flags("in_service", True)])
    branches, shunt = branches_of(net, places, connected, _model(net), notes)
    joined = np.isin(places.star, branches.ends[branches.in_service])
    connected[places.star[~joined]] = (
        False  # a star point none of whose legs is closed is no island
    )
    load = _loads(net, known, len(labels), shunt, notes)
    machines, references = _machines(net, known, notes)
    _count_left_out(net, notes)

    kind = np.where(connected, LOAD, ISOLATED)
    kind[machines.bus[machines.in_service & connected[machines.bus]]] = CONTROLLED
    held = machines.in_service & references & connected[machines.bus]
    kind[machines.bus[held]] = REFERENCE
    voltage, angle = _voltages(net, known, len(labels))
    given = np.concatenate(
        [
            np.zeros(len(net.frame("gen"))),
            np.deg2rad(net.frame("ext_grid").numbers("va_degree", 0.0)),
        ]
    )
    voltage, angle = first_guess(branches, machines.bus[held], given[held], voltage, angle)
    angle[machines.bus[held]] = given[held]
    return FileGrid(
        file=net.file,
        base_mva=base,
        frequency_hz=net.number("f_hz"),
        buses=Buses(
            where,
            np.arange(len(labels)),
            labels=labels,
            kind=kind,
            load=load / base,
            shunt=shunt,
            voltage=voltage,
            angle=angle,
            nominal_kv=known_kv(places.kv),
        ),
        branches=branches,
        machines=machines,
        notes=tuple(notes),
    )


def _check_format(net: Net) -> None:
    """Refuse what other pandapowers mean otherwise: before 2.0 powers were in kW."""
    version = net.values.get("format_version")
    major = version.split(".")[0] if isinstance(version, str) else ""
    if major not in ("2", "3"):
        raise InputError(
            "the net's format is not one of those that are read",
            file=net.file,
            expected="format_version 2 or 3",
            remedy="Load the net in a pandapower of version 3, and save it again.",
        )


def _model(net: Net) -> Model:
    model = net.values.get("trafo_model") or "t"
    if model not in ("t", "pi"):
        raise InputError(
            "user_pf_options has an unknown trafo_model", file=net.file, expected="t or pi"
        )
    return model


def _loads(
    net: Net, known: Mapping[int, int], count: int, shunt: Complex, notes: list[str]
) -> Complex:
    """P + jQ consumed at each bus [MVA]; what depends on the voltage's square is added to shunt
    [p.u.].
    """
    base = net.number("sn_mva")
    load = np.zeros(count, dtype=complex)

    def ground(frame: Table, power: Complex) -> None:
        """Consumption at 1 p.u. of voltage, P + jQ [MVA], is an admittance P − jQ."""
        np.add.at(
            shunt,
            buses_of(frame, "bus", known),
            np.where(frame.flags("in_service"), power.conj() / base, 0),
        )

    for name, sign in POWERS.items():
        frame = net.frame(name)
        phases = ("_a", "_b", "_c") if name.startswith("asymmetric") else ("",)
        power = sum(
            (_power(frame, f"p{phase}_mw", f"q{phase}_mvar") for phase in phases),
            np.zeros(len(frame), dtype=complex),
        )
        power = power * sign * frame.numbers("scaling", 1.0)
        if name == "load":
            squared, linear = _voltage_dependent(frame, "z"), _voltage_dependent(frame, "i")
            some = int((frame.flags("in_service") & (linear != 0)).sum())
            if some:
                notes.append(
                    f"{some} loads with parts of constant current: these taken as constant power"
                )
            part = squared.real * power.real + 1j * squared.imag * power.imag
            ground(frame, part)
            power = power - part
        np.add.at(
            load, buses_of(frame, "bus", known), np.where(frame.flags("in_service"), power, 0)
        )
    for name in ("ward", "xward"):
        frame = net.frame(name)
        ground(frame, _power(frame, "pz_mw", "qz_mvar"))
        np.add.at(
            load,
            buses_of(frame, "bus", known),
            np.where(frame.flags("in_service"), _power(frame, "ps_mw", "qs_mvar"), 0),
        )
    frame = net.frame("shunt")
    rated = frame.numbers("vn_kv", float("nan"), above=0)
    own = net.frame("bus").numbers("vn_kv", above=0)[buses_of(frame, "bus", known)]
    ground(
        frame,
        _power(frame, "p_mw", "q_mvar")
        * frame.numbers("step", 1.0)
        * np.where(np.isnan(rated), 1, own / rated) ** 2,
    )
    frame.refuse(
        frame.flags("in_service") & frame.flags("step_dependency_table", False),
        "the shunt depends on a table of steps, which is not read",
        expected="p_mw and q_mvar",
    )
    frame = net.frame("motor")
    np.add.at(
        load, buses_of(frame, "bus", known), np.where(frame.flags("in_service"), _motors(frame), 0)
    )
    return load


def _power(frame: Table, active: str, reactive: str) -> Complex:
    return frame.numbers(active) + 1j * frame.numbers(reactive, 0.0)


def _voltage_dependent(frame: Table, what: str) -> Complex:
    """Shares of P (real) and Q (imaginary) that go with the voltage's square (z) or the voltage
    (i).
    """
    if f"const_{what}_percent" in frame.columns:  # before pandapower 3.0, one for both
        share = frame.numbers(f"const_{what}_percent", 0.0) / 100
        return share + 1j * share
    return (
        frame.numbers(f"const_{what}_p_percent", 0.0)
        + 1j * frame.numbers(f"const_{what}_q_percent", 0.0)
    ) / 100


def _motors(frame: Table) -> Complex:
    """Electric power of motors: P = mechanical / efficiency · loading, Q from cos φ."""
    use = frame.numbers("loading_percent", 100.0) / 100 * frame.numbers("scaling", 1.0)
    active = frame.numbers("pn_mech_mw") / frame.numbers("efficiency_percent", above=0) * 100 * use
    cosine = frame.numbers("cos_phi", above=0)
    frame.refuse(
        cosine > 1, "column cos_phi is out of its range", expected="a number above 0, up to 1"
    )
    return active + 1j * np.abs(active) * np.sqrt(1 / cosine**2 - 1)


def _machines(net: Net, known: Mapping[int, int], notes: list[str]) -> tuple[Machines, Flags]:
    """Generators and external grids, and which of them hold the angle."""
    gen, external = net.frame("gen"), net.frame("ext_grid")
    count = len(gen) + len(external)
    if len(external):
        notes.append(f"{len(external)} external grids taken as machines")
    references = np.concatenate([gen.flags("slack", False), np.ones(len(external), dtype=bool)])
    scheduled = gen.numbers("p_mw") * gen.numbers("scaling", 1.0)
    machines = Machines(
        Rows.of((gen.where, range(len(gen))), (external.where, range(len(external)))),
        np.arange(count),
        bus=np.concatenate([buses_of(gen, "bus", known), buses_of(external, "bus", known)]),
        power=(np.concatenate([scheduled, np.zeros(len(external))]) / net.number("sn_mva")).astype(
            complex
        ),
        set_point=np.concatenate(
            [gen.numbers("vm_pu", above=0), external.numbers("vm_pu", above=0)]
        ),
        in_service=np.concatenate([gen.flags("in_service"), external.flags("in_service")]),
        rated_mva=np.concatenate(
            [gen.numbers("sn_mva", float("nan"), above=0), np.full(len(external), np.nan)]
        ),
        fuel=(*gen.texts("type"), *("" for _ in range(len(external)))),
        **unknown_dynamics(count),
    )
    return machines, references


def _voltages(net: Net, known: Mapping[int, int], count: int) -> tuple[Array, Array]:
    """Magnitudes and angles [rad] of the last power flow; where there is none, 1 and NaN."""
    voltage, angle = np.ones(count), np.full(count, np.nan)
    nan = float("nan")
    stars = {
        number: len(known) + row for row, number in enumerate(net.frame("trafo3w").columns[INDEX])
    }
    for name, prefix, places in (("res_bus", "", known), ("res_trafo3w", "internal_", stars)):
        frame = net.frame(name)
        results = zip(
            frame.columns[INDEX],
            frame.numbers(f"vm_{prefix}pu", nan),
            frame.numbers(f"va_{prefix}degree", nan),
            strict=True,
        )
        for number, magnitude, degrees in results:
            position = places.get(number) if isinstance(number, int) else None
            if position is not None and magnitude > 0 and np.isfinite(degrees):
                voltage[position], angle[position] = magnitude, np.deg2rad(degrees)
    return voltage, angle


def _count_left_out(net: Net, notes: list[str]) -> None:
    tcsc = net.frame("tcsc")
    tcsc.refuse(
        tcsc.flags("in_service", True),
        "a thyristor-controlled series capacitor has no fixed reactance",
        expected="none in service",
        remedy="Replace it by an impedance of its present reactance.",
    )
    for name, meaning in LEFT_OUT.items():
        if count := int(net.frame(name).flags("in_service", True).sum()):
            notes.append(f"{count} {meaning} left out")
    taken = {
        "sgen": "static generators taken as negative load",
        "asymmetric_load": "loads on single phases summed over these",
        "asymmetric_sgen": "static generators on single phases summed over these, as negative load",
        "storage": "storage units taken as load",
        "motor": "motors taken as constant power",
        "xward": "extended wards taken as wards: their voltage source left out",
    }
    for name, meaning in taken.items():
        if count := int(net.frame(name).flags("in_service").sum()):
            notes.append(f"{count} {meaning}")
