"""Events at the command line: ramps, the slope where an event is, how far linear models hold."""

import json
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from cli_helpers import as_json, gridveil
from gridveil import DemoSampler, Event, open_grid, publish, simulate
from gridveil.dynamics.metrics import SHOWN_TO_HOLD, Validity, first_swing
from gridveil.publication.export.common import STAIRS, machine_steps

RAMP = "ramp:G1=+20MW@1s..6s"


@pytest.fixture(scope="module")
def release():
    settings = {"adjacency": "one-asset", "bounds": {}, "ledger": None, "sampler": DemoSampler(1)}
    return publish(open_grid("star5"), epsilon=1, **settings)


@pytest.fixture(scope="module")
def bundle(release, tmp_path_factory):
    place = tmp_path_factory.mktemp("bundles") / "bundle"
    release.save(place)
    return place


def test_a_ramp_is_simulated_from_a_bundle(release, bundle):
    shown = as_json(gridveil("simulate", bundle, "--event", RAMP, "--json"))
    size = 20 / release.model.base_mva
    mine = release.simulate(Event.load({"G1": size}, at_s=1, over_s=5))
    nadirs = [response["nadir_hz"] for response in shown["responses"]]
    np.testing.assert_allclose(nadirs, [one.nadir_hz for one in mine.responses()])
    assert shown["system"]["initial_rocof_hz_s"] == 0.0
    assert shown["first_swing"]["bus"] == "G1"


def test_the_first_swing_is_steepest_where_the_event_is(release):
    model = release.model
    event = Event.parse("load:G2=+0.1@1s")
    there = first_swing(model, event, horizon_s=5.0, dt_s=0.01)
    assert there.bus == "G2"
    # Right after the step its own machine takes all of it: f u / m, less what 0.1 s changes.
    at_once = -model.frequency_hz * 0.1 / model.m[1]
    assert 0.8 * at_once > there.rocof_hz_s > 1.05 * at_once
    assert first_swing(model, Event.uniform(0.1)) is None


def test_it_is_said_where_an_answer_leaves_what_was_shown(release, bundle):
    small = gridveil("simulate", bundle, "--event", "load:G1=+0.001")
    assert "stays within the ±300 mHz" in " ".join(small.out.split())
    large = gridveil("simulate", bundle, "--event", "load:G1=+5")
    assert "goes beyond the ±300 mHz" in " ".join(large.out.split())
    edge = simulate(release.model, "load:G1=+0.1", horizon_s=1)
    at_edge = replace(edge, omega=edge.omega / np.abs(edge.omega).max() * SHOWN_TO_HOLD)
    assert not Validity.of(replace(at_edge, omega=0.999 * at_edge.omega)).beyond
    assert Validity.of(replace(at_edge, omega=1.001 * at_edge.omega)).beyond


def test_andes_gets_a_ramp_as_stairs_that_add_up(release, bundle, tmp_path):
    made = tmp_path / "andes"
    done = gridveil("export", bundle, "--to", "andes", "--event", RAMP, "--out", made)
    assert done.code == 0
    steps = json.loads((made / "andes.json").read_text())["Alter"]
    assert len(steps) == STAIRS
    times = [step["t"] for step in steps]
    assert (min(times), max(times)) == (pytest.approx(1.025), pytest.approx(5.975))
    assert sum(step["amount"] for step in steps) == pytest.approx(0.2)
    # Their answer is the ramp's, but for what 1/100 of it moves.
    model = release.model
    ramp = simulate(model, RAMP, horizon_s=10.0, dt_s=0.005).omega
    stairs = np.zeros_like(ramp)
    for at_s, loads in machine_steps(model, Event.parse(RAMP, base_mva=model.base_mva)):
        step = Event.load(dict(zip(model.machines, loads, strict=True)), at_s=at_s)
        stairs += simulate(model, step, horizon_s=10.0, dt_s=0.005).omega
    assert np.abs(stairs - ramp).max() < 0.01 * np.abs(ramp).max()


def test_many_machines_are_grey_beneath_their_bold_mean(release):
    one = release.simulate("load:G1=+0.1@1s", horizon_s=10)
    many = replace(one, omega=np.tile(one.omega, 5), buses=tuple(f"G{n}" for n in range(20)))
    figure = many.plot()
    whole, zoom = figure.axes
    assert len(whole.lines) >= 21
    bold = max(whole.lines, key=lambda line: line.get_linewidth())
    np.testing.assert_allclose(bold.get_ydata(), many.deviation_hz.mean(axis=1))
    assert zoom.get_xlim() == pytest.approx((0.5, 6.0), abs=0.02)
    assert len(many.plot(ax=Figure().subplots()).axes) == 1


def test_a_figure_or_table_is_whole_or_not_there(bundle, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    old = tmp_path / "response.csv"
    old.write_text("old")
    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    done = gridveil("simulate", bundle, "--event", "load:G1=+0.1", "--csv", old)
    assert done.code == 2
    assert "No space left" in done.err
    assert old.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [old]
