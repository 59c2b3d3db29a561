# pyright: reportMissingImports=false
"""What `make bench` prints of peers: other ways to J and dJ/dθ of the paper's task by Euler.

Every row computes the same J of the same batch of models in the same run, rounds in turns, so that
a busy machine slows all of them; gradients are held against the plain NumPy loop's. Peers that are
not installed are named so (`pip install .[bench]`). Then the same fit by everybody's J and dJ/dθ:
some steps of SciPy's L-BFGS-B on log θ, from the same start. Markdown, or --json.

OpenBLAS takes the kernels that suit the processor, as peers do, and not those of OPENBLAS_CORETYPE,
which would hold NumPy alone to them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_info

from baseline import objective_and_gradient
from bench import clock, paper_task, spread

OPENBLAS = "libscipy_openblas"  # NumPy's
ROUNDS = 15
# Peers that take seconds a call get so many rounds; of others a round takes about so long.
SLOW_ROUNDS, SLOW_S, ROUND_S = 2, 2.0, 0.1
FIT_STEPS, FIT_ROUNDS = 20, 5
# What the ratios of medians must be at least, by number of models.
REQUIRED = {
    1: {"diffrax, recursive checkpoint": 150},
    100: {
        "diffrax, recursive checkpoint": 18,
        "JAX scan": 7,
        "torchdiffeq, adjoint": 500,
    },
}
Call = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Work:
    """What everybody computes: see `baseline.objective_and_gradient`, all but θ."""

    edges: np.ndarray
    rate: np.ndarray
    gain: np.ndarray
    omega_b: float
    u: np.ndarray
    observed: np.ndarray
    dt: float

    @property
    def steps(self) -> int:
        """Steps of Euler's method."""
        return len(self.observed) - 1


def baseline(work: Work) -> Call:
    """The plain NumPy time loop with its discrete adjoint."""
    return lambda theta: objective_and_gradient(theta, *vars(work).values())


