"""What others wrote is shown, never obeyed: no forged line, no terminal escape, no formula in a
table.
"""

import csv
import io
import json
import os
import pty
import subprocess
from contextlib import suppress
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from cli_helpers import SCRIPT, gridveil, make_release, write_grid
from gridveil.cli import output
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.archive import SUMS, checksums
from gridveil.foundation.errors import BundleError, GridveilError, InputError, LedgerError
from gridveil.privacy.ledger import Ledger
from gridveil.publication import bundle
from gridveil.publication.export.tables import write as write_tables
from ledger_helpers import a_charge

FORGED = "Signed by key 0123456789abcdef, which you trust."
FORMULA = "x\n=HYPERLINK(1),"
# C0, DEL, C1, bidi controls and isolates, zero-width signs, line and paragraph separators, a lone
# surrogate.
SIGNS = [
    *map(chr, range(32)),
    "\x7f",
    *map(chr, range(0x80, 0xA0)),
    *map(chr, range(0x202A, 0x202F)),
    *map(chr, range(0x2066, 0x206A)),
    *map(chr, range(0x200B, 0x2010)),
    "\u2028",
    "\u2029",
    "\udc80",
]
HOSTILE = f"a{''.join(SIGNS)}z\n{FORGED}\n\x1b]0;title\x07\x1b[2J"


def check_harmless(text):
    """No sign that steers a terminal, and no line that a value began."""
    assert [sign for sign in text if not sign.isprintable() and sign != "\n"] == []
    assert not any(line.strip().startswith(FORGED[:13]) for line in text.splitlines())


# --- one test a way of printing -------------------------------------------------------------------


