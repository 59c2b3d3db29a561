"""Records in a bundle: what is kept of them, what a recipient sees again, and what is refused."""

import hashlib
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from bundle_helpers import altered, seal
from cli_helpers import as_json, charges, gridveil
from gridveil import (
    Adjacency,
    Bounds,
    DemoSampler,
    Event,
    FitSettings,
    GridveilError,
    compare,
    load,
    open_grid,
    publish,
    read_trajectory,
    simulate,
    verify,
)
from gridveil.foundation.errors import BundleError, OptionError
from gridveil.inference.fit import EstimatedEvent, Unknown
from gridveil.publication import replay
from gridveil.publication.bundle import contents
from gridveil.publication.release import neutral, neutral_names
from gridveil.publication.replay_drawing import plot_replays
from gridveil.vault.truth import true_model
from measured_helpers import write_measured
from record_layouts import hz_at

TIME = np.arange(401) / 20
QUICK = FitSettings("l-bfgs-b", iterations=30)


def record_in(folder, **changes):
    """A record of 20 s at 20 Hz, with the event after 2 s and a hole; its owner's names are there
    to be looked for.
    """
    rows = np.stack([hz_at(bus, TIME - 2) for bus in ("1", "4")], axis=1)
    rows += np.random.default_rng(1).normal(0, 1e-3, rows.shape)
    rows[100:140, 1] = np.nan
    return write_measured(folder, TIME, rows, offset="none", redistribute=True, **changes)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    facts = open_grid("star5").facts
    return read_trajectory(record_in(tmp_path_factory.mktemp("record")), facts)


def fitted_to(*observed, name="star5", seed=3, **options):
    return publish(
        open_grid(name),
        observed,
        epsilon=Fraction(20),
        adjacency=Adjacency("one-asset", {"k": 1, "m": 1, "d": 1}),
        bounds=Bounds(),
        ledger=None,
        settings=QUICK,
        sampler=DemoSampler(seed),
        **options,
    )


@pytest.fixture(scope="module")
def release(measured):
    return fitted_to(measured.observation)


@pytest.fixture
def bundle(release, tmp_path):
    release.save(tmp_path / "bundle")
    return tmp_path / "bundle"


def test_a_bundle_keeps_event_record_and_what_is_left_of_it(bundle, measured, release):
    (one,) = load(bundle).replays
    assert (one.event, one.estimated, one.buses) == ("load:L1=0.1@2.0s", "", ("G1", "G4"))
    assert np.array_equal(one.measured, measured.trajectory.omega, equal_nan=True)
    assert one.samples == (401, 361)
    digest = hashlib.sha256(measured.declared.files[0].path.read_bytes()).hexdigest()
    assert one.digests == (digest,)
    # what is left, computed from the outside
    run = release.simulate("load:L1=+0.1@2s", horizon_s=20.0, buses=["G1", "G4"])
    left = 60_000 * (measured.trajectory.omega - run.omega[::5])
    rms = np.sqrt(np.nanmean(left**2, axis=0))
    document = json.loads((bundle / "replay.json").read_text())
    places = document["records"][0]["places"]
    assert [place["rms_fitted_mhz"] for place in places] == pytest.approx(rms, rel=1e-9)
    assert places[0]["rms_unfitted_mhz"] > places[0]["rms_fitted_mhz"]
    peak = 60_000 * np.nanmax(np.abs(measured.trajectory.omega))
    assert f"fitted to: {peak:.3g} mHz" in (bundle / "card.html").read_text(encoding="utf-8")
    assert verify(bundle).demo


def test_no_name_of_the_owner_is_in_the_bundle(bundle):
    for path in bundle.iterdir():
        data = path.read_bytes()
        assert b"north" not in data, path.name
        assert b"south" not in data, path.name
    assert "simulate . --replay" in (bundle / "README.md").read_text()


def test_a_record_that_may_not_be_carried_leaves_its_digest(measured, release, tmp_path):
    (one,) = release.replays
    kept = replace(release, replays=(replace(one, carried=False),))
    kept.save(tmp_path / "b")
    (again,) = load(tmp_path / "b").replays
    assert again.measured is None
    assert again.digests == one.digests
    assert again.rms_mhz == pytest.approx(
        replay.rms_mhz(one, replay.fitted_answer(release, one), 60.0)
    )
    assert verify(tmp_path / "b").demo
    rows = (tmp_path / "b" / "replay.csv").read_text().splitlines()[1:]
    assert {row.split(",")[3] for row in rows} == {""}
    card = (tmp_path / "b" / "card.html").read_text(encoding="utf-8")
    assert "No record in this bundle shows" in card
    figure = plot_replays(load(tmp_path / "b"))
    labels = {line.get_label() for panel in figure.axes for line in panel.lines}
    assert {"unfitted", "fitted"} <= labels
    assert "measured" not in labels


def test_a_bundle_without_records_is_as_it_was(release):
    files = contents(replace(release, replays=()))
    assert not {"replay.json", "replay.csv"} & files.keys()
    assert b"replay" not in files["README.md"]


