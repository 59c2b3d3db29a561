"""PSS/E dynamics: H and D on the system base, each governor as one lag with its gain, what is not
read counted by name.
"""

import numpy as np
import pytest
from scipy.signal import StateSpace, TransferFunction, lsim

from cli_helpers import found_in
from gridveil.foundation.errors import InputError
from gridveil.readers.cases import open_grid
from gridveil.readers.psse import read_psse
from gridveil.readers.psse.dyr import GOVERNORS, read_dyr
from psse_helpers import ANDES, LINE, MACHINE, SMALL, raw

GENROU = "8.0 0.03 0.4 0.05 {} {} 1.8 1.7 0.3 0.55 0.25 0.06 0.0 0.0"
GENSAL = "5.0 0.05 0.06 {} {} 1.1 0.7 0.25 0.2 0.12 0.03 0.25"
# on a system base of 200 MVA
TWO = SMALL | {"generator": [MACHINE.format(1, 250.0), MACHINE.format(2, 400.0)]}


def machines(folder, text, sections=TWO):
    path = folder / "case.dyr"
    path.write_text(text)
    return read_psse(raw(folder, sections), path)


@pytest.mark.parametrize(
    "record",
    [
        "1 'GENCLS' 1 4.0 2.0 /",
        f"1 'GENROU' 1 {GENROU.format(4.0, 2.0)} /",
        f"1,'GENROE','1 ',{GENROU.format(4.0, 2.0).replace(' ', ',')} / comment 'here",
        f"1 'GENSAL' '1' {GENSAL.format('4.0D0', '.2E1')}/",
        f"1 'GENSAE' 1\n   {GENSAL.format(4.0, 2.0)}\n/",
        f"1 'GENTPJ1' 1 {GENROU.format(4.0, 2.0)} 0.1 0.1 /",
        f"1 'GENTPF' 1 {GENROU.format(4.0, 2.0)} 0.1 /",
        f"1 'USRMDL' 1 'GENTPJU1' 1 1 0 16 6 1 {GENROU.format(4.0, 2.0)} 0.1 0.1 /",
        "// a comment\n@! another\n\n1 'gencls ' 1 4.0 2.0 /",
    ],
    ids=lambda record: record.split("'")[1],
)
def test_inertia_and_damping_are_scaled_to_the_system_base(tmp_path, record):
    grid = machines(tmp_path, record)
    assert grid.machines.inertia[0] == pytest.approx(2 * 4.0 * 250 / 200, rel=1e-15)
    assert grid.machines.damping[0] == pytest.approx(2.0 * 250 / 200, rel=1e-15)
    assert grid.machines.droop_gain[0] == 0
    assert np.isnan(grid.machines.governor_rate[0])
    assert all(
        np.isnan(getattr(grid.machines, what)[1]) for what in ("inertia", "damping", "droop_gain")
    )
    assert "1 machines of the case have no machine model in case.dyr" in grid.notes


IEEEG1 = "{} 20.0 0.1 0.3 0.2 1.0 -1.0 0.95 0.0 0.4 0.3 0.1 8.0 0.4 0.2 0.0 0.0 0.0 0.5 0.0 0.0"


