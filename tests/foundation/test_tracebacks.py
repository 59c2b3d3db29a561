"""A traceback that shows locals shows no private value: errors leave the vault and the readers
without their frames.
"""

import importlib
import inspect
import pkgutil
import subprocess
import sys
import traceback
from fractions import Fraction

import numpy as np
import pytest

from cli_helpers import found_in, gridveil, write_grid
from gridveil import vault
from gridveil.assurance import owner_report
from gridveil.assurance.owner_report import assess, signoff
from gridveil.foundation.errors import BudgetExceeded, GridveilError, InputError
from gridveil.foundation.sealed import places_of, sealed
from gridveil.grid.parameters import Bounds
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import USUAL
from gridveil.readers.assemble import assemble
from gridveil.readers.cases import declared_public, open_grid, read_grid
from gridveil.readers.dynamics import Dynamics, read_dynamics
from gridveil.vault import truth
from gridveil.vault.perturb import perturb, version_of
from gridveil.vault.sampler import DemoSampler, SecureSampler
from gridveil.vault.source import Private, SourceGrid
from gridveil.workflow import publish as algorithm
from gridveil.workflow.publish import publish
from privacy_helpers import TRUE, all_that_it_says, chain, locals_seen, private_grid

VALUES = np.array([*TRUE["k"], *TRUE["m"], *TRUE["d"]])
CHOICES = {"epsilon": Fraction(1, 2), "adjacency": Adjacency(), "bounds": Bounds()}


def fail(*_, **__):
    raise ZeroDivisionError("a bug")


def interrupt(*_, **__):
    raise KeyboardInterrupt


def check_bare(error, values=VALUES):
    """No frame that it carries holds a value, nor does any error behind it; but it says where it
    came from.
    """
    behind = error
    while behind is not None:
        assert found_in(locals_seen(behind).encode(), values) == []
        behind = behind.__cause__ or behind.__context__
    assert places_of(error)
    assert (
        found_in(
            "".join(traceback.TracebackException.from_exception(error).format()).encode(), values
        )
        == []
    )


def test_the_search_finds_values_in_frames():
    """In those of a function that is not sealed."""
    with pytest.raises(InputError) as refusal:
        SourceGrid.of.__wrapped__(SourceGrid, chain(), **(TRUE | {"d": (1.0, 2.0, -1.0)}))
    assert set(TRUE["k"]) <= set(found_in(locals_seen(refusal.value).encode(), VALUES))


# --- the vault ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bug", [fail, interrupt])
@pytest.mark.parametrize(
    "place",
    [
        "gridveil.vault.sampler._check_draw",
        "gridveil.privacy.mechanisms.additive.Additive.released",
        "gridveil.privacy.mechanisms.additive.Additive.prepare",
        "gridveil.vault.perturb.losses_of",
        "gridveil.vault.perturb.NoisyGrid",
        "gridveil.privacy.ledger.Ledger.charge",
        "gridveil.privacy.ledger.Ledger.mark_drawn",
        "gridveil.workflow.publish.posterior_mean",
    ],
)
def test_an_error_anywhere_in_a_release_carries_no_value(place, bug, monkeypatch, tmp_path, home):
    source = private_grid()
    monkeypatch.setattr(place, bug)
    for release in (publish, perturb) if "publish" not in place else (publish,):
        with pytest.raises((ZeroDivisionError, KeyboardInterrupt)) as caught:
            release(source, **CHOICES, ledger=Ledger(tmp_path / f"{release.__name__}.sqlite"))
        check_bare(caught.value)
        assert places_of(caught.value)[-1].endswith(f" {bug.__name__}")


def test_a_ledger_that_refuses_carries_no_value(tmp_path, home):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("chain", Adjacency(), Fraction(1, 10))
    with pytest.raises(BudgetExceeded) as refusal:
        perturb(private_grid(), **CHOICES, ledger=ledger)
    check_bare(refusal.value)


