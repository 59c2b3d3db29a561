"""Shards: each piece is made once, whatever becomes of workers; damaged files are made again."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.foundation.executors import Crew, crew_of, here, local, using
from gridveil.foundation.shards import Kept, finish
from shard_helpers import awkward, square, tries_in


def run(crew, pieces, work=awkward):
    made, done = {}, []
    with crew:
        failed = finish(pieces, work, made.__setitem__, crew, more=lambda: done.append(1))
    assert len(done) == len(pieces)
    return made, {failure.name: failure for failure in failed}


@pytest.mark.parametrize(
    "crew", [here(), local(2), using(ThreadPoolExecutor(2), 2)], ids=["here", "pool", "any"]
)
def test_every_piece_is_made_once(crew):
    made, failed = run(crew, {n: n for n in range(20)}, square)
    assert made == {n: n * n for n in range(20)}
    assert not failed


def test_a_piece_that_fails_is_tried_again_and_a_mistake_is_not(tmp_path):
    wanted = {1: "works", 2: "fails twice", 3: "fails", 4: "wrong"}
    made, failed = run(here(), {n: (what, tmp_path, n) for n, what in wanted.items()})
    assert made == {1: 1, 2: 4}
    assert tries_in(tmp_path) == {1: 1, 2: 3, 3: 3, 4: 1}
    assert (failed[3].tries, failed[3].why) == (3, "RuntimeError: bad luck")
    assert (failed[4].tries, failed[4].why) == (1, "No such thing. Nothing was written.")


def test_a_worker_that_is_killed_costs_no_piece(tmp_path):
    """One that kills every worker is given up, and takes no other along."""
    wanted = dict.fromkeys(range(8), "works") | {2: "dies once", 5: "dies"}
    made, failed = run(local(2), {n: (what, tmp_path, n) for n, what in wanted.items()})
    assert made == {n: n * n for n in range(8) if n != 5}
    assert failed.keys() == {5}
    assert failed[5].why == "its worker died"


def test_an_address_without_a_scheduler_ends_with_a_plain_error():
    with pytest.raises(OptionError, match="No Dask scheduler answers at nonsense"):
        run(crew_of("dask", "nonsense"), {1: 1}, square)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("slurm",), "local or dask"),
        (("local", "tcp://127.0.0.1:1"), "--engine dask"),
        (("local", None, -1), "1 to 1000 processes"),
        (("dask", "tcp://127.0.0.1:1", 2), "without --scheduler"),
    ],
)
def test_an_engine_that_is_not_there_is_refused(asked, said):
    with pytest.raises(OptionError, match=said):
        crew_of(*asked)


def test_a_file_that_is_not_whole_counts_as_none(tmp_path):
    kept = Kept(tmp_path, lambda value: json.dumps(value).encode(), json.loads)
    assert kept.read("one") is None
    kept.write("one", [1, 2, 3])
    assert kept.read("one") == [1, 2, 3]
    (tmp_path / "one").write_bytes((tmp_path / "one").read_bytes()[:4])
    assert kept.read("one") is None
    kept.write("one", [1, 2, 3])
    assert kept.read("one") == [1, 2, 3]
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_disk_that_is_full_is_no_failure_of_a_piece(tmp_path):
    kept = Kept(tmp_path / "nowhere", str.encode, bytes.decode)
    with pytest.raises(FileNotFoundError), here() as crew:
        finish({"a": 2}, square, lambda name, result: kept.write(name, str(result)), crew)


def test_a_mistake_of_the_crew_itself_is_raised():
    def nobody():
        raise GridveilError("Nobody is there.")

    with pytest.raises(GridveilError, match="Nobody"), Crew(nobody) as crew:
        finish({1: 1}, square, print, crew)