def at_1(model):
    """K and g(1) of each governor, written from its block diagram with s = 1."""
    s = 1.0
    match model:
        case "TGOV1":
            return 20, 20 / (1 + 0.4 * s) * (1 + 2 * s) / (1 + 7 * s)
        case "GAST":
            return 25, 25 / (1 + 0.4 * s) / (1 + 0.1 * s)
        case "IEEEG1":
            servo = 20 * (1 + 0.3 * s) / (1 + 0.1 * s) / (1 + 0.2 * s)
            return 20 * 0.7, servo / (1 + 0.4 * s) * (0.3 + 0.4 / (1 + 8 * s))
        case "IEEEG2":
            return 20, 20 * (1 + 0.3 * s) / (1 + 0.1 * s) / (1 + 0.2 * s) / (1 + 1.5 * 0.8 * s)
        case "IEEEG3":
            gate = 1 / (0.5 * s * (1 + 0.05 * s) + 0.04 + 0.3 * 5 * s / (1 + 5 * s))
            return 1.2 / 0.04, 1.2 * gate / (1 + 1.0 * 1.5 / 1.2 * s)
        case "IEESGO":
            turbine = 1 / (1 + 0.3 * s)
            reheat = 1 / (1 + 8 * s)
            steam = turbine * (0.3 + 0.7 * 0.6 * reheat + 0.7 * 0.4 * reheat / (1 + 0.4 * s))
            return 20, 20 * (1 + 0.1 * s) / (1 + 0.2 * s) / (1 + 0.15 * s) * steam
        case "HYGOV":
            filtered = (1 + 5 * s) / (0.4 * 5 * s) / (1 + 0.05 * s)
            gate = filtered / (1 + 0.05 * filtered) / (1 + 0.2 * s)
            return 1.1 / 0.05, 1.1 * gate / (1 + 1.5 * 1.0 * s)
        case "GGOV1 on valve":
            control = 10 + 2 / s
            return 1.5 / 0.04, 1.5 * (control / (1 + 0.04 * control)) / (1 + 0.5 * s) / (
                1 + 0.1 * s
            )
        case "GGOV1 on power":
            forward = (10 + 2 / s) * 1.5 / (1 + 0.5 * s) / (1 + 0.1 * s)
            return 1 / 0.04, forward / (1 + 0.04 * forward / (1 + 1.0 * s))
        case "GGOV1 without integral":
            return 1.5 * 10 / 1.4, 1.5 * (10 / 1.4) / (1 + 0.5 * s) / (1 + 0.1 * s)


