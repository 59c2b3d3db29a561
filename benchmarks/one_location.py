"""How far a public record of one location narrows single machines: draws from the posterior itself.

The truth is a table drawn from the public bounds (log-uniform), or IEEE-30 itself. The record is ω
of one bus after +20 % load, 30 s at 50 Hz, white noise of 1e-4 p.u.; the attacker knows topology,
loads, governors, bounds, the event and σ.

Particles go from the bounds to the posterior by sequential Monte Carlo: the likelihood is raised to
powers from 0 to 1, and after each raise the particles are resampled and moved. If the draws are
right, the truth's rank among them is uniform, and the mean errs as much as the draws spread: the
last line shows both. It knows the truth of what it attacks: a demo.

It needs JAX, which gridveil does not, and a GPU: two minutes a table there. Where gridveil is not
installed, --save CASE.npz on a machine where it is, then --case CASE.npz.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
import numpy as np

jax.config.update("jax_enable_x64", True)

SIGMA, DT_S, SAMPLES, SHARE = 1e-4, 0.02, 1501, 0.2
BOUNDS = {"k": (1.0, 100.0), "m": (1.0, 40.0), "d": (1.0, 40.0)}
PRIOR = np.log(40) / np.sqrt(12)  # deviation of log m and log d
# The least effective share of particles that a raise may leave, moves after each raise, and moves
# at the end.
KEPT, MOVES, LAST_MOVES = 0.7, 8, 25
# Leaps of a move, rounds that bring each back to the surface, and how near to it they must come, in
# σ.
LEAPS, ROUNDS, CLOSE = 3, 12, 1e-4
# Dimensions in which answers are compared: they hold those of 2000 other tables to 0.06 σ, and 99 %
# of them to 5e-5 σ.
DIMENSIONS, EXAMPLES = 128, 4000
# Samples come as powers of the step's matrix below this, times powers of its power by this.
BLOCK = 39


class Case(NamedTuple):
    """A grid: edges (e, 2) and machines (g,) by bus positions, step of load (n,) [p.u.], governors,
    ω_b [rad/s], k, m, d.
    """

    edges: Any
    machines: Any
    step: Any
    governor_rate: Any
    droop_gain: Any
    omega_b: Any
    k: Any
    m: Any
    d: Any


def main() -> None:
    """Print a line a table, then all of them together."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--bus", type=int, default=1, help="whose ω is public (default 1, which has a machine)"
    )
    parser.add_argument("--tables", type=int, default=4, help="drawn from the bounds")
    parser.add_argument("--own", action="store_true", help="IEEE-30 itself, too")
    parser.add_argument("--particles", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--limit-s", type=float, default=np.inf, help="begin no table after so many seconds"
    )
    parser.add_argument(
        "--save", type=Path, help="write the case for a machine without gridveil, and end"
    )
    parser.add_argument("--case", type=Path, help="what --save wrote")
    parser.add_argument("--json", type=Path, help="write what was found")
    parser.add_argument(
        "--read", type=Path, nargs="+", help="only put together what earlier runs wrote"
    )
    asked = parser.parse_args()
    if asked.read:
        print(summary([one for path in asked.read for one in json.loads(path.read_text())]))
        return
    case = Case(**np.load(asked.case)) if asked.case else ieee30()
    if asked.save:
        np.savez(asked.save, **case._asdict())
        return
    started, found = time.perf_counter(), []
    random = np.random.default_rng(asked.seed)
    for number in range(0 if asked.own else 1, asked.tables + 1):
        truth = (
            random.uniform(*ends(case))
            if number
            else np.log(np.concatenate([case.k, case.m, case.d]))
        )
        noise = random.normal(0, SIGMA, SAMPLES)
        begun = time.perf_counter()
        if begun - started > asked.limit_s:
            break
        y, search = posterior(
            case, asked.bus - 1, truth, noise, asked.particles, seed=1000 * asked.seed + number
        )
        name = f"table {number} of seed {asked.seed}" if number else "IEEE-30"
        seconds = time.perf_counter() - begun
        found.append(
            {
                "table": name,
                "bus": asked.bus,
                **narrowed(case, y, truth),
                **search,
                "seconds": seconds,
            }
        )
        print(line(found[-1]), flush=True)
        if asked.json:
            asked.json.write_text(json.dumps(found))
    print(summary(found))


