"""The audit in pieces: the same rows whoever makes them, and whatever becomes of workers."""

import json
import signal
import subprocess
import time
from fractions import Fraction

import pytest

from cli_helpers import SCRIPT, gridveil
from gridveil.assurance import audit
from gridveil.assurance.audit import Effort, audit_all, audited
from gridveil.assurance.audit.pieces import Piece
from gridveil.assurance.audit.releases import KINDS
from gridveil.foundation.executors import here, local
from gridveil.foundation.shards import Kept
from shard_helpers import Awkward, stopped, tries_in

ONE = Fraction(1)
TINY = Effort(1000, 20, 20, 2, KINDS[:1], processes=False, detailed_bundles=False)
ITEM = audited(["one-item"])


def run(adjacencies=ITEM, seed=1, **given):
    return audit_all(adjacencies, ONE, TINY, seed=seed, **given)


def test_two_workers_find_what_one_finds():
    assert run(crew=local(2)) == run() != run(seed=2)


def test_pieces_are_cut_by_their_settings_and_named_by_all_of_them():
    effort = Effort.of(60_000, "thorough")
    parts = audit.parts_of(audited(None, "thorough"), ONE, effort)
    pieces = [Piece(part, number, span) for number, part in enumerate(parts) for span in part.spans]
    assert len({piece.name for piece in pieces}) == len(pieces) > len(parts)
    for part in parts:
        assert [n for span in part.spans for n in span] == [*range(part.spans[-1].stop)]


def test_an_audit_that_was_stopped_goes_on_to_the_same_rows(tmp_path):
    """With a seed; and without one, the files are what it is kept by."""
    kept = Kept.plain(tmp_path)
    for seed in (1, None):
        before = len([*tmp_path.iterdir()])
        with pytest.raises(KeyboardInterrupt):
            run(seed=seed, crew=stopped(3), kept=kept)
        assert len([*tmp_path.iterdir()]) == before + 3
        whole = run(seed=seed, kept=kept)
        assert whole == run(seed=seed, kept=kept, crew=stopped(0))
        assert seed is None or whole == run()


@pytest.fixture
def awkward(monkeypatch, tmp_path):
    def plant(what):
        parts = [Awkward("works", str(tmp_path / "a")), Awkward(what, str(tmp_path / "b"))]
        monkeypatch.setattr(audit, "parts_of", lambda *_: parts)

    for name in "ab":
        (tmp_path / name).mkdir()
    return plant


def test_a_piece_whose_worker_died_is_made_by_another(awkward, tmp_path):
    awkward("dies once")
    found = run(crew=local(2))
    assert found.passed and [row.pattern for row in found.fits] == ["[0, 1]"] * 2
    assert tries_in(tmp_path / "b")[1] == 2


def test_a_part_that_cannot_be_made_is_told_and_nothing_passes(awkward):
    awkward("fails")
    found = run(crew=here())
    assert len(found.fits) == 1 and found.fits[0].passed and not found.passed
    (failed,) = found.failed
    assert (failed.subject, failed.batch, failed.tries) == ("awkward", "2 of 2", 3)
    done = gridveil("audit", "--workers=1")
    assert done.code == 1
    assert "bad luck" in done.out and "Not decided" in done.out and "Passed" not in done.out
    told = json.loads(gridveil("audit", "--workers=1", "--json").out)
    assert (told["passed"], told["failed"][0]["why"]) == (False, "RuntimeError: bad luck")


@pytest.mark.slow
def test_a_command_goes_on_after_ctrl_c(tmp_path):
    kept, asked = tmp_path / "kept", ("--adjacency=one-item", "--workers=2", "--json")
    command = [SCRIPT, "audit", *asked, f"--keep={kept}"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # a shell's background jobs ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while len([*kept.glob("*.json")]) < 2:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    words = process.communicate()[1]
    assert process.returncode == 130
    assert f"Finished batches are kept in {kept}" in words
    before = {path: path.stat().st_mtime_ns for path in kept.glob("*.json")}
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert found["passed"] and not found["failed"]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    again = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert again["findings"] == found["findings"]  # nothing was drawn
