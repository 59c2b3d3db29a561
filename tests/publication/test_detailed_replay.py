"""Records in a bundle of a detailed release: files, checks and figures as of a swing one."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bundle_helpers import altered, seal
from cli_helpers import as_json, gridveil
from detailed_releases import demo, detailed
from gridveil import load, verify
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.projection import check_public_end
from gridveil.dynamics.detailed.trips import with_active_dispatch
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.foundation.errors import BundleError
from gridveil.inference.fit.detailed import DetailedFitSettings
from gridveil.inference.fit.problem import Observation
from gridveil.privacy.provenance import Provenance
from gridveil.publication import replay
from gridveil.publication.replay_drawing import plot_replays

MEASURED = Provenance("measured", "an operator", "2026-01-02", "https://example.org", "its report")
QUICK = DetailedFitSettings(dt_s=0.04, rounds=1, iterations=1, exponents=False)


@pytest.fixture(scope="module")
def draw():
    """A release without a record."""
    return demo()


@pytest.fixture(scope="module")
def observed(draw):
    """What that release itself answers, a little larger; with a hole, and at a bus that no bundle
    shows.
    """
    happening = "load:L1=+50MW@1s"
    run = draw.simulate(happening, horizon_s=3.0, dt_s=0.04, buses=["G4", "L2", "L2"])
    noise = np.random.default_rng(2).normal(0, 2e-6, run.omega.shape)
    seen = replace(run, omega=1.02 * run.omega + noise, buses=("1", "8", "5"))
    seen.omega[40:50, 0] = np.nan
    event = Event.parse("load:7=+50MW@1s", base_mva=100)
    return Observation(event, seen, MEASURED, digests=("ab" * 32,), redistribute=True)


@pytest.fixture(scope="module")
def release(observed):
    return demo(observed=[observed], settings=QUICK)


@pytest.fixture(scope="module")
def saved(release, tmp_path_factory):
    place = tmp_path_factory.mktemp("saved") / "bundle"
    release.save(place)
    return place


@pytest.fixture
def bundle(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "bundle"))


def test_a_bundle_keeps_event_record_and_what_is_left_of_it(bundle, observed, release):
    (one,) = load(bundle).replays
    # bus 5 has neither machine nor load: the bundle does not show it
    assert (one.event, one.buses) == ("load:L1=+0.5@1s", ("G4", "L2"))
    seen = observed.trajectory.omega[:, :2]
    assert np.array_equal(one.measured, seen, equal_nan=True)
    assert one.digests == observed.digests
    # what is left, computed from the outside
    run = release.simulate("load:L1=+50MW@1s", horizon_s=3.0, dt_s=0.04, buses=["G4", "L2"])
    left = 60_000 * np.sqrt(np.nanmean((seen - run.omega) ** 2, axis=0))
    assert one.rms_mhz[:, 1] == pytest.approx(left, rel=1e-6)
    assert verify(bundle).demo


def test_the_unfitted_answer_is_that_of_the_draw_before_its_fit(release, draw):
    (one,) = release.replays
    assert one.unfitted == pytest.approx(replay.fitted_answer(draw, one), rel=1e-9, abs=1e-12)
    assert not release.fitted.verdict.discarded
    left = replay.rms_mhz(one, replay.fitted_answer(release, one), 60.0)
    assert np.abs(left[:, 1] - left[:, 0]).min() > 0.01


def test_a_record_that_may_not_be_carried_leaves_its_digest(release, tmp_path):
    (one,) = release.replays
    replace(release, replays=(replace(one, carried=False),)).save(tmp_path / "b")
    (again,) = load(tmp_path / "b").replays
    assert again.measured is None
    assert again.digests == one.digests
    assert verify(tmp_path / "b").demo


@pytest.mark.parametrize(
    "change",
    [
        altered("replay.json", "load:L1=+0.5@", "load:L1=+0.6@"),
        altered("replay.json", "load:L1=+0.5@", "trip:G1@"),
        altered("replay.json", "load:L1=+0.5@", "trip:G9@"),
        altered("replay.json", '"rms_fitted_mhz": ', '"rms_fitted_mhz": 1'),
        altered("replay.json", '"bus": "L2"', '"bus": "L1"'),
        lambda bundle: (bundle / "replay.csv").unlink(),
    ],
)
def test_what_does_not_follow_from_the_model_is_refused(bundle, change):
    change(bundle)
    seal(bundle)
    with pytest.raises(BundleError, match=r"replay|record"):
        verify(bundle)


def test_the_command_replays_and_draws(bundle, release, tmp_path):
    plot = tmp_path / "a.png"
    places = as_json(gridveil("simulate", bundle, "--replay", "--plot", plot, "--json"))["places"]
    assert [place["bus"] for place in places] == ["G4", "L2"]
    assert plot.stat().st_size > 10_000
    labels = {line.get_label() for panel in plot_replays(release).axes for line in panel.lines}
    assert {"measured", "unfitted", "fitted"} <= labels
    assert "simulate . --replay" in (bundle / "README.md").read_text()


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("trip:2@1s", "trip:G1@1s"),
        ("load:7=+0.1@1s; trip:3=2.5@2s", "load:L1=+0.1@1s; trip:G2=2.5@2s"),
        ("load:5=+0.1@1s", None),  # at a bus without machine or load
        ("load:7=+0.1@1.0005s", None),  # between two steps of a replay's clock
    ],
)
def test_an_event_is_told_under_neutral_names_or_its_record_left_out(event, words):
    case = check_public_end(detailed().facts.public)
    model = with_active_dispatch(linearise(case, solve(case), case.loads.bus))
    names = dict(zip(model.ports, ("G1", "G2", "G3", "G4", "L1", "L2"), strict=True))
    neutral = replace(model, ports=tuple(names.values()), states=_states(model, names))
    run = simulate(model, "load:7=+0.1@1s", horizon_s=3.0, dt_s=0.04, buses=["1"])
    seen = Observation(Event.parse(event, base_mva=100), run, MEASURED)
    found = replay.detailed_replays(neutral, neutral, [seen], names)
    assert [one.event for one in found] == ([words] if words else [])
    simulated = replace(seen, provenance=Provenance("simulated", "a run"))
    assert replay.detailed_replays(neutral, neutral, [simulated], names) == ()


def _states(model, names):
    parts = (state.rsplit(" ", 1) for state in model.states)
    return tuple(f"{names[port]} {state}" for port, state in parts)