GGOV1 = (
    "{} 0 0.04 1.0 0.05 -0.05 10.0 {} 0.0 1.0 1.0 0.15 0.5 1.5 0.2 0.1 0.0 0.0 3.0 2.0 0.67 1.0 "
    "0.0 0.1 -0.1 0.0 0.01 10.0 0.1 {} 0.0 4.0 5.0 99.0 -99.0"
)
RECORDS = {
    "TGOV1": ("TGOV1", "0.05 0.4 1.0 0.0 2.0 7.0 0.0"),
    "GAST": ("GAST", "0.04 0.4 0.1 3.0 1.0 2.0 1.0 -0.05 0.0"),
    "IEEEG1": ("IEEEG1", IEEEG1.format("0 0")),
    "IEEEG2": ("IEEEG2", "20.0 0.1 0.3 0.2 1.0 0.0 0.8"),
    "IEEEG3": ("IEEEG3", "0.5 0.05 0.2 -0.2 1.0 0.0 0.04 0.3 5.0 1.5 0.5 1.0 1.0 1.2"),
    "IEESGO": ("IEESGO", "0.2 0.1 0.15 0.3 8.0 0.4 20.0 0.7 0.4 1.0 0.0"),
    "HYGOV": ("HYGOV", "0.05 0.4 5.0 0.05 0.2 0.2 1.0 0.0 1.0 1.1 0.5 0.08"),
    "GGOV1 on valve": ("GGOV1", GGOV1.format(-1, 2.0, 0.0)),
    "GGOV1 on power": ("GGOV1", GGOV1.format(1, 2.0, 0.0)),
    "GGOV1 without integral": ("GGOV1", GGOV1.format(-2, 0.0, 0.0)),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_governor_becomes_a_lag_with_its_gain_and_its_response_at_s_1(tmp_path, name):
    model, constants = RECORDS[name]
    grid = machines(tmp_path, f"1 'GENCLS' 1 4 0 /\n1 '{model}' 1 {constants} /\n")
    gain, response = at_1(name)
    found_gain, rate = grid.machines.droop_gain[0] * 200 / 250, grid.machines.governor_rate[0]
    assert found_gain == pytest.approx(gain, rel=1e-13)
    assert found_gain / (1 + 1 / rate) == pytest.approx(response, rel=1e-12)
    assert grid.machines.damping[0] == 0


def test_every_governor_that_is_read_is_tested():
    assert {model for model, _ in RECORDS.values()} | {"WSIEG1"} == set(GOVERNORS)


def test_a_single_lag_keeps_its_time_constant(tmp_path):
    grid = machines(tmp_path, "1 'GENCLS' 1 4 0 /\n1 'TGOV1' 1 0.05 0.49 99 -99 1.0 1.0 0.0 /")
    assert grid.machines.governor_rate[0] == pytest.approx(1 / 0.49, rel=1e-13)


STEAM = {  # numerator and denominator of what the public cases hold
    "kundur TGOV1": (
        [2.1, 1],
        np.polymul([0.49, 1], [7.0, 1]),
        20,
        "TGOV1",
        "0.05 0.49 33.0 0.4 2.1 7.0 0.0",
    ),
    "ieee14 TGOV1": (
        [1.0, 1],
        np.polymul([0.05, 1], [2.1, 1]),
        20,
        "TGOV1",
        "0.05 0.05 1.05 0.3 1.0 2.1 0.0",
    ),
    "wecc IEEEG1": (
        [0.3 * 8.72, 1],
        np.polymul(np.polymul([0.1, 1], [0.2, 1]), np.polymul([0.1, 1], [8.72, 1])),
        20,
        "IEEEG1",
        "0 0 20.0 0.1 0.0 0.2 1.0 -1.0 0.95 0.0 0.1 0.0 0.0 0.0 0.0 0.0 0.0 0.3 0.0 8.72 0.7 0.0",
    ),
}


@pytest.mark.parametrize("case", STEAM)
def test_the_lag_keeps_the_lowest_frequency_after_a_step_to_an_eighth(tmp_path, case):
    top, bottom, gain, model, constants = STEAM[case]
    grid = machines(tmp_path, f"1 'GENCLS' 1 4 0 /\n1 '{model}' 1 {constants} /")
    tau, M, D, t = 1 / grid.machines.governor_rate[0], 8.0, 1.0, np.linspace(0, 40, 4001)

    def dip(numerator, denominator):
        closed = (
            denominator,
            np.polyadd(np.polymul([M, D], denominator), np.multiply(gain, numerator)),
        )
        return lsim(StateSpace(TransferFunction(*closed)), np.ones_like(t), t)[1].max()

    assert dip([1.0], [tau, 1.0]) == pytest.approx(dip(top, bottom), rel=0.125)


def test_turbine_damping_adds_to_the_machines(tmp_path):
    grid = machines(tmp_path, "1 'GENCLS' 1 4 2 /\n1 'TGOV1' 1 0.05 0.4 1 0 1 1 0.5 /")
    assert grid.machines.damping[0] == pytest.approx(2.5 * 250 / 200)


def test_a_governor_of_two_machines_gives_each_its_share_on_the_first_ones_base(tmp_path):
    for model in ("IEEEG1", "WSIEG1"):
        text = f"1 'GENCLS' 1 4 2 /\n2 'GENCLS' 1 4 2 /\n1 '{model}' 1 {IEEEG1.format('2 1')} /"
        grid = machines(tmp_path, text)
        assert np.allclose(
            grid.machines.droop_gain, 20 * np.array([0.7, 0.3]) * 250 / 200, rtol=1e-14
        )
        assert grid.machines.governor_rate[0] != grid.machines.governor_rate[1]


def test_a_base_of_the_turbine_comes_before_the_machines(tmp_path):
    grid = machines(tmp_path, f"1 'GENCLS' 1 4 2 /\n1 'GGOV1' 1 {GGOV1.format(-1, 2.0, 300.0)} /")
    assert grid.machines.droop_gain[0] == pytest.approx(1.5 / 0.04 * 300 / 200)


def test_what_is_not_read_is_counted_by_name(tmp_path):
    text = """1 'GENCLS' 1 4 2 /
    2 'GENCLS' 1 0 2 /
    1 'ESST3A' 1 0.02 / 2 'never read' since it follows a slash
    1 'IEEEST' 1 1 /
    2 'ESST3A' 1 0.02 /
    1 'HYGOV4' 1 0.05 /
    2 'REGCA1' 1 3.0 /
    'LINE 1' 'CDC6T' 4 5 /
    77 'GENCLS' 1 4 2 /
    2 'GENCLS' 9 4 2 /
    """
    grid = machines(tmp_path, text)
    assert grid.notes[2:] == (
        "2 ESST3A, 1 IEEEST left out: not part of frequency dynamics",
        "1 HYGOV4 left out: governors that are not read, for which the settings' droop stands in",
        "1 CDC6T, 1 REGCA1 left out: models that are not known",
        "2 machines of case.dyr left out: the case does not have them",
        "1 machines have H = 0 in case.dyr, an infinite bus in PSS/E: give them an inertia",
    )
    assert np.isnan(grid.machines.droop_gain[0])
    assert grid.machines.droop_gain[1] == 0


def test_an_isochronous_governor_is_left_out(tmp_path):
    grid = machines(tmp_path, f"1 'GENCLS' 1 4 2 /\n1 'GGOV1' 1 {GGOV1.format(0, 2.0, 0.0)} /")
    assert np.isnan(grid.machines.droop_gain[0])
    assert "1 isochronous governors left out: the settings' droop stands in" in grid.notes


# --- defects --------------------------------------------------------------------------------------

PLANTED = np.array([4.1234567])
BAD = {
    "empty": ("  \n", ["the file is empty", "a PSS/E DYR file"]),
    "comments only": ("// nothing\n", ["there is no record"]),
    "binary": ("1 'GENCLS' 1 \0 2 /", ["a binary file"]),
    "prose": ("Dear reader, how are you? I am well / thank you.", ["line 1", "no model's name"]),
    "cut off": (
        "1 'GENCLS' 1 4.1234567 2 /\n2 'GENCLS' 1 4",
        ["line 2", "ends inside a record", "Copy the whole"],
    ),
    "a slash missing": (
        "1 'GENCLS' 1 4.1234567 2\n2 'GENCLS' 1 4 2 /",
        ["table GENCLS, row 1, line 1", "another record begins", "slash"],
    ),
    "a slash missing after a model that is not read": (
        "1 'SEXS' 1 0.1\n1 'TGOV1' 1 0.05 0.4 1 0 2 7 0 /",
        ["SEXS", "slash"],
    ),
    "an open quote": ("1 'GENCLS 1 4 2 /", ["line 1", "a quote is not closed"]),
    "no model": ("1 2 3 4.1234567 /", ["row 1, line 1", "no model's name"]),
    "text in a number": (
        "1 'GENCLS' 1 4.1234567x 2 /",
        ["constant 1 is not a finite number", "plain numbers"],
    ),
    "NaN": ("1 'GENCLS' 1 NaN 2 /", ["constant 1 is not a finite number"]),
    "infinite": ("1 'GENCLS' 1 1e999 2 /", ["constant 1 is not a finite number"]),
    "too few": ("1 'GENROU' 1 4.1234567 2 /", ["2 constants", "expected 14"]),
    "too many": ("1 'GENCLS' 1 4.1234567 2 3 /", ["3 constants", "expected 2"]),
    "negative inertia": ("1 'GENCLS' 1 -4.1234567 2 /", ["constant 1 is negative"]),
    "negative damping": ("1 'GENCLS' 1 4.1234567 -2 /", ["constant 2 is negative"]),
    "no droop": (
        "1 'TGOV1' 1 0.0 0.4 1 0 2 7 0 /",
        ["table TGOV1", "constant 1, the droop, is unusable"],
    ),
    "a negative lag": ("1 'TGOV1' 1 0.05 -0.4 1 0 2 7 0 /", ["constant 2 is negative"]),
    "no bus": ("A 'GENCLS' 1 4 2 /", ["does not begin with a bus number"]),
    "an inertia for an identifier": ("1 'GENCLS' 4.1234567 1 2 /", ["no identifier of a machine"]),
    "a machine twice": (
        "1 'GENCLS' 1 4 2 /\n1 'GENCLS' 1 5 2 /",
        ["row 2, line 2", "such a model already"],
    ),
    "a governor twice": (
        "1 'TGOV1' 1 0.05 0.4 1 0 2 7 0 /\n" * 2,
        ["table TGOV1, row 2, line 2", "such a model already"],
    ),
}


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_by_its_record(tmp_path, text, said):
    path = tmp_path / "case.dyr"
    path.write_text(text)
    with pytest.raises(InputError) as refusal:
        read_dyr(path)
    error = refusal.value
    assert error.__context__ is None
    assert error.remedy
    for words in ("case.dyr", *said):
        assert words in str(error)
    assert found_in(str(error).encode(), PLANTED) == []


def test_dynamics_on_an_unknown_base_are_refused(tmp_path):
    sections = TWO | {"generator": [MACHINE.format(1, 0.0)]}
    with pytest.raises(
        InputError, match=r"machine 1 at bus 1 has no MBASE, on which case\.dyr"
    ) as refusal:
        machines(tmp_path, "1 'GENCLS' 1 4 2 /", sections)
    assert (refusal.value.file, refusal.value.table, refusal.value.row) == (
        "case.raw",
        "generator",
        1,
    )


def test_a_governor_that_never_acts_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"governor of machine 1 at bus 1 in case\.dyr never acts"):
        machines(tmp_path, "1 'GENCLS' 1 4 2 /\n1 'TGOV1' 1 0.05 1e200 1 0 0 1e200 0 /")