def by_scipy(work: Work) -> Call:
    """`scipy.signal.dlsim` for J, and a difference quotient for each parameter."""
    from scipy.optimize import approx_fprime
    from scipy.signal import dlsim

    g = len(work.rate)

    def J(theta: np.ndarray) -> float:
        A, B = generator(np, theta, work)
        system = (
            np.eye(3 * g) + work.dt * A,
            work.dt * B[:, None],
            np.eye(g, 3 * g),
            np.zeros((g, 1)),
            work.dt,
        )
        omega = dlsim(system, np.ones(work.steps + 1))[1]
        return work.dt * float(((omega - work.observed) ** 2).sum())

    def call(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slopes = [approx_fprime(row, J, 1e-6 * row) for row in theta]
        return np.array([J(row) for row in theta]), np.array(slopes)

    return call


def generator(xp, theta, work: Work):
    """A and B of x' = A x + B with x = (ω, δ, p), of one model."""
    e, g = len(work.edges), len(work.rate)
    C = np.zeros((g, e))
    C[work.edges[:, 0], range(e)], C[work.edges[:, 1], range(e)] = 1.0, -1.0
    k, m, d = theta[:e], theta[e : e + g], theta[e + g :]
    L = (C * k) @ C.T
    eye, zero = np.eye(g), np.zeros((g, g))
    A = xp.concatenate(
        [
            xp.concatenate([-eye * (d / m), -L / m[:, None], eye / m[:, None]], axis=1),
            np.concatenate([work.omega_b * eye, zero, zero], axis=1),
            np.concatenate([-np.diag(work.rate * work.gain), zero, -np.diag(work.rate)], axis=1),
        ]
    )
    return A, xp.concatenate([-work.u / m, np.zeros(2 * g)])


def by_jax(work: Work, unroll: int) -> Call:
    """`jax.lax.scan` over the steps, reverse mode through it, vmapped and compiled."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    g, observed = len(work.rate), jnp.asarray(work.observed)

    def J(theta):
        A, B = generator(jnp, theta, work)

        def step(x, seen):
            return x + work.dt * (A @ x + B), jnp.sum((x[:g] - seen) ** 2)

        return work.dt * jnp.sum(jax.lax.scan(step, jnp.zeros(3 * g), observed, unroll=unroll)[1])

    return _of_jax(J)


def by_diffrax(work: Work) -> Call:
    """By Euler of diffrax with its default for reverse mode, recursive checkpointing."""
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    g, observed = len(work.rate), jnp.asarray(work.observed)

    def J(theta):
        A, B = generator(jnp, theta, work)
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda _t, x, _args: A @ x + B),
            diffrax.Euler(),
            0.0,
            work.steps * work.dt,
            None,
            jnp.zeros(3 * g),
            saveat=diffrax.SaveAt(t0=True, steps=True, fn=lambda _t, x, _args: x[:g]),
            stepsize_controller=diffrax.StepTo(jnp.arange(work.steps + 1) * work.dt),
            adjoint=diffrax.RecursiveCheckpointAdjoint(),
            max_steps=work.steps,
        )
        assert solution.ys is not None
        return work.dt * jnp.sum((solution.ys - observed) ** 2)

    return _of_jax(J)


def _of_jax(J) -> Call:
    import jax

    both = jax.jit(jax.vmap(jax.value_and_grad(J)))

    def call(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = jax.block_until_ready(both(theta))
        return np.asarray(value), np.asarray(slope)

    return call


def by_torchdiffeq(work: Work) -> Call:
    """By `odeint_adjoint` of torchdiffeq, Euler forwards and backwards, all models one state."""
    import torch
    from torchdiffeq import odeint_adjoint

    torch.set_default_dtype(torch.float64)
    e, g = len(work.edges), len(work.rate)
    i, j = torch.tensor(work.edges.T)
    rate, gain, u = (torch.tensor(part) for part in (work.rate, work.gain, work.u))
    observed = torch.tensor(work.observed)
    time_s = torch.arange(work.steps + 1) * work.dt

    class Swing(torch.nn.Module):
        def __init__(self, theta: np.ndarray) -> None:
            super().__init__()
            self.theta = torch.nn.Parameter(torch.as_tensor(theta))

        def forward(self, _time_s, x):
            omega, delta, power = x
            k, m, d = torch.split(self.theta, [e, g, g], dim=-1)
            flow = k * (delta[:, i] - delta[:, j])
            out = torch.zeros_like(delta).index_add(1, i, flow).index_add(1, j, -flow)
            return (
                (power - out - d * omega - u) / m,
                work.omega_b * omega,
                -rate * (power + gain * omega),
            )

    def call(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        model = Swing(theta)
        start = tuple(torch.zeros((len(theta), g)) for _ in range(3))
        omega = odeint_adjoint(model, start, time_s, method="euler")[0]
        J = work.dt * ((omega - observed[:, None]) ** 2).sum(dim=(0, 2))
        J.sum().backward()
        assert model.theta.grad is not None
        return J.detach().numpy(), model.theta.grad.numpy()

    return call


# Name, packages, how to make it, and the largest batch that it is tried at.
PEERS: tuple[tuple[str, tuple[str, ...], Callable[[Work], Call], int], ...] = (
    ("NumPy loop (baseline.py)", (), baseline, 100),
    ("JAX scan", ("jax",), lambda work: by_jax(work, 1), 100),
    ("JAX scan, 8 steps unrolled", ("jax",), lambda work: by_jax(work, 8), 100),
    ("diffrax, recursive checkpoint", ("jax", "diffrax"), by_diffrax, 100),
    ("torchdiffeq, adjoint", ("torch", "torchdiffeq"), by_torchdiffeq, 100),
    ("SciPy dlsim, differences", (), by_scipy, 1),
)


def everybody(models: int) -> tuple[dict[str, Call], list[str], tuple, np.ndarray]:
    """What gives J and dJ/dθ of a batch, who is not installed, the baseline's task, and θ."""
    problem, plain, theta = paper_task(models)
    work = Work(*plain[1:])

    def ours(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        J, slope = problem(theta if models > 1 else theta[0])
        return np.atleast_1d(J), np.atleast_2d(slope)

    calls: dict[str, Call] = {"gridveil": ours}
    missing = []
    for name, packages, make, most in PEERS:
        if not all(find_spec(package) for package in packages):
            missing.append(name)
        elif models <= most:
            calls[name] = make(work)
    return calls, missing, plain, theta


def fits() -> list[dict]:
    """Time the same fit of one model by everybody, after a first call: the least of some rounds."""
    calls, _, _, theta = everybody(1)
    rows = []
    for name, call in calls.items():
        scale = call(theta)[0][0]

        def both(x: np.ndarray, call=call, scale=scale) -> tuple[float, np.ndarray]:
            J, slope = call(np.exp(x)[None])
            return J[0] / scale, slope[0] * np.exp(x) / scale

        seconds, found = inf, None
        for _ in range(FIT_ROUNDS):
            start = time.perf_counter()
            found = minimize(
                both, np.log(theta[0]), jac=True, method="L-BFGS-B", options={"maxiter": FIT_STEPS}
            )
            seconds = min(seconds, time.perf_counter() - start)
            if seconds > SLOW_S:
                break
        assert found is not None
        rows.append({"name": name, "s": seconds, "gradients": found.nfev, "J_left": found.fun})
    for row in rows:
        row["times_gridveil"] = row["s"] / rows[0]["s"]
    return rows


def fit_table(rows: list[dict]) -> str:
    """The same fit by everybody, in Markdown."""
    lines = [
        f"The same fit of one model, {FIT_STEPS} steps of L-BFGS-B:",
        "",
        "| | s | times gridveil's | gradients | share of J left |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['name']} | {row['s']:.3g} | {row['times_gridveil']:.3g} | "
            f"{row['gradients']} | {row['J_left']:.3g} |"
        )
    return "\n".join(lines)


def compare(models: int) -> dict:
    """Time everybody at a batch, in turns."""
    calls, missing, plain, theta = everybody(models)
    expected = objective_and_gradient(*plain)
    rows = {}
    for name, call in calls.items():
        first = clock(lambda call=call: call(theta))
        J, slope = call(theta)
        rows[name] = {
            "name": name,
            "first_call_s": first,
            "J_off": _off(J, expected[0]),
            "gradient_off": _off(slope, expected[1]),
            "ms": [],
            "cpu_ms": [],
        }
    repeats = {
        name: min(100, max(1, round(ROUND_S / clock(lambda c=call: c(theta)))))
        for name, call in calls.items()
    }
    for number in range(ROUNDS):
        for name, call in calls.items():
            if number < SLOW_ROUNDS or np.median(rows[name]["ms"]) < 1e3 * SLOW_S:
                own = repeats[name]
                cpu = time.process_time()
                seconds = clock(lambda c=call, r=own: [c(theta) for _ in range(r)])
                rows[name]["ms"].append(1e3 * seconds / own)
                rows[name]["cpu_ms"].append(1e3 * (time.process_time() - cpu) / own)
    first = rows["gridveil"]
    for name, row in rows.items():
        row["times_gridveil"] = float(np.median(row["ms"]) / np.median(first["ms"]))
        row["times_at_best"] = min(row["ms"]) / min(first["ms"])
        row["times_cpu"] = float(np.median(row["cpu_ms"]) / np.median(first["cpu_ms"]))
        row["required"] = REQUIRED.get(models, {}).get(name)
    return {"models": models, "rows": list(rows.values()), "not_installed": missing}


def table(found: dict) -> str:
    """One batch's rows in Markdown."""
    lines = [
        f"{found['models']} model(s), median [quartiles] of rounds taken in turns:",
        "",
        "| | ms | least ms | times gridveil's: median | least | CPU time | must be | gradient "
        "differs by | first call, s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        must = f"≥ {row['required']}" if row["required"] else ""
        lines.append(
            f"| {row['name']} | {spread(row['ms'])} | {min(row['ms']):.3g} | "
            f"{row['times_gridveil']:.3g} | {row['times_at_best']:.3g} | {row['times_cpu']:.3g} | "
            f"{must} | {row['gradient_off']:.1e} | {row['first_call_s']:.2g} |"
        )
    lines += [f"\nNot installed: {name}." for name in found["not_installed"]]
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--models", type=int, nargs="+", default=[1, 100], help="batches to time")
    given = parser.parse_args()
    if os.environ.pop("OPENBLAS_CORETYPE", None):  # which OpenBLAS read when NumPy was imported
        os.execv(sys.executable, [sys.executable, *sys.argv])
    kernels = [own["architecture"] for own in threadpool_info() if own["prefix"] == OPENBLAS]
    results = [compare(models) for models in given.models]
    if given.json:
        found = {"cores": os.cpu_count(), "kernels": kernels, "batches": results, "fits": fits()}
        print(json.dumps(found, indent=2))
        return
    print("Objective and gradient, IEEE-30 (18 states, 27 parameters), 3000 Euler steps.")
    print(f"OpenBLAS's kernels: {', '.join(kernels) or 'none found'}.")
    for found in results:
        print(f"\n{table(found)}")
    print(f"\n{fit_table(fits())}")


def _off(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


if __name__ == "__main__":
    main()
