"""Ports for load: which loaded buses a release shows one by one, and which as one. Public: it
follows the topology alone.

A bundle has a column of K_ac for every loaded bus. Two columns that are equal say that their buses
lie behind one cut vertex; columns that differ tell how the buses between the machines are joined.
Showing fewer ports says less of the edge set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gridveil.dynamics.compact import SparseShares
from gridveil.dynamics.kron import elimination
from gridveil.foundation.errors import NOTHING_SPENT, InputError, OptionError
from gridveil.grid.facts import Array, GridFacts, IntArray
from gridveil.publication.release import PORTS, PORTS_TOLD, Release, loaded_buses

# Columns closer than this count as equal: buses behind one cut vertex. Others differ by 1e-3.
EQUAL = 1e-9
# Weight of arbitrary line weights beside equal ones: enough to break ties between zones, no more.
TIE_BREAK = 1e-6


def equal_ports(facts: GridFacts) -> tuple[IntArray, ...]:
    """Put loaded buses that share a cut vertex into one port: (ports,) of positions among the
    loaded buses.

    Their columns of K_ac are equal whatever the weights are, so the model answers any event as
    before. Found with arbitrary weights on the declared topology: no private value has a part in
    it, and every release of a grid gets the same ports.
    """
    return equal_groups(_columns(facts, _arbitrary(facts)))


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
    """Put loaded buses into zones by near columns of K_ac, as if all lines were alike.

    It uses the declared topology alone, and gives as many zones as asked, whatever lies equally
    near. The model answers load anywhere in a zone as if it were spread over the zone.
    """
    from scipy.cluster.hierarchy import cut_tree, linkage

    size = len(loaded_buses(facts))
    if not 1 <= count <= size:
        raise OptionError(
            f"The loads cannot be put into {count} zones.",
            expected=f"a whole number from 1 to {size}, the number of loaded buses without a "
            "machine",
            outcome=NOTHING_SPENT,
        )
    if count == size:
        return tuple(np.array([bus]) for bus in range(count))
    arbitrary = _columns(facts, _arbitrary(facts))
    columns = _columns(facts, np.ones(len(facts.edges))) + TIE_BREAK * arbitrary
    for group in equal_groups(arbitrary):  # to the last bit: rounding must not choose among them
        columns[:, group] = columns[:, group[:1]]
    zone = cut_tree(linkage(columns.T, method="average"), n_clusters=count).ravel()
    groups = [np.flatnonzero(zone == number) for number in range(count)]
    return tuple(sorted(groups, key=lambda group: int(group[0])))


def port_shares(facts: GridFacts, release: Release) -> Array | None:
    """How a grid's loaded buses make up a release's ports, (loaded, ports); None in topology mode,
    where ports say nothing.

    Raises InputError where the release cannot be of this grid, by public sizes.
    """
    loaded, ports = len(loaded_buses(facts)), len(release.swing.ports) - len(release.swing.machines)
    merged, hidden = PORTS in release.public_inputs, release.guarantee.hides_network
    if len(release.swing.machines) != len(facts.machines) or (
        not hidden and (ports > loaded if merged else ports != loaded)
    ):
        raise InputError(
            f"the bundle has {len(release.swing.machines)} machines and {ports} ports for load, "
            f"the grid {len(facts.machines)} and {loaded}: it is not a release of this grid",
            outcome="Nothing was computed and nothing was written.",
            remedy="Name the grid that the bundle was made of, with the same options.",
        )
    if hidden:
        return None
    if not merged:
        return np.eye(loaded)
    equal = equal_ports(facts)
    groups = equal if len(equal) == ports else zone_ports(facts, ports)
    # whatever the grid is opened with today
    return merged_shares(facts, groups, by_load=release.publishes_loads)


def merged_shares(
    facts: GridFacts, ports: Sequence[IntArray], *, by_load: bool | None = None
) -> Array:
    """Share of each loaded bus in its port, (loaded buses, ports): by nominal load where that is
    public, else equal.

    by_load : whether it is public to whoever merges; None: as the facts have it.
    """
    by_load = facts.loads_are_public if by_load is None else by_load
    loaded = loaded_buses(facts)
    share = np.zeros((len(loaded), len(ports)))
    for port, members in enumerate(ports):
        load = facts.loads[loaded[members]]
        share[members, port] = (
            load / load.sum() if by_load and (load > 0).all() else 1 / len(members)
        )
    return share


def merge_loads(release: Release, facts: GridFacts, ports: Sequence[IntArray]) -> Release:
    """Show a release's loaded buses as fewer ports, L1 …, each with the mean of its buses' columns
    of K_ac, and their load.

    Privacy
    -------
    A linear map of the released K_ac and loads, chosen by public facts alone: post-processing, and
    the guarantee stays.
    """
    model, g = release.swing, len(release.swing.machines)
    members = merged_shares(facts, ports)
    K_ac = model.K_ac
    K_ac = K_ac.merged(members) if isinstance(K_ac, SparseShares) else K_ac @ members
    merged = replace(
        model,
        ports=(*model.machines, *(f"L{number}" for number in range(1, len(ports) + 1))),
        K_ac=K_ac,
        loads=np.concatenate(
            [model.loads[:g], [model.loads[g + members].sum() for members in ports]]
        ),
    )
    shares = np.eye(len(model.ports), len(merged.ports))
    shares[g:, g:] = members
    names = {f"L{bus + 1}": f"L{n}" for n, members in enumerate(ports, start=1) for bus in members}
    return replace(
        release,
        model=merged,
        ensemble=release.ensemble and release.ensemble.merged(merged.ports, shares),
        public_inputs={**release.public_inputs, PORTS: PORTS_TOLD},
        replays=tuple(replay.renamed(names) for replay in release.replays),
    )


def named_ports(facts: GridFacts, ports: Sequence[IntArray]) -> dict[str, tuple[str, ...]]:
    """The owner's buses behind each port, for the owner."""
    loaded = loaded_buses(facts)
    return {
        f"L{n}": tuple(facts.buses[bus] for bus in loaded[members])
        for n, members in enumerate(ports, start=1)
    }


def _arbitrary(facts: GridFacts) -> Array:
    """Weights that no two lines share: what they leave equal is equal whatever the weights are."""
    return np.random.default_rng(0).uniform(1, 2, len(facts.edges))


def _columns(facts: GridFacts, k: Array) -> Array:
    """K_ac of the loaded buses, on the declared topology with some weights."""
    return elimination(facts, k).K_ac(loaded_buses(facts))
