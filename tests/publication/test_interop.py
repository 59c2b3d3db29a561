"""A release in other Python packages answers as it does itself."""

import doctest
import json
import sys

import numpy as np
import pytest
from scipy.signal import lsim

from andes_helpers import andes  # noqa: F401 - a fixture
from cli_helpers import make_release
from detailed_releases import demo as detailed_demo
from gridveil import load
from gridveil.foundation.errors import GridveilError
from gridveil.publication import interop

CLOCK = {"horizon_s": 5.0, "dt_s": 0.01}


@pytest.fixture(scope="module", params=["swing", "detailed"])
def release(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    made = (
        detailed_demo()
        if request.param == "detailed"
        else make_release(folder, demo=True, publish_loads=True)
    )
    made.save(folder / "bundle")
    return load(folder / "bundle")


@pytest.fixture(scope="module")
def wanted(release):
    """Frequency deviation at all ports after a step at a load [Hz]."""
    answer = release.simulate("load:L1=+0.1", **CLOCK, buses=release.model.ports)
    return answer.omega * release.model.frequency_hz


def loads(names, samples):
    """The same step as an input: (samples, inputs)."""
    return np.tile([0.1 * (name == "P_L1") for name in names], (samples, 1))


def test_python_control_answers_as_the_release_does(release, wanted):
    import control

    system = release.to_control()
    times = np.arange(len(wanted)) * CLOCK["dt_s"]
    found = control.forced_response(system, times, loads(system.input_labels, len(times)).T)
    assert system.output_labels[: wanted.shape[1]] == [f"f_{port}" for port in release.model.ports]
    # Held between samples by one, joined by lines by the other: a step from the start is both.
    assert np.allclose(found.outputs[: wanted.shape[1]].T, wanted, atol=1e-9 * np.abs(wanted).max())


def test_scipy_answers_as_the_release_does(release, wanted):
    names, times = release.to_pandas()["B"].columns, np.arange(len(wanted)) * CLOCK["dt_s"]
    _, hz, _ = lsim(release.to_scipy(), loads(names, len(times)), times)
    assert np.allclose(hz[:, : wanted.shape[1]], wanted, atol=1e-9 * np.abs(wanted).max())


def test_pandas_gets_the_matrices_with_names_and_units(release):
    tables, system = release.to_pandas(), release.to_scipy()
    for name in "ABCD":
        assert np.array_equal(tables[name], getattr(system, name))
        units = tables[name].attrs["units"]
        assert {*tables[name].index, *tables[name].columns} == units.keys()
    assert tables["D"].attrs["units"]["P_G1"] == "p.u. power"
    assert tables["machines"].equals(release.machines)
    assert tables["lines"].equals(release.lines)


@pytest.mark.parametrize("package", ["control", "andes"])
def test_a_missing_package_is_named_with_its_extra(release, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(GridveilError, match=rf"{package} is not installed.*gridveil\[{package}\]"):
        getattr(release, f"to_{package}")()


@pytest.mark.slow
def test_andes_gets_a_system_in_memory(release, wanted, andes, tmp_path):  # noqa: F811
    """Of a swing release with its event, as `simulate` answers it; a detailed one rests."""
    release.save(tmp_path / "bundle")
    swing = len(release.model.k_r) if hasattr(release.model, "k_r") else 0
    code = """
import json, sys, gridveil
release = gridveil.load(sys.argv[1])
system = release.to_andes("load:L1=+0.1") if sys.argv[2] == "1" else release.to_andes()
assert system.PFlow.run()
system.TDS.config.tf = 5
assert system.TDS.run()
model = system.GENCLS if system.GENCLS.n else system.GENROU
omega = system.dae.ts.x[:, model.omega.a]
print("FOUND", json.dumps([system.dae.ts.t.tolist(), omega.tolist()]))
"""
    said = andes(code, tmp_path / "bundle", int(bool(swing)))
    times, omega = map(np.array, json.loads(said.split("FOUND")[1]))
    hz = (omega - 1) * release.model.frequency_hz
    if not swing:
        assert np.abs(hz).max() < 1e-3
        return
    for machine in range(len(release.model.machines)):
        ours = np.interp(times, np.arange(len(wanted)) * CLOCK["dt_s"], wanted[:, machine])
        assert np.abs(hz[:, machine] - ours).max() < 5e-3 * np.abs(wanted).max()


@pytest.mark.slow
def test_the_example_with_andes_runs(andes):  # noqa: F811
    """The docstring's own lines, which are left out elsewhere: ANDES takes long to start."""
    examples = doctest.DocTestParser().get_examples(interop.InTools.to_andes.__doc__)
    assert [one.want for one in examples][-1] == "True\n"
    *lines, last = [one.source.partition("  #")[0].strip() for one in examples]
    said = andes("\n".join([*lines, f"print('FOUND', {last})"]))
    assert said.split()[-2:] == ["FOUND", "True"]
