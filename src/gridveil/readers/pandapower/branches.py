"""Lines, transformers, impedances and switches of a pandapower net as π models in p.u. of the net's
base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import pi
from typing import Literal

import numpy as np

from gridveil.grid.facts import Array, IntArray
from gridveil.readers.network import BranchRecords, Complex
from gridveil.readers.pandapower.frames import INDEX, Net, buses_of
from gridveil.readers.pi_models import PiModels, as_branches, joined, pi_models
from gridveil.readers.table import Flags, Rows, Table

Model = Literal["t", "pi"]
CHANGERS = {"": 0, "none": 0, "ratio": 1, "symmetrical": 1, "ideal": 2, "tabular": 3}
SWITCH_R_OVER_X = 2.0  # pandapower's default for bus-bus switches with an impedance


@dataclass(frozen=True, eq=False)
class BusPlaces:
    """Where buses are.

    known : position of each number.
    kv : (n,) base voltages.
    star : positions of trafo3w's star points.
    """

    known: dict[int, int]
    kv: Array
    star: IntArray


def branches_of(
    net: Net, places: BusPlaces, connected: Flags, model: Model, notes: list[str]
) -> tuple[BranchRecords, Complex]:
    """Build the branches of a net, and the admittance (n,) [p.u.] that they leave at buses.

    connected : (n,) buses in use.
    """
    names = ("line", "trafo", "trafo3w", "impedance", "switch")
    makers = (
        _lines(net, places),
        _trafos(net, places, model, notes),
        _trafos3w(net, places, model, notes),
    )
    parts = (*makers, _impedances(net, places), _bus_switches(net, places))
    _open_switches(net, places, parts)
    frames = [net.frame(name) for name in names]
    models = joined(parts, np.cumsum([0, *(len(frame) for frame in frames[:-1])]).tolist())
    if switched := int((models.in_service & models.opened.any(axis=1)).sum()):
        notes.append(f"{switched} branches with an open switch taken as out of service")
    where = Rows.of(*((frame.where, range(len(frame))) for frame in frames))
    return as_branches(where, models, connected)


def _lines(net: Net, places: BusPlaces) -> PiModels:
    """r, x [Ω/km], c [nF/km] and g [µS/km] times length, over the base impedance of the first
    bus.
    """
    line = net.frame("line")
    ends = buses_of(line, "from_bus", places.known), buses_of(line, "to_bus", places.known)
    base = places.kv[ends[0]] ** 2 / net.number("sn_mva")
    length, parallel = line.numbers("length_km"), line.numbers("parallel", 1.0, above=0)
    series = (
        (line.numbers("r_ohm_per_km") + 1j * line.numbers("x_ohm_per_km"))
        * length
        / base
        / parallel
    )
    susceptance = 2 * pi * net.number("f_hz") * line.numbers("c_nf_per_km") * 1e-9
    half = (
        (line.numbers("g_us_per_km", 0.0) * 1e-6 + 1j * susceptance) * length * base * parallel / 2
    )
    return pi_models(
        ends,
        series,
        (half, half.copy()),
        np.ones(len(line), dtype=complex),
        line.flags("in_service"),
    )


@dataclass(frozen=True, eq=False)
class _Windings:
    """Two-winding transformers, or legs of a star. r, x [%] of sn [MVA]; vn_hv, vn_lv [kV] and
    shift [deg] before taps.
    """

    frame: Table
    ends: tuple[IntArray, IntArray]
    kv: tuple[Array, Array]
    sn: Array
    r: Array
    x: Array
    iron_mw: Array
    idle_percent: Array
    vn_hv: Array
    vn_lv: Array
    shift: Array
    parallel: Array
    in_service: Flags


def _transformed(
    net: Net, of: _Windings, model: Model, taps: tuple[Array, Array, Array]
) -> PiModels:
    """π models: z = (r + jx) / 100 / sn (vn_lv / V_lv)² base, t = (vn_hv / vn_lv) / (V_hv / V_lv)
    e^{jφ}.
    """
    hv, lv, shift = of.vn_hv * taps[0], of.vn_lv * taps[1], np.deg2rad(of.shift + taps[2])
    base = net.number("sn_mva")
    series = (of.r + 1j * of.x) / 100 / of.sn * (lv / of.kv[1]) ** 2 * base / of.parallel
    idle_mva = of.idle_percent / 100 * of.sn
    magnetising = -np.sqrt(np.maximum(idle_mva**2 - of.iron_mw**2, 0.0))
    y = (of.iron_mw + 1j * magnetising) * (of.kv[1] ** 2 / base) * of.parallel / lv**2
    ratio = hv / lv / (of.kv[0] / of.kv[1])
    ratio = ratio * np.cos(shift) + 1j * ratio * np.sin(shift)
    of.frame.refuse(
        of.in_service & ~(np.abs(ratio) > 1e-9),
        "the tap ratio is not usable",
        expected="a ratio above 0",
    )
    first = second = y / 2
    if model == "t":  # the star of the two windings and the iron becomes a triangle
        split_r = of.frame.numbers("leakage_resistance_ratio_hv", 0.5)
        split_x = of.frame.numbers("leakage_reactance_ratio_hv", 0.5)
        a = series.real * split_r + 1j * series.imag * split_x
        b = series - a
        series = a + b + a * b * y
        total = np.where(y == 0, 1.0, series)
        first, second = np.where(y == 0, 0, y * b / total), np.where(y == 0, 0, y * a / total)
    return pi_models(of.ends, series, (first, second), ratio, of.in_service)


def _trafos(net: Net, places: BusPlaces, model: Model, notes: list[str]) -> PiModels:
    frame = net.frame("trafo")
    ends = buses_of(frame, "hv_bus", places.known), buses_of(frame, "lv_bus", places.known)
    on = frame.flags("in_service")
    r, z = frame.numbers("vkr_percent"), frame.numbers("vk_percent")
    windings = _Windings(
        frame,
        ends,
        (places.kv[ends[0]], places.kv[ends[1]]),
        sn=frame.numbers("sn_mva", above=0),
        r=r,
        x=_reactance(frame, r, z),
        iron_mw=frame.numbers("pfe_kw") / 1e3,
        idle_percent=frame.numbers("i0_percent"),
        vn_hv=frame.numbers("vn_hv_kv", above=0),
        vn_lv=frame.numbers("vn_lv_kv", above=0),
        shift=frame.numbers("shift_degree", 0.0),
        parallel=frame.numbers("parallel", 1.0, above=0),
        in_service=on,
    )
    hv, lv, shift = np.ones(len(frame)), np.ones(len(frame)), np.zeros(len(frame))
    for which in ("", "2"):
        if f"tap{which}_pos" in frame.columns:
            kind, side, steps, percent, degree = _tap(frame, which, on, notes)
            for name, factors, direction in (("hv", hv, 1), ("lv", lv, -1)):
                size, angle = _tapped(
                    frame, np.where(side == name, kind, 0), steps, percent, degree
                )
                factors *= size
                shift += direction * angle
    return _transformed(net, windings, model, (hv, lv, shift))


def _reactance(frame: Table, r: Array, z: Array) -> Array:
    """Find x = ±√(z² − r²), with the sign of z."""
    frame.refuse(
        np.abs(r) > np.abs(z),
        "a vkr exceeds its vk: there is no reactance",
        expected="vkr_percent below vk_percent",
    )
    return np.sign(z) * np.sqrt(z**2 - r**2)


def _tap(
    frame: Table, which: str, on: Flags, notes: list[str]
) -> tuple[IntArray, np.ndarray, Array, Array, Array]:
    """A tap changer: kind (0 none, 1 ratio, 2 ideal phase shifter), side, steps from neutral, % and
    degrees a step.
    """
    nan = float("nan")
    steps = np.nan_to_num(
        frame.numbers(f"tap{which}_pos", nan) - frame.numbers(f"tap{which}_neutral", nan)
    )
    percent = np.nan_to_num(frame.numbers(f"tap{which}_step_percent", nan))
    degree = np.nan_to_num(frame.numbers(f"tap{which}_step_degree", nan))
    side = np.array(frame.texts(f"tap{which}_side"), dtype=object)
    if f"tap{which}_changer_type" in frame.columns:
        words = [text.lower() for text in frame.texts(f"tap{which}_changer_type")]
        kind = np.array([CHANGERS.get(word, -1) for word in words], dtype=np.int64)
        idle = int((on & (kind == 0) & (steps * percent != 0)).sum())
        if idle:
            notes.append(
                f"{idle} transformers of table {frame.where.table} off their neutral tap without a "
                "changer type: no effect"
            )
    else:  # before pandapower 3.0
        kind = np.where(frame.flags(f"tap{which}_phase_shifter", False), 2, 1)
    tabular = frame.flags("tap_dependency_table", False) | frame.flags(
        "tap_dependent_impedance", False
    )
    frame.refuse(
        on & (tabular | (kind == 3)),
        "the transformer depends on a table of taps, which is not read",
        expected="tap_dependency_table false, and a changer type of Ratio, Symmetrical or Ideal",
        remedy="Write the values of the present tap into the transformer itself.",
    )
    frame.refuse(
        on & (kind < 0),
        f"tap{which}_changer_type is unknown",
        expected="Ratio, Symmetrical, Ideal or none",
    )
    frame.refuse(
        on & (kind == 2) & (percent != 0) & (degree != 0),
        "an ideal phase shifter has two kinds of steps",
        expected="percent or degrees",
    )
    return kind, side, steps, percent, degree


def _tapped(
    frame: Table, kind: IntArray, steps: Array, percent: Array, degree: Array
) -> tuple[Array, Array]:
    """How a tap changes its winding: factor of its voltage, and angle [deg].

    ratio : |1 + s e^{jθ}| with s = steps · percent / 100.
    ideal : the angle alone, steps · degree or 2 arcsin(s / 2).
    """
    s = np.where(kind > 0, steps * percent / 100, 0.0)
    frame.refuse(
        (kind == 2) & (np.abs(s) > 2),
        "the tap lies beyond what a phase shifter can turn",
        expected="less than 180 degrees",
    )
    turn, share = np.deg2rad(degree), np.where(kind == 1, s, 0.0)
    real, imaginary = 1 + share * np.cos(turn), share * np.sin(turn)
    ideal = np.where(
        degree != 0, steps * degree, np.rad2deg(2 * np.arcsin(np.where(kind == 2, s, 0.0) / 2))
    )
    # arctan, not the angle of the pointer: a tap that turns by more than 90° is no tap, and
    # pandapower counts like this.
    angle = np.rad2deg(np.arctan(imaginary / np.where(real == 0, np.nan, real)))
    return np.hypot(real, imaginary), np.where(kind == 2, ideal, np.nan_to_num(angle))


def _trafos3w(net: Net, places: BusPlaces, model: Model, notes: list[str]) -> PiModels:
    """A star of three legs around a bus of its own, at the base voltage of the hv bus."""
    frame = net.frame("trafo3w")
    sides = ("hv", "mv", "lv")
    buses = {side: buses_of(frame, f"{side}_bus", places.known) for side in sides}
    sn = {side: frame.numbers(f"sn_{side}_mva", above=0) for side in sides}
    vn = {side: frame.numbers(f"vn_{side}_kv", above=0) for side in sides}
    on = frame.flags("in_service")
    # hv stands for the test between hv and mv, mv for mv–lv, lv for lv–hv; all brought to the
    # rating of hv.
    smaller = {
        "hv": np.minimum(sn["hv"], sn["mv"]),
        "mv": np.minimum(sn["mv"], sn["lv"]),
        "lv": np.minimum(sn["hv"], sn["lv"]),
    }
    r, x = {}, {}
    for side in sides:
        resistance, z = frame.numbers(f"vkr_{side}_percent"), frame.numbers(f"vk_{side}_percent")
        if (z < 0).any():
            raise frame.error(
                int(np.argmax(z < 0)), f"vk_{side}_percent is below 0", expected="a number above 0"
            )
        r[side] = resistance * sn["hv"] / smaller[side]
        x[side] = _reactance(frame, resistance, z) * sn["hv"] / smaller[side]
    tap = _tap(frame, "", on, notes) if "tap_pos" in frame.columns else None
    at_star = frame.flags("tap_at_star_point", False)
    legs = []
    for side, (one, other, opposite) in zip(
        sides, (("hv", "lv", "mv"), ("mv", "hv", "lv"), ("lv", "mv", "hv")), strict=True
    ):
        share = sn[side] / sn["hv"] / 2
        star_first = side != "hv"
        ends = (places.star, buses[side]) if star_first else (buses[side], places.star)
        kv = (places.kv[buses["hv"]], places.kv[buses[side]])
        losses = 1.0 if side == "hv" else 0.0
        windings = _Windings(
            frame,
            ends,
            kv,
            sn=sn[side],
            r=share * (r[one] + r[other] - r[opposite]),
            x=share * (x[one] + x[other] - x[opposite]),
            iron_mw=losses * frame.numbers("pfe_kw") / 1e3,
            idle_percent=losses * frame.numbers("i0_percent"),
            vn_hv=vn["hv"],
            vn_lv=vn[side],
            shift=frame.numbers(f"shift_{side}_degree", 0.0)
            if star_first
            else np.zeros(len(frame)),
            parallel=np.ones(len(frame)),
            in_service=on,
        )
        hv, lv, shift = np.ones(len(frame)), np.ones(len(frame)), np.zeros(len(frame))
        if tap:
            kind, side_of, steps, percent, degree = tap
            here = np.where(side_of == side, kind, 0)
            # At the terminal the tap sits on the leg's outer winding; at the star point on the
            # inner one, and inverted.
            step = percent * np.exp(1j * np.deg2rad(degree))
            inverted = -100 * step / (100 + step * steps)
            outer, inner = (lv, hv) if star_first else (hv, lv)
            sign = -1 if star_first else 1
            size, angle = _tapped(frame, np.where(at_star, 0, here), steps, percent, degree)
            outer *= size
            shift += sign * angle
            size, angle = _tapped(
                frame,
                np.where(at_star, here, 0),
                steps,
                np.abs(inverted),
                np.rad2deg(np.angle(inverted)),
            )
            inner *= size
            shift -= sign * angle
        legs.append(_transformed(net, windings, model, (hv, lv, shift)))
    return joined(legs, (0, 0, 0))


def _impedances(net: Net, places: BusPlaces) -> PiModels:
    """Turn r + jx and g + jb from p.u. of the impedance's own rating."""
    frame = net.frame("impedance")
    rating = frame.numbers("sn_mva", above=0) / net.number("sn_mva")
    there = frame.numbers("rft_pu") + 1j * frame.numbers("xft_pu")
    back = frame.numbers("rtf_pu") + 1j * frame.numbers("xtf_pu")
    on = frame.flags("in_service")
    frame.refuse(
        on & (np.abs(there - back) > 1e-9 * np.abs(there)),
        "the impedance differs by direction, so the line has no one weight 1/x",
        expected="rft = rtf and xft = xtf",
    )
    shunts = [
        (frame.numbers(f"g{end}_pu", 0.0) + 1j * frame.numbers(f"b{end}_pu", 0.0)) * rating
        for end in "ft"
    ]
    ends = buses_of(frame, "from_bus", places.known), buses_of(frame, "to_bus", places.known)
    return pi_models(
        ends, there / rating, (shunts[0], shunts[1]), np.ones(len(frame), dtype=complex), on
    )


