"""Two ways down: the paper's projected gradient steps, and a quasi-Newton method that converges."""

from __future__ import annotations

import numpy as np

from gridveil.foundation.progress import report
from gridveil.grid.facts import Array
from gridveil.inference.fit.problem import Problem


def report_step(done: int, total: int, J: float) -> None:
    """Report an iteration of a fit, how many there may be, and J [p.u.² s]."""
    report(f"fitting, J = {J:.3e} p.u.² s", done, total)


def projected_gradient(
    problem: Problem,
    start: Array,
    *,
    step: float,
    iterations: int,
) -> tuple[Array, Array]:
    """Take θ ← P[θ − η dJ/dθ] a fixed number of times: Algorithm 1, step 3, to the letter.

    start : (p,) or (batch, p), not projected: only what the steps lead to is.
    Returns θ of the same shape, and J before the first and after each step: (iterations + 1, ...).
    """
    theta = start
    history = []
    for iteration in range(iterations):
        J, gradient = problem(theta)
        history.append(J)
        theta = np.clip(theta - step * gradient, problem.lower, problem.upper)
        report_step(iteration + 1, iterations, float(np.mean(J)))
    history.append(problem(theta)[0])
    return theta, np.array(history)


def quasi_newton(problem: Problem, start: Array, *, iterations: int) -> tuple[Array, Array, bool]:
    """Minimise by L-BFGS-B over the box, in parameters scaled by their start.

    Returns θ (p,), J of each iteration, and whether it converged.
    """
    from scipy.optimize import minimize

    inside = np.clip(start, problem.lower, problem.upper)
    scale = np.maximum(inside, 1e-2 * (problem.upper - problem.lower))
    first = float(problem(inside)[0])
    unit = first if first > 0 else 1.0
    history = [first]
    last: dict[str, float] = {"J": first}

    def scaled(phi: Array) -> tuple[float, Array]:
        J, gradient = problem(phi * scale)
        last["J"] = float(J)
        return float(J) / unit, gradient * scale / unit

    def note(_: Array) -> None:
        history.append(last["J"])
        report_step(len(history) - 1, iterations, last["J"])

    minimum = minimize(
        scaled,
        inside / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(problem.lower / scale, problem.upper / scale, strict=True)),
        callback=note,
        options={
            "maxiter": iterations,
            "maxfun": 4 * iterations,
            "maxcor": 30,
            "ftol": 1e-14,
            "gtol": 1e-7,
        },
    )
    theta = np.clip(minimum.x * scale, problem.lower, problem.upper)
    return theta, np.array(history), bool(minimum.success)