def a_row(number, change):
    def alter(bundle):
        path = bundle / "replay.csv"
        lines = path.read_text().splitlines()
        cells = lines[number].split(",")
        lines[number] = ",".join(change(cells))
        path.write_text("\n".join(lines) + "\n")

    return alter


def dropped(name):
    return lambda bundle: (bundle / name).unlink()


@pytest.mark.parametrize(
    "change",
    [
        altered("replay.json", "load:L1=0.1@", "load:L1=0.2@"),
        altered("replay.json", "load:L1=0.1@", "load:L9=0.1@"),
        altered("replay.json", "load:L1=0.1@", "trip:G1@"),
        altered("replay.json", '"samples": 401', '"samples": 400'),
        altered("replay.json", '"rms_fitted_mhz": ', '"rms_fitted_mhz": 1'),
        altered("replay.json", '"record": 1', '"record": 2'),
        altered("replay.json", '"carried": true', '"carried": false'),
        altered("replay.json", '"replay_version": 1', '"replay_version": 2'),
        altered("replay.json", '"bus": "G4"', '"bus": "G3"'),
        altered("replay.json", "  ", " "),
        a_row(301, lambda cells: [*cells[:3], "-0.5", *cells[4:]]),
        a_row(301, lambda cells: [*cells[:5], "-0.5"]),
        a_row(301, lambda cells: [*cells[:4], "nan", cells[5]]),
        a_row(301, lambda cells: ["1", "1e9", *cells[2:]]),
        a_row(301, lambda cells: cells[:5]),
        dropped("replay.csv"),
        dropped("replay.json"),
    ],
)
def test_what_does_not_follow_from_the_model_is_refused(bundle, change):
    change(bundle)
    seal(bundle)
    with pytest.raises(BundleError, match=r"replay|record"):
        verify(bundle)


# --- events ---------------------------------------------------------------------------------------


def test_an_estimated_event_lies_on_a_step_and_the_record_moves(measured):
    model = true_model(open_grid("star5"))
    observed = replace(measured.observation, unknown=Unknown(split=True, window_s=1.0))
    split = np.array([0.01, 0.02, 0.03, 0.04])
    found = EstimatedEvent(0, 0.1, 0.01, split, split, 2.3037, 0.001)
    event, late_s = replay._happened(observed, found, model.machines)
    assert event.steps[0].at_s == pytest.approx(2.30)
    assert late_s == pytest.approx(0.0037)
    names = neutral_names(open_grid("star5").facts)
    words = replay._in_words(event, model, names, True)
    assert words == "load:G1=0.01,G2=0.02,G3=0.03,G4=0.04@2.3s"
    # against a clock fine enough to hold the event itself
    times = observed.trajectory.time_s[1:200]
    there = replay.answer(model, event, times - late_s, ["1", "4"])
    exact = simulate(
        model,
        Event.load(dict(zip(model.machines, split.tolist(), strict=True)), at_s=2.3037),
        horizon_s=10.0,
        dt_s=0.0001,
        buses=["1", "4"],
    )
    right = exact.omega[np.rint(times / 0.0001).astype(int)]
    assert np.abs(there - right).max() < 1e-5 * np.abs(right).max()  # the line between steps


@pytest.mark.parametrize("event", ["load:9=+0.2@1s", "load:9=+0.2,7=+0.1@1s; load:28=-0.1@2s"])
def test_load_at_a_bus_that_the_bundle_does_not_show_acts_on_the_machines(event):
    source = open_grid("ieee30")
    model, facts = true_model(source), source.facts
    happening, names = Event.parse(event, base_mva=100), neutral_names(source.facts)
    words = replay._in_words(happening, model, names, True)
    shown = neutral(model, facts)
    here = simulate(model, happening, horizon_s=5.0)
    there = simulate(shown, Event.parse(words, base_mva=100), horizon_s=5.0)
    assert np.allclose(here.omega, there.omega, rtol=0, atol=1e-12)


def test_a_share_of_all_loads_stays_one_where_loads_are_public():
    source = open_grid("ieee30")
    model, names = true_model(source), neutral_names(source.facts)
    words = replay._in_words(Event.uniform(0.05, at_s=1.0), model, names, True)
    assert words == "uniform:5.0%@1.0s"
    hidden = replay._in_words(Event.uniform(0.05, at_s=1.0), model, names, False)
    shown = neutral(model, source.facts)
    here, there = (
        simulate(shown, Event.parse(text, base_mva=100), horizon_s=3.0).omega
        for text in (words, hidden)
    )
    assert np.allclose(here, there, rtol=0, atol=1e-12)


def test_a_fit_that_was_discarded_found_no_event(measured, release):
    observed = replace(measured.observation, unknown=Unknown(split=True))
    model = true_model(open_grid("star5"))
    discarded = type("Fit", (), {"events": (), "model": model})()
    names = neutral_names(open_grid("star5").facts)
    assert replay.replays_of(model, discarded, [observed], names, loads_are_public=True) == ()