@pytest.mark.parametrize("seed", range(3))
def test_no_mutation_of_a_file_gives_anything_but_dynamics_or_one_clear_error(tmp_path, seed):
    rng, path = np.random.default_rng(seed), tmp_path / "mutated.dyr"
    for stem in ("ieee14/ieee14", "nordic44/N44_BC", "npcc/npcc_full"):
        data = (ANDES / f"{stem}.dyr").read_bytes()
        lines = data.split(b"\n")
        for _ in range(15):
            bits, row = bytearray(data), int(rng.integers(len(lines)))
            for at in rng.integers(len(bits), size=4):
                bits[at] ^= 1 << int(rng.integers(8))
            for mutated in (
                bytes(bits),
                data[: rng.integers(len(data))],
                b"\n".join(lines[:row] + lines[row + 1 :]),
            ):
                path.write_bytes(mutated)
                try:
                    read_dyr(path)
                except InputError as error:
                    assert error.__context__ is None
                    assert len(str(error)) < 600


# --- end to end -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw_stem", "dyr_stem", "options", "counts"),
    [
        ("kundur/kundur", "kundur/kundur_full", {}, (10, 9, 4)),
        ("kundur/kundur", "kundur/kundur_gencls", {}, (10, 9, 4)),
        ("ieee14/ieee14", "ieee14/ieee14", {}, (14, 20, 5)),
        ("ieee39/ieee39", None, {"inertia": 8.0, "damping": 1.0, "base": "rated"}, (39, 46, 14)),
        ("npcc/npcc", "npcc/npcc_full", {}, (140, 225, 46)),
        ("wecc/wecc", "wecc/wecc_full", {"negative_x": "abs"}, (179, 222, 29)),
        ("nordic44/N44_BC", "nordic44/N44_BC", {}, (44, 66, 18)),
    ],
)
def test_the_public_cases_open(raw_stem, dyr_stem, options, counts):
    dyr = ANDES / f"{dyr_stem}.dyr" if dyr_stem else None
    facts = open_grid(str(ANDES / f"{raw_stem}.raw"), dynamics_file=dyr, options=options).facts
    assert (len(facts.buses), len(facts.edges), len(facts.machines)) == counts
    assert facts.frequency_hz == (50 if "nordic" in raw_stem else 60)
    assert (facts.governor_rate > 0).all()


def test_the_dyr_beside_a_raw_is_found(tmp_path):
    path = raw(tmp_path, TWO | {"branch": [LINE.format(1, 2, 0.1, 1), LINE.format(2, 30, 0.2, 1)]})
    path.with_suffix(".dyr").write_text(
        "1 'GENCLS' 1 4 2 /\n2 'GENCLS' 1 5 2 /\n1 'TGOV1' 1 0.05 0.4 1 0 1 1 0 /"
    )
    facts = open_grid(str(path), options={"operating_point": "file"}).facts
    assert np.allclose(facts.droop_gain, [25, 0])
    assert np.allclose(facts.governor_rate, [2.5, 2.0])
