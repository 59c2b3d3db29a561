"""Measured trajectories on the command line: what is shown, what is refused before it costs, and
what a fit wins back.
"""

from dataclasses import replace

import numpy as np
import pytest

from cli_helpers import as_json, charges, gridveil, write_grid
from gridveil import load, open_grid, reduce, simulate
from gridveil.dynamics.events import Event
from gridveil.inference.fit import FitSettings, Verdict
from gridveil.inference.fit.guard import SwingFit
from gridveil.inference.records import read_trajectory
from gridveil.planning.profiles import PROFILES
from gridveil.privacy.guarantee import CONDITIONAL, TRAJECTORY_NOT_PROTECTED
from gridveil.publication.release import neutral_names
from gridveil.vault.truth import true_model
from gridveil.workflow import publish as algorithm
from measured_helpers import signal, write_csv, write_measured, write_toml

TIME = np.arange(301) / 50
SHORT = (TIME, 60 * (1 + signal(TIME)))


@pytest.fixture(autouse=True)
def ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "ledger.sqlite"))
    return tmp_path / "ledger.sqlite"


# --- inspect --------------------------------------------------------------------------------------


def test_inspect_shows_what_was_read(tmp_path):
    values = SHORT[1].copy() + 0.01
    values[200:260, 1] = np.nan
    record = write_measured(tmp_path, TIME, values)
    found = as_json(gridveil("inspect", "star5", "--trajectory", record, "--json"))
    (one,) = found["trajectories"]
    assert (one["file"], one["record"], one["event"]) == (
        "record.toml",
        "record.csv",
        "load:5=+0.1@2s",
    )
    assert (one["interval_s"], one["rate_hz"], one["duration_s"]) == pytest.approx((0.02, 50, 6))
    assert (one["event_at_s"], one["origin"], one["values_interpolated"]) == (
        pytest.approx(2),
        "measured",
        0,
    )
    north, south = one["locations"]
    assert (north["column"], north["bus"], north["samples"], north["gaps"]) == (
        "north",
        "1",
        301,
        0,
    )
    assert south["gaps"] == pytest.approx(60 / 301)
    assert north["offset_hz"] == pytest.approx(0.01)
    assert north["peak_hz"] == pytest.approx(60 * signal(TIME)[:, 0].min())
    assert found["buses"] == 5
    said = " ".join(gridveil("inspect", "star5", "--trajectory", record).out.split())
    for words in (
        "gaps [%]",
        "south 4 241 19.9 241 +10.00",
        "6 s at 50 Hz",
        "2 s after its start",
        "Wide-area record",
    ):
        assert words in said, words
    assert "peak deviation [mHz]" in said
    assert "gaps stay gaps" in said


