"""Detailed cases of PSS/E and ANDES files: devices on the system base, what is not known refused by
its name or replaced, and each error without a value.
"""

import json
import random
import traceback

import numpy as np
import pytest

from cli_helpers import found_in
from fuzzing import mutate
from gridveil.dynamics.detailed.fields import RECORDS
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.foundation.errors import GridveilError, InputError
from gridveil.readers.assemble import assemble
from gridveil.readers.cases import read_grid
from gridveil.readers.detailed import detailed_case
from gridveil.readers.dynamics import Dynamics, read_dynamics
from gridveil.readers.psse import read_psse
from privacy_helpers import locals_seen
from psse_helpers import LINE, MACHINE, SMALL, raw

# Figures that no error may show; on machine bases of 250 and 400 MVA, a system base of 200.
PLANTED = (6.1237459871, 0.2718281923, 1.6180339981, 0.0314159265)
GENROU = f"8.0 0.03 0.4 0.05 {PLANTED[0]} 1.5 1.8 1.7 0.3 0.55 {PLANTED[1]} 0.06 0.1 0.4"
EXST1 = f"0.01 0.2 -0.2 1.0 10.0 {PLANTED[2]} 0.02 7.0 -6.0 0.04 0.0 1.0"
IEEEST = f"1 0 0 0 0 0 0 0 0.05 0.02 3.0 5.4 10.0 10.0 {PLANTED[3]} 0.1 -0.1 0 0"
TGOV1 = f"{PLANTED[3]} 0.4 1.0 0.0 2.0 7.0 0.0"
UNIT = f"{{0}} 'GENROU' 1 {GENROU} /\n"
BOTH = UNIT.format(1) + UNIT.format(2)
TWO = SMALL | {"generator": [MACHINE.format(1, 250.0), MACHINE.format(2, 400.0)]}
FILED_SHARES = (
    "1 loads have shares of their own in the file, which are private: a release takes the declared "
    "zip for all"
)


def psse(folder, text, sections=TWO, **options):
    path = folder / "case.dyr"
    path.write_text(text)
    return detailed_case(read_psse(raw(folder, sections), path), Dynamics().over(options))


def refused(read, *said):
    with pytest.raises(InputError) as caught:
        read()
    shown = "".join(traceback.format_exception(caught.value)) + str(caught.value)
    for words in said:
        assert words in str(caught.value)
    assert found_in(shown.encode(), np.array(PLANTED)) == []
    assert caught.value.expected and caught.value.remedy


def table(case, model):
    return next(table for table in case.devices if table.model == model)


# --- PSS/E ----------------------------------------------------------------------------------------


def test_constants_of_a_dyr_are_read_by_name_and_put_on_the_system_base(tmp_path):
    text = f"{BOTH}2 'EXST1' 1 {EXST1} /\n2 'IEEEST' 1 {IEEEST} /\n2 'TGOV1' '1 ' {TGOV1} /"
    case, notes = psse(tmp_path, text)
    machine = table(case, "GENROU")
    assert machine.unit.tolist() == [0, 1]
    shares = np.array([250.0, 400.0]) / 200
    assert machine.values["M"] == pytest.approx(2 * PLANTED[0] * shares, rel=1e-15)
    assert machine.values["xd2"] == pytest.approx(PLANTED[1] / shares, rel=1e-15)
    assert machine.values["xq2"].tolist() == machine.values["xd2"].tolist()
    assert machine.values["Td10"].tolist() == [8, 8]
    assert table(case, "EXST1").unit.tolist() == [1]
    assert table(case, "EXST1").values["KA"].tolist() == [PLANTED[2]]
    assert table(case, "IEEEST").values["KS"].tolist() == [PLANTED[3]]
    assert table(case, "TGOV1").values["R"] == pytest.approx([PLANTED[3] / 2], rel=1e-15)
    assert table(case, "TGOV1").values["VMAX"].tolist() == [2.0]
    assert case.buses[case.units.bus[case.units.slack]] == "1"
    assert notes == ("1 loads out of service left out", FILED_SHARES)


