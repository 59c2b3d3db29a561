"""Shards: each piece is made once, whatever becomes of workers; damaged files are made again."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from multiprocessing import active_children

import numpy as np
import pytest

from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.foundation.executors import Crew, crew_of, here, later, local, using
from gridveil.foundation.shards import Kept, check_made, digest_of, finish, gather, name_of
from shard_helpers import awkward, square, stopped, tries_in


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


def test_all_workers_start_before_any_work():
    """Python waits for ever for one that starts while another dies."""
    before = len(active_children())
    with local(3) as crew:
        assert crew.width()
        assert len(active_children()) == before + 3


def test_workers_end_with_a_process_that_is_killed(tmp_path):
    """They hold its stdout as long as they live."""
    code = (
        "import sys, shard_helpers\n"
        "from gridveil.foundation.executors import local\n"
        "from gridveil.foundation.shards import finish\n"
        "finish({1: sys.argv[1]}, shard_helpers.waits, print, local(2))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    while not (tmp_path / "at work").exists():
        time.sleep(0.05)
    process.kill()
    process.communicate(timeout=30)


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


@pytest.mark.parametrize("asked", [("dask",), ("local", None, 2), ("local", "tcp://127.0.0.1:1")])
def test_a_gpu_is_used_from_one_process(asked):
    with pytest.raises(OptionError, match="do not go with --compute gpu"):
        crew_of(*asked, compute="gpu")


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


def test_a_pool_is_called_for_work_that_takes_long_and_not_before():
    called = []

    def other():
        called.append(1)
        return using(ThreadPoolExecutor(2), 2)._call()

    made, _ = run(later(Crew(other), 60.0), {n: n for n in range(5)}, square)
    assert made == {n: n * n for n in range(5)} and not called
    made, _ = run(later(Crew(other), 0.0), {n: n for n in range(5)}, square)
    assert made == {n: n * n for n in range(5)} and called == [1]


def test_a_pool_that_is_called_late_is_called_again_after_a_loss(tmp_path):
    wanted = dict.fromkeys(range(4), "works") | {2: "dies once"}
    crew = later(local(2), 0.0)
    made, failed = run(crew, {n: (what, tmp_path, n) for n, what in wanted.items()})
    assert made == {n: n * n for n in range(4)} and not failed


def test_what_was_finished_before_ctrl_c_is_not_made_again(tmp_path):
    pieces = {f"{n}.json": ("works", tmp_path, n) for n in range(5)}
    kept = Kept.plain(tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt), stopped(3) as crew:
        gather(pieces, awkward, crew, kept=kept)
    assert sorted(path.name for path in kept.folder.iterdir()) == ["0.json", "1.json", "2.json"]
    there = []
    found, failed = gather(pieces, awkward, here(), kept=kept, more=there.append)
    assert found == {f"{n}.json": n * n for n in range(5)} and not failed
    assert [*found] == [*pieces] and sorted(there) == sorted(pieces)
    assert tries_in(tmp_path) == dict.fromkeys(range(5), 1)


def test_a_folder_that_cannot_be_written_ends_with_a_plain_error(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(GridveilError, match="Cannot write to"):
        gather({"a": 1}, square, here(), kept=Kept.plain(tmp_path / "taken"))


def test_what_failed_is_told_in_words(tmp_path):
    _, failed = gather({"a": ("fails", tmp_path, 1), "b": ("works", tmp_path, 2)}, awkward, here())
    with pytest.raises(GridveilError, match="1 of 2 batches could not be made: the first "):
        check_made(failed, {"a": "the first", "b": "the other"}, "No plan was made.")
    check_made([], {"a": "the first"}, "")


def test_a_name_holds_all_settings_and_no_repr():
    names = {name_of(one) for one in (1, [1], {"a": 1}, Fraction(1, 2), range(2), np.ones(2), 1j)}
    assert len(names) == 7
    with pytest.raises(TypeError, match="no plain form"):
        digest_of([object()])
