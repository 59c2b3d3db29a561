"""Parallel circuits, and machines of one bus, are one item each: if a part moves by α, the noise
covers what that moves.
"""

import math
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest

from file_grids import bus, file_grid, line, unit
from gridveil.foundation.errors import InputError
from gridveil.grid.parameters import Bounds
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.mechanisms import Calibration
from gridveil.readers.assemble import assemble
from gridveil.readers.dynamics import Dynamics
from gridveil.readers.network import CONTROLLED
from gridveil.vault.perturb import perturb
from gridveil.vault.source import Private

FLAT = Dynamics(damping=2.0, governor_rate=2.0, droop_gain=20.0, operating_point="flat")
# Rounding is coarser than α's last bits from one power of two to the next, and far beyond the
# bounds.
LARGE = 10.0 ** np.random.default_rng(1).uniform(-3, 7, (3000, 3))


class Recorder:
    """A sampler that adds nothing, and keeps what it was given."""

    def __init__(self):
        self.given = []

    def in_words(self, noises):
        return "none"

    def draw(self, values, scale, noise):
        self.given.append(values)
        return values


def a_grid(circuits=((10.0,),), inertia=((8.0,),)):
    """Buses in a row: circuits are weights of parallel lines from each bus to the next, inertia of
    the machines on each bus.

    The grid has as many buses as the longer of the two asks for.
    """
    length = max(len(circuits) + 1, len(inertia))
    circuits = [*circuits, *[(10.0,)] * (length - 1 - len(circuits))]
    buses = {f"b{i}": bus(CONTROLLED) for i in range(length)}
    weights = [(f"b{i}", f"b{i + 1}", k) for i, parts in enumerate(circuits) for k in parts]
    grid = file_grid(
        buses,
        [line(a, b, 0.1) for a, b, _ in weights],
        [unit(f"b{i}", m=m) for i, parts in enumerate(inertia) for m in parts],
    )
    with patch("gridveil.readers.assemble._weights", lambda *_: np.array([k for *_, k in weights])):
        return assemble(grid, FLAT)


def drawn_from(source, alpha, drawn="items", rule="one-item"):
    """What noise is added to, and the distance that it is made for, of each group."""
    asked, sampler = [], Recorder()
    with patch(
        "gridveil.privacy.mechanisms.laplace.calibrate",
        lambda *given: asked.append(given) or Calibration(1.0, 0.01),
    ):
        perturb(
            source,
            epsilon=Fraction(1),
            adjacency=Adjacency(rule, dict.fromkeys("kmd", alpha)),
            bounds=Bounds(),
            ledger=None,
            sampler=sampler,
            allocation=Allocation({"k": "items", "m": drawn, "d": drawn}),
        )
    return {
        name: (values, given[0])
        for name, values, given in zip("kmd", sampler.given, asked, strict=True)
    }


def moved(parts, alpha, *, relative=False):
    """The same with the first part of each item moved by α, or by a last bit less."""
    neighbours = []
    for first, *others in parts.tolist():
        limit = Fraction(first) * (1 + alpha) if relative else Fraction(first) + alpha
        there = float(limit)
        while Fraction(there) > limit:
            there = math.nextafter(there, 0)
        neighbours.append((there, *others))
    return np.array(neighbours)


def furthest(one, other):
    return max(
        abs(Fraction(a) - Fraction(b)) for a, b in zip(one.tolist(), other.tolist(), strict=True)
    )


@pytest.mark.parametrize("rule", ["one-item", "one-item-relative"])
@pytest.mark.parametrize("alpha", [Fraction(1), Fraction(1, 10), Fraction(1, 3)])
@pytest.mark.parametrize("name", ["k", "m"])
def test_an_item_moves_no_further_than_the_noise_is_made_for_if_one_of_its_parts_moves_by_alpha(
    name, alpha, rule
):
    what = {"k": "circuits", "m": "inertia"}[name]
    near = moved(LARGE, alpha, relative=rule.endswith("relative"))
    (here, distance), (there, _) = (
        drawn_from(a_grid(**{what: parts}), alpha, rule=rule)[name] for parts in (LARGE, near)
    )
    assert furthest(here, there) <= distance
    if rule == "one-item":
        assert furthest(here, there) > alpha  # so that it has to be counted
        assert distance < alpha + Fraction(1, 10**10)


def test_a_sum_moves_no_further_than_the_noise_is_made_for_if_a_part_of_an_item_moves_by_alpha():
    alpha = Fraction(1, 10)
    for parts in LARGE[:600].reshape(100, 6, 3) % 7 + 0.01:
        near = np.concatenate([moved(parts[:1], alpha), parts[1:]])
        (here, distance), (there, _) = (
            drawn_from(a_grid(inertia=one), alpha, "sum")["m"] for one in (parts, near)
        )
        assert furthest(here, there) <= distance


def test_parts_are_summed_exactly_and_rounded_once():
    source = a_grid(circuits=LARGE, inertia=LARGE)
    exact = [float(sum(map(Fraction, parts))) for parts in LARGE.tolist()]
    assert Private.open(source.values["k"]).tolist()[:3000] == exact
    assert Private.open(source.values["m"]).tolist() == exact


def test_nothing_is_added_to_alpha_where_no_item_is_a_sum():
    source = a_grid(circuits=[(10.0,), (20.0,)], inertia=[(8.0,), (9.0,)])
    assert {distance for _, distance in drawn_from(source, Fraction(1)).values()} == {1}
    both = a_grid(circuits=[(10.0, 5.0), (20.0,)], inertia=[(8.0,), (9.0,)])
    assert [distance > 1 for _, distance in drawn_from(both, Fraction(1)).values()] == [
        True,
        False,
        False,
    ]
    assert (drawn_from(both, Fraction(1))["k"][0] == [15.0, 20.0]).all()


@pytest.mark.parametrize("circuits", [(1e308, 1e308), (math.inf, 1.0), (math.inf, -math.inf)])
def test_circuits_without_a_finite_sum_are_refused_by_name(circuits):
    with pytest.raises(InputError, match="line weight k of b0-b1 is not usable"):
        a_grid(circuits=[circuits])