@pytest.mark.parametrize("sampler", [SecureSampler(), DemoSampler(1)])
def test_a_sampler_that_refuses_carries_no_value(sampler):
    with pytest.raises(GridveilError) as refusal:
        sampler.draw(np.array([*TRUE["k"], np.nan]), 1.0, USUAL)
    check_bare(refusal.value)


@pytest.mark.parametrize("group", "kmd")
@pytest.mark.parametrize(
    "wrong", [lambda v: [*v[:-1], -1.0], lambda v: [*v, 1.0], lambda v: [*v[:-1], "x"]]
)
def test_a_table_that_is_refused_carries_no_value(group, wrong):
    with pytest.raises(InputError) as refusal:
        private_grid(**{group: wrong(TRUE[group])})
    check_bare(refusal.value)


@pytest.mark.parametrize(
    "entry", [truth.true_model, truth.true_full_model, truth.public_table, declared_public]
)
def test_the_truth_of_public_cases_leaves_by_its_door_alone(entry, monkeypatch):
    for name in ("reduced_model", "FullModel", "PublicTable"):
        monkeypatch.setattr(truth, name, fail)
    with pytest.raises(ZeroDivisionError) as caught:
        entry(private_grid())
    check_bare(caught.value)


def a_release():
    return publish(private_grid(), **CHOICES, ledger=None, sampler=DemoSampler(1), allocation=ITEMS)


@pytest.mark.parametrize(
    "step", ["invert", "best_guess", "_topology", "median_error", "epsilon_row", "averaging_rows"]
)
def test_an_assessment_that_breaks_off_carries_no_value(step, monkeypatch):
    source, release = private_grid(), a_release()
    monkeypatch.setattr(assess, step, fail)
    with pytest.raises(ZeroDivisionError) as caught:
        assess.assess_attacks(source, release)
    check_bare(caught.value)


def test_a_report_that_cannot_be_written_carries_no_value(monkeypatch):
    release = a_release()
    found = Private(type("Assessment", (), {"lines": TRUE, "__getattr__": fail})())
    for write in (
        signoff.attack_tables,
        signoff.attack_notes,
        signoff.attack_json,
        signoff.attack_charts,
    ):
        more = (release,) if write in (signoff.attack_notes, signoff.attack_json) else ()
        with pytest.raises((ZeroDivisionError, AttributeError, TypeError)) as caught:
            write(found, *more)
        check_bare(caught.value)


def test_whatever_opens_private_values_is_sealed():
    """Each public function of the vault that takes a grid or a private result; whoever adds one is
    told here.
    """
    found, opened = [], []
    rooms = [(vault, "gridveil.vault."), (owner_report, "gridveil.assurance.owner_report.")]
    for info in (
        info for room, name in rooms for info in pkgutil.iter_modules(room.__path__, name)
    ):
        module = importlib.import_module(info.name)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == info.name and not name.startswith("_"):
                takes = " ".join(map(str, function.__annotations__.values()))
                if "SourceGrid" in takes or "Private[" in takes:
                    found.append(name)
                    opened += [name] * (not hasattr(function, "__wrapped__"))
    assert len(found) >= 11
    assert opened == []
    for function in (open_grid, declared_public, read_grid, assemble, read_dynamics, publish):
        assert hasattr(function, "__wrapped__"), function
    for method in (SourceGrid.of, SecureSampler.draw, DemoSampler.draw):
        assert hasattr(method, "__wrapped__"), method


# --- readers --------------------------------------------------------------------------------------


@pytest.fixture
def planted(tmp_path):
    return write_grid(tmp_path), found_numbers(tmp_path)


def found_numbers(folder):
    from cli_helpers import DAMPING, INERTIA, X

    del folder
    return np.array([*X, *INERTIA, *DAMPING], dtype=float)


