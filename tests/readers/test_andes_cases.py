"""The cases that ANDES ships with dynamics: read as ANDES itself has them, released, fitted,
verified and exported.
"""

import json
import time
from fractions import Fraction

import numpy as np
import pytest

from andes_helpers import andes  # noqa: F401 - a fixture
from cli_helpers import gridveil
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.grid.parameters import Bounds, Range
from gridveil.inference.fit import FitSettings, Observation
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS
from gridveil.privacy.provenance import Provenance
from gridveil.publication.bundle import load, verify
from gridveil.publication.export import FORMATS, export
from gridveil.readers.cases import open_grid, read_grid
from gridveil.readers.cases.packages import package_case
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import Private
from gridveil.vault.truth import true_model
from gridveil.workflow.publish import publish

pytestmark = pytest.mark.slow

CASES = {"kundur": {}, "ieee14": {}, "ieee39": {}, "npcc": {}, "wecc": {"negative_x": "abs"}}
MORE = {"kundur/kundur_full.json": {}, "ieee14/ieee14.json": {}, "GBnetwork": {}, "5bus": {}}
# Wide enough for any of them, and round: declared, not taken from a case.
BOUNDS = Bounds(
    {"k": Range(0.1, 1e4), "k_r": Range(0, 1e4), "m": Range(1, 5e3), "d": Range(0, 2e3)},
    origin="wide round numbers",
)

ORACLE = """
import json, sys
import andes
andes.config_logger(50)
found = {}
for path in sys.argv[1:]:
    system = andes.load(path, default_config=True, no_output=True)
    assert system.PFlow.run()
    numbers = lambda model, *names: [dict(zip(names, map(float, row))) for row in
                                     zip(*(getattr(model, name).v for name in names))]
    names = lambda values: [str(value) for value in values]
    line, units, governors = system.Line, [], []
    for model in (system.GENCLS, system.GENROU):
        rows = numbers(model, "u", "M", "D", "fn")
        for bus, index, row in zip(names(model.bus.v), names(model.idx.v), rows):
            units.append({"bus": bus, "idx": index, **row})
    turbines = ("K", *(f"T{n}" for n in range(1, 8)), "K1n", "K3n", "K5n", "K7n")
    for name, columns in {"TGOV1": ("R", "T1", "T2", "T3"), "TGOV1N": ("R", "T1", "T2", "T3"),
                          "TG2": ("R", "T1", "T2"), "IEEEG1": turbines}.items():
        model = getattr(system, name)
        if model.n:
            model.s_update() if name == "IEEEG1" else None
            governors += [{"model": name, "syn": syn, **row} for syn, row in
                          zip(names(model.syn.v), numbers(model, "u", *columns))]
    found[path] = {
        "bus": names(system.Bus.idx.v), "v": list(system.Bus.v.v), "a": list(system.Bus.a.v),
        "base": system.config.mva, "from": names(line.bus1.v), "to": names(line.bus2.v),
        "line": numbers(line, "u", "r", "x", "tap", "phi"), "units": units, "governors": governors,
    }
print(json.dumps(found))
"""


@pytest.fixture(scope="session")
def oracle(andes):  # noqa: F811 - the fixture
    """What ANDES has of every case, on the system base, after its own power flow."""
    paths = {name: str(package_case(f"andes:{name}")) for name in (*CASES, *MORE)}
    found = json.loads(andes(ORACLE, *paths.values()).splitlines()[-1])
    return {name: found[path] for name, path in paths.items()}


def weights(system):
    """k of every pair of buses at ANDES's operating point, parallel lines summed."""
    at = {bus: position for position, bus in enumerate(system["bus"])}
    v, a = np.array(system["v"]), np.array(system["a"])
    k = {}
    for i, j, line in zip(system["from"], system["to"], system["line"], strict=True):
        if line["u"]:
            across = a[at[i]] - a[at[j]] - line["phi"]
            pair = frozenset((i, j))
            k[pair] = k.get(pair, 0.0) + v[at[i]] * v[at[j]] * np.cos(across) / (
                line["tap"] * abs(line["x"])
            )
    return k


def by_bus(system, what):
    found = {}
    for unit in system["units"]:
        if unit["u"]:
            found[unit["bus"]] = found.get(unit["bus"], 0.0) + unit[what]
    return found


def transfer(one, s):
    """A governor's transfer function from ANDES's own parameters, block by block."""
    lag = {name: 1 / (1 + s * value) for name, value in one.items() if name.startswith("T")}
    if one["model"] == "IEEEG1":
        steam, total = one["K"] / lag["T2"] * lag["T1"] * lag["T3"] * lag["T4"], 0.0
        for share, after in (
            ("K1n", 1.0),
            ("K3n", lag["T5"]),
            ("K5n", lag["T6"]),
            ("K7n", lag["T7"]),
        ):
            steam *= after
            total += one[share] * steam
        return total
    return (
        lag["T2"] / lag["T1"] / one["R"]
        if one["model"] == "TG2"
        else lag["T1"] * lag["T3"] / lag["T2"] / one["R"]
    )


