"""A public surrogate: where settings are tried out, so that nothing of the private grid goes into choosing them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from gridveil.allocation import Allocation, Mechanism, Sharing, candidates, machine_shares
from gridveil.elimination import eliminate
from gridveil.engine.objective import one_blas_thread
from gridveil.engine.propagate import step_responses
from gridveil.grid import Array, GridFacts, IntArray, complete_edges
from gridveil.groups import Bounds, Range
from gridveil.kron import edge_weights
from gridveil.noisy import PublicTable, drawn_range
from gridveil.posterior import Posterior, middle
from gridveil.privacy.adjacency import Adjacency
from gridveil.swing import DrivenSwingFamily

AT_MIDDLE = "the declared topology with every parameter at the geometric middle of its public bounds"
AROUND_ONE_BUS = "the machines around one bus, with every parameter at the geometric middle of its public bounds"
# Draws that a choice is based on, the same noise for every candidate, and what each is simulated for.
DRAWS, HORIZON_S, DT_S = 100, 20.0, 0.2
# Steps of load on single buses that a choice is judged by, besides one on all of them.
PLACES, STEP = 8, 0.1
# With more machines than this, candidates are judged by the frequency of all of them together: one lumped machine.
MOST_MACHINES = 20
BATCH = 50


def at_middle(facts: GridFacts, bounds: Bounds) -> PublicTable:
    """The surrogate that needs no other case: declared facts, and every parameter at the geometric middle of its bounds."""
    g = len(facts.machines)
    sizes = {"k": len(facts.edges), "m": g, "d": g}
    return PublicTable(facts, **{name: np.full(size, middle(getattr(bounds, name))) for name, size in sizes.items()})


def without_network(facts: GridFacts) -> GridFacts:
    """The same machines around one bus for all load elsewhere: what topology mode may know of a grid."""
    g = len(facts.machines)

    def gathered(values: Array) -> Array:
        return np.append(values[facts.machines], math.fsum(values[facts.interior]))

    return replace(
        facts,
        buses=(*(f"G{number + 1}" for number in range(g)), "L1"),
        edges=np.stack([np.arange(g), np.full(g, g)], axis=1),
        machines=np.arange(g),
        loads=gathered(facts.loads) if facts.loads_are_public else np.zeros(g + 1),
        load_damping=gathered(facts.load_damping),
    )


def choose(
    surrogate: PublicTable,
    adjacency: Adjacency,
    epsilon: Fraction,
    bounds: Bounds,
    *,
    mechanism: Mechanism = "aggregates",
    sharing: Sharing = "equal",
    origin: str = AT_MIDDLE,
) -> Allocation:
    """Choose among the candidates the one whose releases of a surrogate are, on average over draws, nearest to it.

    Nearest by ∫ |ω − ω_surrogate|² dt after steps of load on single buses and on all. origin : what the surrogate is, in words.

    Privacy
    -------
    A function of public facts, bounds and settings alone: it never sees the private grid, so it costs nothing.
    """
    found = candidates(adjacency, mechanism, sharing)
    if len(surrogate.facts.machines) > MOST_MACHINES:
        # A lumped machine has no lines and no items: it speaks for how to share ε between sums, and for nothing else.
        found = [one for one in found if one.mechanism != "items" or mechanism == "items"]
        if adjacency.counts == "one-per-group" and mechanism == "aggregates":
            found = [one for one in found if one.draws["k"] == "nothing"]
        surrogate = lumped(surrogate)
    networks: dict[float | None, Array] = {}
    errors = [_mean_error(Trial(surrogate, one, adjacency, epsilon, bounds, networks=networks)) for one in found]
    return replace(found[int(np.argmin(errors))], origin=f"chosen on a public surrogate: {origin}")


def _mean_error(trial: Trial) -> float:
    with one_blas_thread():
        return float(np.mean(list(trial.distances())))


@dataclass(frozen=True, eq=False)
class Trial:
    """Releases of a public surrogate by one allocation, with seeded noise: for choosing, never for publishing.

    draws : how many; seed : of the noise, one stream a group, so that candidates meet the same noise.
    networks : what reductions gave, by the scale of the noise on k; trials that differ in nothing else of k may share it.
    """

    surrogate: PublicTable
    allocation: Allocation
    adjacency: Adjacency
    epsilon: Fraction
    bounds: Bounds
    draws: int = DRAWS
    seed: int = 0
    networks: dict[float | None, Array] = field(default_factory=dict)

    @cached_property
    def scales(self) -> dict[str, float]:
        """Scale of the Laplace noise of each drawn group [the group's unit; of the logarithm if relative]."""
        split = self.allocation.over(self.adjacency).split(self.epsilon, self.allocation.assets)
        return {name: float(self.adjacency.distance(name) / share) for name, share in split.items()}

    def table(self, name: str) -> Array:
        """What the releases' tables would hold of a group: (draws, e) of k, (draws, g) of m and d."""
        facts, way, truth = self.surrogate.facts, self.allocation.draws[name], getattr(self.surrogate, name)
        public = drawn_range(self.bounds, name, way, len(facts.machines))
        if way == "nothing":
            return np.full((self.draws, len(facts.edges)), middle(public))
        stream = np.random.default_rng([self.seed, "kmd".index(name)])
        noise = self.scales[name] * stream.laplace(size=(self.draws, len(truth)))
        if way == "items":
            return self._estimated(truth, noise, name, public)
        whole = self._estimated(np.array([truth.sum()]), noise[:, :1], name, public)
        return whole * machine_shares(facts, self.allocation.sharing)

    def _estimated(self, truth: Array, noise: Array, name: str, public: Range) -> Array:
        """Posterior means of values (n,) under noise (draws, n)."""
        relative = self.adjacency.relative
        truth = np.clip(truth, public.lower, public.upper)
        with np.errstate(over="ignore"):
            y = np.clip(truth * np.exp(noise) if relative else truth + noise, public.lower, public.upper)
        belief = Posterior.of(y.ravel(), self.scales[name], public.lower, public.upper, relative=relative)
        return belief.mean.reshape(y.shape)

    def parameters(self, loads: Array) -> Array:
        """θ = (k_r, m, d, u) of each release under load patterns on all buses (n, s): (draws, p)."""
        facts, g = self.surrogate.facts, len(self.surrogate.facts.machines)
        e = g * (g - 1) // 2
        if self.allocation.hides_network:
            u = loads[facts.machines] + loads[facts.interior].sum(axis=0) / g
            network = np.concatenate([np.full(e, middle(self.bounds.k)), u.T.ravel()])[None]
        else:
            scale = self.scales.get("k")
            if scale not in self.networks:
                tables = self.table("k") if scale else self.table("k")[:1]
                self.networks[scale] = np.array([_network(facts, k, loads) for k in tables])
            network = self.networks[scale]
        network = np.broadcast_to(network, (self.draws, network.shape[1]))
        d = self.table("d") + _felt_damping(facts)
        return np.concatenate([network[:, :e], self.table("m"), d, network[:, e:]], axis=1)

    def distances(self) -> Iterable[float]:
        """∫ |ω − ω_surrogate|² dt of each release, mean over the steps of load [p.u.² s]."""
        facts = self.surrogate.facts
        loads = trial_loads(facts)
        true_k = _network(facts, self.surrogate.k, loads)
        e = len(complete_edges(len(facts.machines)))
        truth = np.concatenate([true_k[:e], self.surrogate.m, self.surrogate.d + _felt_damping(facts), true_k[e:]])
        reference = _responses(facts, truth[None], loads.shape[1])
        parameters = self.parameters(loads)
        for first in range(0, self.draws, BATCH):
            error = _responses(facts, parameters[first : first + BATCH], loads.shape[1]) - reference
            yield from DT_S * np.einsum("rsng,rsng->r", error, error) / loads.shape[1]


def lumped(table: PublicTable) -> PublicTable:
    """All machines as one, at one bus: what the frequency of the whole grid depends on."""
    facts = table.facts
    gain = facts.droop_gain
    rate = float(gain @ facts.governor_rate / gain.sum()) if gain.sum() > 0 else 0.0
    one = replace(
        facts,
        buses=("all",),
        edges=np.empty((0, 2), dtype=np.int64),
        machines=np.array([0]),
        governor_rate=np.array([rate]),
        droop_gain=np.array([gain.sum()]),
        loads=np.array([facts.loads.sum()]),
        load_damping=np.array([facts.load_damping.sum()]),
        rated_mva=np.ones(1),
    )
    return PublicTable(one, k=np.empty(0), m=np.array([table.m.sum()]), d=np.array([table.d.sum()]))


def trial_loads(facts: GridFacts) -> Array:
    """Steps of load that a choice is judged by (n, s) [p.u. power]: one on all buses alike, and some on one bus each."""
    n = len(facts.buses)
    places: IntArray = np.unique(np.linspace(0, n - 1, min(PLACES, n)).round().astype(np.int64))
    return np.concatenate([np.full((n, 1), STEP / n), STEP * np.eye(n)[:, places]], axis=1)


def _network(facts: GridFacts, k: Array, loads: Array) -> Array:
    """k_r and u (input after input) of a network, one behind the other."""
    found = eliminate(facts.edges, k, len(facts.buses), facts.machines)
    return np.concatenate([edge_weights(found.L_red), found.to_machines(loads).T.ravel()])


def _felt_damping(facts: GridFacts) -> Array:
    """Public damping of the loads, as the machines share it: in equal parts, which is near enough for a choice."""
    return np.full(len(facts.machines), facts.load_damping.sum() / len(facts.machines))


def _responses(facts: GridFacts, parameters: Array, inputs: int) -> Array:
    g = len(facts.machines)
    family = DrivenSwingFamily(
        complete_edges(g),
        inputs=inputs,
        governor_rate=facts.governor_rate,
        droop_gain=facts.droop_gain,
        omega_b=facts.omega_b,
        sense=np.eye(g),
        bounds=Bounds(),
    )
    samples = round(HORIZON_S / DT_S) + 1
    return step_responses(family.lti(parameters), range(inputs), samples, dt_s=DT_S, scheme="exact")
