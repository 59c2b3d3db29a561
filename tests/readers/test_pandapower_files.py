"""pandapower's own power flow is the oracle: the same buses, branches and voltages, from JSON and
from net objects.
"""

import copy
import json
import logging
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from gridveil.dynamics.powerflow import Network, admittance
from gridveil.foundation.errors import InputError
from gridveil.readers.cases import open_grid
from gridveil.readers.dynamics import Dynamics
from gridveil.readers.network import ISOLATED, REFERENCE
from gridveil.readers.pandapower import from_pandapower, read_pandapower_json, source_from_net
from gridveil.vault.source import Private

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pp = pytest.importorskip("pandapower")
    from pandapower import networks

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("quiet")]
ANGLES = {"inertia": 5.0, "damping": 2.0}


@pytest.fixture
def quiet():
    logging.disable(logging.WARNING)  # pandapower asks for numba at every power flow
    yield
    logging.disable(logging.NOTSET)


def solved(net, **options):
    pp.runpp(net, numba=False, tolerance_mva=1e-10, **options)
    return net


def from_json(net):
    return read_pandapower_json(Path("net.json"), json.loads(pp.to_json(net)))


def mismatch(grid, net):
    """|S − S scheduled| at pandapower's voltages, at every bus whose power is scheduled, buses
    joined by switches as one.
    """
    n = len(grid.buses.labels)
    parent = list(range(n))

    def root(bus):
        return bus if parent[bus] == bus else root(parent[bus])

    for i, j in grid.branches.ends[grid.branches.in_service & (np.abs(grid.branches.series) == 0)]:
        parent[root(i)] = root(j)
    to = np.array([root(bus) for bus in range(n)])
    closed = grid.branches.in_service & (np.abs(grid.branches.series) > 0)
    branches = grid.branches.keep(closed)

    def total(values):
        summed = np.zeros(n, dtype=complex)
        np.add.at(summed, to, values)
        return summed

    power = np.zeros(n, dtype=complex)
    running = grid.machines.in_service
    np.add.at(power, grid.machines.bus[running], grid.machines.power[running])
    network = Network(
        ends=to[branches.ends],
        series=branches.series,
        charging=branches.charging,
        ratio=branches.ratio,
        shunt=total(grid.buses.shunt),
        injection=total(power - grid.buses.load),
        slack=np.zeros(0, dtype=int),
        controlled=np.zeros(0, dtype=int),
    )
    V = grid.buses.voltage * np.exp(1j * grid.buses.angle)
    off = V * np.conj(admittance(network) @ V) - network.injection
    held = np.zeros(n, dtype=int)
    np.maximum.at(held, to, grid.buses.kind)
    live = np.zeros(n, dtype=bool)
    fed = net.res_bus.vm_pu.dropna().index
    live[
        [i for i, label in enumerate(grid.buses.labels) if not label.isdigit() or int(label) in fed]
    ] = True
    live &= (to == np.arange(n)) & (grid.buses.kind != ISOLATED)
    active = np.abs(off.real[live & (held != REFERENCE)]).max()
    reactive = np.abs(off.imag[live & (held == 1)]).max()
    return max(active, reactive)


# --- against pandapower's power flow --------------------------------------------------------------


@pytest.mark.parametrize("read", [from_json, from_pandapower], ids=["JSON", "net"])
@pytest.mark.parametrize(
    "name",
    [
        "case9",
        "case14",
        "case30",
        "case39",
        "case118",
        "case300",
        "example_simple",
        "example_multivoltage",
    ],
)
def test_pandapowers_solution_solves_the_grid_that_is_read(name, read):
    net = getattr(networks, name)()
    net.xward.in_service = False  # its voltage source is left out
    assert mismatch(read(solved(net)), net) < 1e-9


