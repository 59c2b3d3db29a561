"""Step 2 of Algorithm 1: the Kron reduction of a grid to its machines' buses.

Small networks and batches of them are reduced densely, large ones sparsely: the size decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from gridveil.dynamics.compact import SparseShares, compacted
from gridveil.dynamics.engine.lti import XArray, beside
from gridveil.dynamics.kron.kernels import (
    DENSE_UP_TO,
    Elimination,
    edge_weights,
    eliminate,
    kron_reduce,
    laplacian,
    schur,
)
from gridveil.dynamics.models import GridPorts, ReducedModel
from gridveil.dynamics.swing import SWING
from gridveil.foundation.arguments import Unfit, takes
from gridveil.foundation.progress import stage
from gridveil.grid.facts import Array, GridFacts, IntArray
from gridveil.grid.tables import GridTable, PublicTable, Values

__all__ = [
    "edge_weights",
    "elimination",
    "kron_reduce",
    "laplacian",
    "networkless_model",
    "reduce",
    "reduce_each",
    "reduced_model",
]


def elimination(facts: GridFacts, k: Array) -> Elimination:
    """Eliminate a grid's interior buses at line weights k (e,) [p.u. power / rad]."""
    return eliminate(facts.edges, k, len(facts.buses), facts.machines)


def reduce_each(facts: GridFacts, k: XArray, loads: Array) -> tuple[XArray, XArray]:
    """Reduce many networks of one topology: k_r (draws, e_r) and loads on machines (draws, f, g).

    k : (draws, e) [p.u. power / rad], of any array library; loads : (f, n) at all buses [p.u.
    power].
    """
    if len(facts.buses) > DENSE_UP_TO:
        each = [elimination(facts, weights) for weights in k]
        felt = np.stack([network.to_machines(loads.T).T for network in each])
        return np.stack([edge_weights(network.L_red) for network in each]), felt
    L_red, K_ac = schur(laplacian(facts.edges, k, len(facts.buses)), facts.machines)
    own, elsewhere = (beside(loads[:, at], k) for at in (facts.machines, facts.interior))
    return edge_weights(L_red), own + elsewhere @ K_ac.mT


def reduced_model(
    facts: GridFacts, values: Values, buses: IntArray | None = None, *, compact: bool = False
) -> ReducedModel:
    """Reduce a grid to its machines: M_γ ω̇ = −L_red δ + p − D_γ ω − u with u = ℓ_γ + K_ac ℓ_β.

    Damping of interior loads is felt at the machines: it goes into D_γ as K_ac D_β.
    values : of each parameter, as in a table; those of devices stay at their machines.
    buses : interior buses that stay ports of the model, with columns of K_ac; default: all of them.
    compact : whether to leave small shares and weights out, and to state what that does.
    """
    stage("reducing to the machines")
    network = elimination(facts, values["k"])
    interior = facts.interior if buses is None else buses
    places = GridPorts.of(facts, interior)
    stage("sharing the loads out")
    whole = ReducedModel(
        ports=places.ports,
        k_r=edge_weights(network.L_red),
        m=values["m"],
        d=values["d"] + network.to_machines(facts.load_damping),
        governor_rate=facts.governor_rate,
        droop_gain=facts.droop_gain,
        K_ac=cast(Array, SparseShares.none(len(facts.machines), len(interior)))
        if compact
        else network.K_ac(interior),
        loads=places.loads,
        omega_b=facts.omega_b,
        frequency_hz=facts.frequency_hz,
        base_mva=facts.base_mva,
        device=device_values(values),
    )
    return compacted(whole, network, interior) if compact else whole


def _whole_table(value: Any) -> GridTable:
    """Take a table of values that may be seen: a noisy grid, or a public one."""
    values = getattr(value, "values", None)
    if not isinstance(getattr(value, "facts", None), GridFacts) or not isinstance(values, Mapping):
        raise Unfit("a noisy grid of swing models, which perturb() returns")
    if not all(isinstance(own, np.ndarray) for own in values.values()):
        raise Unfit("a noisy grid: a source is perturbed first, by perturb()")
    return value


def device_values(values: Values) -> Values:
    """The values that are not the swing model's own."""
    return {name: own for name, own in values.items() if name not in SWING}


@takes(table=_whole_table)
def reduce(
    table: GridTable, buses: IntArray | None = None, *, compact: bool = False
) -> ReducedModel:
    """Reduce a noisy grid, or a table made of one: data-independent post-processing, so the
    guarantee stays as it is.

    buses, compact : as for `reduced_model`.
    """
    return reduced_model(table.facts, table.values, buses, compact=compact)


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
