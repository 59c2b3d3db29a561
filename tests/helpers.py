"""Grids to test on, and plain reference computations written from the equations, without gridveil's
own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import pi
from typing import NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from gridveil.dynamics.engine import LTI, SampledRecord
from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.models import FullModel, ReducedModel
from gridveil.grid.facts import GridFacts

PAPER, PHYSICAL = 1.0, 2 * pi * 60

# The same examples at every run, so that a failure in CI can be repeated.
few_examples = settings(max_examples=20, deadline=None, derandomize=True)

IEEE30_EDGES = """1-2 1-3 2-4 3-4 2-5 2-6 4-6 5-7 6-7 6-8 6-9 6-10 9-11 9-10 4-12 12-13 12-14
12-15 12-16 14-15 16-17 15-18 18-19 19-20 10-20 10-17 10-21 10-22 21-22 15-23 22-24 23-24 24-25
25-26 25-27 28-27 27-29 27-30 29-30 8-28 6-28"""


class Grid(NamedTuple):
    """Facts of a grid with the parameters that a real owner would keep private."""

    facts: GridFacts
    k: np.ndarray
    m: np.ndarray
    d: np.ndarray

    @property
    def values(self) -> dict[str, np.ndarray]:
        return {"k": self.k, "m": self.m, "d": self.d}

    @property
    def full(self) -> FullModel:
        return FullModel(self.facts, self.values)

    @property
    def reduced(self) -> ReducedModel:
        return reduced_model(self.facts, self.values)

    def with_facts(self, **changes) -> Grid:
        return self._replace(facts=replace(self.facts, **changes))


def make_grid(
    edges, k, machines, m, d, *, rate, gain, loads, load_damping=0.0, omega_b=PAPER
) -> Grid:
    """Buses are called 1 … n; scalars stand for equal entries."""
    n, g = len(loads), len(machines)
    facts = GridFacts(
        name="test",
        buses=tuple(str(bus + 1) for bus in range(n)),
        edges=np.array(edges),
        machines=np.array(machines),
        governor_rate=np.broadcast_to(rate, g),
        droop_gain=np.broadcast_to(gain, g),
        loads=np.array(loads),
        load_damping=np.broadcast_to(load_damping, n),
        omega_b=omega_b,
        frequency_hz=60.0,
        base_mva=100.0,
        loads_are_public=True,
        operating_point="none",
    )
    return Grid(facts, np.array(k, float), np.full(g, m, float), np.full(g, d, float))


def star() -> Grid:
    """The paper's 5-bus star: machines at 1 … 4, bus 5 in the middle."""
    edges = [(0, 4), (1, 4), (2, 4), (3, 4)]
    return make_grid(
        edges, [4, 10, 16, 10], range(4), m=10, d=5, rate=20, gain=0.04, loads=np.full(5, 0.1)
    )


def ieee30_like(omega_b: float) -> Grid:
    """The topology and the machines of IEEE-30, with drawn weights and loads of its size."""
    rng = np.random.default_rng(30)
    edges = np.array([edge.split("-") for edge in IEEE30_EDGES.split()], dtype=int) - 1
    k = np.exp(rng.uniform(np.log(1.68), np.log(45.24), len(edges)))
    loads = rng.uniform(0.02, 0.25, 30) * (rng.random(30) < 0.7)
    return make_grid(
        edges, k, [0, 1, 4, 7, 10, 12], m=10, d=5, rate=20, gain=0.04, loads=loads, omega_b=omega_b
    )


def random_grid(
    buses: int, machines: int, extra_edges: int, seed: int, omega_b: float = PAPER
) -> Grid:
    """A random spanning tree with some more edges, and machines at random buses."""
    rng = np.random.default_rng(seed)
    tree = {(int(rng.integers(bus)), bus) for bus in range(1, buses)}
    extra = {
        tuple(sorted(map(int, rng.choice(buses, 2, replace=False)))) for _ in range(extra_edges)
    }
    edges = sorted(tree | extra)
    g = min(machines, buses)
    return make_grid(
        edges,
        np.exp(rng.uniform(np.log(0.5), np.log(50), len(edges))),
        rng.permutation(buses)[:g],
        m=rng.uniform(1, 40, g),
        d=rng.uniform(1, 40, g),
        rate=rng.uniform(0.1, 20, g),
        gain=rng.uniform(0, 30, g),
        loads=rng.uniform(0, 1, buses),
        omega_b=omega_b,
    )


