"""Constant noise: two private tables with the same public facts leave the same bytes behind,
wherever anything is written.
"""

import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from cli_helpers import Done, files_under, gridveil
from differential_helpers import differing, dumped, pin_nonces
from gridveil.cli import release as reader
from gridveil.grid.parameters import Bounds
from gridveil.privacy.adjacency import RULES, Adjacency
from gridveil.privacy.allocation import ITEMS
from gridveil.privacy.ledger import Ledger, default_location
from gridveil.publication import bundle_files
from gridveil.publication.bundle import contents
from gridveil.publication.export import FORMATS
from gridveil.readers.cases import open_grid
from gridveil.vault.sampler import SecureSampler
from gridveil.vault.source import Private
from gridveil.workflow import publish as algorithm
from gridveil.workflow.publish import publish
from measured_helpers import signal, write_measured
from planted_faults import true_value_in_a_public_figure

HALF = Fraction(1, 2)
GRID = """function mpc = private
mpc.version = '2';
mpc.baseMVA = 100;
mpc.bus = [
  1 3 10 2 0 0 1 1 0 132 1 1.1 0.9;
  2 2 20 4 0 0 1 1 0 132 1 1.1 0.9;
  3 2 0 0 0 0 1 1 0 132 1 1.1 0.9;
  4 1 40 9 0 0 1 1 0 132 1 1.1 0.9;
  5 1 30 5 0 0 1 1 0 132 1 1.1 0.9;
];
mpc.gen = [
  1 40 0 100 -100 1 100 1 100 0;
  2 30 0 100 -100 1 150 1 100 0;
  3 30 0 100 -100 1 250 1 100 0;
];
mpc.branch = [
  1 4 0 {x[0]} 0 0 0 0 0 0 1;
  2 4 0 {x[1]} 0 0 0 0 0 0 1;
  3 5 0 {x[2]} 0 0 0 0 0 0 1;
  4 5 0 {x[3]} 0 0 0 0 0 0 1;
  1 2 0 {x[4]} 0 0 0 0 0 0 1;
];
"""
PUBLIC = """[dynamics]
operating_point = "flat"
publish_loads = true
omega_b = 1.0
governor_rate = 20.0
droop_gain = 0.04
"""
BOUNDS = "[bounds]\nk = [1, 100]\nm = [1, 40]\nd = [1, 40]\n"
# Inside the usual bounds; elsewhere inside; and on, above and far below or above them.
TABLES = {
    "one": {
        "x": (0.11, 0.22, 0.13, 0.18, 0.12),
        "m": (10.5, 14.25, 19.75),
        "d": (5.5, 7.25, 9.125),
    },
    "other": {"x": (0.35, 0.07, 0.29, 0.05, 0.41), "m": (30.1, 3.7, 8.3), "d": (2.3, 21.7, 13.9)},
    "beyond": {
        "x": (0.001, 5.0, 0.01, 1.0, 1e-6),
        "m": (40.0, 4000.0, 0.002),
        "d": (40.5, 1e-3, 900.0),
    },
}


def write_table(folder, name):
    """Write private.m and its dynamics: every table has the same public facts."""
    table = TABLES[name]
    folder.mkdir(parents=True)
    (folder / "private.m").write_text(GRID.format(x=table["x"]))
    machines = "".join(
        f"[machines.{n + 1}]\ninertia = {m}\ndamping = {d}\n"
        for n, (m, d) in enumerate(zip(table["m"], table["d"], strict=True))
    )
    (folder / "private.toml").write_text(f"{PUBLIC}{machines}{BOUNDS}")


