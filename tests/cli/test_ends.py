"""However a release ends, the truth is told: signals at named steps, streams that are closed, full
or left by their reader.
"""

import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction

import pytest

from cli_helpers import SCRIPT, charges, gridveil, make_release
from gridveil.cli import main
from gridveil.foundation import crash_points
from gridveil.foundation.files import replace_whole, workplace
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.ledger import Ledger
from gridveil.publication import bundle
from ledger_helpers import own_places, processes

NOT_SPENT, CHARGED = "nothing was spent", "ε = 1/10 was charged to the lineage star5"
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
FAST = {
    ("charged", "SIGTERM"),
    ("bundle-half", "SIGHUP"),
    ("bundle-moved", "SIGINT"),
    ("published", "SIGTERM"),
}
CASES = [
    pytest.param(step, name, marks=() if (step, name) in FAST else pytest.mark.slow)
    for step in crash_points.STEPS
    for name in SIGNALS
]


@pytest.fixture
def folder(tmp_path, home):
    """A ledger with room for ten releases, and a place for them; the ledger's key lies in a home of
    its own.
    """
    Ledger(tmp_path / "ledger.sqlite").set_budget("star5", Adjacency(), Fraction(1))
    (tmp_path / "out").mkdir()
    return tmp_path


def command(folder, *more, out="bundle"):
    return [
        "release",
        "star5",
        "--epsilon=1/10",
        f"--ledger={folder / 'ledger.sqlite'}",
        f"--out={folder / 'out' / out}",
        *more,
    ]


def run(arguments, environment, said):
    """A process's own work: the command line, with what it prints in two files."""
    for name in SIGNALS:  # tests that run in the background, or under nohup, inherit ignored ones
        number = signal.Signals[name]
        signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
    os.environ |= environment
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(said / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = ["gridveil", *arguments]
    main()


def released(folder, *more, **environment):
    """Release in a process of its own; returns its exit code, and what it said on both streams."""
    environment |= own_places()
    process = processes.Process(target=run, args=(command(folder, *more), environment, folder))
    process.start()
    process.join(60)
    return process.exitcode, (folder / "stdout").read_text(), (folder / "stderr").read_text()


def left_in(folder):
    return sorted(path.name for path in (folder / "out").iterdir())


# --- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "name"), CASES)
def test_a_signal_at_any_step_tells_the_outcome(folder, step, name):
    code, _, err = released(folder, GRIDVEIL_FAULT=f"{step}:{name}")
    entries = charges(folder / "ledger.sqlite")
    if step in ("bundle-moved", "published"):
        assert code == 0
        assert f"{CHARGED} and stays spent; the bundle stands: {folder / 'out' / 'bundle'}." in err
        report = bundle.verify(folder / "out" / "bundle")
        assert [(entry.state, entry.digest) for entry in entries] == [("published", report.digest)]
        assert left_in(folder) == ["bundle"]
        return
    assert code == 128 + signal.Signals[name]
    assert (
        NOT_SPENT if step == "opened" else f"{CHARGED} and stays spent; there is no bundle"
    ) in err
    assert len(entries) == (step != "opened")
    assert left_in(folder) == []


@pytest.mark.parametrize(
    "name", [SIGNALS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in SIGNALS[1:])]
)
def test_a_signal_between_two_draws_tells_which_bundle_stands(folder, name):
    code, out, err = released(folder, "--count=2", "--json", GRIDVEIL_FAULT=f"published:{name}")
    assert code == 128 + signal.Signals[name]
    outcome = json.loads(out)["outcome"]
    assert "the bundle stands" in outcome
    assert "bundle-1; there is no" in outcome
    assert outcome in err
    assert left_in(folder) == ["bundle-1"]