def _bus_switches(net: Net, places: BusPlaces) -> PiModels:
    """Closed switches between buses: ties of no impedance, unless they have one."""
    frame = net.frame("switch")
    rows = np.flatnonzero(np.array([text == "b" for text in frame.texts("et")], dtype=bool))
    first, second = (_buses(frame, rows, column, places) for column in ("bus", "element"))
    z = frame.numbers("z_ohm", 0.0)[rows] / (places.kv[first] ** 2 / net.number("sn_mva"))
    series = np.where(z > 0, z, 0.0) * (SWITCH_R_OVER_X + 1j) / np.hypot(SWITCH_R_OVER_X, 1.0)
    none = np.zeros(len(rows), dtype=complex)
    made = pi_models(
        (first, second), series, (none, none.copy()), none + 1, frame.flags("closed")[rows]
    )
    return replace(made, rows=rows)


def _buses(frame: Table, rows: IntArray, column: str, places: BusPlaces) -> IntArray:
    """Positions of the buses that some rows name; in others a column may name something else."""
    numbers = frame.whole(column)
    for row in rows:
        if numbers[row] not in places.known:
            raise frame.error(
                int(row), f"bus {numbers[row]} is unknown", expected="a bus of the bus table"
            )
    return np.array([places.known[numbers[row]] for row in rows], dtype=np.int64)