def test_merged_ports_have_their_own_names(release):
    (one,) = release.replays
    merged = replace(one, event="load:L1=0.1,L12=0.2@1.0s", buses=("G1", "L12"))
    renamed = merged.renamed({"L1": "L2", "L12": "L1"})
    assert (renamed.event, renamed.buses) == ("load:L2=0.1,L1=0.2@1.0s", ("G1", "L1"))


# --- commands -------------------------------------------------------------------------------------


def test_simulate_replays_a_bundle(bundle, tmp_path, release):
    given = ["simulate", bundle, "--replay", "--plot", tmp_path / "a.png"]
    given += ["--csv", tmp_path / "a.csv"]
    found = as_json(gridveil(*given, "--json"))
    (first, second) = found["places"]
    assert (first["bus"], second["bus"], first["event"]) == ("G1", "G4", "load:L1=0.1@2.0s")
    assert first["measured_hz"] == pytest.approx(first["fitted_hz"], abs=0.02)
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert (tmp_path / "a.csv").read_bytes() == (bundle / "replay.csv").read_bytes()
    said = " ".join(gridveil(*given).out.split())
    assert "fitted leaves [mHz]" in said
    assert "Event record 1: load:L1=0.1@2.0s" in said
    figure = plot_replays(release)
    labels = {line.get_label() for panel in figure.axes for line in panel.lines}
    assert {"measured", "unfitted", "fitted"} <= labels


def test_replay_and_event_do_not_go_together(bundle, tmp_path, release):
    done = gridveil("simulate", bundle, "--replay", "--event", "load:G1=+0.1")
    assert (done.code, "--replay has its own events" in done.err) == (2, True)
    done = gridveil("simulate", bundle)
    assert (done.code, "There is no event to simulate" in done.err) == (2, True)
    replace(release, replays=()).save(tmp_path / "none")
    done = gridveil("simulate", tmp_path / "none", "--replay")
    assert (done.code, "keeps no record" in done.err) == (2, True)


def test_a_figure_of_a_release_needs_a_record_before_it_costs(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "ledger.sqlite"))
    for given in ([], ["--trajectory", record_in(tmp_path / "in")]):
        name = "a.gif" if given else "a.png"
        plot = ["--plot", tmp_path / name, "--out", tmp_path / "out"]
        done = gridveil("release", "star5", "--epsilon=1/2", *plot, *given)
        assert done.code == 2, done.out
        assert charges(tmp_path / "ledger.sqlite") == []


@pytest.mark.slow
def test_a_release_draws_its_records(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "ledger.sqlite"))
    given = ["--trajectory", record_in(tmp_path / "in"), "--out", tmp_path / "out"]
    done = gridveil("release", "star5", "--epsilon=1/2", *given, "--plot", tmp_path / "a.png")
    assert done.code == 0, done.err
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert gridveil("verify", tmp_path / "out").code == 0


# --- two models -----------------------------------------------------------------------------------


def test_two_models_are_set_beside_each_other(bundle, release, measured, tmp_path):
    other = fitted_to(measured.observation, seed=4)
    same = compare(release, bundle, "load:G1=+0.1@1s", horizon_s=5.0)
    assert repr(same) == "<ModelComparison 4 buses after load:G1=+0.1@1s>"
    assert "G1: RMS difference [mHz]" in same._repr_html_()
    assert max(same.rms_mhz.values()) == 0
    found = compare(release, other.model, horizon_s=5.0)
    assert found.event == "uniform:+10%"
    expected = 60_000 * (
        release.simulate(found.event, horizon_s=5.0).omega
        - other.simulate(found.event, horizon_s=5.0).omega
    )
    rms = dict(zip(release.model.machines, np.sqrt((expected**2).mean(axis=0)), strict=True))
    assert found.rms_mhz == pytest.approx(rms)
    frame = found.to_frame()
    assert list(frame.index) == [*release.model.machines, "system"]
    assert frame.loc["G1", "nadir_hz_a"] == found.a.responses()[0].nadir_hz
    found.plot(str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_bands_of_releases_are_shaded_beside_a_model():
    release = fitted_to()  # to nothing: such a release has error bars
    figure = compare(release, release.model, "load:G1=+0.1", horizon_s=5.0).plot()
    shown = [panel for panel in figure.axes if panel.get_visible()]
    assert [len(panel.collections) for panel in shown] == [1] * len(release.model.machines)


@pytest.mark.parametrize("wrong", [7, None, [1, 2]])
def test_what_is_no_model_cannot_be_compared(release, wrong):
    with pytest.raises(OptionError, match="b cannot be"):
        compare(release, wrong)
    with pytest.raises(GridveilError):
        compare("nowhere", release)
    with pytest.raises(OptionError, match="words such as"):
        compare(release, release, wrong or 3)


def test_models_of_two_frequencies_or_without_a_common_machine_are_refused(release):
    with pytest.raises(OptionError, match="60 and 50 Hz"):
        compare(release, replace(release.model, frequency_hz=50.0))
    with pytest.raises(OptionError, match="no machine in common"):
        compare(release, true_model(open_grid("star5")))