@pytest.mark.parametrize("name", ["case9", "case39", "case118"])
def test_series_impedance_taps_and_loads_are_those_of_pandapowers_own_tables(name):
    net = solved(getattr(networks, name)(), trafo_model="pi")
    net.user_pf_options["trafo_model"] = "pi"
    grid, branch, bus = from_json(net), net._ppc["branch"].real, net._ppc["bus"].real
    assert np.allclose(grid.branches.series, branch[:, 2] + 1j * branch[:, 3], rtol=1e-12, atol=0)
    assert np.allclose(grid.branches.charging, branch[:, 4], rtol=1e-9, atol=1e-12)
    shift = np.deg2rad(branch[:, 9])
    assert np.allclose(grid.branches.ratio, branch[:, 8] * np.exp(1j * shift), rtol=1e-12)
    position = net._pd2ppc_lookups["bus"][net.bus.index]
    assert np.allclose(
        grid.buses.load * grid.base_mva, (bus[:, 2] + 1j * bus[:, 3])[position], rtol=1e-12
    )


def test_newtons_method_finds_pandapowers_voltages_without_its_results():
    net = networks.example_multivoltage()
    net.xward.in_service = False
    document = json.loads(pp.to_json(solved(copy.deepcopy(net))))
    for table in [name for name in document["_object"] if name.startswith("res_")]:
        del document["_object"][table]
    grid = read_pandapower_json(Path("net.json"), document)
    assert np.abs(grid.buses.angle).max() > 2, "the vector groups turn angles by 150 degrees"
    results = solved(net).res_bus
    flat = source_from_net(net, options={**ANGLES, "zero_x": "merge"})
    again = assembled(grid)
    assert np.allclose(Private.open(again.values["k"]), Private.open(flat.values["k"]), rtol=1e-7)
    assert results.vm_pu.notna().all()


def test_results_without_phase_shifts_get_them():
    net = networks.example_multivoltage()
    net.xward.in_service = False
    whole = assembled(from_pandapower(solved(net)))
    halved = assembled(
        from_pandapower(solved(net, calculate_voltage_angles=False)), operating_point="file"
    )
    assert np.allclose(Private.open(halved.values["k"]), Private.open(whole.values["k"]), rtol=1e-2)


def assembled(grid, **options):
    from gridveil.readers.assemble import assemble

    return assemble(grid, Dynamics().over({**ANGLES, "zero_x": "merge", **options}))


# --- transformers and all that hangs on a bus -----------------------------------------------------


def small(**trafo):
    """An external grid, a transformer and a line with a load."""
    net = pp.create_empty_network(f_hz=50.0, sn_mva=10.0)
    high, low, end = (pp.create_bus(net, kv) for kv in (115.0, 21.0, 21.0))
    pp.create_ext_grid(net, high, vm_pu=1.02, va_degree=10.0)
    values = {
        "sn_mva": 40.0,
        "vn_hv_kv": 110.0,
        "vn_lv_kv": 20.0,
        "vk_percent": 12.0,
        "vkr_percent": 0.5,
        "pfe_kw": 30.0,
    }
    values |= {
        "i0_percent": 0.4,
        "shift_degree": 150.0,
        "tap_side": "hv",
        "tap_neutral": 0,
        "tap_pos": 3,
        "tap_min": -9,
    }
    values |= {"tap_max": 9, "tap_step_percent": 1.5, "tap_changer_type": "Ratio"}
    pp.create_transformer_from_parameters(net, high, low, **(values | trafo))
    line = {
        "r_ohm_per_km": 0.2,
        "x_ohm_per_km": 0.35,
        "c_nf_per_km": 210.0,
        "g_us_per_km": 3.0,
        "max_i_ka": 1,
    }
    pp.create_line_from_parameters(net, low, end, length_km=4.0, parallel=2, **line)
    pp.create_load(net, end, 6.0, 2.0)
    return net


