"""Step 2 of Algorithm 1: Laplacians and their Kron reduction to the machines' buses."""

from __future__ import annotations

import math

import numpy as np

from gridveil.dynamics.kron.sparse import eliminate
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.swing import SWING
from gridveil.foundation.progress import stage
from gridveil.grid.facts import Array, GridFacts, IntArray, complete_edges
from gridveil.grid.tables import PublicTable, Table, Values


def laplacian(edges: IntArray, k: Array, n: int) -> Array:
    """Build L = C diag(k) Cᵀ ⪰ 0, the one sign convention of gridveil: power leaves a bus as +L δ.

    edges : (e, 2) bus positions; k : (e,) weights [p.u. power / rad]; L : (n, n).
    """
    L = np.zeros((n, n))
    i, j = edges.T
    np.add.at(L, (i, j), -k)
    np.add.at(L, (j, i), -k)
    L[np.diag_indices(n)] = -L.sum(axis=1)
    return L


def kron_reduce(L: Array, keep: IntArray) -> tuple[Array, Array]:
    """Eliminate interior buses: L_red = L_γγ − L_γβ L_ββ⁻¹ L_βγ, eq. (4), and K_ac = −L_γβ L_ββ⁻¹.

    L : (n, n) Laplacian [p.u. power / rad]; keep : (g,) positions of the buses γ that stay.
    L_red : (g, g) [p.u. power / rad].
    K_ac : (g, n − g), the share of an interior bus's load that each kept bus feels; it is not
    negative and its columns sum to 1.

    The paper's star: bus 5 in the middle, k = 4, 10, 16, 10.

    >>> star = laplacian(np.array([[0, 4], [1, 4], [2, 4], [3, 4]]), np.array([4.0, 10.0, 16.0, 10.0]), 5)
    >>> L_red, K_ac = kron_reduce(star, keep=np.arange(4))
    >>> edge_weights(L_red).round(12)
    array([1. , 1.6, 1. , 4. , 2.5, 4. ])
    """
    interior = np.setdiff1d(np.arange(len(L)), keep)
    across = L[np.ix_(keep, interior)]
    # One solve serves both: L_ββ is symmetric, so L_γβ L_ββ⁻¹ = (L_ββ⁻¹ L_βγ)ᵀ.
    K_ac = -np.linalg.solve(L[np.ix_(interior, interior)], across.T).T.astype(
        np.float64, copy=False
    )
    L_red = L[np.ix_(keep, keep)] + K_ac @ across.T
    return 0.5 * (L_red + L_red.T), K_ac


def edge_weights(L_red: Array) -> Array:
    """Read k_r off a reduced Laplacian, in the order of `complete_edges`."""
    i, j = complete_edges(len(L_red)).T
    return -L_red[i, j]


def reduced_model(facts: GridFacts, values: Values, buses: IntArray | None = None) -> ReducedModel:
    """Reduce a grid to its machines: M_γ ω̇ = −L_red δ + p − D_γ ω − u with u = ℓ_γ + K_ac ℓ_β.

    Damping of interior loads is felt at the machines: it goes into D_γ as K_ac D_β.
    values : of each parameter, as in a table; those of devices stay at their machines.
    buses : interior buses that stay ports of the model, with columns of K_ac; default: all of them.
    """
    stage("reducing to the machines")
    network = eliminate(facts.edges, values["k"], len(facts.buses), facts.machines)
    interior = facts.interior if buses is None else buses
    order = np.concatenate([facts.machines, interior])
    stage("sharing the loads out")
    return ReducedModel(
        ports=tuple(facts.buses[i] for i in order),
        k_r=edge_weights(network.L_red),
        m=values["m"],
        d=values["d"] + network.to_machines(facts.load_damping),
        governor_rate=facts.governor_rate,
        droop_gain=facts.droop_gain,
        K_ac=network.K_ac(interior),
        loads=facts.loads[order] if facts.loads_are_public else np.full(len(order), np.nan),
        omega_b=facts.omega_b,
        frequency_hz=facts.frequency_hz,
        base_mva=facts.base_mva,
        device=device_values(values),
    )


def device_values(values: Values) -> Values:
    """The values that are not the swing model's own."""
    return {name: own for name, own in values.items() if name not in SWING}


def reduce(table: Table, buses: IntArray | None = None) -> ReducedModel:
    """Reduce a noisy grid, or a table made of one: data-independent post-processing, so the
    guarantee stays as it is.
    """
    return reduced_model(table.facts, table.values, buses)


def networkless_model(table: PublicTable, weight: float) -> ReducedModel:
    """The model of topology mode: machines G1 … joined each to each by one weight, and one port,
    L1, for load anywhere else.

    It uses machines, governors and loads of the facts, and nothing of the network. weight [p.u.
    power / rad].
    """
    facts, g = table.facts, len(table.facts.machines)
    # math.fsum is exact, so that not even a last bit tells how many buses there are, or in which
    # order.
    elsewhere = math.fsum(facts.loads[facts.interior])
    loads = (
        np.append(facts.loads[facts.machines], elsewhere)
        if facts.loads_are_public
        else np.full(g + 1, np.nan)
    )
    damping = facts.load_damping[facts.machines] + math.fsum(facts.load_damping[facts.interior]) / g
    return ReducedModel(
        ports=(*(f"G{number + 1}" for number in range(g)), "L1"),
        k_r=np.full(g * (g - 1) // 2, weight),
        m=table.values["m"],
        d=table.values["d"] + damping,
        governor_rate=facts.governor_rate,
        droop_gain=facts.droop_gain,
        K_ac=np.full((g, 1), 1 / g),
        loads=loads,
        omega_b=facts.omega_b,
        frequency_hz=facts.frequency_hz,
        base_mva=facts.base_mva,
        device=device_values(table.values),
    )
