"""Parameters are declared once: how often they are named elsewhere, and what their bounds are."""

import importlib.util
from pathlib import Path

import pytest

from gridveil.foundation.errors import OptionError
from gridveil.grid.parameters import DECLARED, PARAMETERS, Bounds, Range, of_asset, released
from gridveil.grid.tables import PublicTable
from helpers import star

SCRIPT = Path(__file__).parents[2] / "scripts" / "parameter_names.py"
# Commands of the paper's own figures, an exponent of Fortran, options that declare a parameter.
MOST = 20


def script():
    spec = importlib.util.spec_from_file_location("parameter_names", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_few_places_name_a_parameter():
    places = script().places()
    assert len(places) <= MOST, "\n".join(places)


def test_the_script_sees_constants_attributes_and_keywords():
    import ast

    tree = ast.parse('f(k=1)\nmodel.m\nx["d"]\n"kmd"\n{"k_r": 2}\n')
    assert sorted(script().named(tree)) == [(1, "k="), (2, "model.m"), (3, "'d'"), (5, "'k_r'")]


def test_the_registry_has_what_is_protected_and_what_follows():
    assert list(PARAMETERS) == ["k", "m", "d"]
    assert list(DECLARED) == ["k", "k_r", "m", "d"]
    assert list(released()) == ["k_r", "m", "d"]
    assert of_asset("line") == ("k",)
    with pytest.raises(KeyError):
        PARAMETERS["k_r"]


def test_bounds_are_a_mapping_with_the_registry_behind_it():
    bounds = Bounds({"m": Range(2, 30)}, origin="a study")
    assert dict(bounds) == {
        "k": Range(1, 100), "k_r": Range(0, 200), "m": Range(2, 30), "d": Range(1, 40)
    }  # fmt: skip
    assert bounds == Bounds(dict(bounds), origin="a study") != Bounds()
    with pytest.raises(OptionError, match="given for x, which no model has"):
        Bounds({"x": Range(0, 1)})
    with pytest.raises(OptionError, match="a machine without inertia"):
        Bounds({"m": Range(0, 1)})


def test_a_table_has_the_registry_s_order_and_cannot_be_written_to():
    grid = star()
    table = PublicTable(grid.facts, dict(reversed(grid.values.items())))
    assert list(table.values) == ["k", "m", "d"]
    with pytest.raises(ValueError, match="read-only"):
        table.values["k"][0] = 0