def test_a_classical_machines_reactance_is_its_source_impedance(tmp_path):
    case, _ = psse(tmp_path, "1 'GENCLS' 1 4.0 2.0 /\n" + UNIT.format(2))
    values = table(case, "GENCLS").values
    assert values["xd1"] == pytest.approx([0.2 * 200 / 250])
    assert values["M"] == pytest.approx([2 * 4.0 * 250 / 200])


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_of_the_table_is_read_in_its_order(tmp_path, name):
    record = RECORDS[name]
    constants = [str((n + 1) / 128) for n in range(len(record.constants))]
    if record.constants[:2] == ("BUS2", "ID2"):
        constants[:2] = ["0", "0"]
    path = tmp_path / "case.dyr"
    path.write_text(f"1 '{record.model}' 1 {' '.join(constants)} /")
    (device,) = read_psse(raw(tmp_path, TWO), path).devices
    assert (device.model, device.machine, device.base_mva) == (name, 0, 250)
    for place, constant in enumerate(record.constants):
        if constant == "H":
            assert device.constants["M"] == 2 * (place + 1) / 128
        elif constant not in ("BUS2", "ID2"):
            assert device.constants[constant] == (place + 1) / 128


@pytest.mark.parametrize("name", DEVICES)
def test_every_parameter_that_a_record_has_is_the_devices(name):
    known = {parameter.name for parameter in DEVICES[name].parameters}
    if name not in RECORDS:
        assert name in {"TGOV1N", "TWOAXIS", "REGCV1", "REGF1", "REGCP1"}
        return
    record = RECORDS[name]
    written = {"M" if one == "H" else one for one in record.constants}
    assert known <= written | record.source.keys() | record.same.keys()


def test_a_users_model_is_read_under_its_own_name(tmp_path):
    text = UNIT.format(2) + f"1 'USRMDL' 1 'GENROU' 1 1 0 14 6 0 {GENROU} /"
    assert table(psse(tmp_path, text)[0], "GENROU").unit.tolist() == [0, 1]


def test_units_out_of_service_take_their_devices_along(tmp_path):
    off = MACHINE.format(2, 400.0).replace("1, 100.0", "0, 100.0")
    case, notes = psse(tmp_path, BOTH, TWO | {"generator": [MACHINE.format(1, 250.0), off]})
    assert len(case.units.bus) == len(table(case, "GENROU").unit) == 1
    assert "1 machines out of service left out" in notes


def test_units_of_one_bus_stay_apart(tmp_path):
    second = MACHINE.format(1, 400.0).replace("'1 '", "'B '")
    text = UNIT.format(1) + UNIT.format(1).replace("'GENROU' 1", "'GENROU' B")
    case, _ = psse(tmp_path, text, SMALL | {"generator": [MACHINE.format(1, 250.0), second]})
    assert case.units.bus.tolist() == [0, 0]
    assert table(case, "GENROU").unit.tolist() == [0, 1]


def test_loads_have_the_files_shares_where_it_has_them(tmp_path):
    more = [*TWO["load"], "30, '1 ', 1, 1, 1, 50.0, 20.0, 0, 0, 0, 0, 1"]
    case, notes = psse(tmp_path, BOTH, TWO | {"load": more}, zip=(0.1, 0.2, 0.7, 0.3, 0.3, 0.4))
    loads = case.loads
    assert loads.bus.tolist() == [1, 2]
    # 30 + 8 + 5 MW and 10 + 4 + 2 Mvar at 1 p.u.
    assert loads.power == pytest.approx([(43 + 16j) / 200, (50 + 20j) / 200])
    assert loads.impedance[0] == pytest.approx([5 / 43, 2 / 16])
    assert loads.current[0] == pytest.approx([8 / 43, 4 / 16])
    assert loads.impedance[1] == pytest.approx([0.1, 0.3])
    assert loads.current[1] == pytest.approx([0.2, 0.3])
    declared = "1 loads do not say how they depend on voltage: zip = 0.1 0.2 0.7 0.3 0.3 0.4"
    assert {declared, FILED_SHARES} <= set(notes)


@pytest.mark.parametrize(("zip_", "shares"), [("Z", (1, 0)), ("I", (0, 1)), ("P", (0, 0))])
def test_declared_loads(tmp_path, zip_, shares):
    plain = TWO | {"load": ["2, '1 ', 1, 1, 1, 50.0, 20.0, 0, 0, 0, 0, 1"]}
    loads = psse(tmp_path, BOTH, plain, zip=zip_)[0].loads
    assert (loads.impedance.tolist(), loads.current.tolist()) == (
        [[shares[0]] * 2],
        [[shares[1]] * 2],
    )