def responses(system):
    """Rate and gain of every machine by its governor in ANDES: 1/T = g(0)/g(1) − 1, G = g(0); gain
    0 without one.
    """
    found = {unit["idx"]: (unit["bus"], np.nan, 0.0) for unit in system["units"] if unit["u"]}
    for one in system["governors"]:
        gain = transfer(one, 0.0)
        found[one["syn"]] = (found[one["syn"]][0], 1 / (gain / transfer(one, 1.0) - 1), gain)
    return found


@pytest.mark.parametrize("name", [*CASES, *MORE])
def test_inertia_damping_governor_and_k_are_as_andes_has_them(oracle, name):
    system, options = oracle[name], (CASES | MORE)[name]
    source = open_grid(f"andes:{name}", options=options)
    facts = source.facts
    machines = [facts.buses[bus] for bus in facts.machines]
    assert facts.buses == tuple(system["bus"])
    assert (facts.base_mva, facts.frequency_hz) == (system["base"], system["units"][0]["fn"])
    for values, what in ((source.values["m"], "M"), (source.values["d"], "D")):
        theirs = by_bus(system, what)
        assert machines == [bus for bus in facts.buses if bus in theirs]
        assert Private.open(values) == pytest.approx([theirs[bus] for bus in machines], rel=1e-9), (
            what
        )
    k = weights(system)
    ours = {
        frozenset(facts.edge_name(e).split("-")): value
        for e, value in enumerate(Private.open(source.values["k"]))
    }
    assert ours.keys() == k.keys()
    # ANDES adds 1e-8 p.u. to every r and x in its power flow, and stops at 1e-6 p.u. of mismatch.
    assert max(abs(ours[pair] / k[pair] - 1) for pair in k) < 5e-6
    units = read_grid(package_case(f"andes:{name}")).machines
    ours = zip(
        [facts.buses[bus] for bus in units.bus], units.governor_rate, units.droop_gain, strict=True
    )
    governed, theirs = (
        sorted(one for one in units if one[2] > 0) for units in (ours, responses(system).values())
    )
    assert [bus for bus, _, _ in governed] == [bus for bus, _, _ in theirs]
    assert np.array([one[1:] for one in governed]) == pytest.approx(
        np.array([one[1:] for one in theirs]), rel=1e-9
    )
    assert facts.droop_gain.sum() == pytest.approx(sum(gain for _, _, gain in theirs))


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_released_fitted_verified_and_exported(name, tmp_path):
    source = open_grid(
        f"andes:{name}", options=CASES[name] | {"damping": 2.0, "publish_loads": True}
    )
    event = Event.uniform(0.02)
    settings = FitSettings(dt_s=0.05, iterations=8)
    trajectory = simulate(
        true_model(source), event, horizon_s=5.0, dt_s=settings.dt_s, scheme=settings.scheme
    )
    observed = [
        Observation(
            event, trajectory, Provenance("simulated", "the case's own answer to +2 % load")
        )
    ]
    started = time.process_time()
    release = publish(
        source,
        observed,
        epsilon=Fraction(1),
        adjacency=Adjacency(),
        bounds=BOUNDS,
        ledger=None,
        settings=settings,
        sampler=DemoSampler(1),
    )
    assert time.process_time() - started < 60  # processor time: others may use the machine
    assert release.fitted.mismatch_after < release.fitted.mismatch_before
    release.save(tmp_path / "bundle", formats=["andes"])
    report = verify(tmp_path / "bundle")
    assert (report.demo, report.machines) == (True, len(source.facts.machines))
    loaded = load(tmp_path / "bundle")
    for form in FORMATS:
        assert all(export(loaded, form).values()), form


def test_an_exported_case_is_read_back_as_the_release_has_it(tmp_path):
    source = open_grid("andes:ieee14", options={"damping": 2.0})
    release = publish(
        source,
        epsilon=Fraction(1),
        adjacency=Adjacency(),
        bounds=BOUNDS,
        ledger=None,
        sampler=DemoSampler(1),
        allocation=ITEMS,
    )
    for name, content in export(release, "andes").items():
        if name.endswith((".json", ".xlsx")):
            (tmp_path / name).write_bytes(content)
            back = open_grid(str(tmp_path / name), options={"operating_point": "flat"})
            assert Private.open(back.values["m"]) == pytest.approx(release.model.m, rel=1e-9)
            assert Private.open(back.values["d"]) == pytest.approx(release.model.d, rel=1e-9)
            assert back.facts.governor_rate == pytest.approx(release.model.governor_rate, rel=1e-9)
            assert back.facts.droop_gain == pytest.approx(release.model.droop_gain, rel=1e-9)
            assert back.facts.omega_b == pytest.approx(release.model.omega_b)


def test_a_real_release_of_an_andes_case_through_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "ledger.sqlite"))
    bounds = ("--bounds", "k=1:1000,m=1:2000,d=1:40", "--bounds-origin", "round numbers")
    done = gridveil(
        "release", "andes:kundur", "--epsilon", "1", "--damping", "2", *bounds, "--json"
    )
    assert done.code == 0, done.err
    assert gridveil("verify", "release").code == 0
    exported = gridveil("export", "release", "--to", "andes", "--out", "exported")
    assert exported.code == 0, exported.err
    entries = json.loads(gridveil("ledger", "show", "--json").out)
    assert "andes:kundur" in json.dumps(entries)
