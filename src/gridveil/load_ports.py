"""Ports for load: which loaded buses a release shows one by one, and which as one. Public: it follows the topology alone.

A bundle has a column of K_ac for every loaded bus. Two columns that are equal say that their buses lie behind one cut vertex;
columns that differ tell how the buses between the machines are joined. Showing fewer ports says less of the edge set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gridveil.elimination import eliminate
from gridveil.errors import NOTHING_SPENT, OptionError
from gridveil.grid import Array, GridFacts, IntArray
from gridveil.release import Release, loaded_buses

# So near are columns of buses that the network holds together at one cut vertex; others differ by 1e-3 or more.
EQUAL = 1e-9
PORTS = "ports for load"  # the public input that stands for them


def equal_ports(facts: GridFacts) -> tuple[IntArray, ...]:
    """Put loaded buses that share a cut vertex into one port: (ports,) of positions among the loaded buses.

    Their columns of K_ac are equal whatever the weights are, so the model answers any event as before. Found with arbitrary
    weights on the declared topology: no private value has a part in it, and every release of a grid gets the same ports.
    """
    return equal_groups(_columns(facts, np.random.default_rng(0).uniform(1, 2, len(facts.edges))))


def equal_groups(columns: Array) -> tuple[IntArray, ...]:
    """Group equal columns of a matrix; each column is in one group.

    >>> [group.tolist() for group in equal_groups(np.array([[0.2, 0.5, 0.2], [0.8, 0.5, 0.8]]))]
    [[0, 2], [1]]
    """
    left, groups = np.arange(columns.shape[1]), []
    while left.size:
        same = np.abs(columns[:, left] - columns[:, left[:1]]).max(axis=0) <= EQUAL
        groups.append(left[same])
        left = left[~same]
    return tuple(groups)


def zone_ports(facts: GridFacts, count: int) -> tuple[IntArray, ...]:
    """Put loaded buses into so many zones: those whose columns of K_ac would be near each other if all lines were alike.

    It uses the declared topology alone. The model answers load anywhere in a zone as if it were spread over the zone.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    columns = _columns(facts, np.ones(len(facts.edges)))
    if not 1 <= count <= columns.shape[1]:
        raise OptionError(
            f"The loads cannot be put into {count} zones.",
            expected=f"a whole number from 1 to {columns.shape[1]}, the number of loaded buses without a machine",
            outcome=NOTHING_SPENT,
        )
    if count == columns.shape[1]:
        return tuple(np.array([bus]) for bus in range(count))
    zone = fcluster(linkage(columns.T, method="average"), count, criterion="maxclust")
    groups = [np.flatnonzero(zone == number) for number in np.unique(zone)]
    return tuple(sorted(groups, key=lambda group: int(group[0])))


def merged_shares(facts: GridFacts, ports: Sequence[IntArray]) -> Array:
    """Share of each loaded bus in its port, (loaded buses, ports): by nominal load where that is public, else equal."""
    loaded = loaded_buses(facts)
    share = np.zeros((len(loaded), len(ports)))
    for port, members in enumerate(ports):
        load = facts.loads[loaded[members]]
        by_load = facts.loads_are_public and (load > 0).all()
        share[members, port] = load / load.sum() if by_load else 1 / len(members)
    return share


def merge_loads(release: Release, facts: GridFacts, ports: Sequence[IntArray]) -> Release:
    """Show a release's loaded buses as fewer ports, L1 …, each with the mean of its buses' columns of K_ac, and their load.

    Privacy
    -------
    A linear map of the released K_ac and loads, chosen by public facts alone: post-processing, and the guarantee stays.
    """
    model, g = release.model, len(release.model.m)
    merged = replace(
        model,
        ports=(*model.machines, *(f"L{number}" for number in range(1, len(ports) + 1))),
        K_ac=model.K_ac @ merged_shares(facts, ports),
        loads=np.concatenate([model.loads[:g], [model.loads[g + members].sum() for members in ports]]),
    )
    told = "loaded buses that share a column of K_ac, or a zone, are one port, chosen by the topology alone"
    return replace(release, model=merged, public_inputs={**release.public_inputs, PORTS: told})


def named_ports(facts: GridFacts, ports: Sequence[IntArray]) -> dict[str, tuple[str, ...]]:
    """The owner's buses behind each port, for the owner."""
    loaded = loaded_buses(facts)
    return {f"L{n}": tuple(facts.buses[bus] for bus in loaded[members]) for n, members in enumerate(ports, start=1)}


def _columns(facts: GridFacts, k: Array) -> Array:
    """K_ac of the loaded buses, on the declared topology with some weights."""
    return eliminate(facts.edges, k, len(facts.buses), facts.machines).K_ac(loaded_buses(facts))