def test_merged_buses_take_their_loads_along(tmp_path):
    tie = [LINE.format(1, 2, 0.1234567, 1), LINE.format(2, 30, 0.0, 1)]
    more = {"branch": tie, "load": ["30, '1 ', 1, 1, 1, 50.0, 20.0, 0, 0, 0, 0, 1"]}
    case, _ = psse(tmp_path, BOTH, TWO | more, zero_x="merge")
    assert (case.buses, case.loads.bus.tolist()) == (("1", "2"), [1])
    refused(lambda: psse(tmp_path, BOTH, TWO | more), "--zero-x merge")


def test_a_negative_reactance_keeps_its_sign(tmp_path):
    lines = [LINE.format(1, 2, 0.1234567, 1), LINE.format(2, 30, -0.05, 1)]
    case, _ = psse(tmp_path, BOTH, TWO | {"branch": lines})
    assert case.branches.series.imag.tolist() == [0.1234567, -0.05]


# --- what is not known ----------------------------------------------------------------------------


def test_an_unknown_model_is_refused_by_its_name(tmp_path):
    text = f"{BOTH}2 'ESST4B' 1 {EXST1} /"
    refused(
        lambda: psse(tmp_path, text),
        "case.dyr, table ESST4B, row 3, line 3",
        "the model ESST4B of the unit at bus 2 is not known",
        "EXST1",
        "unknown_devices = typical",
    )


def test_or_replaced_by_its_roles_typical_device(tmp_path):
    text = f"{BOTH}2 'ESST4B' 1 {EXST1} /\n1 'DEGOV1' 1 1 2 3 /\n2 'OEL1' 1 2 3 /\n7 'DISTR1' 1 9 /"
    case, notes = psse(tmp_path, text, unknown_devices="typical")
    assert table(case, "SEXS").unit.tolist() == [1]
    assert table(case, "TGOV1").unit.tolist() == [0]
    typical = DEVICES["TGOV1"].parameter("R").typical
    assert table(case, "TGOV1").values["R"] == pytest.approx([typical * 200 / 250])
    assert "typical devices in place of 1 DEGOV1, 1 ESST4B" in notes
    assert any("1 OEL1 left out" in note for note in notes)
    assert any("1 DISTR1 left out: they belong to no unit" in note for note in notes)


def test_a_device_of_no_role_at_a_unit_is_refused_even_then(tmp_path):
    text = f"{BOTH}2 'SOMETHING' 1 {EXST1} /"
    refused(
        lambda: psse(tmp_path, text, unknown_devices="typical"),
        "the model SOMETHING of the unit at bus 2 is not known",
        "Take the record out",
    )


def test_a_unit_without_a_machine_is_refused_by_its_bus_or_gets_a_typical_one(tmp_path):
    refused(
        lambda: psse(tmp_path, UNIT.format(1)),
        "generator, row 2",
        "the unit at bus 2 has no machine or inverter model",
        "without_machine = typical",
    )
    case, notes = psse(tmp_path, UNIT.format(1), without_machine="typical")
    typical = DEVICES["GENROU"].parameter("xd").typical
    assert table(case, "GENROU").values["xd"][1] == pytest.approx(typical / 2)
    assert "1 units without a machine model got a typical machine" in notes


def test_controls_that_have_nothing_to_act_on_are_left_out_and_counted(tmp_path):
    text = f"1 'GENCLS' 1 4.0 2.0 /\n1 'EXST1' 1 {EXST1} /\n{UNIT.format(2)}2 'IEEEST' 1 {IEEEST} /"
    case, notes = psse(tmp_path, text)
    assert [table.model for table in case.devices] == ["GENCLS", "GENROU"]
    assert any("1 EXST1, 1 IEEEST left out" in note for note in notes)


# --- bad records ----------------------------------------------------------------------------------

