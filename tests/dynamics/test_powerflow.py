"""The power flow gives the paper's weights, and its answers satisfy the equations written out by
hand.
"""

import cmath
from dataclasses import replace

import numpy as np
import pytest
from matpowercaseframes import CaseFrames

from cli_helpers import gridveil, write_grid
from gridveil.dynamics.powerflow import Network, admittance, newton
from gridveil.foundation.errors import InputError
from gridveil.readers import assemble
from gridveil.readers.cases import HERE, open_grid
from gridveil.vault.source import Private
from gridveil.vault.truth import true_model

REDUCED = """1-2 20.644, 1-5 0.335, 1-8 1.849, 1-11 0.214, 1-13 0.456, 2-5 6.238, 2-8 5.385,
2-11 0.561, 2-13 0.814, 5-8 2.783, 5-11 0.269, 5-13 0.244, 8-11 1.519, 8-13 1.406, 11-13 0.668"""

# Two lines and a transformer that lifts by 5 % and shifts by 10 degrees.
TRIANGLE = Network(
    ends=np.array([[0, 1], [1, 2], [0, 2]]),
    series=np.array([0.02 + 0.1j, 0.01 + 0.2j, 0.15j]),
    charging=np.array([0.04, 0.02, 0.06]),
    ratio=np.array([1.0, 1.0, 1.05 * cmath.exp(1j * np.deg2rad(10))]),
    shunt=np.array([0.0, 0.01 + 0.19j, 0.0]),
    injection=np.array([0.0, -0.4 - 0.1j, 0.2]),
    slack=np.array([0]),
    controlled=np.array([0, 2]),
)


def outflow(buses, branches, shunts, voltage):
    """Power that leaves each bus [p.u.]; a branch is an ideal transformer at its first end, then a
    π.
    """
    power = [abs(voltage[bus]) ** 2 * shunts[bus].conjugate() for bus in range(buses)]
    for i, j, impedance, charging, tap in branches:
        behind_tap = voltage[i] / tap
        through = (behind_tap - voltage[j]) / impedance
        # an ideal transformer keeps power
        power[i] += behind_tap * (through + 0.5j * charging * behind_tap).conjugate()
        power[j] += voltage[j] * (-through + 0.5j * charging * voltage[j]).conjugate()
    return np.array(power)


def branches_of(network):
    return [
        (*ends, z, b, t)
        for ends, z, b, t in zip(
            network.ends, network.series, network.charging, network.ratio, strict=True
        )
    ]


def test_ieee30_reduces_to_the_papers_weights():
    model = true_model(open_grid("ieee30"))
    pairs = [f"{model.machines[i]}-{model.machines[j]}" for i, j in model.edges]
    assert ", ".join(
        f"{pair} {weight:.3f}" for pair, weight in zip(pairs, model.k_r, strict=True)
    ) == REDUCED.replace("\n", " ")


def test_ieee30_has_41_weights_between_1_68_and_45_24():
    k = Private.open(open_grid("ieee30").values["k"])
    assert (len(k), round(k.min(), 2), round(k.max(), 2)) == (41, 1.68, 45.24)


def test_the_voltages_of_ieee30_balance_power_at_every_bus(monkeypatch):
    solved = []
    monkeypatch.setattr(
        assemble,
        "newton",
        lambda *start, **options: solved.append(newton(*start, **options)) or solved[0],
    )
    open_grid("ieee30")
    magnitude, angle = solved[0]
    case = CaseFrames(str(HERE / "ieee30.m"), update_index=False)
    bus, gen = case.bus, case.gen
    place = {number: row for row, number in enumerate(bus["BUS_I"])}
    branches = [
        (
            place[row.F_BUS],
            place[row.T_BUS],
            complex(row.BR_R, row.BR_X),
            row.BR_B,
            cmath.rect(row.TAP or 1.0, np.deg2rad(row.SHIFT)),
        )
        for row in case.branch.itertuples()
    ]
    shunts = [complex(row.GS, row.BS) / 100 for row in bus.itertuples()]
    left = outflow(
        30, branches, shunts, [cmath.rect(m, a) for m, a in zip(magnitude, angle, strict=True)]
    )
    left += (bus["PD"] + 1j * bus["QD"]).to_numpy() / 100
    for row in gen.itertuples():
        left[place[row.GEN_BUS]] -= row.PG / 100
        assert magnitude[place[row.GEN_BUS]] == row.VG
    kind = bus["BUS_TYPE"].to_numpy()
    assert np.abs(left[kind == 1]).max() < 1e-9
    assert np.abs(left[kind == 2].real).max() < 1e-9