@pytest.mark.slow
def test_a_signal_to_another_command_ends_it_with_its_code(folder):
    process = subprocess.Popen(
        [SCRIPT, "paper", "--runs=1000", "--out", folder / "paper"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    while not (folder / "paper").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[1].decode() == "gridveil: ended by SIGTERM.\n"
    assert process.returncode == 143


@pytest.mark.slow
def test_an_ignored_signal_stays_ignored(folder):
    """As nohup has it."""
    done = subprocess.run(
        [SCRIPT, *command(folder)],
        env=os.environ | {"GRIDVEIL_FAULT": "charged:SIGHUP"},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, left_in(folder)) == (0, ["bundle"])


# --- what fails in the middle ---------------------------------------------------------------------


def test_a_bundle_that_the_ledger_cannot_note_is_told(folder, monkeypatch):
    from gridveil.foundation.errors import LedgerError

    def refuse(*_):
        raise LedgerError(
            "The ledger went away.", outcome="The release stays charged; its bundle stands."
        )

    monkeypatch.setattr(Ledger, "mark_published", refuse)
    done = gridveil(*command(folder))
    assert done.code == 2
    assert (
        f"the bundle stands: {folder / 'out' / 'bundle'}; the ledger could not note that"
        in done.err
    )
    assert bundle.verify(folder / "out" / "bundle")


def test_a_full_disk_at_the_second_draw_tells_of_the_first(folder, monkeypatch):
    from gridveil.foundation import archive

    write = archive.write_synced

    def fail(path, *given):
        if "bundle-1" not in left_in(folder):
            return write(path, *given)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "write_synced", fail)
    done = gridveil(*command(folder, "--count=2"))
    assert done.code == 2
    assert "No space left on device" in done.err
    assert "ε = 1/5 was charged" in done.err
    assert (
        f"the bundle stands: {folder / 'out' / 'bundle-1'}; there is no "
        f"{folder / 'out' / 'bundle-2'}." in done.err
    )


def test_a_bug_after_the_charge_tells_what_it_cost(folder, monkeypatch):
    monkeypatch.setattr("gridveil.workflow.publish.reduce", lambda *_: 1 / 0)
    monkeypatch.setattr("gridveil.workflow.publish.posterior_mean", lambda *_: 1 / 0)
    done = gridveil(*command(folder))
    assert (done.code, "internal error" in done.err, CHARGED in done.err) == (70, True, True)


def test_a_bug_after_the_last_bundle_does_not_ask_for_another_release(folder, monkeypatch):
    monkeypatch.setattr("gridveil.workflow.release.warnings", lambda *_: 1 / 0)
    done = gridveil(*command(folder))
    assert (done.code, "internal error" in done.err, CHARGED in done.err) == (0, True, True)


# --- streams --------------------------------------------------------------------------------------


def shell(line, folder, *arguments):
    """Run a command in a shell, which does something to its streams; returns its own exit code and
    what stderr got.
    """
    done = subprocess.run(
        ["bash", "-c", f'"$@" {line}; exit ${{PIPESTATUS[0]}}', "bash", SCRIPT, *arguments],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stderr.decode()


# What happens to stdout, whether a reader simply left, and what is said of it.
LOST = {
    "> /dev/full": "stdout could not be written (No space left on device)",
    ">&-": "stdout could not be written (it is closed)",
    "| true": "",
    "| head -1": "",
}


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("line", LOST)
def test_a_release_whose_text_is_lost_still_stands_and_says_so(folder, line, more):
    code, err = shell(line, folder, *command(folder, *more))
    assert code == 0
    assert LOST[line] in err
    assert CHARGED in err or "head" in line  # which may well have read it all
    assert "Traceback" not in err
    assert "Exception" not in err
    assert charges(folder / "ledger.sqlite")[0].state == "published"


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["> /dev/full 2> /dev/full", ">&- 2>&-", "<&- >&- 2>&-", "2>&-", "2> /dev/full"]
)
def test_a_release_without_any_stream_still_ends_with_its_code(folder, line):
    assert shell(line, folder, *command(folder))[0] == 0
    assert Ledger(folder / "ledger.sqlite").verify() == []
    assert bundle.verify(folder / "out" / "bundle")
    assert shell(line, folder, *command(folder))[0] == 2  # the place is taken


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("cases",), ("--help",), ("ledger", "--help"), ("cases", "--json")]
)
def test_a_reader_that_goes_away_is_no_error(folder, arguments):
    assert shell("| true", folder, *arguments) == (0, "")
    assert shell("| head -1", folder, *arguments) == (0, "")


