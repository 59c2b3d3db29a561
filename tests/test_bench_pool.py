"""Draws of the fidelity benchmarks: spread over processes, kept, and gone on with."""

import argparse

import pytest

from bench_pool import over_draws, resumable
from gridveil.foundation.executors import here, local
from shard_helpers import awkward, stopped, tries_in

WANTED = ["works", "dies once", "works", "works"]


@pytest.fixture
def draws(tmp_path):
    return [(what, tmp_path, number) for number, what in enumerate(WANTED)]


def test_a_draw_whose_process_died_is_made_again(draws, tmp_path):
    with local(2) as crew:
        assert over_draws(awkward, draws, "some", crew=crew) == [0, 1, 4, 9]
    assert tries_in(tmp_path)[1] == 2


def test_a_benchmark_that_was_stopped_goes_on(draws, tmp_path):
    draws = [("works", *where) for _, *where in draws]
    kept = {"folder": tmp_path / "kept"}
    with pytest.raises(KeyboardInterrupt):
        over_draws(awkward, draws, "some", crew=stopped(2), **kept)
    first, second = sorted((tmp_path / "kept").iterdir())
    second.write_bytes(second.read_bytes()[:-2])  # not whole: made again
    assert over_draws(awkward, draws, "some", crew=here(), **kept) == [0, 1, 4, 9]
    assert sum(tries_in(tmp_path).values()) == 5
    assert over_draws(awkward, draws, "some", crew=stopped(0), **kept) == [0, 1, 4, 9]
    assert first.exists()


def test_a_draw_that_fails_is_told(tmp_path, capsys):
    with pytest.raises(RuntimeError, match="1 of 1 draws failed: RuntimeError: bad luck"):
        over_draws(awkward, [("fails", tmp_path, 1)], "some")
    assert "some, failed (3 tries): ('fails'," in capsys.readouterr().err


def test_an_option_says_where_draws_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("bench_pool._Resume.folder", None)
    parser = argparse.ArgumentParser()
    resumable(parser)
    parser.parse_args(["--resume", str(tmp_path / "kept")])
    assert over_draws(awkward, [("works", tmp_path, 3)], "some") == [9]
    assert len([*(tmp_path / "kept").iterdir()]) == 1