def test_a_transformer_enters_the_admittance_as_its_formula_says():
    y, half, t = 1 / 0.15j, 0.03j, 1.05 * cmath.exp(1j * np.deg2rad(10))
    alone = {name: getattr(TRIANGLE, name)[2:] for name in ("ends", "series", "charging", "ratio")}
    Y = admittance(replace(TRIANGLE, **alone)).toarray()
    assert np.allclose(
        Y[np.ix_([0, 2], [0, 2])], [[(y + half) / 1.05**2, -y / t.conjugate()], [-y / t, y + half]]
    )


def test_a_power_flow_with_a_phase_shifter_balances():
    magnitude, angle = newton(TRIANGLE, np.array([1.02, 1.0, 1.01]), np.zeros(3))
    power = outflow(3, branches_of(TRIANGLE), TRIANGLE.shunt, magnitude * np.exp(1j * angle))
    assert magnitude[[0, 2]].tolist() == [1.02, 1.01]
    assert abs(power[1] - TRIANGLE.injection[1]) < 1e-9
    assert abs(power[2].real - TRIANGLE.injection[2].real) < 1e-9


def test_a_phase_shifter_turns_the_angle_behind_it():
    """Two buses, no load: the second one lags by the shift and sees the voltage divided by the
    tap.
    """
    tap = 1.05 * cmath.exp(1j * np.deg2rad(10))
    unloaded = Network(
        ends=np.array([[0, 1]]),
        series=np.array([0.15j]),
        charging=np.zeros(1),
        ratio=np.array([tap]),
        shunt=np.zeros(2),
        injection=np.zeros(2),
        slack=np.array([0]),
        controlled=np.array([0]),
    )
    magnitude, angle = newton(unloaded, np.ones(2), np.zeros(2))
    assert magnitude[1] == pytest.approx(1 / 1.05, rel=1e-9)
    assert np.rad2deg(angle[1]) == pytest.approx(-10, rel=1e-9)


def test_taps_and_shifts_move_weights_through_the_voltages_and_where_included_by_their_ratio(
    tmp_path,
):
    """k = v_i v_j cos(δ_i − δ_j − φ) / (t x): at a flat operating point a tap divides one weight,
    or changes nothing.
    """
    weights = {}
    for point in ("flat", "newton"):
        for name, tap in (("with", "0.97 3"), ("without", "0 0")):
            for taps in ("include", "ignore"):
                grid = write_grid(tmp_path / name / taps, replace=("0.97 3", tap))
                options = {"operating_point": point, "taps": taps}
                weights[point, name, taps] = Private.open(
                    open_grid(str(grid), options=options).values["k"]
                )
    assert np.array_equal(weights["flat", "with", "ignore"], weights["flat", "without", "ignore"])
    ratio = weights["flat", "with", "include"] / weights["flat", "without", "include"]
    assert np.allclose(np.sort(ratio), [1, 1, 1, 1, 1, 1 / 0.97], rtol=1e-12)
    assert (
        np.abs(weights["newton", "with", "ignore"] - weights["newton", "without", "ignore"]).max()
        > 1e-3
    )


def test_the_start_is_not_written_to():
    voltage, angle = np.array([1.02, 1.0, 1.01]), np.zeros(3)
    newton(TRIANGLE, voltage, angle)
    assert (voltage.tolist(), angle.tolist()) == ([1.02, 1.0, 1.01], [0, 0, 0])


@pytest.mark.parametrize("load", [30.0, 1e200])
def test_a_power_flow_without_a_solution_says_what_to_do(load):
    with pytest.raises(InputError, match=r"does not converge.*--operating-point file"):
        newton(replace(TRIANGLE, injection=TRIANGLE.injection * load), np.ones(3), np.zeros(3))


def test_a_file_without_a_solution_is_named(tmp_path):
    done = gridveil("inspect", write_grid(tmp_path, replace=("4 1 40 9", "4 1 4000 900")))
    assert done.code == 2
    for said in ("private.m", "does not converge", "--operating-point file"):
        assert said in done.err
