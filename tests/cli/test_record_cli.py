"""The command that begins a declaration, and what a record given without one is told."""

import shlex

import pytest

from cli_helpers import as_json, gridveil
from record_layouts import BUSES, LAYOUTS, fill_in


@pytest.fixture(autouse=True)
def ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_begun_filled_in_and_inspected(tmp_path, name):
    files = LAYOUTS[name](tmp_path)
    before = [path.read_bytes() for path in files]
    found = as_json(gridveil("record", "init", *files, "--out", "a.toml", "--json"))
    assert found["declaration"] == "a.toml"
    assert found["to_fill_in"] == 5 + len(BUSES[name])
    assert [one["file"] for one in found["files"]] == [path.name for path in files]
    fill_in(tmp_path / "a.toml", BUSES[name])
    done = gridveil("inspect", "star5", "--trajectory", "a.toml", "--plot", "a.png")
    assert done.code == 0, done.err
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert [path.read_bytes() for path in files] == before


def test_what_was_found_and_what_is_next_is_said(tmp_path):
    files = LAYOUTS["pmu"](tmp_path)
    done = gridveil("record", "init", *files)
    said = " ".join(done.out.split())
    for words in ("north.csv Timestamp", "Frequency (Hz) Hz, absolute", "7 places that say EDIT"):
        assert words in said
    again = gridveil("record", "init", *files)
    assert (again.code, "exists already" in again.err) == (2, True)
    fill_in(tmp_path / "north.toml", BUSES["pmu"])
    said = " ".join(gridveil("inspect", "star5", "--trajectory", "north.toml").out.split())
    assert "Gaps north.csv: Frequency (Hz) (bus 1)" in said
    assert "4.03 s from +9.9" in said
    assert "rows flagged as bad" in said


@pytest.mark.parametrize("name", ["scada", "recorder"])
def test_a_record_in_the_place_of_its_declaration_is_told_the_command_that_runs(tmp_path, name):
    (path,) = LAYOUTS[name](tmp_path)
    done = gridveil("inspect", "star5", "--trajectory", path)
    assert done.code == 2
    command = done.err.partition("Write one with: ")[2].strip()
    assert command.startswith("gridveil record init ")
    assert gridveil(*shlex.split(command)[1:]).code == 0
    assert path.with_suffix(".toml").exists()


def test_times_of_an_unknown_kind_are_declared(tmp_path):
    rows = [f"2025.118 01h:00:{s:02d};60.{7 * s % 60:02d}" for s in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["when;freq", *rows]) + "\n")
    done = gridveil("record", "init", "a.csv")
    assert (done.code, "--time-format" in done.err) == (2, True)
    given = ["record", "init", "a.csv", "--time-format", "%Y.%j %Hh:%M:%S", "--json"]
    assert as_json(gridveil(*given))["files"][0]["interval_s"] == 1
    assert gridveil("record", "init", "a.csv", "--time-format", "%Q", "--out", "b.toml").code == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_from_a_file_to_a_fitted_replayed_bundle(tmp_path, name):
    files = LAYOUTS[name](tmp_path)
    before = [path.read_bytes() for path in files]
    assert gridveil("record", "init", *files, "--out", "a.toml").code == 0
    toml = fill_in(tmp_path / "a.toml", BUSES[name])
    toml.write_text("redistribute = true\n" + toml.read_text(encoding="utf-8"), encoding="utf-8")
    given = ["--epsilon=1/2", "--trajectory", toml, "--out", "out", "--plot", "fitted.png"]
    done = gridveil("release", "star5", *given)
    assert done.code == 0, done.err
    assert gridveil("verify", "out").code == 0
    found = as_json(gridveil("simulate", "out", "--replay", "--plot", "again.png", "--json"))
    for place in found["places"]:
        assert place["event"].startswith("load:L1=0.1@")
        assert place["rms_fitted_mhz"] <= place["rms_unfitted_mhz"]
        # 1 mHz of noise, and a drift of some mHz in the slow ones
        assert place["rms_fitted_mhz"] < 8
    assert (tmp_path / "again.png").stat().st_size > 10_000
    assert [path.read_bytes() for path in files] == before