@pytest.mark.parametrize("line", ["> /dev/full", ">&-"])
def test_a_command_whose_only_result_is_lost_says_so(folder, line):
    code, err = shell(line, folder, "cases")
    assert (code, err) == (74, f"gridveil: {LOST[line]}: what this command printed is lost.\n")


@pytest.mark.slow
def test_a_bundle_that_does_not_verify_is_no_success_for_want_of_a_reader(folder):
    make_release(folder, demo=True).save(folder / "demo")
    (folder / "demo" / "README.md").write_text("changed")
    for line in LOST:
        assert shell(line, folder, "verify", "demo")[0] == 1


# --- what killed runs leave -----------------------------------------------------------------------


def hidden(folder):
    return [path for path in folder.rglob(".*") if path.name not in (".", "..")]


@pytest.mark.parametrize(
    "step", ["bundle-begun", pytest.param("bundle-half", marks=pytest.mark.slow)]
)
def test_what_a_killed_release_left_is_swept_at_the_next_start(folder, step):
    assert released(folder, GRIDVEIL_FAULT=step)[0] == -signal.SIGKILL
    assert len(hidden(folder / "out")) == 1
    assert gridveil(*command(folder)).code == 0
    assert left_in(folder) == ["bundle"]


def test_what_a_killed_replacement_left_is_swept_at_the_next_one(tmp_path):
    text = "import os, sys; from pathlib import Path; from gridveil.foundation import files\n"
    text += "os.fsync = lambda _: os.kill(os.getpid(), 9)\n"
    text += "files.replace_whole(Path(sys.argv[1]), b'private')"
    subprocess.run([sys.executable, "-c", text, tmp_path / "file"], check=False)
    assert len(hidden(tmp_path)) == 1
    replace_whole(tmp_path / "file", b"whole", 0o640)
    assert hidden(tmp_path) == []
    assert ((tmp_path / "file").read_bytes(), (tmp_path / "file").stat().st_mode & 0o777) == (
        b"whole",
        0o640,
    )


def test_a_run_that_lives_keeps_its_workplace(tmp_path):
    with workplace(tmp_path) as made:
        made.write_text("half")
        text = (
            "import sys; from pathlib import Path; from gridveil.foundation.files import "
            "workplace\n"
        )
        text += "with workplace(Path(sys.argv[1])): pass"
        subprocess.run([sys.executable, "-c", text, tmp_path], check=True)
        with workplace(tmp_path):
            assert made.read_text() == "half"
    assert hidden(tmp_path) == []


def test_nothing_of_anybody_elses_is_swept(tmp_path):
    (tmp_path / "mine").mkdir(mode=0o700)
    names = {
        name: tmp_path / f".gridveil-making-{name}"
        for name in ("a_folder", "readable", "aaaafile", "the_link", "longer_name")
    }
    for name in ("a_folder", "readable", "longer_name"):
        names[name].mkdir(mode=0o700)
    (names["a_folder"] / "notes.txt").write_text("mine")
    names["readable"].chmod(0o755)
    names["aaaafile"].write_text("mine")
    names["the_link"].symlink_to(tmp_path / "mine", target_is_directory=True)
    (tmp_path / ".writing-notebook").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    for _ in range(2):
        replace_whole(tmp_path / "file", b"whole")
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "file"])