BAD = {
    "short": (
        f"{BOTH}2 'EXST1' 1 {EXST1.rsplit(' ', 2)[0]} /",
        ["case.dyr, table EXST1, row 3, line 3", "the record has 10 constants", "expected 12"],
    ),
    "no number": (
        f"{BOTH}2 'EXST1' 1 {EXST1.replace('7.0', '7.0x')} /",
        ["table EXST1, row 3", "constant 8 is not a finite number"],
    ),
    "no identifier": (
        f"{BOTH}2 'EXST1' 'ABC' {EXST1} /",
        ["table EXST1", "no identifier of a machine"],
    ),
    "two": (
        f"{BOTH}2 'EXST1' 1 {EXST1} /\n2 'SEXS' 1 0.1 10 {PLANTED[2]} 0.05 -4 5 /",
        ["table SEXS, row 4", "the unit at bus 2 has two devices of the kind exciter"],
    ),
    "no inertia": (
        UNIT.format(1) + UNIT.format(2).replace(str(PLANTED[0]), "0.0"),
        ["table GENROU, row 2", "M of the GENROU of the unit at bus 2 is not usable", "above 0"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_record_is_named_by_its_place(tmp_path, case):
    text, said = BAD[case]
    refused(lambda: psse(tmp_path, text), *said)


@pytest.mark.parametrize("case", ["short", "no number", "two"])
def test_a_swing_model_does_not_ask_for_what_it_leaves_out(tmp_path, case):
    path = tmp_path / "case.dyr"
    path.write_text(BAD[case][0])
    grid = read_psse(raw(tmp_path, TWO), path)
    assert assemble(grid, Dynamics()).facts.machines.tolist() == [0, 1]


def test_a_step_up_transformer_inside_a_generator_is_refused(tmp_path):
    inside = MACHINE.format(2, 400.0).replace("0.2, 0.0, 0.0,", "0.2, 0.0, 0.1,")
    assert inside != MACHINE.format(2, 400.0)
    refused(
        lambda: psse(tmp_path, BOTH, TWO | {"generator": [MACHINE.format(1, 250.0), inside]}),
        "table GENROU, row 2",
        "step-up transformer",
    )


def test_a_governor_of_two_machines_is_refused(tmp_path):
    constants = " ".join(["1.0"] * 20)
    refused(
        lambda: psse(tmp_path, f"{BOTH}1 'IEEEG1' 1 2 1 {constants} /"),
        "table IEEEG1, row 3",
        "the governor drives a second machine",
    )


# --- ANDES ----------------------------------------------------------------------------------------


def andes_case():
    def static(bus, **more):
        return {"idx": bus, "u": 1, "Sn": 300, "Vn": 20, "bus": bus, "p0": 1.0, "v0": 1.02, **more}

    def device(idx, **values):
        return {"idx": idx, "u": 1, **values}

    machine = {"Vn": 22, "fn": 50, "D": 0.0, "M": PLANTED[0], "ra": 0.0, "xl": 0.06, "xd": 1.8}
    return {
        "Bus": [{"idx": bus, "u": 1, "Vn": 20, "v0": 1.0, "a0": 0.0} for bus in (1, 2)],
        "PQ": [
            device("A", bus=1, Vn=20, p0=0.9, q0=0.2),
            device("B", bus=2, Vn=20, p0=0.8, q0=PLANTED[1]),
        ],
        "PV": [static(2)],
        "Slack": [static(1, a0=0.0)],
        "Line": [device("L", bus1=1, bus2=2, Sn=100, Vn1=20, Vn2=20, r=0.0, x=0.1, b=0.0)],
        "GENROU": [
            device("M1", bus=1, gen=1, Sn=300, gammap=1.0, gammaq=1.0, **machine),
            device("M2", bus=2, gen=2, Sn=200, gammap=0.25, gammaq=0.25, **machine),
            device("M3", bus=2, gen=2, Sn=200, gammap=0.75, gammaq=0.75, **machine),
        ],
        "EXST1": [device("E3", syn="M3", KA=PLANTED[2])],
        "IEEEST": [device("S3", avr="E3", MODE=1, KS=PLANTED[3])],
        "TGOV1": [device("T1", syn="M1", Tn=150, R=0.05, T1=0.1, T2=1.0, T3=5.0, Dt=0.0)],
    }


def andes(folder, change=lambda case: None, **options):
    case = andes_case()
    change(case)
    path = folder / "case.json"
    path.write_text(json.dumps(case))
    return detailed_case(read_grid(path), Dynamics().over(options))


def test_devices_of_an_andes_file_have_their_own_bases(tmp_path):
    case, _ = andes(tmp_path)
    machine = table(case, "GENROU")
    order = np.argsort(case.units.bus[machine.unit], kind="stable")
    # Z of 22 kV on a bus of 20 kV
    xd = 1.8 * 1.1**2 * 100 / np.array([300, 200, 200])
    assert machine.values["xd"][order] == pytest.approx(xd)
    assert machine.values["M"][order] == pytest.approx(PLANTED[0] * np.array([3, 2, 2]))
    assert machine.values["S12"].tolist() == [1.0] * 3  # ANDES's default
    power = case.units.power[machine.unit][order]
    assert power == pytest.approx([1.0, 0.25, 0.75])
    assert table(case, "TGOV1").values["R"] == pytest.approx([0.05 * 100 / 150])
    (third,) = table(case, "EXST1").unit
    assert table(case, "IEEEST").unit.tolist() == [third]
    assert case.units.power[third] == 0.75


def test_a_device_out_of_service_takes_along_what_belongs_to_it(tmp_path):
    case, _ = andes(tmp_path, lambda case: case["EXST1"][0].update(u=0))
    assert {table.model for table in case.devices} == {"GENROU", "TGOV1"}
    case, _ = andes(tmp_path, lambda case: case["GENROU"][2].update(u=0))
    assert len(table(case, "GENROU").unit) == 2


def test_zip_tables_and_settings_of_an_andes_file(tmp_path):
    own = {"kpp": 50, "kpi": 40, "kpz": 0, "kqp": 100, "kqi": 0, "kqz": 0}  # 50 of 90 %
    loads = andes(tmp_path, lambda case: case.update(ZIP=[{"idx": 1, "u": 1, "pq": "B", **own}]))[
        0
    ].loads
    assert loads.current[1] == pytest.approx([40 / 90, 0])
    assert loads.impedance.tolist() == [[1, 1], [0, 0]]
    shares = {"p2p": 0.5, "p2i": 0.3, "p2z": 0.2, "q2q": 0.0, "q2i": 0.0, "q2z": 1.0}
    config = [{"section": "PQ", "key": key, "value": value} for key, value in shares.items()]
    case, notes = andes(tmp_path, lambda case: case.update(_config=config), zip="P")
    assert case.loads.impedance == pytest.approx(np.array([[0.2, 1.0]] * 2))
    assert case.loads.current == pytest.approx(np.array([[0.3, 0.0]] * 2))
    assert not any("do not say" in note for note in notes)


def with_inverter(case, **tables):
    """A static generator of its own at bus 2, behind which an inverter stands."""
    case["PV"][0]["p0"] = 0.6
    case["PV"].append(case["PV"][0] | {"idx": 9, "p0": 0.4})
    case.update(tables)


def test_inverters_of_an_andes_file(tmp_path):
    forming = [{"idx": "I", "u": 1, "bus": 2, "gen": 9, "Sn": 50, "xf": 0.1, "wdrp": PLANTED[3]}]
    case, _ = andes(tmp_path, lambda case: with_inverter(case, REGF1=forming))
    values = table(case, "REGF1").values
    assert values["xf"] == pytest.approx([0.2])
    assert values["wdrp"].tolist() == [PLANTED[3]]  # ANDES does not convert it
    (unit,) = table(case, "REGF1").unit
    assert (case.units.power[unit], case.units.bus[unit]) == (0.4, 1)
    loop = [{"idx": "P", "u": 1, "bus": 2, "fn": 50, "Kp": PLANTED[2], "Ki": 0.2}]
    following = [{"idx": "I", "u": 1, "bus": 2, "gen": 9, "Sn": 50, "Tg": 0.02, "pll": "P"}]
    case, _ = andes(tmp_path, lambda case: with_inverter(case, REGCP1=following, PLL1=loop))
    assert table(case, "REGCP1").values["Kp"].tolist() == [PLANTED[2]]
    refused(
        lambda: andes(tmp_path, lambda case: with_inverter(case, REGCP1=following)),
        "table REGCP1, row 1",
        "column pll names no row of table PLL1",
    )


BAD_ANDES = {
    "owner": (
        lambda case: case["EXST1"][0].update(syn="nobody"),
        ["table EXST1, row 1", "column syn names nothing", "idx of a synchronous machine"],
    ),
    "exciter": (
        lambda case: case["IEEEST"][0].update(avr="nothing"),
        ["table IEEEST, row 1", "column avr names nothing", "idx of an exciter"],
    ),
    "text": (
        lambda case: case["EXST1"][0].update(KA=f"{PLANTED[2]}x"),
        ["table EXST1, row 1", "column KA is not a number"],
    ),
    "mode": (lambda case: case["IEEEST"][0].pop("MODE"), ["table IEEEST", "column MODE"]),
    "strange": (
        lambda case: case.update(MYAVR=[{"idx": 1, "u": 1, "syn": "M1", "K": PLANTED[2]}]),
        ["table MYAVR, row 1", "the model MYAVR of the unit at bus 1 is not known"],
    ),
    "zip": (
        lambda case: case.update(ZIP=[{"idx": 1, "u": 1, "pq": "B", "kpp": 1}]),
        ["table ZIP", "kpi"],
    ),
    "zip's load": (
        lambda case: case.update(
            ZIP=[dict.fromkeys(("kpp", "kpi", "kpz", "kqp", "kqi", "kqz"), 1) | {"pq": "X"}]
        ),
        ["table ZIP, row 1", "column pq names no load"],
    ),
}


@pytest.mark.parametrize("case", BAD_ANDES)
def test_a_bad_table_of_an_andes_file_is_named_by_its_place(tmp_path, case):
    change, said = BAD_ANDES[case]
    refused(lambda: andes(tmp_path, change), "case.json", *said)


# --- mutated files --------------------------------------------------------------------------------


def give_away(read, rng_seeds):
    """What errors of mutated files say of planted figures, and how many files were refused."""
    leaks, refusals = [], 0
    for number in range(rng_seeds):
        try:
            read(random.Random(f"detailed {number}"))
        except GridveilError as error:
            refusals += 1
            said = f"{error} {error!r} {error.args} {vars(error)} {locals_seen(error)}"
            if found := found_in(said.encode(), np.array(PLANTED)):
                leaks.append((number, found, str(error)))
    return leaks, refusals


def test_mutated_dyr_files_give_no_value_away(tmp_path):
    sound = f"{BOTH}2 'EXST1' 1 {EXST1} /\n2 'IEEEST' 1 {IEEEST} /\n2 'TGOV1' 1 {TGOV1} /\n"
    case, path = raw(tmp_path, TWO), tmp_path / "case.dyr"

    def read(rng):
        path.write_bytes(mutate(rng, sound.encode()))
        detailed_case(read_grid(case, path), Dynamics())

    leaks, refusals = give_away(read, 150)
    assert leaks == []
    assert refusals > 30


def test_mutated_andes_files_give_no_value_away(tmp_path):
    sound, path = json.dumps(andes_case(), indent=1), tmp_path / "case.json"

    def read(rng):
        path.write_bytes(mutate(rng, sound.encode()))
        detailed_case(read_grid(path), Dynamics())

    leaks, refusals = give_away(read, 150)
    assert leaks == []
    assert refusals > 30


# --- other formats, and settings ------------------------------------------------------------------


def test_a_format_without_devices_gets_typical_machines_on_request():
    from gridveil.readers.cases import HERE

    grid = read_grid(HERE / "ieee30.m")
    refused(lambda: detailed_case(grid, Dynamics()), "has no machine or inverter model")
    case, notes = detailed_case(grid, Dynamics().over({"without_machine": "typical"}))
    assert len(table(case, "GENROU").unit) == len(case.units.bus) == 6
    assert case.loads.power.sum() == pytest.approx(grid.buses.load.sum())
    assert any("6 units without a machine model" in note for note in notes)


@pytest.mark.parametrize(
    "text",
    ['zip = "Q"', "zip = [1, 0, 0]", "zip = [0.5, 0, 0, 1, 0, 0]", "zip = [2, -1, 0, 1, 0, 0]"],
)
def test_a_bad_zip_is_refused(tmp_path, text):
    path = tmp_path / "settings.toml"
    path.write_text(f"[detailed]\n{text}\n")
    with pytest.raises(InputError, match=r"zip is not usable|zip is unknown") as caught:
        read_dynamics(path)
    assert "Z, I, P, or six shares" in str(caught.value)


def test_settings_of_a_detailed_model_stand_in_a_table_of_their_own(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text('[detailed]\nzip = [0, 1, 0, 1, 0, 0]\nunknown_devices = "typical"\n')
    found = read_dynamics(path).detailed
    assert (found.shares, found.unknown_devices) == (((0, 1), (1, 0)), "typical")
    path.write_text('[dynamics]\ndetailed = "x"\n')
    with pytest.raises(InputError, match="table of its own"):
        read_dynamics(path)
