"""Long work tells what it has come to, in order, and never a value."""

import io
import re
import sys

import pytest
from rich.progress import Progress

from cli_helpers import gridveil, write_grid
from gridveil.cli.output import progress_bar
from gridveil.foundation.progress import (
    BASIS,
    CORNERS,
    LEAKAGE,
    RELEASE,
    counted,
    report,
    stage,
    staged,
    told_to,
)
from measured_helpers import write_measured


@pytest.fixture
def told():
    """The stages that were told while a test ran."""
    names = []
    with told_to(lambda name, done, total: names.append(name)):
        yield names


def release(folder, *options, grid=None):
    grid = grid or write_grid(folder)
    return gridveil(
        "release",
        grid,
        "--epsilon",
        "1/2",
        "--out",
        folder / "out",
        "--ledger",
        folder / "l.sqlite",
        *options,
    )


def test_a_stage_that_nobody_listens_to_is_told_to_nobody(capsys):
    heard = []
    with told_to(lambda *said: heard.append(said[0])):
        stage("reading the grid")
    stage("drawing the noise")
    assert heard == ["reading the grid"]
    assert capsys.readouterr() == ("", "")


def test_the_inner_listener_hears_and_the_outer_one_does_again_afterwards():
    outer, inner = [], []
    with told_to(lambda *said: outer.append(said[0])):
        stage("one")
        with told_to(lambda *said: inner.append(said[0])):
            stage("two")
        stage("three")
    stage("four")
    assert (outer, inner) == (["one", "three"], ["two"])


def test_a_listener_is_forgotten_after_an_error():
    names = []
    with pytest.raises(KeyError), told_to(lambda *said: names.append(said)):
        raise KeyError
    stage("after")
    assert names == []


def test_a_release_tells_its_stages_in_order(tmp_path, told):
    done = release(tmp_path, "--json")
    assert done.code == 0
    assert tuple(told) == RELEASE


def test_several_draws_read_the_grid_once_and_tell_the_rest_of_each(tmp_path, told):
    done = release(tmp_path, "--count", "3", "--json")
    assert done.code == 0
    assert tuple(told) == RELEASE[:3] + 3 * RELEASE[3:]


def test_inspect_tells_what_it_does(tmp_path, told):
    assert gridveil("inspect", write_grid(tmp_path), "--json").code == 0
    assert tuple(told) == RELEASE[:2]


def test_work_that_is_refused_stops_at_its_stage(tmp_path, told):
    done = release(
        tmp_path, "--json", grid=write_grid(tmp_path, replace=("4 1 40 9", "4 1 4000 900"))
    )
    assert done.code == 2
    assert tuple(told) == RELEASE[:2]
    assert not (tmp_path / "out").exists()


def leakage(folder, *options):
    """What a public record gives away of a grid, with a bundle of the grid beside it."""
    record = write_measured(folder / "in", locations={"north": "1", "south": "2"})
    return gridveil(
        "leakage", folder / "private.m", "--trajectory", record, "--sigma=1e-4", *options
    )


def among(told, stages):
    """What was told of some stages; reductions inside them are told as well."""
    return tuple(name for name in told if name in stages)


def test_leakage_tells_its_stages_in_order(tmp_path, told):
    write_grid(tmp_path)
    assert leakage(tmp_path, "--json").code == 0
    assert among(told, BASIS + LEAKAGE) == BASIS[:2] + LEAKAGE
    told.clear()
    assert leakage(tmp_path, "--rate=10Hz", "--delta=1e-5", "--json").code == 0
    assert among(told, BASIS + LEAKAGE)[:14] == BASIS[:2] + 2 * LEAKAGE
    assert among(told, CORNERS) == 2 * CORNERS


def test_each_start_that_a_bundle_needs_is_told(tmp_path, told, monkeypatch):
    """An exact answer ends the search; where a fit moved the weights off the topology there is
    none.
    """
    assert release(tmp_path, "--mechanism=items", "--json").code == 0
    for exact, starts in ((1e-9, 1), (-1.0, 3)):
        monkeypatch.setattr("gridveil.adversary.attack.network.EXACT", exact)
        told.clear()
        assert leakage(tmp_path, "--surrogate", tmp_path / "out", "--json").code == 0
        assert among(told, BASIS + LEAKAGE) == BASIS[: 2 + starts] + LEAKAGE


def test_a_release_shows_a_bar_while_it_works_out_what_its_record_gives_away(
    tmp_path, shown, monkeypatch
):
    monkeypatch.setattr("gridveil.cli.release._at_a_terminal", lambda: False)
    record = write_measured(tmp_path / "in", locations={"north": "1", "south": "2"})
    monkeypatch.setattr(
        "gridveil.workflow.release.algorithm_1",
        lambda *args, **more: pytest.fail("a stub ends it here"),
    )
    with pytest.raises(pytest.fail.Exception):
        release(tmp_path, "--trajectory", record, "--yes")
    assert [move for move in shown[2:] if move[0] is not None] == [*enumerate(LEAKAGE)]


class Terminal(io.StringIO):
    """Somewhere a person looks."""

    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """What a bar on a terminal was moved to."""
    moves = []
    monkeypatch.setattr(
        Progress, "update", lambda _, task, **to: moves.append((to["completed"], to["description"]))
    )
    monkeypatch.setattr(io, "StringIO", Terminal)
    return moves


def test_on_a_terminal_a_bar_names_each_stage_and_moves_on_with_it(tmp_path, shown):
    assert release(tmp_path).code == 0
    assert shown == list(enumerate(RELEASE))


def test_a_bar_names_a_stage_that_it_does_not_know_without_moving(monkeypatch, shown):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar(quiet=False), staged(RELEASE):
        stage("thinking")
    assert shown == [(None, "thinking")]


@pytest.mark.parametrize("options", [["--json"], []], ids=["json", "no terminal"])
def test_where_nobody_looks_there_is_no_bar(tmp_path, options):
    done = release(tmp_path, *options)
    assert done.code == 0
    assert not any(name in done.err for name in RELEASE)


def test_a_bar_leaves_no_blank_line_in_a_log(capsys):
    with progress_bar(quiet=False):
        stage("thinking")
        report("fitting", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_work_that_counts_itself_is_all_that_is_shown_of_it():
    said = []
    with told_to(lambda *one: said.append(one)), staged(("first", "second")):
        stage("second")
        with counted("drawing", 7) as more:
            more(3)
            stage("first")
            report("fitting", 1, 2)
            more(at_work="the last ones")
        stage("first")
    assert said == [
        ("second", 1, 2),
        ("drawing", 0, 7),
        ("drawing", 3, 7),
        ("the last ones", 4, 7),
        ("first", 0, 2),
    ]


def test_a_bar_makes_room_for_what_is_said_and_comes_back(monkeypatch, shown):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar(quiet=False) as bar, staged(RELEASE):
        stage(RELEASE[0])
        bar.stop()
        stage(RELEASE[1])
    assert shown == [(0, RELEASE[0]), (1, RELEASE[1])]


def test_with_json_there_is_no_bar_on_a_terminal_either(tmp_path, shown):
    assert release(tmp_path, "--json").code == 0
    assert shown == []


def test_names_of_stages_are_words():
    for stages in (RELEASE, BASIS, LEAKAGE, CORNERS):
        assert all(re.fullmatch(r"[a-z][a-z0-9 ,']+", name, re.IGNORECASE) for name in stages)
        assert len(set(stages)) == len(stages)