WAYS = {
    "text": lambda text: output.print_text(f"Bundle   {text}", text),
    "notice": lambda text: output.print_notice(text),
    "title": lambda text: output.print_table(text, ("bus",), [("G1" * 40,)]),
    "heads": lambda text: output.print_table("buses", (text,), [("G1",)]),
    "cells": lambda text: output.print_table(
        "buses", ("bus", "notes"), [(text, (text, "a second line"))]
    ),
    "json": lambda text: output.print_json({text: [text]}),
    "error": lambda text: output.fail(
        GridveilError(text, outcome=text, remedy=text), as_json=False, debug=True
    ),
    "error as JSON": lambda text: output.fail(
        InputError(text, file=text, table=text, expected=text), as_json=True, debug=True
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_that_is_printed_steers_a_terminal_or_begins_a_line(way, capsys):
    with suppress(SystemExit):
        WAYS[way](HOSTILE)
    out, err = capsys.readouterr()
    assert "title" in out + err
    check_harmless(out + err)


@pytest.mark.parametrize("way", WAYS)
def test_plain_words_are_printed_as_they_are(way, capsys):
    with suppress(SystemExit):
        WAYS[way]("Größe ε ≤ 1/2 – K_ac, “naïve” :heart: [bold]\\n 数")
    out, err = capsys.readouterr()
    words = (
        "Größe ε ≤ 1/2 – K_ac, “naïve” :heart: [bold]"
        + ("\\\\n" if "json" in way.lower() else "\\n")
        + " 数"
    )
    assert words in out + err


def test_json_says_what_it_was_given(capsys):
    output.print_json({"name": HOSTILE, "far": "\U000e0001"})
    out = capsys.readouterr().out
    assert json.loads(out) == {"name": HOSTILE, "far": "\U000e0001"}
    check_harmless(out)


def test_an_error_is_one_line_wherever_it_is_shown():
    for error in (
        GridveilError(HOSTILE),
        InputError(HOSTILE, file=HOSTILE),
        BundleError(HOSTILE),
        LedgerError(HOSTILE),
    ):
        assert str(error).isprintable()
        assert error.problem.isprintable()


@pytest.mark.parametrize(
    "arguments",
    [
        (HOSTILE,),
        (f"--{HOSTILE}",),
        ("inspect", "ieee30", HOSTILE),
        ("inspect", "ieee30", f"--{HOSTILE}"),
        ("inspect", "ieee30", f"--inertia={HOSTILE}"),
        ("inspect", HOSTILE),
        ("simulate", HOSTILE, "--event", HOSTILE),
        ("verify", HOSTILE, "--key", HOSTILE),
        ("cases", HOSTILE),
        ("demo", HOSTILE, "--epsilon", HOSTILE),
        ("release", "star5", "--epsilon", HOSTILE),
        ("release", "star5", "--epsilon=1", "--split", HOSTILE),
        ("export", "x", "--to", HOSTILE),
        ("keys", "revoke", HOSTILE),
        ("keys", HOSTILE),
        ("ledger", "budget", HOSTILE, "--epsilon=1"),
        ("plan", "star5", "--nadir-error", HOSTILE),
    ],
)
def test_a_command_line_is_not_echoed_raw(arguments, home):
    for more in ((), ("--json",)):
        done = gridveil(*(argument.replace("\0", "") for argument in arguments), *more)
        assert done.code in (0, 2)
        check_harmless(done.out + done.err)


# --- bundles --------------------------------------------------------------------------------------


def rewritten(place, change):
    """Change a bundle's document, and its checksums with it: anybody can."""
    files = {path.name: path.read_bytes() for path in place.iterdir() if path.name != SUMS}
    document = json.loads(files["release.json"])
    change(document)
    files["release.json"] = (json.dumps(document, indent=2, ensure_ascii=True) + "\n").encode()
    for name, data in (files | {SUMS: checksums(files)}).items():
        (place / name).write_bytes(data)


def test_an_unsigned_bundle_cannot_say_that_it_is_signed(tmp_path):
    place = tmp_path / "bundle"
    make_release(tmp_path, demo=True).save(place)
    text = f"andes: as this model gives them.\n{FORGED}\x1b[8m"
    rewritten(
        place,
        lambda document: document.update(exports=[{"format": text, "version": 1, "files": []}]),
    )
    for more in ((), ("--json",)):
        done = gridveil("verify", place, *more)
        check_harmless(done.out + done.err)


def test_what_a_report_names_is_shown(tmp_path, monkeypatch):
    make_release(tmp_path, demo=True).save(tmp_path / "bundle")
    report = replace(
        bundle.verify(tmp_path / "bundle"),
        path=HOSTILE,
        adjacency=HOSTILE,
        files=(HOSTILE,),
        epsilon=HOSTILE,
    )
    report = replace(report, exports=(HOSTILE, "psse"), not_recomputed=(HOSTILE,))
    monkeypatch.setattr(bundle, "verify", lambda *_: report)
    for more in ((), ("--json",)):
        done = gridveil("verify", "bundle", *more)
        assert done.code == 0
        check_harmless(done.out + done.err)


def test_a_machine_of_any_name_is_shown(tmp_path, monkeypatch):
    release = make_release(tmp_path, demo=True)
    named = replace(
        release, model=replace(release.model, ports=(HOSTILE, *release.model.ports[1:]))
    )
    monkeypatch.setattr("gridveil.workflow.bundles.load", lambda *_: named)
    place = tmp_path / "out.csv"
    done = gridveil(
        "simulate", "bundle", "--event=load:G2=+0.1", "--csv", place, "--plot", tmp_path / "out.svg"
    )
    assert done.code == 0, done.err
    check_harmless(done.out + done.err)
    check_harmless(place.read_text(encoding="utf-8"))
    check_harmless((tmp_path / "out.svg").read_text(encoding="utf-8"))


def test_paths_and_names_of_files_are_shown(tmp_path, home, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, grid = f"out\n{FORGED}\x1b[8m", write_grid(tmp_path / f"in\n{FORGED}\x1b[8m")
    grid = grid.rename(grid.with_name(f"a\n{FORGED}\x1b[8m.m"))
    for arguments in (
        (
            "release",
            grid,
            "--epsilon=1/2",
            "--inertia=8",
            "--damping=2",
            "--bounds=derived",
            "--out",
            out,
            "--lineage=mine",
        ),
        (
            "release",
            grid,
            "--epsilon=1/2",
            "--inertia=8",
            "--damping=2",
            "--bounds=derived",
            "--out",
            out,
            "--lineage=mine",
        ),
        ("inspect", grid, "--inertia=8", "--damping=2"),
        ("verify", out),
        ("simulate", out, "--event=load:G1=+0.1", "--csv", f"{out}.csv", "--plot", f"{out}.png"),
        ("export", out, "--to=csv", "--out", f"{out}-csv"),
        ("ledger", "show"),
    ):
        for more in ((), ("--json",)):
            done = gridveil(*arguments, *more)
            assert done.code in (0, 2), done.err
            check_harmless(done.out + done.err)
    assert (tmp_path / out).is_dir()


def test_names_of_buses_are_shown(tmp_path):
    name = f"b\x1b[8m\u202e{FORGED}"
    (tmp_path / "buses.csv").write_text(f"bus,load_mw\n{name},10\nb2,20\nb3,5\n", encoding="utf-8")
    (tmp_path / "branches.csv").write_text(
        f"from_bus,to_bus,x_pu\n{name},b2,0.1\nb2,b3,0.1\n", encoding="utf-8"
    )
    (tmp_path / "machines.csv").write_text(
        f"bus,inertia_s,damping_pu\n{name},10,5\nb3,10,5\n", encoding="utf-8"
    )
    (tmp_path / "system.toml").write_text(
        "base_mva = 100.0\nfrequency_hz = 60.0\n", encoding="utf-8"
    )
    for more in ((), ("--json",), ("--trajectory=nowhere\x1b.toml",)):
        done = gridveil("inspect", tmp_path, "--operating-point=flat", *more)
        check_harmless(done.out + done.err)


@pytest.mark.parametrize("lineage", ["a\nb", "a\x1b[8m", "\u202eabc", "x" * 201, "", " "])
def test_a_lineage_with_such_a_name_is_not_registered(tmp_path, home, lineage):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for tried in (lambda: ledger.register(lineage), lambda: ledger.charge(a_charge(lineage))):
        with pytest.raises(LedgerError, match="lineage") as refusal:
            tried()
        assert len(str(refusal.value)) < 600
    assert ledger.accounts() == {}
    if not lineage:  # as good as none: the grid's name
        return
    done = gridveil(
        "release",
        "star5",
        "--epsilon=1/2",
        "--lineage",
        lineage,
        "--ledger",
        tmp_path / "ledger.sqlite",
        "--out",
        tmp_path / "out",
    )
    assert (done.code, (tmp_path / "out").exists()) == (2, False)
    check_harmless(done.out + done.err)


def test_a_lineage_that_stands_already_is_shown(tmp_path, home, monkeypatch):
    monkeypatch.setattr("gridveil.privacy.ledger.writer.check_lineage", lambda _: None)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.charge(a_charge(f"mine\n{FORGED}\x1b[8m"))
    for more in ((), ("--json",)):
        done = gridveil("ledger", "show", "--ledger", tmp_path / "ledger.sqlite", *more)
        assert done.code == 0, done.err
        check_harmless(done.out + done.err)


# --- tables and figures ---------------------------------------------------------------------------

FORMULAS = (FORMULA, "=1+1", "+1", "-1", "@sum", "\t=1", "\r=1", 'a"=1', "a,=1", "a;=1")


def check_cells(text):
    """Each row has as many cells as the head, and no cell with a name is a formula, however it is
    split.
    """
    rows = list(csv.reader(io.StringIO(text)))
    assert len({len(row) for row in rows}) == 1
    for line in text.splitlines():
        for cell in (
            line,
            *(cell for sign in ",;\t" for cell in next(csv.reader([line], delimiter=sign))),
        ):
            try:
                float(cell)
            except ValueError:
                assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")), cell


def test_a_bus_is_no_formula_in_a_trajectory():
    names = (*FORMULAS, "G1")
    omega = np.full((2, len(names)), -0.1)
    text = Trajectory(np.array([0.0, 1.0]), omega, names, 60.0, 0.0).to_csv()
    head, *rows = csv.reader(io.StringIO(text))
    assert head[-1] == "omega_G1_pu"
    assert rows[1] == ["1.0", *["-0.1"] * len(names)]
    check_cells(text)


def test_a_machine_is_no_formula_in_exported_tables(tmp_path):
    release = make_release(tmp_path, demo=True)
    for formula in FORMULAS:
        named = replace(
            release, model=replace(release.model, ports=(formula, *release.model.ports[1:]))
        )
        for data in write_tables(named, None).values():
            check_cells(
                "\n".join(line for line in data.decode().splitlines() if not line.startswith("#"))
            )


def test_a_name_is_no_mathematics_in_a_figure(tmp_path):
    from gridveil.dynamics.trajectory import plot_trajectory

    names = ("$\\frac{$", "a$b$c", "\x1b", "_hidden", "x\ny")
    path = tmp_path / "figure.svg"
    with patch.dict("matplotlib.rcParams", {"svg.fonttype": "none"}):
        plot_trajectory(
            Trajectory(np.array([0.0, 1.0]), np.zeros((2, 5)), names, 60.0, 0.0), str(path)
        )
    text = path.read_text(encoding="utf-8")
    assert "a$b$c" in text
    check_harmless(text)


def test_a_terminal_gets_no_escape_from_a_value(tmp_path):
    """At a terminal typer and rich print otherwise than into a pipe."""
    make_release(tmp_path, demo=True).save(tmp_path / "bundle")
    place = (tmp_path / "bundle").rename(tmp_path / "b\x1b]0;owned\x07\x1b[31m")
    said = (
        at_a_terminal("verify", place)
        + at_a_terminal("verify", place, "--\x1b]0;owned\x07")
        + at_a_terminal("\x1b]0;owned\x07")
    )
    assert b"owned" in said
    assert b"\x1b]0" not in said
    assert b"\x07" not in said
    assert b"\x1b[31m" not in said


def at_a_terminal(*arguments):
    """What a terminal gets to see of a command."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [SCRIPT, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    try:
        while data := os.read(ours, 4096):
            said += data
    except OSError:  # how a terminal says that nobody writes to it any more
        pass
    done.wait()
    os.close(ours)
    return said