@pytest.mark.slow
def test_many_runs_at_once_never_sweep_each_other(tmp_path):
    text = (
        "import sys; from pathlib import Path; from gridveil.foundation.files import "
        "replace_whole\n"
    )
    text += "for n in range(300): replace_whole(Path(sys.argv[1]) / sys.argv[2], str(n).encode())"
    runs = [subprocess.Popen([sys.executable, "-c", text, tmp_path, f"file-{n}"]) for n in range(4)]
    assert [run.wait() for run in runs] == [0] * 4
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["299"] * 4


# --- never into a bundle --------------------------------------------------------------------------


@pytest.fixture
def links(folder):
    """A folder's and a zip's bundle, and names outside that lead into them."""
    release = make_release(folder, demo=True)
    release.save(folder / "demo")
    release.save(folder / "demo.zip")
    (folder / "way").symlink_to(folder / "demo", target_is_directory=True)
    for end in ("csv", "png"):
        (folder / f"soft.{end}").symlink_to(folder / "demo" / "README.md")
        (folder / f"new.{end}").symlink_to(folder / "demo" / f"new.{end}")
        (folder / f"hard.{end}").hardlink_to(folder / "demo" / "reference.csv")
        (folder / f"zip.{end}").symlink_to(folder / "demo.zip")
        (folder / f"hard-zip.{end}").hardlink_to(folder / "demo.zip")
    yield folder
    assert bundle.verify(folder / "demo")
    assert bundle.verify(folder / "demo.zip")


WAYS = ("way/new", "way/reference", "demo/../way/new", "soft", "new", "hard", "zip", "hard-zip")


@pytest.mark.parametrize("way", WAYS)
def test_simulate_writes_into_no_bundle_through_a_link(links, way):
    for option, end in (("--csv", "csv"), ("--plot", "png")):
        done = gridveil(
            "simulate",
            links / "demo",
            "--event=load:G1=+0.1",
            "--horizon=1",
            f"{option}={links / way}.{end}",
        )
        assert done.code == (0 if way == "hard" else 2), done.err


@pytest.mark.parametrize("way", WAYS)
def test_the_ledgers_export_is_written_into_no_bundle(links, way):
    done = gridveil(
        "ledger", "export", "--ledger", links / "ledger.sqlite", "--out", f"{links / way}.csv"
    )
    assert done.code == (0 if way == "hard" else 2), done.err


@pytest.mark.parametrize("place", ["way", "way/new", "demo", "paper"])
def test_the_papers_figures_are_drawn_into_no_bundle(links, place):
    (links / "paper").mkdir()
    (links / "paper" / "fig1.png").symlink_to(links / "demo" / "README.md")
    done = gridveil("paper", "--runs=2", "--only=fig1", "--out", links / place)
    assert (done.code, "inside a bundle" in done.err) == (2, True)


@pytest.mark.parametrize("place", ["way/new", "demo/new"])
def test_no_new_folder_is_made_in_a_bundle(links, place):
    for arguments in (
        ("export", links / "demo", "--to=csv", "--out", links / place),
        ("demo", "star5", "--out", links / place),
        ("signoff", links / "demo", "--source=ieee30", "--out", links / place),
        command(links, out=links / place),
    ):
        done = gridveil(*arguments)
        assert (done.code, "bundle" in done.err) == (2, True)


def test_a_signal_on_the_way_out_does_not_deny_what_was_done(folder):
    """Once all is printed, a program ends at once, with the code that follows from what it did."""
    with subprocess.Popen(
        [SCRIPT, *command(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | own_places(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        for line in process.stdout:
            if line.startswith("Next"):
                process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert [entry.state for entry in charges(folder / "ledger.sqlite")] == ["published"]


@pytest.mark.parametrize("arguments", [[], ["ledger"], ["keys"]])
def test_a_command_without_arguments_says_what_it_takes_in_lines(arguments):
    done = gridveil(*arguments)
    assert done.code == 2
    assert done.err.count("\n") > 10
    assert "\\n" not in done.err + done.out
