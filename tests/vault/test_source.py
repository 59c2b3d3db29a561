"""Private values refuse every way of being seen, and errors about them never say them."""

import copy
import dataclasses
import json
import math
import pickle
import re
from itertools import product

import numpy as np
import pytest

from gridveil.foundation.errors import InputError
from gridveil.vault.source import Private, SourceGrid
from privacy_helpers import TRUE, all_that_it_says, chain, private_grid

SECRET = 27182.818284
DIGITS = "27182"
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)

LOOKS = {
    "repr": repr,
    "str": str,
    "format": format,
    "f-string": lambda value: f"{value:.3f}",
    "percent": lambda value: "%s" % value,  # noqa: UP031
    "bytes": bytes,
    "list": list,
    "unpacking": lambda value: [*value],
    "index": lambda value: value[0],
    "slice": lambda value: value[:],
    "in": lambda value: 1 in value,
    "len": len,
    "reversed": reversed,
    "np.array": np.array,
    "np.asarray": np.asarray,
    "array of objects": lambda value: np.array([value], dtype=object),
    "ufunc": lambda value: np.add(value, 1),
    "float": float,
    "int": int,
    "complex": complex,
    "round": round,
    "bool": bool,
    "hash": hash,
    "==": lambda value: value == SECRET,
    "!=": lambda value: value != SECRET,
    "<": lambda value: value < SECRET,
    "+": lambda value: value + 1,
    "vars": vars,
    "memoryview": memoryview,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "json": json.dumps,
} | {
    f"pickle {protocol}": lambda value, protocol=protocol: pickle.dumps(value, protocol)
    for protocol in PROTOCOLS
}


@pytest.mark.parametrize(
    "content", [np.array([SECRET]), SECRET, str(SECRET)], ids=["array", "float", "text"]
)
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_private_value_refuses_to_be_seen(look, content):
    with pytest.raises(TypeError) as refusal:
        look(Private(content))
    assert DIGITS not in all_that_it_says(refusal.value)


def test_a_private_value_opens_inside_the_vault():
    assert Private.open(Private(SECRET)) == SECRET


def test_a_source_grid_shows_its_counts_only():
    assert re.findall(r"\d+", repr(private_grid())) == ["5", "4", "3"]


TAKES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "asdict": dataclasses.asdict,
    "json": json.dumps,
} | {f"pickle {protocol}": LOOKS[f"pickle {protocol}"] for protocol in PROTOCOLS}


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
def test_a_source_grid_cannot_be_copied_away(take):
    with pytest.raises(TypeError):
        take(private_grid())


def test_private_values_cannot_be_written_to():
    grid = private_grid()
    with pytest.raises(ValueError, match="read-only"):
        Private.open(grid.values["k"])[0] = 1.0


def test_the_callers_array_is_not_the_grids():
    k = np.array(TRUE["k"])
    grid = private_grid(k=k)
    k[:] = 1.0
    assert tuple(Private.open(grid.values["k"])) == TRUE["k"]


def test_damping_may_be_zero():
    assert not Private.open(private_grid(d=np.zeros(3)).values["d"]).any()


ITEMS = {"k": "line weight k of b1-b2", "m": "inertia m of b1", "d": "damping d of b1"}
UNUSABLE = [*product(ITEMS, [math.nan, math.inf, -math.inf, -SECRET]), *product("km", [0.0, -0.0])]


@pytest.mark.parametrize(("group", "value"), UNUSABLE)
def test_an_unusable_value_is_named_by_its_item_but_not_told(group, value):
    values = np.full(len(TRUE[group]), SECRET)
    values[1] = value
    with pytest.raises(InputError, match=ITEMS[group]) as refusal:
        private_grid(**{group: values})
    assert DIGITS not in all_that_it_says(refusal.value)


UNREADABLE = {
    "text": [f"{DIGITS}x"],
    "bytes": [f"{DIGITS}x".encode()],
    "too large": [int(DIGITS * 100)],
    "complex": [SECRET * 1j],
    "a table": [{"k": SECRET}],
    "ragged": [[SECRET], [SECRET, SECRET]],
    "too long": [SECRET] * 9,
    "too deep": [[SECRET]],
    "empty": [],
    "a number": SECRET,
    "private": Private(SECRET),
}


@pytest.mark.parametrize("values", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize(
    ("group", "name"), [("k", "line weight k"), ("m", "inertia m"), ("d", "damping d")]
)
def test_an_unreadable_group_is_named_but_not_told(group, name, values):
    with pytest.raises(InputError, match=name) as refusal:
        private_grid(**{group: values})
    assert DIGITS not in all_that_it_says(refusal.value)


def test_an_error_names_the_grid():
    with pytest.raises(InputError) as refusal:
        SourceGrid.of(chain(), **(TRUE | {"m": np.zeros(3)}))
    assert refusal.value.file == "chain"
