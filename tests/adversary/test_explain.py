"""A release beside a grid's public facts: a table that explains it, and doubts where none does."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from gridveil import Adjacency, Bounds, DemoSampler, load, open_grid, publish
from gridveil.adversary import explain as module
from gridveil.adversary.attack import network
from gridveil.adversary.attack.network import invert, port_patterns
from gridveil.adversary.explain import doubts, explain
from gridveil.dynamics.kron import reduced_model
from gridveil.foundation.errors import InputError
from gridveil.privacy.allocation import ITEMS, topology
from gridveil.publication.ports import zone_ports
from gridveil.publication.release import loaded_buses, neutral

SETTINGS = {"epsilon": Fraction(1), "adjacency": Adjacency(), "bounds": Bounds(), "ledger": None}


@pytest.fixture(scope="module")
def source():
    """IEEE-30, whose loads damp, so that what the machines feel of them has to be taken away
    again.
    """
    return open_grid("ieee30", options={"load_damping": 1.5})


def released(source, **options):
    settings = {"allocation": ITEMS} | SETTINGS | options
    return publish(source, sampler=DemoSampler(1), **settings)


def test_the_table_gives_the_release_back(source):
    made = released(source)
    found = explain(source.facts, made)
    again = neutral(reduced_model(source.facts, found.table.values), source.facts)
    for name in ("k_r", "m", "d", "K_ac", "loads"):
        np.testing.assert_allclose(
            getattr(again, name), getattr(made.model, name), rtol=1e-6, atol=1e-12
        )
    assert found.misfit is not None and found.misfit < 1e-9
    assert found.doubts == ()


def test_merged_ports_and_withheld_loads_are_understood():
    source = open_grid("ieee30", options={"publish_loads": False})
    made = released(source, ports=zone_ports(source.facts, 6))
    # opened with its loads, which the release withholds
    found = explain(open_grid("ieee30").facts, made)
    assert found.misfit is not None and found.misfit < 1e-9
    assert not found.table.facts.loads_are_public


def test_topology_mode_leaves_lines_in_the_middle(source):
    made = released(source, allocation=topology(shares={"m": Fraction(1, 2), "d": Fraction(1, 2)}))
    found = explain(source.facts, made)
    assert (found.misfit, found.doubts) == (None, ())
    np.testing.assert_allclose(found.table.values["k"], 10.0)
    # a sum in equal shares, once the public damping of loads is taken away
    assert np.ptp(found.table.values["d"]) < 1e-9


def test_one_exact_answer_is_enough_and_the_same_as_of_all_starts(source, monkeypatch):
    made, facts, begun = released(source), source.facts, []
    patterns = port_patterns(facts, loaded_buses(facts))
    all_of_them = invert(made.model, facts, made.bounds["k"], patterns)
    descend = network._descend
    monkeypatch.setattr(
        network, "_descend", lambda problem, x: begun.append(x) or descend(problem, x)
    )
    found = explain(facts, made)
    assert (len(begun), all_of_them.starts) == (1, 3)
    np.testing.assert_array_equal(found.table.values["k"], all_of_them.weights)
    assert found.misfit == all_of_them.misfit
    edges = facts.edges.copy()
    edges[3], edges[10] = (0, 20), (5, 22)
    explain(replace(facts, edges=edges), made)
    assert len(begun) == 1 + 3  # where none is exact, all are tried


def test_more_lines_than_can_be_won_back_stay_in_the_middle(source, monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 40)
    made = released(source)
    found = explain(source.facts, made)
    assert (found.misfit, found.doubts) == (None, ())
    np.testing.assert_allclose(found.table.values["k"], 10.0)
    np.testing.assert_array_equal(found.table.values["m"], made.model.m)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"droop_gain": 3.0}, "The bundle's G are not the grid's"),
        ({"governor_rate": 9.0}, "The bundle's T are not the grid's"),
        ({"loads": 2.0}, "The bundle's loads are not the grid's"),
    ],
)
def test_public_quantities_that_differ_are_named(source, change, said):
    made, facts = released(source), source.facts
    ((name, factor),) = change.items()
    changed = (name, "load_damping") if name == "loads" else (name,)  # which follows the loads
    other = replace(facts, **{one: factor * getattr(facts, one) for one in changed})
    (doubt,) = doubts(other, made, 0.0)
    assert doubt.startswith(said)


@pytest.mark.parametrize("way", ["items", "topology", "merged"])
def test_a_release_says_its_load_damping_and_nothing_of_the_loads_by_it(source, way, tmp_path):
    options = (
        {"allocation": topology(shares={"m": Fraction(1, 2), "d": Fraction(1, 2)})}
        if way == "topology"
        else {}
    )
    options |= {"ports": zone_ports(source.facts, 6)} if way == "merged" else {}
    released(source, **options).save(tmp_path / "bundle")
    assert load(tmp_path / "bundle").load_damping == 1.5


@pytest.mark.parametrize(
    ("made_with", "opened_with", "said"),
    [
        (1.5, 1.5, None),
        (0.0, 0.0, None),
        (
            10.0,
            0.0,
            "made with load damping of 10 p.u., and the grid was opened without load damping",
        ),
        (
            0.0,
            10.0,
            "made without load damping, and the grid was opened with load damping of 10 p.u.",
        ),
        (10.0, 1.5, "with --load-damping 10."),
    ],
)
def test_load_damping_that_differs_is_doubted(made_with, opened_with, said):
    made = released(open_grid("star5", options={"load_damping": made_with}))
    found = explain(open_grid("star5", options={"load_damping": opened_with}).facts, made).doubts
    assert (len(found), found == () or said in found[0]) == (0 if said is None else 1, True)
    assert (
        explain(
            open_grid("star5", options={"load_damping": 3.0}).facts,
            replace(made, load_damping=None),
        ).doubts
        == ()
    )


def test_a_bundle_that_withholds_its_loads_was_made_without_load_damping():
    made, damped = (
        released(open_grid("star5", options={"publish_loads": False})),
        open_grid("star5", options={"load_damping": 1}),
    )
    with pytest.raises(
        InputError,
        match=r"withholds its loads, so it was made without load damping.*Leave --load-damping out",
    ):
        explain(damped.facts, made)
    (doubt,) = doubts(damped.facts, made, 0.0)
    assert (
        "made without load damping (it withholds its loads), and the grid was opened with" in doubt
    )


def test_damping_of_load_is_what_was_declared():
    loaded = open_grid("ieee30", options={"load_damping": 0.1 + 0.2}).facts
    assert loaded.damping_of_load == 0.3
    assert replace(loaded, load_damping=np.zeros(30)).damping_of_load == 0.0
    assert replace(loaded, loads=np.zeros(30)).damping_of_load is None


def test_a_network_that_the_topology_cannot_give_is_doubted(source):
    made, edges = released(source), source.facts.edges.copy()
    edges[3], edges[10] = (0, 20), (5, 22)
    found = explain(replace(source.facts, edges=edges), made)
    assert [
        doubt.startswith("No line weights on the grid's topology") for doubt in found.doubts
    ] == [True]
