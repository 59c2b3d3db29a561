"""No true value leaves by any door: bundle, screen, log, ledger, temp file or the text of an
error.
"""

import logging
import random
import shutil
import struct
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from cli_helpers import files_under, found_in, gridveil, gridveil_process, write_grid
from gridveil.foundation import archive
from gridveil.foundation.errors import GridveilError
from gridveil.privacy.ledger import Ledger
from gridveil.publication import bundle
from gridveil.readers.cases import open_grid
from gridveil.vault.sampler import SecureSampler
from gridveil.vault.source import Private
from gridveil.vault.truth import true_model
from gridveil.workflow import publish as algorithm
from privacy_helpers import all_that_it_says, locals_seen


class Planted(NamedTuple):
    """A private grid: its file, what its owner wrote into it, and what follows from that."""

    path: Path
    values: np.ndarray
    folder: Path


def digits(rng, low, high, count):
    """Numbers of twelve random digits."""
    return [f"{rng.uniform(low, high):.12g}" for _ in range(count)]


@pytest.fixture
def planted(tmp_path, monkeypatch, caplog):
    """Everything that a release writes goes below `folder`; everything that it logs is caught."""
    rng = random.Random(12)
    x, m, d = digits(rng, 0.1, 0.9, 6), digits(rng, 10, 20, 3), digits(rng, 5, 10, 3)
    path = write_grid(tmp_path / "in", x=x, m=m, d=d)
    source = open_grid(str(path))
    k, truth = Private.open(source.values["k"]), true_model(source)
    folder = tmp_path / "written"
    (folder / "temp").mkdir(parents=True)
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(folder / "ledger.sqlite"))
    monkeypatch.setenv("TMPDIR", str(folder / "temp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    caplog.set_level(logging.DEBUG)
    written = np.array([*x, *m, *d], dtype=float)
    return Planted(path, np.concatenate([written, k, truth.k_r, truth.K_ac.ravel()]), folder)


def release(planted, *options):
    return gridveil(
        "release", planted.path, "--epsilon=1/2", "--out", planted.folder / "bundle", *options
    )


def leaks(planted, *said):
    """The true values in what was said, and in every file that was written."""
    places = [text.encode() for text in said] + list(files_under(planted.folder).values())
    return sorted({value for place in places for value in found_in(place, planted.values)})


# --- the search itself ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        lambda value: repr(value).encode(),
        lambda value: f"k = {value:#.6g}, more".encode(),
        lambda value: f"[{value:.9e}]".encode(),
        lambda value: repr(value)[:8].encode(),
        lambda value: repr(np.array([1.0, value])).encode(),
        lambda value: b"x" + struct.pack("<d", value) + b"x",
        lambda value: b"x" + struct.pack(">d", value) + b"x",
        lambda value: b"x" + struct.pack("<f", value) + b"x",
        lambda value: b"x" + struct.pack(">f", value) + b"x",
    ],
    ids=[
        "repr",
        "6 digits",
        "exponent",
        "cut off",
        "array",
        "float64",
        "float64 swapped",
        "float32",
        "float32 swapped",
    ],
)
def test_the_search_finds_a_planted_leak(planted, form):
    for value in planted.values.tolist():
        (planted.folder / "temp" / "leak").write_bytes(form(value))
        assert value in leaks(planted)


def test_the_search_finds_what_a_release_without_noise_would_publish(planted, monkeypatch):
    monkeypatch.setattr(SecureSampler, "draw", lambda self, values, scale, noise: values)
    assert release(planted, "--profile=paper").code == 0
    assert len(leaks(planted)) >= 3 + 3 + 3 + 6  # m, d, the reduced weights and K_ac


# --- what goes well -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--json",),
        ("--publish-loads", "--load-damping=1.5"),
        ("--profile=paper",),
        ("--mechanism=items",),
        ("--mechanism=topology", "--json"),
        ("--adjacency=one-asset-relative",),
        ("--mechanism=items", "--merge-loads=1", "--json"),
    ],
)
def test_a_release_holds_no_true_value(planted, caplog, options):
    done = release(planted, *options)
    assert done.code == 0
    assert leaks(planted, *done[1:], caplog.text) == []


def test_a_zip_holds_no_true_value(planted, caplog):
    done = gridveil(
        "release", planted.path, "--epsilon=100", "--yes", "--out", planted.folder / "bundle.zip"
    )
    assert done.code == 0
    assert leaks(planted, *done[1:], caplog.text) == []


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_inspect_shows_no_true_value(planted, caplog, options):
    done = gridveil("inspect", planted.path, *options)
    assert done.code == 0
    assert leaks(planted, *done[1:], caplog.text) == []