def _open_switches(net: Net, places: BusPlaces, parts: Sequence[PiModels]) -> None:
    """Mark the ends of lines and transformers whose switch is open."""
    frame = net.frame("switch")
    kinds, closed = frame.texts("et"), frame.flags("closed")
    buses, elements = frame.whole("bus"), frame.whole("element")
    tables = {"l": ("line", parts[0]), "t": ("trafo", parts[1]), "t3": ("trafo3w", parts[2])}
    rows = {
        kind: {number: row for row, number in enumerate(net.frame(name).columns[INDEX])}
        for kind, (name, _) in tables.items()
    }
    for row, kind in enumerate(kinds):
        if kind == "b" or closed[row]:
            continue
        if kind not in tables:
            raise frame.error(row, "column et is unknown", expected="b, l, t or t3")
        name, part = tables[kind]
        element, bus = rows[kind].get(elements[row]), places.known.get(buses[row])
        if element is None:
            raise frame.error(
                row, f"{name} {elements[row]} is unknown", expected=f"a row of table {name}"
            )
        legs = slice(element, None, len(rows[kind]))  # a trafo3w has three branches
        first_end = part.ends[legs] == bus
        if bus is None or not first_end.any():
            raise frame.error(
                row,
                f"the switch is at no end of {name} {elements[row]}",
                expected="a bus of its element",
            )
        part.opened[legs] |= first_end