def test_a_bad_last_row_shows_none_of_those_before_it(planted):
    path, values = planted
    path.write_text(path.read_text().replace("0.02 0 0 0 0 0 1;\n];", "0.02 0 0 0 0 0 x;\n];"))
    for read in (open_grid, read_grid):
        with pytest.raises(InputError) as refusal:
            read(path)
        check_bare(refusal.value, values)
        assert any(place.startswith("matpower.py:") for place in places_of(refusal.value))


def test_dynamics_that_are_refused_show_none(planted):
    path, values = planted
    toml = path.with_suffix(".toml")
    toml.write_text(toml.read_text() + "[machines.9]\ninertia = true\n")
    for read, given in ((open_grid, path), (read_dynamics, toml)):
        with pytest.raises(InputError) as refusal:
            read(given)
        check_bare(refusal.value, values)


def test_a_grid_that_cannot_be_assembled_shows_none(planted):
    path, values = planted
    with pytest.raises(InputError) as refusal:
        assemble(read_grid(path), Dynamics(), name=None)
    check_bare(refusal.value, values)
    with pytest.raises(InputError) as refusal:
        open_grid(path, options={"inertia": -float(values[6])})
    check_bare(refusal.value, values)


SCRIPT = """
import sys, traceback
from gridveil import open_grid
from gridveil.privacy.allocation import ITEMS
def show(kind, value, frames):
    error = traceback.TracebackException(kind, value, frames, capture_locals=True)
    print("".join(error.format()))
    from rich.traceback import Traceback
    from rich.console import Console
    whole = {"locals_max_length": None, "locals_max_string": None}
    shown = Traceback.from_exception(kind, value, frames, show_locals=True, **whole)
    Console(width=200).print(shown)
sys.excepthook = show
open_grid(sys.argv[1])
"""


def test_neither_python_nor_rich_shows_a_value(planted):
    path, values = planted
    path.write_text(path.read_text().replace("0.02 0 0 0 0 0 1;\n];", "0.02 0 0 0 0 0 x;\n];"))
    done = subprocess.run([sys.executable, "-c", SCRIPT, path], capture_output=True, check=False)
    assert b"InputError" in done.stdout
    assert b"matpower.py:" in done.stdout
    assert found_in(done.stdout + done.stderr, values) == []


# --- what stays -----------------------------------------------------------------------------------


def test_places_are_listed_from_the_outermost_to_the_innermost():
    @sealed
    def inner(secret):
        return fail(secret)

    @sealed
    def outer(secret):
        try:
            {}["nothing"]
        except KeyError:
            return inner(secret + 1)

    with pytest.raises(ZeroDivisionError) as caught:
        outer(27.182818284)
    names = [place.rpartition(" ")[2] for place in places_of(caught.value)]
    assert names[-3:] == ["outer", "inner", "fail"]
    assert len(caught.value.__notes__) == 1
    assert caught.value.__context__ is None
    assert "27182" not in all_that_it_says(caught.value) + locals_seen(caught.value)


def test_debug_lists_places_behind_a_sealed_entry(tmp_path, monkeypatch, home):
    path = write_grid(tmp_path)
    path.write_text(path.read_text().replace("0.02 0 0 0 0 0 1;\n];", "0.02 0 0 0 0 0 x;\n];"))
    done = gridveil("--debug", "inspect", path)
    assert done.code == 2
    assert "matpower.py:" in done.err
    monkeypatch.setattr(algorithm, "posterior_mean", fail)
    done = gridveil("--debug", "release", "star5", "--epsilon=1/2", "--out", tmp_path / "out")
    assert (done.code, "ZeroDivisionError in fail (" in done.err, "publish.py:" in done.err) == (
        70,
        True,
        True,
    )


def test_what_is_sealed_keeps_its_name_and_signature():
    assert open_grid.__name__ == "open_grid"
    assert list(inspect.signature(perturb).parameters)[:2] == ["source", "epsilon"]
    assert isinstance(version_of.__doc__, str)