def test_a_real_process_leaves_no_true_value(planted):
    arguments = ("release", planted.path, "--epsilon=1/2", "--out", "bundle")
    for code in (0, 2):  # the second time the place is taken
        done = gridveil_process(
            *arguments, cwd=planted.folder, PYTHONDEVMODE="1", PYTHONWARNINGS="ignore"
        )
        assert done.code == code, done.err
        assert leaks(planted, *done[1:]) == []


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.fixture
def spill(planted):
    """A bug whose message holds every true value."""

    def fail(*_, **__):
        raise ValueError(f"internal: {planted.values.tolist()}")

    return fail


@pytest.mark.parametrize(
    ("home", "name"),
    [
        (SecureSampler, "draw"),
        (Ledger, "charge"),
        (Ledger, "mark_drawn"),
        (algorithm, "perturb_planned"),
        (algorithm, "reduce"),
        (bundle, "contents"),
        (archive, "write_synced"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_bug_says_where_but_not_what(planted, spill, caplog, monkeypatch, home, name, options):
    monkeypatch.setattr(home, name, spill)
    # so that temp files can be searched
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    done = release(planted, *options)
    assert done.code == 70
    assert "internal error, ValueError in fail" in done.err
    assert leaks(planted, *done[1:], caplog.text) == []


def test_debug_lists_places_but_no_values(planted, spill, monkeypatch):
    monkeypatch.setattr(algorithm, "reduce", spill)
    done = gridveil(
        "--debug", "release", planted.path, "--epsilon=1/2", "--out", planted.folder / "bundle"
    )
    assert done.code == 70
    assert "publish.py:" in done.err
    assert leaks(planted, *done[1:]) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ledger", "."), "ledger"),
        (("--bounds=k=9:8",), "lower:upper"),
        (("--split=k=9,m=9,d=9",), "split"),
        (("--inertia=nan",), "inertia"),
        (("--dynamics=nowhere.toml",), "nowhere.toml"),
    ],
)
def test_a_refusal_quotes_no_true_value(planted, caplog, monkeypatch, options, said):
    monkeypatch.chdir(planted.folder)
    done = release(planted, *options)
    assert done.code == 2
    assert said in done.err
    assert leaks(planted, *done[1:], caplog.text) == []


@pytest.mark.parametrize(
    ("suffix", "change"),
    [
        (".m", lambda text: text.replace("];", "q];")),
        (".m", lambda text: text.replace("];", "")),
        (".m", lambda text: text.replace(" 1;\n", " NaN;\n")),
        (".m", lambda text: text.replace("  1 4 0.01 ", "  1 ")),
        (".m", lambda text: text.replace("mpc.branch = [", "branch = [")),
        (".toml", lambda text: text.replace("inertia", "inertias")),
        (".toml", lambda text: text.replace("inertia = ", "inertia = -")),
        (".toml", lambda text: text.replace("inertia = ", "inertia = 'é") + "'"),
        (".toml", lambda text: text.replace("inertia = ", "inertia = = ")),
        (".toml", lambda text: text.replace("inertia = ", "inertia = 'x' # ")),
        (".toml", lambda text: text + "[machines.5]\ninertia = 3\n"),
        (".toml", lambda text: "# é\n" + text),
    ],
)
def test_an_error_carries_no_true_value_along(planted, suffix, change):
    """Neither in its words nor in an error behind it, which a debugger or a crash reporter would
    show.
    """
    path = planted.path.with_suffix(suffix)
    path.write_text(change(path.read_text()), encoding="latin-1")
    with pytest.raises(GridveilError) as refusal:
        open_grid(str(planted.path))
    assert leaks(planted, all_that_it_says(refusal.value), locals_seen(refusal.value)) == []


def test_a_release_toml_that_is_no_text_is_not_carried_along(planted, monkeypatch):
    config = planted.path.with_name("release.toml")
    config.write_text(f"inertia = {planted.values[6]}\n# é\n", encoding="latin-1")
    seen = []
    monkeypatch.setattr(
        "gridveil.cli.fail", lambda error, *_: seen.append(error) or sys.exit(error.exit_code)
    )
    assert gridveil("release", "--config", config).code == 2
    assert leaks(planted, all_that_it_says(seen[0])) == []