def grids(omega_b: float = PAPER) -> st.SearchStrategy[Grid]:
    sizes = {
        "buses": st.integers(2, 15),
        "machines": st.integers(1, 6),
        "extra_edges": st.integers(0, 10),
    }
    return st.builds(random_grid, **sizes, seed=st.integers(0, 2**32 - 1), omega_b=st.just(omega_b))


class Descriptor:
    """mass · ẏ = J y + b with y = (ω of machines, δ of all buses, p of machines), written row by
    row.

    A bus without a machine obeys D ω = −(L δ) − ℓ with δ̇ = ω_b ω: a constraint where its D, hence
    its mass, is zero.
    """

    def __init__(self, grid: Grid) -> None:
        facts = grid.facts
        self.n, self.g, self.omega_b = len(facts.buses), len(grid.m), facts.omega_b
        self.machines = facts.machines
        L = np.zeros((self.n, self.n))
        for (i, j), weight in zip(facts.edges, grid.k, strict=True):
            L[i, i] += weight
            L[j, j] += weight
            L[i, j] -= weight
            L[j, i] -= weight
        size = self.n + 2 * self.g
        self.mass, self.J, self.from_load = (
            np.zeros(size),
            np.zeros((size, size)),
            np.zeros((size, self.n)),
        )
        for bus in facts.interior:
            row = self.g + bus
            self.mass[row] = facts.load_damping[bus] / facts.omega_b
            self.J[row, self.g : self.g + self.n] = -L[bus]
            self.from_load[row, bus] = -1.0
        for i, bus in enumerate(facts.machines):
            angle, power = self.g + bus, self.g + self.n + i
            self.mass[[i, angle, power]] = grid.m[i], 1.0, 1.0
            self.J[i, self.g : self.g + self.n] = -L[bus]
            self.J[i, i] = -grid.d[i] - facts.load_damping[bus]
            self.J[i, power] = 1.0
            self.from_load[i, bus] = -1.0
            self.J[angle, i] = facts.omega_b
            self.J[power, [i, power]] = -facts.governor_rate[i] * np.array(
                [facts.droop_gain[i], 1.0]
            )
        self.still = np.flatnonzero(self.mass == 0)
        self.moving = np.flatnonzero(self.mass)

    def settle(self, y: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Solve the constraints for the angles that have no equation of motion."""
        y = y.copy()
        constraint = self.J[self.still]
        y[self.still] = np.linalg.solve(
            constraint[:, self.still], -b[self.still] - constraint[:, self.moving] @ y[self.moving]
        )
        return y

    def rate(self, y: np.ndarray, b: np.ndarray) -> np.ndarray:
        """ẏ of what moves, zero elsewhere."""
        y_dot = np.zeros_like(y)
        y_dot[self.moving] = (self.J @ self.settle(y, b) + b)[self.moving] / self.mass[self.moving]
        return y_dot

    def split(self, ys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ω of the machines and δ of all buses."""
        return ys[:, : self.g], ys[:, self.g : self.g + self.n]


def integrate_dae(
    grid: Grid, loads: np.ndarray, dt: float, scheme: str
) -> tuple[np.ndarray, np.ndarray]:
    """Step a full model through loads (N + 1, n), each in force from its sample on; constraints
    hold at every stage.

    Returns ω of the machines (N + 1, g) and δ of all buses (N + 1, n).
    """
    dae = Descriptor(grid)
    forces = loads @ dae.from_load.T
    left, right = np.diag(dae.mass) - dt / 2 * dae.J, np.diag(dae.mass) + dt / 2 * dae.J
    left[dae.still], right[dae.still] = dae.J[dae.still], 0.0
    y, ys = np.zeros(len(dae.mass)), []
    for b in forces:
        y = dae.settle(y, b)
        ys.append(y)
        if scheme == "euler":
            y = y + dt * dae.rate(y, b)
        else:
            y = np.linalg.solve(left, right @ y + np.where(dae.mass > 0, dt * b, -b))
    return dae.split(np.array(ys))


def integrate_ode(grid: Grid, load: np.ndarray, times: np.ndarray) -> np.ndarray:
    """ω of the machines (times, g) after a step of load at time 0, by a Runge-Kutta method of order
    8 at a tight tolerance.
    """
    dae = Descriptor(grid)
    b = dae.from_load @ load
    found = solve_ivp(
        lambda _, y: dae.rate(y, b),
        (0, times[-1]),
        dae.settle(np.zeros(len(dae.mass)), b),
        method="DOP853",
        t_eval=times,
        rtol=1e-12,
        atol=1e-15,
    )
    return dae.split(found.y.T)[0]


def largest_euler_step(A: np.ndarray) -> float:
    """The dt at which the first |1 + dt λ| reaches 1; the free angle's λ = 0 aside."""
    eigenvalues = np.linalg.eigvals(A)
    return min(-2 * value.real / abs(value) ** 2 for value in eigenvalues if abs(value) > 1e-6)


Plain = Callable[[np.ndarray], LTI]


def plain_swing(reduced: ReducedModel, drive: np.ndarray, sense: np.ndarray) -> Plain:
    """The reduced model with states (ω, δ, p) as a function of θ = (k_r, m, d), entry by entry."""
    g, inputs = len(reduced.m), drive.shape[1]
    H = np.concatenate([sense, np.zeros((len(sense), 2 * g + inputs))], axis=1)

    def at(theta: np.ndarray) -> LTI:
        k, m, d = np.split(theta, [len(reduced.k_r), len(reduced.k_r) + g])
        F = np.zeros((3 * g + inputs, 3 * g + inputs), dtype=theta.dtype)
        for (i, j), weight in zip(reduced.edges, k, strict=True):
            F[i, [g + i, g + j]] += np.array([-weight, weight]) / m[i]
            F[j, [g + i, g + j]] += np.array([weight, -weight]) / m[j]
        for i in range(g):
            F[i, i] = -d[i] / m[i]
            F[i, 2 * g + i] = 1 / m[i]
            F[i, 3 * g :] = -drive[i] / m[i]
            F[g + i, i] = reduced.omega_b
            F[2 * g + i, [i, 2 * g + i]] = -reduced.governor_rate[i] * np.array(
                [reduced.droop_gain[i], 1.0]
            )
        return LTI(F, H, 3 * g)

    return at


def transition(F: np.ndarray, dt: float, scheme: str) -> np.ndarray:
    eye = np.eye(len(F))
    if scheme == "exact":
        return expm(dt * F)
    return (
        np.linalg.solve(eye - dt / 2 * F, eye + dt / 2 * F)
        if scheme == "trapezoidal"
        else eye + dt * F
    )


def transition_slope(F: np.ndarray, dF: np.ndarray, dt: float, scheme: str) -> np.ndarray:
    """dE for a change dF of F; the matrix exponential's is a block of the exponential of [[F, dF],
    [0, F]].
    """
    n, eye = len(F), np.eye(len(F))
    if scheme == "exact":
        return expm(dt * np.block([[F, dF], [np.zeros((n, n)), F]]))[:n, n:]
    if scheme == "trapezoidal":
        return np.linalg.solve(eye - dt / 2 * F, dt / 2 * dF @ (eye + transition(F, dt, scheme)))
    return dt * dF


def forward_sensitivities(
    plain: Plain, theta: np.ndarray, records: Sequence[SampledRecord], dt: float, scheme: str
) -> tuple[float, np.ndarray]:
    """J and dJ/dθ by a time loop: z_{n+1} = E z_n beside s_{n+1} = E s_n + dE z_n for each
    parameter.
    """
    model = plain(theta)
    nudged = [plain(theta + 1e-30j * unit) for unit in np.eye(len(theta))]
    E = transition(model.F, dt, scheme)
    dE = np.array([transition_slope(model.F, moved.F.imag / 1e-30, dt, scheme) for moved in nudged])
    dH = np.array([moved.H.imag / 1e-30 for moved in nudged])
    J, gradient = 0.0, np.zeros(len(theta))
    for record in records:
        z, s = np.zeros(len(E)), np.zeros((len(theta), len(E)))
        for n, (seen, weight) in enumerate(zip(record.observed, record.weights, strict=True)):
            for sample, column in record.steps:
                z[model.states + column] += sample == n
            residual = np.where(np.isnan(seen), 0.0, model.H @ z - seen)
            J += weight @ residual**2
            gradient += (s @ model.H.T + dH @ z) @ (2 * weight * residual)
            z, s = E @ z, s @ E.T + dE @ z
    return J, gradient
