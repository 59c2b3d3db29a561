"""Killed at any moment, on a full disk or a read-only one: what was drawn is charged, and no half
bundle is left.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from pathlib import Path

import pytest

from cli_helpers import gridveil
from gridveil.cli import main
from gridveil.foundation import crash_points
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.ledger.chain import read_head
from gridveil.publication import bundle
from gridveil.vault.sampler import SecureSampler
from ledger_helpers import TABLES, a_charge, own_places, processes, sql

KILLS = 200


@pytest.fixture
def folder(tmp_path):
    """On a disk: where a commit takes its time, a kill can strike in the middle of it."""
    return tmp_path


def command(location, out):
    return [
        "release",
        "star5",
        "--epsilon",
        "1/10",
        "--ledger",
        str(location),
        "--out",
        str(out),
        "--json",
    ]


def release(arguments, environment, opened, drawing):
    """Run a release in a process of its own; say when the ledger is open, and leave a mark before
    the first noise is drawn.
    """
    step, draw = crash_points.step, SecureSampler.draw
    crash_points.step = lambda name: [opened.set(), step(name)]
    SecureSampler.draw = lambda *given: [drawing.touch(), draw(*given)][1]
    os.environ |= environment
    sys.argv = ["gridveil", *arguments]
    with Path(os.devnull).open("w") as sys.stdout:
        main()


def start(location, out, **environment):
    opened = processes.Event()
    environment |= own_places()
    process = processes.Process(
        target=release, args=(command(location, out), environment, opened, mark(out)), daemon=True
    )
    process.start()
    assert opened.wait(60)
    return process


def mark(out):
    """The file that tells that noise was drawn for a bundle."""
    return out.with_suffix(".drawing")


def check(location, out, drawn):
    """What must hold whatever happened. drawn : number of times that noise was drawn, so far."""
    ledger = Ledger(location)
    entries = {entry.number: entry for entry in ledger.entries()}
    assert ledger.verify() == []
    assert len(entries) >= drawn
    account = ledger.account("star5")
    assert (account.draws if account else 0) == len(entries)
    if out.exists():
        report, certificate = bundle.verify(out), out / "certificate.json"
        entry = entries[json.loads(certificate.read_text())["ledger_entry"]]
        assert (entry.state, entry.digest) in [("drawn", None), ("published", report.digest)]
        assert ledger.verify(read_head(certificate)) == []
    return len(entries)


@pytest.mark.parametrize("step", crash_points.STEPS)
def test_a_release_that_dies_at_a_step_is_charged_if_it_drew_and_needs_no_repair(
    location, folder, step
):
    out = folder / "bundle"
    process = start(location, out, GRIDVEIL_FAULT=step)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert check(location, out, mark(out).exists()) == (step != "opened")
    assert out.exists() == (step in ("bundle-moved", "published"))
    Ledger(location).set_budget("star5", Adjacency(), Fraction(1))
    assert gridveil(*command(location, folder / "next")).code == 0
    assert check(location, folder / "next", 1) == 1 + (step != "opened")


@pytest.mark.slow
def test_two_hundred_kills_at_random_moments_leave_every_draw_charged_and_no_half_bundle(
    location, folder
):
    moments = random.Random(1)
    Ledger(location).set_budget("star5", Adjacency(), Fraction(1000))
    process, begin = start(location, folder / "whole"), time.monotonic()
    process.join()
    span = time.monotonic() - begin
    assert check(location, folder / "whole", 1) == 1
    runs = kills = drawn = bundles = 0
    # a server is slower by half, and crashes in the same places
    wanted = KILLS // 4 if str(location).startswith("postgresql") else KILLS
    while kills < wanted:
        out = folder / f"bundle-{runs}"
        process = start(location, out)
        time.sleep(moments.uniform(0, span))
        process.kill()
        process.join()
        # a release takes as long as a busy machine lets it: follow that
        span *= 0.9 if out.exists() else 1.1
        runs += 1
        kills += process.exitcode == -signal.SIGKILL
        drawn += mark(out).exists()
        bundles += out.exists()
        check(location, out, 1 + drawn)
    assert 0 < bundles < runs
    assert 0 < drawn < runs


def begin(location, places, ready):
    os.environ.update(places)
    ready.set()
    Ledger(location).charge(a_charge())


@pytest.mark.slow
def test_a_ledger_that_is_killed_while_it_is_begun_can_be_begun_again(
    location, folder, monkeypatch
):
    moments, begun = random.Random(2), Counter()
    for number in range(KILLS // 4):
        place = location if "://" in location else f"{location}-{number}"
        monkeypatch.setenv("GRIDVEIL_HOME", str(folder / f"home-{number}"))
        monkeypatch.setenv("GRIDVEIL_WITNESS", str(folder / f"witness-{number}.sqlite"))
        ready = processes.Event()
        process = processes.Process(target=begin, args=(place, own_places(), ready), daemon=True)
        process.start()
        assert ready.wait(60)
        time.sleep(moments.uniform(0, 0.15))
        process.kill()
        process.join()
        ledger = Ledger(place)
        assert ledger.verify() == []
        begun[len(ledger.export())] += 1
        ledger.charge(a_charge("another"))
        if place == location:
            sql(location, f"DROP TABLE {', '.join(TABLES)}")
    assert set(begun) <= {1, 4}  # nothing but its opening; all rows of a first charge


# --- disks ----------------------------------------------------------------------------------------


@pytest.fixture
def disk(folder):
    """A small disk of the test's own. It takes root to mount one."""
    place = folder / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "gridveil", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