def test_inspect_without_a_trajectory_says_nothing_of_them():
    assert "trajectories" not in as_json(gridveil("inspect", "star5", "--json"))


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")]
)
def test_inspect_draws_the_record_with_its_event(tmp_path, name, start):
    records = [write_measured(tmp_path / str(n), *SHORT) for n in range(2)]
    given = ["--trajectory", records[0], "--trajectory", records[1], "--plot", tmp_path / name]
    assert as_json(gridveil("inspect", "star5", *given, "--json"))["plot"] == str(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_the_figure_marks_every_step_of_the_event(tmp_path):
    from gridveil.inference.records.drawing import plot_measured

    path = write_measured(tmp_path, *SHORT, event="load:5=+0.05@2s; load:4=+0.05@4s")
    figure = plot_measured([read_trajectory(path, open_grid("star5").facts)])
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert lines["event"].get_xdata()[0] == pytest.approx(2.0)
    assert [line.get_xdata()[0] for line in figure.axes[0].lines[-2:]] == pytest.approx([2.0, 4.0])
    assert "north (bus 1), 0 % gaps" in lines
    assert figure.axes[0].get_ylabel() == "deviation [mHz]"


def test_a_figure_needs_a_trajectory_and_a_format(tmp_path):
    done = gridveil("inspect", "star5", "--plot", tmp_path / "a.png")
    assert (done.code, "nothing to draw" in done.err) == (2, True)
    done = gridveil(
        "inspect",
        "star5",
        "--trajectory",
        write_measured(tmp_path, *SHORT),
        "--plot",
        tmp_path / "a.gif",
    )
    assert (done.code, ".png, .pdf or .svg" in done.err) == (2, True)


# --- release --------------------------------------------------------------------------------------


@pytest.fixture
def trusting(monkeypatch):
    """A guard that lets every fit pass: noise here has no seed, and it errs in one fit of 200."""
    monkeypatch.setattr(SwingFit, "verdict", lambda _: Verdict("good"))


@pytest.mark.usefixtures("trusting")
def test_a_release_with_a_trajectory_is_conditional_and_says_so(tmp_path, ledger):
    record = write_measured(tmp_path / "in", *SHORT)
    given = ["release", "star5", "--epsilon=1/2", "--out", tmp_path / "out", "--trajectory", record]
    found = as_json(gridveil(*given, "--json"))
    (fit,), (used,) = found["fits"], found["trajectories"]
    assert fit["mismatch_after_pu2_s"] < fit["mismatch_before_pu2_s"]
    assert fit["iterations"] > 0
    assert (used["file"], used["locations"][0]["used"]) == ("record.toml", 301)
    assert "Wide-area record, public since 2016-01-06" in found["guarantee"]["conditional_on"][0]
    assert CONDITIONAL in found["guarantee"]["in_words"]
    for name in ("README.md", "certificate.txt", "certificate.json", "release.json"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert CONDITIONAL in text, name
        assert "Wide-area record, public since 2016-01-06, https://example.org/record" in text, name
        assert TRAJECTORY_NOT_PROTECTED in text, name
        assert "Unconditional" not in text, name
        assert "north" not in text, name  # the owner's own names stay at home
    assert as_json(gridveil("verify", tmp_path / "out", "--json"))["ok"] is True
    release = load(tmp_path / "out")
    assert release.fitted.mismatch_after == fit["mismatch_after_pu2_s"]
    assert [entry.state for entry in charges(ledger)] == ["published"]


@pytest.mark.slow
def test_a_release_in_words_and_with_two_trajectories(tmp_path):
    records = [
        write_measured(tmp_path / str(n), *SHORT, provenance={"source": f"record {n}"})
        for n in range(2)
    ]
    given = ["--trajectory", records[0], "--trajectory", records[1], "--out", tmp_path / "out"]
    done = gridveil("release", "star5", "--epsilon=1/2", *given)
    assert done.code == 0
    said = " ".join(done.out.split())
    for words in (
        "record 0, public since",
        "record 1, public since",
        "mismatch J (squared distance to the records) from",
        "multiplies the odds that an observer",
    ):
        assert words in said
    assert len(load(tmp_path / "out").provenance) == 2


@pytest.mark.slow
def test_release_toml_may_hold_the_declaration(tmp_path):
    record = write_measured(tmp_path / "in", *SHORT).read_text()
    table = record.replace("[locations]", "[trajectory.locations]").replace(
        "[provenance]", "[trajectory.provenance]"
    )
    config = tmp_path / "in" / "release.toml"
    head = f'grid = "star5"\nepsilon = "1/2"\nout = "{tmp_path / "out"}"\n'
    for array in (False, True):
        text = f"{head}{'[[trajectory]]' if array else '[trajectory]'}\n{table}"
        config.write_text(text.replace(str(tmp_path / "out"), str(tmp_path / f"out{array}")))
        found = as_json(
            gridveil(
                "release", "--config", config, "--ledger", tmp_path / f"{array}.sqlite", "--json"
            )
        )
        assert [one["file"] for one in found["trajectories"]] == ["release.toml [trajectory]"]
    config.write_text(head + '[[trajectory]]\nunit = "Hz"\n')
    done = gridveil("release", "--config", config)
    assert (done.code, "release.toml [trajectory]: record is not declared" in done.err) == (2, True)
    config.write_text(head.replace("epsilon", "trajectory = 7\nepsilon"))
    done = gridveil("release", "--config", config)
    assert (done.code, "[trajectory]: a table was expected here" in done.err) == (2, True)


def assert_free(done, ledger, out, *said):
    """Refused in one line; nothing charged, no account opened, nothing written."""
    assert done.code == 2, done.out
    assert done.err.strip().count("\n") == 0, done.err
    for words in said:
        assert words in done.err
    assert charges(ledger) == []
    assert not ledger.exists()
    assert not out.exists()


FLAT = (TIME, np.full((len(TIME), 2), 60.0))


@pytest.mark.parametrize(
    ("rows", "changes", "said"),
    [
        (SHORT, {"provenance": {"origin": "simulated"}}, "is not public"),
        (SHORT, {"provenance": {"date": "2999-01-01"}}, "lies in the future"),
        (SHORT, {"provenance": {"link": "nowhere"}}, "its link is missing"),
        (SHORT, {"locations": {"north": "bus 1"}}, "bus 'bus 1' is unknown"),
        (SHORT, {"event": "load:L5=+0.1@2s"}, "bus 'L5' is unknown"),
        (SHORT, {"unit": "mHz"}, "is no frequency of a 60 Hz grid in mHz"),
        (SHORT, {"nominal_hz": 50.0}, "nominal_hz is 50 Hz, the grid's is 60 Hz"),
        (SHORT, {"event": "load:5=-0.1@2s"}, "the frequency falls after the event"),
        (SHORT, {"event": "load:5=+99@2s"}, "the largest deviation is"),
        (SHORT, {"event": "unknown@2s"}, "event_size is not declared"),
        (SHORT, {"sigma": 9.0}, "sigma is 9 Hz"),
        (FLAT, {}, "column 'north' is constant"),
        ((TIME[::-1], SHORT[1]), {}, "line 3: the time goes back"),
        ((TIME[:120], SHORT[1][:120]), {}, "ends 0.38 s after the event"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 2])
def test_what_cannot_be_used_is_refused_before_it_costs(
    tmp_path, ledger, rows, changes, said, count
):
    record = write_measured(tmp_path / "in", *rows, **changes)
    given = ["--epsilon=1/2", f"--count={count}", "--out", tmp_path / "out", "--trajectory", record]
    assert_free(gridveil("release", "star5", *given), ledger, tmp_path / "out", said)


def test_withheld_loads_leave_a_share_of_them_without_meaning(tmp_path, ledger):
    record = write_measured(
        tmp_path / "in", *SHORT, event="uniform:+5%@2s", locations={"north": "1"}
    )
    given = ["--epsilon=1/2", "--out", tmp_path / "out", "--trajectory", record]
    assert_free(
        gridveil("release", write_grid(tmp_path / "grid"), *given),
        ledger,
        tmp_path / "out",
        "carries no nominal loads",
    )


def test_a_step_that_euler_cannot_take_is_refused_before_it_costs(tmp_path, ledger):
    record = write_measured(tmp_path / "in", *SHORT, locations={"north": "1"})
    given = ["--epsilon=1/2", "--profile=paper", "--out", tmp_path / "out", "--trajectory", record]
    assert_free(
        gridveil("release", write_grid(tmp_path / "grid"), *given),
        ledger,
        tmp_path / "out",
        "unstable",
    )


# --- events that are not wholly known -------------------------------------------------------------

UNKNOWN = {"event": "unknown@2s", "event_size": "5:200MW", "event_time_window": 1.0, "sigma": 0.001}


@pytest.fixture
def two_stage(monkeypatch):
    monkeypatch.setitem(
        PROFILES, "default", replace(PROFILES["default"], settings=FitSettings("two-stage"))
    )


@pytest.fixture
def answer(tmp_path):
    """What the star of the cases answers to 0.1 p.u. at bus 5, 2.3 s after the start: two machines,
    50 Hz, noise of 1 mHz.
    """
    truth = true_model(open_grid("star5"))
    omega = simulate(
        truth, Event.load({"5": 0.1}, at_s=2.3), horizon_s=12.0, dt_s=0.02, buses=["1", "4"]
    ).omega
    hz = 60 * (1 + omega) + np.random.default_rng(2).normal(0, 0.001, omega.shape)
    return np.arange(len(hz)) / 50, hz


@pytest.mark.usefixtures("trusting")
def test_an_unknown_event_is_estimated_and_reported(tmp_path, two_stage, answer):
    record = write_measured(tmp_path / "in", *answer, **UNKNOWN, provenance={"event_source": None})
    shown = as_json(gridveil("inspect", "star5", "--trajectory", record, "--json"))["trajectories"][
        0
    ]
    assert shown["event_to_estimate"] == [
        "size within 0.05 to 2 p.u.",
        "place",
        "time within ± 1 s",
    ]
    assert shown["sigma_pu"] == pytest.approx(0.001 / 60)
    given = ["release", "star5", "--epsilon=20", "--yes", "--trajectory", record, "--out"]
    found = as_json(gridveil(*given, tmp_path / "out", "--json"))
    (event,) = found["estimated_events"]
    assert event["file"] == "record.toml"
    assert event["time_s"] == pytest.approx(2.3, abs=max(5 * event["time_sd_s"], 0.02))
    assert abs(event["size_pu"] - 0.1) < 5 * event["size_sd_pu"]
    assert (event["size_mw"], event["size_sd_mw"]) == pytest.approx(
        (100 * event["size_pu"], 100 * event["size_sd_pu"])
    )
    assert sum(event["split_pu"]) == pytest.approx(event["size_pu"])
    assert len(event["split_sd_pu"]) == 4
    words = (
        "event data: none published; the size, the place and the time of the event were "
        "estimated from it"
    )
    assert words in found["guarantee"]["conditional_on"][0]
    assert words in (tmp_path / "out" / "certificate.txt").read_text(encoding="utf-8")
    assert as_json(gridveil("verify", tmp_path / "out", "--json"))["ok"] is True
    assert found["fits"][0]["mismatch_after_pu2_s"] < found["fits"][0]["mismatch_before_pu2_s"]


@pytest.mark.usefixtures("trusting")
def test_an_unknown_event_in_words(tmp_path, two_stage, answer):
    record = write_measured(tmp_path / "in", *answer, event="unknown:total=+0.1@2.3s", sigma=0.001)
    done = gridveil(
        "release",
        "star5",
        "--epsilon=20",
        "--yes",
        "--trajectory",
        record,
        "--out",
        tmp_path / "out",
    )
    assert done.code == 0
    said = " ".join(done.out.split())
    for words in (
        "event to be estimated: place",
        "Event record.toml: +0.1 ±",
        "p.u. of load (+10 ±",
        "felt by the machines as G1 +0.0",
        "2.3 s after event_time; estimated from public data and the release",
    ):
        assert words in said, words


@pytest.mark.parametrize(
    "changes", [UNKNOWN, {"event": "unknown:total=+0.1@2s"}, {"event_time_window": 1.0}], ids=str
)
@pytest.mark.parametrize("profile", ["paper", "default"])
def test_a_method_that_needs_the_event_refuses_before_it_costs(
    tmp_path, monkeypatch, ledger, changes, profile
):
    monkeypatch.setitem(
        PROFILES, "default", replace(PROFILES["default"], settings=FitSettings("l-bfgs-b"))
    )
    record = write_measured(tmp_path / "in", *SHORT, **changes)
    given = [
        "--epsilon=1/2",
        f"--profile={profile}",
        "--out",
        tmp_path / "out",
        "--trajectory",
        record,
    ]
    assert_free(
        gridveil("release", "star5", *given),
        ledger,
        tmp_path / "out",
        "needs events of known size, place and time",
    )


# --- from end to end ------------------------------------------------------------------------------

EVENT = "load:7=+0.3,21=+0.2@5s"


@pytest.fixture(scope="module")
def truth():
    return true_model(open_grid("ieee30"))


@pytest.fixture
def measured(tmp_path, truth):
    """What six instruments would have written of the true grid: 50 Hz, noise of 6 mHz, offsets, 40
    % gaps and one of 8 s.
    """
    rng = np.random.default_rng(6)
    record = simulate(truth, Event.parse(EVENT, base_mva=100), horizon_s=25, dt_s=0.02)
    hz = 60 * (1 + record.omega + rng.normal(0, 1e-4, record.omega.shape) + rng.normal(0, 2e-4, 6))
    hz[rng.random(hz.shape) < 0.4] = np.nan
    hz[400:800, 2] = np.nan
    columns = [f"PMU {bus}" for bus in record.buses]
    write_csv(tmp_path / "record.csv", record.time_s, hz, columns=columns)
    return write_toml(
        tmp_path / "record.toml",
        event=EVENT,
        locations=dict(zip(columns, record.buses, strict=True)),
    )


def error_mhz(model, truth, event):
    """Root mean square distance from the truth's frequency at the machines [mHz]; event : with the
    owner's buses.
    """
    names = neutral_names(open_grid("ieee30").facts)
    ours = {names[bus]: size for bus, size in event.items()} if model.machines[0] == "G1" else event
    difference = simulate(model, Event.load(ours)).omega - simulate(truth, Event.load(event)).omega
    return 60_000 * np.sqrt(np.mean(difference**2))


@pytest.mark.usefixtures("trusting")
def test_a_noisy_record_with_gaps_brings_a_release_closer_to_the_truth(
    tmp_path, monkeypatch, truth, measured
):
    noisy = []
    monkeypatch.setattr(
        algorithm, "reduce", lambda *given, **kw: noisy.append(reduce(*given, **kw)) or noisy[-1]
    )
    given = ["--epsilon=1/2", "--trajectory", measured, "--out", tmp_path / "out"]
    found = as_json(gridveil("release", "ieee30", *given, "--json"))
    assert found["fits"][0]["mismatch_after_pu2_s"] < found["fits"][0]["mismatch_before_pu2_s"] / 5
    gaps = [one["gaps"] for one in found["trajectories"][0]["locations"]]
    assert min(gaps) > 0.35
    assert gaps[2] > 0.5
    fitted = load(tmp_path / "out").model
    # In 24 seeded draws: 0.003 to 0.06 of the noisy model's error for the event that was measured,
    # 0.01 to 0.27 for the others.
    for event, at_most in (({"7": 0.3, "21": 0.2}, 1 / 3), ({"7": 0.2}, 1), ({"21": 0.3}, 1)):
        assert error_mhz(fitted, truth, event) < at_most * error_mhz(noisy[0], truth, event)