@pytest.mark.parametrize(
    "trafo",
    [
        {},
        {"tap_side": "lv"},
        {"tap_step_degree": 60.0},
        {"tap_side": "lv", "tap_step_degree": 30.0, "tap_changer_type": "Symmetrical"},
        {"tap_changer_type": "Ideal", "tap_step_percent": 2.0},
        {
            "tap_changer_type": "Ideal",
            "tap_step_percent": 0.0,
            "tap_step_degree": 5.0,
            "tap_side": "lv",
        },
        {"tap_changer_type": None},
        {"parallel": 3},
        {"i0_percent": 0.0, "pfe_kw": 0.0},
        {"i0_percent": 0.01, "pfe_kw": 60.0},
        {
            "shift_degree": -30.0,
            "leakage_resistance_ratio_hv": 0.3,
            "leakage_reactance_ratio_hv": 0.7,
        },
        {"vk_percent": -12.0},
    ],
    ids=lambda trafo: " ".join(f"{key} {value}" for key, value in trafo.items()) or "plain",
)
@pytest.mark.parametrize("model", ["t", "pi"])
def test_a_transformer_is_pandapowers(trafo, model):
    net = solved(small(**trafo), trafo_model=model)
    net.user_pf_options["trafo_model"] = model
    assert mismatch(from_json(net), net) < 1e-10


def test_a_second_tap_changer_counts_too():
    net = small()
    for name, value in {
        "side": "lv",
        "pos": -2,
        "neutral": 0,
        "step_percent": 2.0,
        "step_degree": 10.0,
    }.items():
        net.trafo[f"tap2_{name}"] = value
    net.trafo["tap2_changer_type"] = "Ratio"
    assert mismatch(from_json(solved(net)), net) < 1e-10


@pytest.mark.parametrize("shifter", [False, True])
def test_a_net_of_pandapower_2_is_read_by_its_own_columns(shifter):
    net = solved(small(tap_changer_type="Ideal" if shifter else "Ratio"))
    net.trafo = net.trafo.drop(
        columns=["tap_changer_type", "tap_dependency_table", "id_characteristic_table"]
    )
    net.trafo["tap_phase_shifter"] = shifter
    net.load = net.load.rename(
        columns={"const_z_p_percent": "const_z_percent", "const_i_p_percent": "const_i_percent"}
    )
    net.format_version = "2.14.0"
    assert mismatch(from_json(net), net) < 1e-10


def with_trafo3w(**changes):
    net = pp.create_empty_network(sn_mva=100.0)
    high, middle, low, far = (pp.create_bus(net, kv) for kv in (112.0, 21.0, 10.0, 112.0))
    pp.create_ext_grid(net, far, vm_pu=1.01)
    line = {"r_ohm_per_km": 0.1, "x_ohm_per_km": 0.4, "c_nf_per_km": 9.0, "max_i_ka": 1}
    pp.create_line_from_parameters(net, far, high, length_km=10, **line)
    values = {
        "vn_hv_kv": 110,
        "vn_mv_kv": 20,
        "vn_lv_kv": 10.5,
        "sn_hv_mva": 63,
        "sn_mv_mva": 40,
        "sn_lv_mva": 25,
    }
    values |= {
        "vk_hv_percent": 11,
        "vk_mv_percent": 8,
        "vk_lv_percent": 17,
        "vkr_hv_percent": 0.3,
        "vkr_mv_percent": 0.35,
    }
    values |= {
        "vkr_lv_percent": 0.4,
        "pfe_kw": 40,
        "i0_percent": 0.3,
        "shift_mv_degree": 30,
        "shift_lv_degree": 150,
    }
    values |= {
        "tap_side": "hv",
        "tap_neutral": 0,
        "tap_pos": -4,
        "tap_min": -9,
        "tap_max": 9,
        "tap_step_percent": 1.2,
    }
    values |= {"tap_step_degree": 0.0, "tap_changer_type": "Ratio"}
    pp.create_transformer3w_from_parameters(net, high, middle, low, **(values | changes))
    pp.create_load(net, middle, 20, 5)
    pp.create_load(net, low, 8, 2)
    return net