ON_EACH = pytest.mark.parametrize(
    "places",
    [
        ("ledger", "sqlite"),
        ("home", "sqlite"),
        ("home", "postgresql"),
        ("bundle", "sqlite"),
        ("bundle", "postgresql"),
    ],
    ids=", ".join,
    indirect=True,
)


@pytest.fixture
def places(request, folder, home, disk, monkeypatch):
    """A ledger with a large budget, and a folder for bundles: one of them, or the home, is on the
    small disk.
    """
    part, kind = request.param
    if part == "home":
        monkeypatch.setenv("GRIDVEIL_HOME", str(disk / "home"))
    path = (disk if part == "ledger" else folder) / "ledger.sqlite"
    location = str(path) if kind == "sqlite" else request.getfixturevalue("postgres")
    Ledger(location).set_budget("star5", Adjacency(), Fraction(1000))
    return location, disk if part == "bundle" else folder


@pytest.fixture
def draws(monkeypatch):
    """How many releases drew noise, one group or more."""
    drawn, draw = [], SecureSampler.draw
    monkeypatch.setattr(
        SecureSampler, "draw", lambda *given: [drawn.append(given), draw(*given)][1]
    )
    return lambda: -(-len(drawn) // 3)


@contextmanager
def full(disk, pages):
    """Leave so many pages free."""
    free = os.statvfs(disk)
    (disk / "filling").write_bytes(bytes(free.f_bavail * free.f_frsize - 4096 * pages))
    yield
    (disk / "filling").unlink()


@contextmanager
def read_only(disk):
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    yield
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)


def tried(location, out, hindrance, reason):
    """Try a release; if it fails, then clearly, and with no trace of a bundle.

    Returns whether it worked.
    """
    before = set(out.parent.glob("*bundle*"))
    with hindrance:
        done = gridveil(*command(location, out))
    if done.code == 0:
        return True
    assert done.code == 2, done.err
    assert re.search(reason, done.err), done.err
    assert set(out.parent.glob("*bundle*")) == before
    return False


@pytest.mark.slow
@ON_EACH
def test_a_full_disk_is_a_clear_error_wherever_it_strikes(places, disk, draws):
    location, folder = places
    worked = []
    for pages in (*range(7), 8, 10, 12, 16, 24, 32, 64):
        out = folder / f"bundle-{pages}"
        worked.append(tried(location, out, full(disk, pages), "No space left|disk is full"))
        check(location, out, draws())
    assert (worked[0], worked[-1]) == (False, True)


@ON_EACH
def test_a_read_only_disk_is_a_clear_error(places, disk, draws):
    location, folder = places
    out = folder / "bundle"
    assert not tried(location, out, read_only(disk), "[Rr]ead-only|readonly|may write")
    check(location, out, draws())
    assert tried(location, out, nullcontext(), "")
    check(location, out, draws())


def test_a_ledger_can_be_looked_at_on_a_read_only_disk(disk, monkeypatch):
    """As a backup is mounted, or an auditor's copy."""
    monkeypatch.setenv("GRIDVEIL_HOME", str(disk / "home"))
    monkeypatch.setenv("GRIDVEIL_WITNESS", str(disk / "witness.sqlite"))
    place = ("--ledger", str(disk / "ledger.sqlite"))
    Ledger(place[1]).charge(a_charge())
    whole = [gridveil("ledger", command, *place).out for command in ("show", "verify", "export")]
    with read_only(disk):
        done = [gridveil("ledger", command, *place) for command in ("show", "verify", "export")]
    assert [(one.code, one.err) for one in done] == [(0, "")] * 3
    assert [one.out for one in done] == whole


@pytest.mark.parametrize(
    "hindrance", [lambda disk: full(disk, 0), read_only], ids=["full", "read-only"]
)
@pytest.mark.parametrize("part", ["ledger", "home"])
def test_no_ledger_is_begun_on_a_full_or_read_only_disk(
    disk, folder, home, part, hindrance, monkeypatch
):
    if part == "home":
        monkeypatch.setenv("GRIDVEIL_HOME", str(disk / "home"))
    location = (disk if part == "ledger" else folder) / "ledger.sqlite"
    assert not tried(
        location, folder / "bundle", hindrance(disk), "No space left|disk is full|Read-only"
    )
    assert tried(location, folder / "bundle", nullcontext(), "")
    assert check(location, folder / "bundle", 1) == 1
