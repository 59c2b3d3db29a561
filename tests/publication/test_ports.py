"""Ports for load: fewer of them say less of the network, and what that costs."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from cli_helpers import gridveil
from gridveil import Adjacency, Bounds, DemoSampler, load, open_grid, publish
from gridveil.adversary.attack.topology import equal_columns, guess_edges
from gridveil.assurance.owner_report.assess import true_pairs
from gridveil.foundation.errors import InputError, OptionError
from gridveil.privacy.allocation import ITEMS
from gridveil.publication.ports import (
    equal_ports,
    merged_shares,
    named_ports,
    port_shares,
    zone_ports,
)
from gridveil.publication.release import loaded_buses


@pytest.fixture(scope="module")
def ieee30():
    return open_grid("ieee30")


def released(source, ports, seed=1):
    settings = {
        "epsilon": Fraction(1),
        "adjacency": Adjacency(),
        "bounds": Bounds(),
        "ledger": None,
        "allocation": ITEMS,
    }
    return publish(source, **settings, sampler=DemoSampler(seed), ports=ports)


def test_merged_equal_columns_change_no_answer_and_hide_the_cut_vertex(ieee30):
    ports = equal_ports(ieee30.facts)
    apart, merged = (released(ieee30, one) for one in (None, ports))
    assert (len(apart.model.ports), len(merged.model.ports)) == (24, 23)
    assert equal_columns(apart.model.K_ac) and not equal_columns(merged.model.K_ac)
    for number, members in enumerate(ports, start=1):
        for bus in members:
            one, other = (
                release.simulate(f"load:{name}=+0.1", horizon_s=2).omega
                for release, name in ((apart, f"L{bus + 1}"), (merged, f"L{number}"))
            )
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-13)


def test_ports_follow_the_topology_alone(ieee30):
    """The same for every draw; columns sum to 1 and loads add up."""
    for ports in (equal_ports(ieee30.facts), zone_ports(ieee30.facts, 5)):
        assert sorted(np.concatenate(ports).tolist()) == list(range(18))
        np.testing.assert_allclose(merged_shares(ieee30.facts, ports).sum(axis=0), 1)
        model = released(ieee30, ports).model
        np.testing.assert_allclose(model.K_ac.sum(axis=0), 1)
        assert model.loads.sum() == pytest.approx(released(ieee30, None).model.loads.sum())


def test_zones_hide_edges(ieee30):
    guesses = {}
    for name, ports in {"each": None, "zones": zone_ports(ieee30.facts, 6)}.items():
        model = released(ieee30, ports).model
        shares = None if ports is None else merged_shares(ieee30.facts, ports)
        truth, edges = true_pairs(ieee30.facts, shares)
        guesses[name] = guess_edges(model, Bounds()["k"]).f1(truth, edges)
    assert guesses["zones"] < guesses["each"]


@pytest.mark.parametrize("count", [0, 19])
def test_a_number_of_zones_that_cannot_be_is_refused(ieee30, count):
    with pytest.raises(OptionError, match="from 1 to 18"):
        zone_ports(ieee30.facts, count)


@pytest.mark.parametrize("name", ["ieee30", "matpower:case118", "matpower:case57"])
def test_there_are_as_many_zones_as_asked_even_where_buses_tie(name):
    facts = open_grid(name, options={"inertia": 10.0, "damping": 5.0}).facts
    size, equal = len(loaded_buses(facts)), equal_ports(facts)
    for count in range(1, size + 1):
        zones = zone_ports(facts, count)
        assert (len(zones), sorted(np.concatenate(zones).tolist())) == (count, list(range(size)))
    same = [one.tolist() for one in zone_ports(facts, len(equal))]
    # nothing is nearer than what no weights can tell apart
    assert same == [one.tolist() for one in equal]


@pytest.mark.parametrize("published", [True, False])
def test_ports_of_a_release_are_weighed_by_the_loads_that_it_publishes(ieee30, published):
    """However the grid is opened when the release is looked at."""
    facts = ieee30.facts
    as_released = replace(ieee30, facts=replace(facts, loads_are_public=published))
    for ports in (zone_ports(facts, 6), equal_ports(facts)):
        made = released(as_released, ports)
        assert made.publishes_loads == published
        one = port_shares(replace(facts, loads_are_public=not published), made)
        assert one is not None
        np.testing.assert_array_equal(one, merged_shares(as_released.facts, ports))
        np.testing.assert_allclose(
            released(as_released, None).model.K_ac @ one, made.model.K_ac, atol=1e-12
        )


def test_a_release_of_another_grid_is_told_by_its_sizes(ieee30):
    made = released(ieee30, None)
    with pytest.raises(InputError, match="not a release of this grid"):
        port_shares(open_grid("star5").facts, made)


def test_the_owner_is_told_which_buses_a_port_is(ieee30):
    named = named_ports(ieee30.facts, equal_ports(ieee30.facts))
    assert [buses for buses in named.values() if len(buses) > 1] == [("29", "30")]


@pytest.mark.parametrize(("merge", "ports"), [("equal", 23), ("6", 12)])
def test_release_merges_loads_and_the_bundle_verifies(tmp_path, monkeypatch, merge, ports):
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    options = (
        "--epsilon=1",
        "--mechanism=items",
        f"--merge-loads={merge}",
        "--out",
        tmp_path / "bundle",
        "--json",
    )
    done = gridveil("release", "ieee30", *options)
    assert done.code == 0, done.err
    assert len(load(tmp_path / "bundle").model.ports) == ports
    assert sum(len(buses) for buses in json.loads(done.out)["ports"].values()) == 18
    assert gridveil("verify", tmp_path / "bundle").code == 0


@pytest.mark.parametrize(
    "options", [("--merge-loads=some",), ("--merge-loads=equal", "--mechanism=topology")]
)
def test_a_merge_that_cannot_be_made_is_refused_before_anything_is_spent(
    tmp_path, monkeypatch, options
):
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    done = gridveil("release", "ieee30", "--epsilon=1", *options, "--out", tmp_path / "bundle")
    assert done.code == 2
    assert "Nothing was drawn and nothing was spent" in done.err