@pytest.mark.parametrize("star", [False, True], ids=["at the terminal", "at the star point"])
@pytest.mark.parametrize("degree", [0.0, 40.0])
@pytest.mark.parametrize("side", ["hv", "mv", "lv"])
def test_a_transformer_of_three_windings_is_pandapowers(side, degree, star):
    net = solved(with_trafo3w(tap_side=side, tap_step_degree=degree, tap_at_star_point=star))
    grid = from_json(net)
    assert mismatch(grid, net) < 1e-10
    assert grid.buses.labels == ("0", "1", "2", "3", "star of trafo3w 0")


def test_shunts_wards_motors_storage_and_voltage_dependent_loads_are_pandapowers():
    net = small()
    pp.create_load(net, 1, 1.0, 0.4, const_z_p_percent=60, const_z_q_percent=30, scaling=1.5)
    pp.create_sgen(net, 2, 2.0, 0.3, scaling=0.5)
    pp.create_storage(net, 2, 0.7, 10.0, q_mvar=0.1)
    pp.create_shunt(net, 1, q_mvar=-1.5, p_mw=0.1, vn_kv=20.0, step=2)
    pp.create_ward(net, 2, 0.5, 0.1, 0.3, -0.2)
    pp.create_motor(net, 2, 0.8, 0.9, efficiency_percent=93, loading_percent=70, scaling=1.1)
    pp.create_asymmetric_load(net, 2, 0.1, 0.2, 0.3, 0.01, 0.02, 0.03)
    pp.create_gen(net, 1, 3.0, vm_pu=1.01, sn_mva=5.0, scaling=0.9)
    net.gen["type"] = "hydro"
    grid = from_json(solved(net))
    # pandapower spreads the shares of constant impedance over all loads of a bus; there is but one
    # on bus 1.
    assert mismatch(grid, net) < 1e-10
    assert grid.machines.fuel == ("hydro", "")
    assert grid.machines.rated_mva[0] == 5
    assert {note.split()[1] for note in grid.notes} >= {
        "static",
        "storage",
        "motors",
        "external",
        "loads",
    }


def test_impedances_and_switches_with_impedance_are_pandapowers():
    net = small()
    bus = pp.create_bus(net, 21.0)
    pp.create_impedance(
        net, 2, bus, 0.01, 0.08, 15.0, gf_pu=0.002, bf_pu=0.003, gt_pu=0.004, bt_pu=0.005
    )
    other = pp.create_bus(net, 21.0)
    pp.create_switch(net, bus, other, et="b", z_ohm=0.3)
    pp.create_load(net, other, 1.0, 0.2)
    assert mismatch(from_json(solved(net)), net) < 1e-10


@pytest.mark.parametrize("bus", [1, 2])
def test_a_line_open_at_one_end_still_draws_its_charging(bus):
    net = small()
    line = {
        "r_ohm_per_km": 0.2,
        "x_ohm_per_km": 0.35,
        "c_nf_per_km": 310.0,
        "g_us_per_km": 3.0,
        "max_i_ka": 1,
    }
    open_line = pp.create_line_from_parameters(net, 1, 2, length_km=30.0, **line)
    pp.create_switch(net, bus, open_line, et="l", closed=False)
    pp.create_switch(net, 3 - bus, open_line, et="l", closed=True)
    grid = from_json(solved(net))
    assert mismatch(grid, net) < 1e-10
    assert "1 branches with an open switch taken as out of service" in grid.notes


@pytest.mark.parametrize("bus", [0, 1])
def test_a_transformer_open_at_one_end_is_out_of_service(bus):
    net = small()
    pp.create_transformer(net, 0, 1, "40 MVA 110/20 kV")
    pp.create_switch(net, bus, 1, et="t", closed=False)
    assert mismatch(from_json(solved(net)), net) < 1e-10


def test_what_is_out_of_service_or_hangs_on_such_a_bus_is_left_out():
    net = small()
    dead = pp.create_bus(net, 21.0, in_service=False)
    line = {"r_ohm_per_km": 0.2, "x_ohm_per_km": 0.35, "c_nf_per_km": 310.0, "max_i_ka": 1}
    pp.create_line_from_parameters(net, 2, dead, length_km=3.0, **line)
    pp.create_load(net, dead, 5.0)
    pp.create_load(net, 2, 5.0, in_service=False)
    grid = from_json(solved(net))
    assert mismatch(grid, net) < 1e-10
    assert grid.buses.kind[3] == ISOLATED
    assert len(assembled(grid).facts.buses) == 3


