"""Devices, loads and network of a detailed case against ANDES: after its setup, all is on the
system base there too.
"""

import json

import numpy as np
import pytest

from andes_helpers import andes  # noqa: F401 - a fixture
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.readers.andes.devices import BASES
from gridveil.readers.cases import read_grid
from gridveil.readers.detailed import detailed_case
from gridveil.readers.dynamics import Dynamics
from psse_helpers import ANDES

pytestmark = pytest.mark.slow

# The case, and the DYR that goes with a RAW.
CASES = (
    ("kundur/kundur_full.xlsx", None),
    ("kundur/kundur_full.json", None),
    ("kundur/kundur_exst1.xlsx", None),
    ("kundur/kundur_sexs.xlsx", None),
    ("kundur/kundur_ieeest.xlsx", None),
    ("kundur/kundur_esdc2a.xlsx", None),
    ("ieee14/ieee14_full.xlsx", None),
    ("ieee14/ieee14_gast.xlsx", None),
    ("ieee14/ieee14_hygov.xlsx", None),
    ("ieee14/ieee14_esdc1a.xlsx", None),
    ("ieee14/ieee14_ieeet1.xlsx", None),
    ("ieee39/ieee39_full.xlsx", None),
    ("npcc/npcc.xlsx", None),
    ("wecc/wecc_full.xlsx", None),
    ("kundur/kundur.raw", "kundur/kundur_full.dyr"),
    ("kundur/kundur.raw", "kundur/kundur_gencls.dyr"),
    ("ieee14/ieee14.raw", "ieee14/ieee14.dyr"),
    ("npcc/npcc.raw", "npcc/npcc_full.dyr"),
    ("wecc/wecc.raw", "wecc/wecc_full.dyr"),
)
TYPICAL = {"unknown_devices": "typical"}

ORACLE = """
import json, sys
import andes
andes.config_logger(50)
numbers = lambda values: [float(value) for value in values]
names = lambda values: [str(value) for value in values]
answers = []
for raw, dyr in json.loads(sys.argv[1]):
    system = andes.load(raw, addfile=dyr, default_config=True, no_output=True)
    bus_of = {}
    def owner(model, row):
        for column, group in (("syn", "SynGen"), ("avr", "Exciter")):
            if column in model.idx_params and hasattr(model, column):
                index = getattr(model, column).v[row]
                other = system.groups[group].idx2model(index)
                return owner(other, other.idx2uid(index))
        return str(model.bus.v[row])
    devices = {}
    for model in system.models.values():
        if model.n and model.group in ("SynGen", "Exciter", "TurbineGov", "PSS"):
            devices[model.class_name] = [
                {"bus": owner(model, row), "u": float(model.u.v[row]),
                 **{name: float(param.v[row]) for name, param in model.num_params.items()
                    if isinstance(param.v[row], (int, float)) and name != "bus"}}
                for row in range(model.n)]
    line, pq = system.Line, system.PQ
    answers.append({
        "devices": devices, "bus": names(system.Bus.idx.v),
        "line": [names(line.bus1.v), names(line.bus2.v),
                 *(numbers(getattr(line, name).v) for name in ("u", "r", "x", "b", "tap", "phi"))],
        "load": [names(pq.bus.v), *(numbers(getattr(pq, name).v) for name in ("u", "p0", "q0"))],
        "unit": [[str(bus), float(p), float(v), float(u)] for model in (system.PV, system.Slack)
                 for bus, p, v, u in zip(model.bus.v, model.p0.v, model.v0.v, model.u.v)],
        "slack": names(system.Slack.bus.v),
    })
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def oracle(andes):  # noqa: F811 - the fixture
    paths = [[str(ANDES / raw), dyr and str(ANDES / dyr)] for raw, dyr in CASES]
    answers = json.loads(andes(ORACLE, json.dumps(paths)).splitlines()[-1])
    return dict(zip(CASES, answers, strict=True))


def read(raw, dyr):
    grid = read_grid(ANDES / raw, dyr and ANDES / dyr)
    return detailed_case(grid, Dynamics().over(TYPICAL))[0]


def replaced(theirs, table):
    """Whether a table holds typical devices in place of what ANDES has."""
    return table.model not in theirs


@pytest.mark.parametrize("files", CASES, ids=lambda files: " ".join(filter(None, files)))
def test_devices_are_as_andes_has_them_on_the_system_base(oracle, files):
    case, theirs = read(*files), oracle[files]["devices"]
    compared = 0
    for table in case.devices:
        if replaced(theirs, table):
            continue
        rows = {}
        for row in theirs[table.model]:
            if row["u"]:
                rows.setdefault(row["bus"], []).append(row)
        for position, unit in enumerate(table.unit):
            bus = case.buses[case.units.bus[unit]]
            if bus not in rows:
                continue  # a typical one
            row = rows[bus].pop(0)
            for name, column in table.values.items():
                # PSS/E's constants are on the machine's base, also those that ANDES leaves as
                # they are.
                if name in row and not (files[1] and name in BASES.get(table.model, ())):
                    value = row[name]
                    mode = DEVICES[table.model].gains.get(name)
                    if mode and row[mode] == 3:  # of power on the machine's base
                        value = value * 100 / row["Sn"]
                    assert column[position] == pytest.approx(value, rel=1e-12, abs=1e-15), name
                    compared += 1
    assert compared > 10


@pytest.mark.parametrize("files", CASES, ids=lambda files: " ".join(filter(None, files)))
def test_network_loads_and_units_are_as_andes_has_them(oracle, files):
    case, theirs = read(*files), oracle[files]
    close = {"rtol": 1e-12, "atol": 1e-15}
    at = {bus: position for position, bus in enumerate(case.buses)}
    assert list(case.buses) == theirs["bus"]
    i, j, u, r, x, b, tap, phi = theirs["line"]
    on = np.array(u) == 1
    mine = case.branches
    np.testing.assert_array_equal(
        mine.ends, np.array([[at[one], at[two]] for one, two in zip(i, j, strict=True)])[on]
    )
    np.testing.assert_allclose(mine.series.imag, np.array(x)[on], **close)
    # ANDES reads an r of 0 as 1e-8
    np.testing.assert_allclose(mine.series.real, np.array(r)[on], rtol=1e-12, atol=1.1e-8)
    np.testing.assert_allclose(mine.charging, np.array(b)[on], **close)
    np.testing.assert_allclose(np.abs(mine.ratio), np.array(tap)[on], **close)
    np.testing.assert_allclose(np.angle(mine.ratio), np.array(phi)[on], **close)
    bus, u, p, q = theirs["load"]
    on = np.array(u) == 1
    np.testing.assert_array_equal(case.loads.bus, np.array([at[one] for one in bus])[on])
    np.testing.assert_allclose(case.loads.power, (np.array(p) + 1j * np.array(q))[on], **close)
    units = sorted([bus, p, v] for bus, p, v, u in theirs["unit"] if u)
    ours = zip(case.units.bus, case.units.power, case.units.set_point, strict=True)
    for one, other in zip(sorted([case.buses[k], p, v] for k, p, v in ours), units, strict=True):
        assert one == [other[0], *map(pytest.approx, other[1:])]
    assert case.buses[case.units.bus[case.units.slack]] in theirs["slack"]