def posterior(
    case: Case, bus: int, truth: Any, noise: Any, particles: int, seed: int
) -> tuple[Any, dict[str, Any]]:
    """Draws of (log k, log m, log d) (particles, e + 2g), and how the search went."""
    answer = Answer(case, bus)
    measured = answer.by_logs(truth) + answer.basis @ noise
    move = jax.jit(mover(answer, measured))
    random, key = np.random.default_rng(seed), jax.random.key(seed)
    z = jnp.asarray(random.normal(size=(particles, len(truth))))
    at = jax.jit(answer.with_slopes)(z)
    power, size, accepted, raises = 0.0, 0.5, 0.0, 0
    spreads: list[list[float]] = []

    def moved(count: int) -> None:
        nonlocal z, at, key, size, accepted
        for _ in range(count):
            key, now = jax.random.split(key)
            z, at, taken = move(z, at, SIGMA / np.sqrt(power), size, now)
            accepted = float(taken)
            size = float(np.clip(size * np.exp(0.4 * (accepted - 0.6)), 1e-3, 1.0))

    while power < 1:
        fit = -0.5 * np.sum(((np.asarray(at[0]) - np.asarray(measured)) / SIGMA) ** 2, axis=1)
        power, weight = raised(fit, power)
        chosen = systematic(weight, random)
        z, at = z[chosen], tuple(part[chosen] for part in at)
        moved(MOVES)
        raises += 1
        if raises % 5 == 0:
            words = (
                f"  {time.strftime('%X')} power {power:.1e}, {100 * accepted:.0f} % accepted "
                f"in leaps of {size:.2f}"
            )
            print(words, file=sys.stderr, flush=True)
    for _ in range(5):
        moved(LAST_MOVES // 5)
        m_d = np.asarray(answer.logs(z))[:, len(case.edges) :]
        spreads.append(np.sqrt(m_d.var(axis=0).reshape(2, -1).mean(axis=1)).tolist())
    search = {"raises": raises, "accepted": accepted, "leap": size, "spreads_at_the_end": spreads}
    return np.asarray(answer.logs(z)), search


def raised(fit: Any, power: float) -> tuple[float, Any]:
    """The next power of the likelihood, at which so many particles as KEPT says still count, and
    their weights.
    """

    def weights(step: float) -> Any:
        w = np.exp(step * (fit - fit.max()))
        return w / w.sum()

    def enough(step: float) -> bool:
        return 1 / np.sum(weights(step) ** 2) >= KEPT * len(fit)

    if enough(1 - power):
        return 1.0, weights(1 - power)
    low, high = 0.0, 1 - power
    while low == 0 or high / low > 1.001:
        middle = np.sqrt(low * high) if low else high / 10
        low, high = (middle, high) if enough(middle) else (low, middle)
    return power + low, weights(low)


def systematic(weight: Any, random: np.random.Generator) -> Any:
    """Choose particles by systematic resampling."""
    places = (np.arange(len(weight)) + random.random()) / len(weight)
    return np.minimum(np.searchsorted(np.cumsum(weight), places), len(weight) - 1)


def mover(answer: Answer, measured: Any) -> Any:
    """A move of every particle along the surface ω(z) + σ η = measured, on which z and η are
    independent normals.

    Constrained Hamiltonian Monte Carlo: its leaps need not shrink with σ, as those across the
    surface must. A leap that does not come back to the surface, or from which the way back leads
    elsewhere, is refused.
    """

    def move(z: Any, at: Any, sigma: Any, size: Any, key: Any) -> tuple[Any, Any, Any]:
        normal, uniform = jax.random.split(key)
        eta = (measured - at[0]) / sigma
        push = jax.random.normal(normal, (len(z), z.shape[1] + eta.shape[1]))
        root = factor(at[1], sigma)
        p = tangent((push[:, : z.shape[1]], push[:, z.shape[1] :]), at[1], root, sigma)
        begun = energy(z, eta, p, root, sigma)
        place, fine = (z, eta, at, root), jnp.ones(len(z), dtype=bool)
        for _ in range(LEAPS):
            place, p, reached = leap(place, p, sigma, size)
            fine &= reached
        there, eta_there, at_there, root_there = place
        gain = begun - energy(there, eta_there, p, root_there, sigma)
        taken = fine & (
            jnp.log(jax.random.uniform(uniform, gain.shape))
            < jnp.where(jnp.isfinite(gain), gain, -jnp.inf)
        )

        def keep(new: Any, old: Any) -> Any:
            return jnp.where(taken.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        return (
            keep(there, z),
            tuple(keep(a, b) for a, b in zip(at_there, at, strict=True)),
            taken.mean(),
        )

    def leap(place: Any, p: Any, sigma: Any, size: Any) -> tuple[Any, Any, Any]:
        z, eta, at, root = place
        p = tangent((p[0] - 0.5 * size * z, p[1] - 0.5 * size * eta), at[1], root, sigma)
        there, fine = back_to_surface(z + size * p[0], eta + size * p[1], at[1], root, sigma)
        at_there = answer.with_slopes(there)
        root_there = factor(at_there[1], sigma)
        eta_there = (measured - at_there[0]) / sigma
        p = tangent(((there - z) / size, (eta_there - eta) / size), at_there[1], root_there, sigma)
        back, found = back_to_surface(
            there - size * p[0], eta_there - size * p[1], at_there[1], root_there, sigma
        )
        fine &= found & (jnp.max(jnp.abs(back - z), axis=1) < 10 * CLOSE)
        p = tangent(
            (p[0] - 0.5 * size * there, p[1] - 0.5 * size * eta_there),
            at_there[1],
            root_there,
            sigma,
        )
        return (there, eta_there, at_there, root_there), p, fine

    def back_to_surface(z: Any, eta: Any, J: Any, root: Any, sigma: Any) -> tuple[Any, Any]:
        """Go along the normals at the leap's start until the surface: z there, and whether it was
        found.
        """

        def off(z: Any, eta: Any) -> Any:
            return answer.values(z) + sigma * eta - measured

        def nearer(_: int, now: Any) -> Any:
            across, rest = normal_part(off(*now), J, root, sigma)
            return now[0] - across, now[1] - rest

        z, eta = jax.lax.fori_loop(0, ROUNDS, nearer, (z, eta))
        return z, jnp.max(jnp.abs(off(z, eta)), axis=1) < CLOSE * sigma

    def factor(J: Any, sigma: Any) -> Any:
        return jnp.linalg.cholesky(
            jnp.einsum("nti,ntj->nij", J, J) + sigma**2 * jnp.eye(J.shape[2])
        )

    def normal_part(off: Any, J: Any, root: Any, sigma: Any) -> tuple[Any, Any]:
        """Aᵀ (A Aᵀ)⁻¹ off with A = (J, σ), by way of the smaller JᵀJ + σ²."""
        across = jnp.einsum("nti,nt->ni", J, off)[..., None]
        for trans in (0, 1):
            across = jax.scipy.linalg.solve_triangular(root, across, lower=True, trans=trans)
        across = across[..., 0]
        return across, (off - jnp.einsum("nti,ni->nt", J, across)) / sigma

    def tangent(p: Any, J: Any, root: Any, sigma: Any) -> tuple[Any, Any]:
        across, rest = normal_part(jnp.einsum("nti,ni->nt", J, p[0]) + sigma * p[1], J, root, sigma)
        return p[0] - across, p[1] - rest

    def energy(z: Any, eta: Any, p: Any, root: Any, sigma: Any) -> Any:
        """With ½ log |A Aᵀ|, by which the normals' density on the surface is divided."""
        squares = sum(jnp.sum(part**2, axis=1) for part in (z, eta, *p))
        volume = jnp.sum(jnp.log(jnp.diagonal(root, axis1=1, axis2=2) / sigma), axis=1)
        return 0.5 * squares + volume

    return move


class Answer:
    """ω of a bus [p.u.] in an orthonormal basis (DIMENSIONS, samples), by normals z (N, e + 2g) or
    by logarithms (e + 2g,).
    """

    def __init__(self, case: Case, bus: int) -> None:
        self.case, self.reduce, self.ends = (
            case,
            reduction(case, bus),
            tuple(map(jnp.asarray, ends(case))),
        )
        examples = np.random.default_rng(0).uniform(*ends(case), (EXAMPLES, len(self.ends[0])))
        seen = jax.jit(jax.vmap(lambda y: self.omega(self.reduce(y))))(jnp.asarray(examples))
        self.basis = jnp.asarray(
            np.linalg.svd(np.asarray(seen), full_matrices=False)[2][:DIMENSIONS]
        )
        self.values = jax.vmap(lambda z: self.by_logs(self.logs(z)))
        self.with_slopes = jax.vmap(self._with_slopes)

    def logs(self, z: Any) -> Any:
        """(log k, log m, log d), uniform between the bounds."""
        lower, upper = self.ends
        return lower + (upper - lower) * jax.scipy.stats.norm.cdf(z)

    def by_logs(self, y: Any) -> Any:
        """The answer of one table."""
        return self.basis @ self.omega(self.reduce(jnp.asarray(y)))

    def _with_slopes(self, z: Any) -> tuple[Any, Any]:
        """The answer and its slopes by z, by way of the fewer parameters of the reduced model."""

        def reduced(z: Any) -> Any:
            return self.reduce(self.logs(z))

        def answer(theta: Any) -> Any:
            return self.basis @ self.omega(theta)

        theta = reduced(z)
        return answer(theta), jax.jacfwd(answer)(theta) @ jax.jacfwd(reduced)(z)

    def omega(self, theta: Any) -> Any:
        """ω at every sample, by exact steps: c Φⁿ x₀, with the load as a state that stays 1."""
        g = len(self.case.machines)
        pairs = g * (g - 1) // 2
        k_r, (m, d, u, sensed) = theta[:pairs], theta[pairs:].reshape(4, g)
        i, j = np.triu_indices(g, 1)
        weights = jnp.zeros((g, g)).at[i, j].set(k_r).at[j, i].set(k_r)
        L = jnp.diag(weights.sum(axis=1)) - weights
        eye, zero, still = jnp.eye(g), jnp.zeros((g, g)), jnp.zeros((g, 1))
        rate, gain = (
            jnp.diag(self.case.governor_rate),
            jnp.diag(self.case.governor_rate * self.case.droop_gain),
        )
        F = jnp.block([
            [-jnp.diag(d) / m[:, None], -L / m[:, None], eye / m[:, None], -(u / m)[:, None]],
            [self.case.omega_b * eye, zero, zero, still],
            [-gain, zero, -rate, still],
            [jnp.zeros((1, 3 * g + 1))],
        ])  # fmt: skip
        step = exponential(F * DT_S)
        leap = jnp.linalg.matrix_power(step, BLOCK)
        start, sense = jnp.zeros(3 * g + 1).at[-1].set(1.0), jnp.zeros(3 * g + 1).at[:g].set(sensed)
        _, columns = jax.lax.scan(lambda x, _: (leap @ x, x), start, length=-(-SAMPLES // BLOCK))
        _, rows = jax.lax.scan(lambda c, _: (c @ step, c), sense, length=BLOCK)
        return (columns @ rows.T).ravel()[:SAMPLES]


def exponential(A: Any, halvings: int = 6, order: int = 10) -> Any:
    """e^A by a Taylor series of A / 2^halvings; within these bounds that has a norm below 1."""
    eye = jnp.eye(len(A))
    A, total = A / 2**halvings, eye
    for n in range(order, 0, -1):
        total = eye + A @ total / n
    for _ in range(halvings):
        total = total @ total
    return total


def reduction(case: Case, bus: int) -> Any:
    """From (log k, log m, log d) to (k_r, m, d, u, s) by Kron reduction; the bus has the frequency
    s · ω.
    """
    e, n, g = len(case.edges), len(case.step), len(case.machines)
    rest = np.setdiff1d(np.arange(n), case.machines)
    incidence = np.zeros((n, e))
    incidence[case.edges[:, 0], np.arange(e)], incidence[case.edges[:, 1], np.arange(e)] = 1.0, -1.0
    C_g, C_b = incidence[case.machines], incidence[rest]
    pairs, own = np.triu_indices(g, 1), np.flatnonzero(case.machines == bus)

    def reduce(y: Any) -> Any:
        k = jnp.exp(y[:e])
        L_gb = (C_g * k) @ C_b.T
        K_ac = -jnp.linalg.solve((C_b * k) @ C_b.T, L_gb.T).T
        L = (C_g * k) @ C_g.T + K_ac @ L_gb.T
        u = case.step[case.machines] + K_ac @ case.step[rest]
        s = jnp.zeros(g).at[own].set(1.0) if len(own) else K_ac[:, np.flatnonzero(rest == bus)[0]]
        return jnp.concatenate([-L[pairs], jnp.exp(y[e:]), u, s])

    return reduce


def ends(case: Case) -> tuple[Any, Any]:
    """Logarithms of the public bounds (e + 2g,)."""
    sizes = {"k": len(case.edges), "m": len(case.machines), "d": len(case.machines)}
    lower, upper = (
        np.log(np.concatenate([np.full(n, BOUNDS[name][end]) for name, n in sizes.items()]))
        for end in (0, 1)
    )
    return lower, upper


def ieee30() -> Case:
    """IEEE-30 as gridveil has it."""
    from gridveil.readers.cases import declared_public, open_grid

    table = declared_public(open_grid("ieee30"))
    facts = table.facts
    taken = {
        name: getattr(facts, name)
        for name in ("edges", "machines", "governor_rate", "droop_gain", "omega_b")
    }
    return Case(
        **taken,
        step=SHARE * facts.loads,
        k=table.values["k"],
        m=table.values["m"],
        d=table.values["d"],
    )


def narrowed(case: Case, y: Any, truth: Any) -> dict[str, Any]:
    """Means and deviations of log m and log d, where the truth ranks among the draws, and means and
    deviations of Σm and Σd.
    """
    e, g = len(case.edges), len(case.machines)
    sums = np.exp(y[:, e:]).reshape(len(y), 2, g).sum(axis=2)
    return {
        "truth": truth[e:].tolist(),
        "mean": y[:, e:].mean(axis=0).tolist(),
        "deviation": y[:, e:].std(axis=0).tolist(),
        "rank": (y[:, e:] < truth[e:]).mean(axis=0).tolist(),
        "k_rank": (y[:, :e] < truth[:e]).mean(axis=0).tolist(),
        "sums": dict(
            zip("md", np.stack([sums.mean(axis=0), sums.std(axis=0)], axis=1).tolist(), strict=True)
        ),
    }


def shares(found: Sequence[dict[str, Any]]) -> tuple[Any, Any, Any]:
    """Spread, error of the mean, and error of the bounds' middle, of log m and log d: (tables, 2,
    g), shares of the prior's.
    """
    spread, error, blind = (
        np.array([value(one) for one in found]).reshape(len(found), 2, -1) / PRIOR
        for value in (
            lambda one: one["deviation"],
            lambda one: np.subtract(one["mean"], one["truth"]),
            lambda one: np.subtract(np.log(40) / 2, one["truth"]),
        )
    )
    return spread, error, blind


def line(one: dict[str, Any]) -> str:
    """One table in words."""
    spread, error, blind = (rms(part, (0, 2)) for part in shares([one]))
    to = {name: 100 * deviation / mean for name, (mean, deviation) in one["sums"].items()}
    return (
        f"{one['table']}, bus {one['bus']}: of the prior's deviation, spread of m, d {spread}, "
        f"error of the mean {error}, of the middle {blind}; Σm to {to['m']:.1f} %, Σd to "
        f"{to['d']:.2f} %; {one['raises']} raises, {100 * one['accepted']:.0f} % accepted, "
        f"{one['seconds']:.0f} s; spread at the end "
        f"{np.round(one['spreads_at_the_end'], 3).tolist()}"
    )


def summary(found: Sequence[dict[str, Any]]) -> str:
    """All drawn tables together, machine by machine, and whether the draws are right."""
    found = [one for one in found if one["table"] != "IEEE-30"]
    if not found:
        return "No drawn tables."
    spread, error, blind = shares(found)
    ranks = {"m, d": "rank", "k": "k_rank"}
    counted = {
        name: np.histogram([one[key] for one in found], 8, (0, 1))[0].tolist()
        for name, key in ranks.items()
    }
    return (
        f"{len(found)} drawn tables, RMS of m, d: spread {rms(spread, (0, 2))}, error of the mean "
        f"{rms(error, (0, 2))}, of the middle {rms(blind, (0, 2))}; spread by machine "
        f"{rms(spread, 0)}; the truth's ranks by eighths {counted}"
    )


def rms(values: Any, axes: Any) -> Any:
    return np.sqrt(np.mean(np.square(values), axis=axes)).round(2).tolist()


if __name__ == "__main__":
    main()