def test_what_is_not_read_is_counted():
    net = networks.example_multivoltage()
    pp.create_dcline(net, 0, 20, 1.0, 1.0, 0.1, 1.0, 1.0)
    pp.create_dcline(net, 0, 20, 1.0, 1.0, 0.1, 1.0, 1.0, in_service=False)
    notes = from_json(net).notes
    assert "1 two-terminal DC lines left out" in notes
    assert "2 extended wards taken as wards: their voltage source left out" in notes


def test_a_net_object_is_locked_away_with_its_frequency():
    source = source_from_net(small(), name="three", options=ANGLES)
    assert (source.facts.name, source.facts.frequency_hz, source.facts.base_mva) == (
        "three",
        50,
        10,
    )
    assert source.facts.buses == ("0", "1", "2")


def test_a_file_is_opened_by_its_name(tmp_path):
    path = tmp_path / "small.json"
    pp.to_json(small(), str(path))
    assert open_grid(str(path), options=ANGLES).facts.buses == ("0", "1", "2")


def test_json_is_read_without_pandapower_and_pandas(tmp_path):
    path = tmp_path / "net.json"
    pp.to_json(networks.case9(), str(path))
    script = (
        "import sys, json, pathlib; sys.modules['pandapower'] = sys.modules['pandas'] = None\n"
        "from gridveil.readers.pandapower import read_pandapower_json as read\n"
        f"path = pathlib.Path({str(path)!r})\n"
        "print(len(read(path, json.loads(path.read_text())).buses.labels))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "9"), done.stderr


# --- bad input ------------------------------------------------------------------------------------


def document(change):
    content = json.loads(pp.to_json(small()))
    change(content["_object"])
    return content


def cell(table, row, column, value):
    def change(content):
        body = json.loads(content[table]["_object"])
        body["data"][row][body["columns"].index(column)] = value
        content[table]["_object"] = json.dumps(body)

    return change


def body(table, **parts):
    def change(content):
        content[table]["_object"] = json.dumps(json.loads(content[table]["_object"]) | parts)

    return change


def dropped(table, column):
    def change(content):
        inner = json.loads(content[table]["_object"])
        inner["columns"][inner["columns"].index(column)] = "another"
        content[table]["_object"] = json.dumps(inner)

    return change


BAD = {
    "no net": (lambda content: content.clear(), ["format"]),
    "another format": (
        lambda content: content.update(format_version="1.6"),
        ["format_version 2 or 3", "save it again"],
    ),
    "no base": (lambda content: content.update(sn_mva=None), ["sn_mva", "above 0"]),
    "a frequency of text": (lambda content: content.update(f_hz="50"), ["f_hz", "above 0"]),
    "no buses": (lambda content: content.pop("bus"), ["table bus", "missing or empty"]),
    "a table of another kind": (
        lambda content: content["line"].update(_class="Series"),
        ["table line", "no table"],
    ),
    "a table that is cut off": (
        lambda content: content["line"].update(_object=content["line"]["_object"][:-20]),
        ["table line", "damaged"],
    ),
    "nested beyond reason": (
        lambda content: content["line"].update(_object="[" * 100000),
        ["table line", "damaged"],
    ),
    "a key twice": (
        lambda content: content["line"].update(
            _object='{"columns": [], ' + content["line"]["_object"][1:]
        ),
        ["table line", "damaged"],
    ),
    "fewer rows than numbers": (body("bus", index=[0, 1]), ["table bus", "number of rows"]),
    "a short row": (body("bus", data=[[1], [2], [3]]), ["table bus, row 1", "number of columns"]),
    "a bus twice": (body("bus", index=[0, 1, 1]), ["table bus, row 3", "bus 1 occurs twice"]),
    "a bus by text": (body("bus", index=[0, 1, "x"]), ["table bus, row 3", "whole number"]),
    "no reactance": (dropped("line", "x_ohm_per_km"), ["table line", "x_ohm_per_km is missing"]),
    "text in a number": (
        cell("line", 0, "x_ohm_per_km", "0.35"),
        ["table line, row 1", "x_ohm_per_km is not a number"],
    ),
    "a missing number": (
        cell("line", 0, "x_ohm_per_km", None),
        ["table line, row 1", "x_ohm_per_km is empty"],
    ),
    "infinity": (
        cell("line", 0, "x_ohm_per_km", float("inf")),
        ["table line, row 1", "x_ohm_per_km is NaN or infinite"],
    ),
    "beyond all numbers": (
        cell("line", 0, "x_ohm_per_km", 10**400),
        ["table line, row 1", "x_ohm_per_km is NaN or infinite"],
    ),
    "true for a number": (
        cell("line", 0, "x_ohm_per_km", True),
        ["table line, row 1", "x_ohm_per_km is not a number"],
    ),
    "an unknown bus": (cell("line", 0, "to_bus", 77), ["table line, row 1", "bus 77 is unknown"]),
    "half a bus": (
        cell("line", 0, "to_bus", 0.35),
        ["table line, row 1", "to_bus is no whole number"],
    ),
    "a load nowhere": (cell("load", 0, "bus", 9), ["table load, row 1", "bus 9 is unknown"]),
    "a doubtful state": (
        cell("load", 0, "in_service", "yes"),
        ["table load, row 1", "neither true nor false"],
    ),
    "a voltage of zero": (
        cell("bus", 0, "vn_kv", 0),
        ["table bus, row 1", "vn_kv is not usable"],
    ),
    "no short-circuit voltage": (
        cell("trafo", 0, "vk_percent", 0.1),
        ["table trafo, row 1", "vkr exceeds its vk"],
    ),
    "a table of taps": (
        cell("trafo", 0, "tap_dependency_table", True),
        ["table trafo, row 1", "depends on a table of taps"],
    ),
    "an unknown changer": (
        cell("trafo", 0, "tap_changer_type", "Magic"),
        ["table trafo, row 1", "tap_changer_type is unknown"],
    ),
    "a tap ratio of zero": (
        cell("trafo", 0, "tap_step_percent", -100 / 3),
        ["table trafo, row 1", "tap ratio is not usable"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_defect_is_refused_by_table_and_row_and_no_private_value_is_quoted(name):
    change, said = BAD[name]
    content = document(change)
    with pytest.raises(InputError) as refusal:
        read_pandapower_json(Path("net.json"), content)
    for words in ["net.json", *said]:
        assert words in str(refusal.value)
    assert refusal.value.remedy
    assert "0.35" not in str(refusal.value)


@pytest.mark.parametrize("content", [[], {}, 3, None, {"_class": "pandapowerNet", "_object": []}])
def test_json_of_something_else_is_no_net(content):
    with pytest.raises(InputError, match="no pandapower net"):
        read_pandapower_json(Path("net.json"), content)


def test_a_switch_at_no_end_of_its_line_is_refused():
    net = small()
    pp.create_switch(net, 1, 0, et="l", closed=False)
    net.switch.loc[0, "bus"] = 0
    with pytest.raises(InputError, match="table switch, row 1: the switch is at no end of line 0"):
        from_json(net)


def test_an_impedance_that_differs_by_direction_is_refused():
    net = small()
    pp.create_impedance(net, 1, 2, 0.01, 0.08, 15.0, xtf_pu=0.09)
    with pytest.raises(
        InputError, match="table impedance, row 1: the impedance differs by direction"
    ):
        from_json(net)


def test_a_series_capacitor_with_thyristors_is_refused():
    net = small()
    pp.create_tcsc(net, 1, 2, 1, -10, -100, 140)
    with pytest.raises(InputError, match="table tcsc, row 1"):
        from_json(net)