def constant(self, values, scale, noise):
    """Whatever it is given, the same vector: with its exponentials, inside the usual bounds of
    items and of sums.
    """
    if values.ndim == 2:  # rows of joint noise
        return np.linspace(2.2, 3.5, values.size).reshape(values.shape)
    return np.linspace(2.2, 3.5, len(values)) if len(values) > 1 else np.array([3.1])


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run commands on a table, always in the same places and from the same ledger; return all that
    they said and left.

    The secure sampler is what draws, so that releases are real ones: charged, certified and signed.
    """
    home, prepared, work = tmp_path / "home", tmp_path / "prepared", tmp_path / "work"
    monkeypatch.setenv("GRIDVEIL_HOME", str(home))
    monkeypatch.setenv("GRIDVEIL_WITNESS", str(home / "witness.sqlite"))
    monkeypatch.delenv("GRIDVEIL_LEDGER", raising=False)
    Ledger(home / "ledger.sqlite").register("another grid")
    assert gridveil("keys", "new", "--no-passphrase").code == 0
    shutil.copytree(home, prepared)
    monkeypatch.setattr(SecureSampler, "draw", constant)

    def run(name, *commands, signed=True, files=()):
        for old in (home, work):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(prepared, home)
        if not signed:
            shutil.rmtree(home / "keys")
        write_table(work, name)
        for copied in files:
            shutil.copytree(copied, work / copied.name)
        pin_nonces(monkeypatch)
        monkeypatch.chdir(work)
        said = {
            f"{n}: {' '.join(map(str, command))}": gridveil(*command)
            for n, command in enumerate(commands)
        }
        left = {
            str(path.relative_to(tmp_path)): dumped(path) if path.suffix == ".sqlite" else data
            for path, data in (files_under(home) | files_under(work)).items()
            if path not in (work / "private.m", work / "private.toml")
        }
        return said | left

    return run


def check_equal(run, *commands, codes=(0,), **settings):
    """Run the same on all tables; check exit codes, and that nothing at all differs."""
    first, *others = (run(name, *commands, **settings) for name in TABLES)
    assert {done.code for done in first.values() if isinstance(done, Done)} == set(codes), first
    assert [differing(first, other) for other in others] == [[], []]
    return first


def release(*options, out="bundle"):
    return ("release", "private.m", "--epsilon=1/2", "--out", out, *options)


QUICK = ("one-asset", "one-asset-relative")


@pytest.mark.parametrize("mechanism", ["items", "aggregates", "topology"])
@pytest.mark.parametrize(
    "rule", [pytest.param(rule, marks=[] if rule in QUICK else pytest.mark.slow) for rule in RULES]
)
def test_every_mechanism_and_adjacency_leaves_the_same_bytes(run, rule, mechanism):
    # folders and zips, words and JSON, signed and not, in turns
    number = RULES.index(rule) + len(mechanism)
    out = ("bundle", "bundle.zip")[number % 2]
    options = (f"--adjacency={rule}", f"--mechanism={mechanism}", f"--formats={','.join(FORMATS)}")
    left = check_equal(
        run,
        release(*options, *(("--json",) if number // 2 % 2 else ()), out=out),
        ("verify", out),
        ("ledger", "show"),
        ("ledger", "export", "--out", "rows.json"),
        signed=bool(number % 3),
    )
    assert {"work/rows.json", "home/ledger.sqlite"} < left.keys()
    assert (
        "work/bundle.zip" in left
        or {f"work/bundle/{name}" for name in ("certificate.json", "model.mat")} < left.keys()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--merge-loads=1", "--mechanism=items"),
        ("--merge-loads=equal",),
        ("--share-by=rating",),
        ("--share-by=rating", "--mechanism=topology", "--json"),
        ("--profile=paper",),
        ("--count=2", "--json"),
        ("--split=k=1,m=1/4,d=3/4",),
        ("--load-damping=1.5", "--bounds=m=2:30", "--bounds-origin=a public study"),
        ("--surrogate=star5",),
        ("--bounds=derived",),
        ("--bounds=derived", "--dry-run"),
        ("--bounds=derived,m=1:40", "--mechanism=topology", "--json"),
    ],
    ids=" ".join,
)
def test_every_option_leaves_the_same_bytes(run, options):
    check_equal(run, release(*options))


SHORT = np.arange(201) / 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ((), {}),
        (("--json", "--adjacency=one-asset-relative"), {}),
        (("--profile=paper",), {}),
        ((), {"event": "unknown:total=+0.1@2s"}),
    ],
    ids=["two-stage", "relative", "paper", "unknown event"],
)
def test_a_fit_to_a_trajectory_leaves_the_same_bytes(run, tmp_path, options, changes):
    write_measured(tmp_path / "record", SHORT, 60 * (1 + signal(SHORT)), **changes)
    command = release("--trajectory", "record/record.toml", "--yes", *options)
    left = check_equal(run, command, ("verify", "bundle"), files=(tmp_path / "record",))
    assert b'"provenance": []' not in left["work/bundle/release.json"]


@pytest.mark.parametrize(
    "commands",
    [
        (release(), release(out="second")),
        (release(), release("--adjacency=one-item", out="second")),
        (release(), release("--lineage=sold", out="second")),
        (release("--epsilon=1e-30"),),
        (release("--share-by=rating", "--bounds=d=0:1", "--adjacency=one-item-relative"),),
        (release("--bounds=m=3:2"),),
        (release("--trajectory=nowhere.toml"),),
        (release(out="private.m"),),
    ],
    ids=[
        "spent",
        "other adjacency",
        "other lineage",
        "tiny epsilon",
        "no logarithm",
        "bounds",
        "record",
        "place taken",
    ],
)
def test_refusals_read_the_same(run, commands):
    check_equal(run, *commands, codes={2} if len(commands) == 1 else {0, 2})


@pytest.mark.slow
def test_a_plan_reads_the_same_after_any_release(run):
    check_equal(
        run, release(), ("plan", "star5", "--nadir-error=20mHz", "--draws=50"), ("inspect", "star5")
    )


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("start", ["posterior", "clipped"])
def test_python_publishes_the_same_files(run, tmp_path, rule, start):
    found = []
    for name in TABLES:
        run(name)
        released = publish(
            open_grid("private.m"),
            epsilon=HALF,
            adjacency=Adjacency(rule),
            bounds=Bounds(),
            ledger=Ledger(default_location()),
            allocation=ITEMS,
            start=start,
        )
        found.append(
            contents(released, formats=tuple(FORMATS))
            | {"clipped": released.clipped, "receipt": released.receipt}
        )
    assert [differing(found[0], other) for other in found[1:]] == [[], []]


# --- planted faults -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "figure",
    ["omega_b", "frequency_hz", "base_mva", "droop_gain", "governor_rate", "loads"],
)
def test_a_true_value_in_the_12th_digit_of_a_public_figure_is_caught(run, monkeypatch, figure):
    true_value_in_a_public_figure(monkeypatch, figure)
    one, other = (run(name, release()) for name in ("one", "other"))
    assert "work/bundle/SHA256SUMS" in differing(one, other)


@pytest.mark.parametrize(
    ("place", "name", "file"),
    [
        (bundle_files, "readme", "README.md"),
        (bundle_files, "card_page", "card.html"),
        (bundle_files, "reference_of", "reference.csv"),
        (bundle_files, "in_plain_words", "certificate.txt"),
        (bundle_files, "to_document", "release.json"),
        (algorithm, "posterior_mean", "model.mat"),
        (reader, "print_text", "0: release"),
    ],
)
def test_a_true_value_in_any_file_or_on_the_screen_is_caught(run, monkeypatch, place, name, file):
    """What each of these makes carries the true Σm in its 12th digit, or behind its last word."""
    true, honest, opened = [0.0], getattr(place, name), algorithm.perturb_planned

    def perturb_planned(plan, **settings):
        true[0] = float(Private.open(plan.source.values["m"]).sum())
        return opened(plan, **settings)

    def telling(*arguments, **settings):
        if name == "print_text":
            return honest(f"{arguments[0]} {true[0]}", **settings)
        made = honest(*arguments, **settings)
        if name == "reference_of":
            return replace(made, omega=made.omega * (1 + 1e-12 * true[0]))
        if name == "to_document":
            low, high = made.bounds["m"]
            told = {**made.bounds, "m": (low, high * (1 + 1e-12 * true[0]))}
            return made.model_copy(update={"bounds": told})
        if name == "posterior_mean":
            told = {**made.values, "d": made.values["d"] * (1 + 1e-12 * true[0])}
            return replace(made, values=told)
        return f"{made}{true[0]}"

    monkeypatch.setattr(algorithm, "perturb_planned", perturb_planned)
    monkeypatch.setattr(place, name, telling)
    one, other = (run(table, release("--mechanism=items")) for table in ("one", "other"))
    assert any(file in found for found in differing(one, other))
