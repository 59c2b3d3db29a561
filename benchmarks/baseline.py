"""The yardstick: J and dJ/dθ of the swing model by a plain NumPy time loop with the discrete
adjoint.

Clear and vectorised over models, machines and edges, one Python step a time step; no gridveil code.
It stays as it is, so that figures can be compared over time.
"""

from __future__ import annotations

import numpy as np


def objective_and_gradient(theta, edges, rate, gain, omega_b, u, observed, dt):
    """Euler's method for M ω̇ = −L δ + p − D ω − u, δ̇ = ω_b ω, ṗ = −T (p + G ω), and its adjoint.

    theta : (batch, e + 2g) as (k_r, m, d).
    edges : (e, 2).
    rate, gain, u : (g,).
    observed : (N + 1, g). Returns J = dt Σ_n |ω_n − ω̂_n|² as (batch,), and dJ/dθ as (batch, e +
    2g).
    """
    batch, e, g = len(theta), len(edges), len(rate)
    k, m, d = theta[:, :e], theta[:, e : e + g], theta[:, e + g :]
    i, j = edges.T
    L = np.zeros((batch, g, g))
    L[:, i, j] = L[:, j, i] = -k
    L[:, range(g), range(g)] = -L.sum(axis=2)
    steps = len(observed) - 1

    omega = np.zeros((steps + 1, batch, g))
    delta = np.zeros((steps + 1, batch, g))
    power = np.zeros((steps + 1, batch, g))
    for n in range(steps):
        force = power[n] - (L @ delta[n][:, :, None])[:, :, 0] - d * omega[n] - u
        omega[n + 1] = omega[n] + dt * force / m
        delta[n + 1] = delta[n] + dt * omega_b * omega[n]
        power[n + 1] = power[n] - dt * rate * (power[n] + gain * omega[n])
    residual = omega - observed[:, None, :]
    J = dt * (residual**2).sum(axis=(0, 2))

    to_omega = np.zeros((steps + 1, batch, g))
    to_omega[steps] = 2 * dt * residual[steps]
    to_delta, to_power = np.zeros((batch, g)), np.zeros((batch, g))
    for n in range(steps - 1, -1, -1):
        pushed = to_omega[n + 1] / m
        to_omega[n] = (
            to_omega[n + 1]
            - dt * d * pushed
            + dt * omega_b * to_delta
            - dt * rate * gain * to_power
            + 2 * dt * residual[n]
        )
        to_delta = to_delta - dt * (L @ pushed[:, :, None])[:, :, 0]
        to_power = to_power + dt * pushed - dt * rate * to_power

    pushed = to_omega[1:] / m
    change = (omega[1:] - omega[:-1]) / dt
    gradient_k = -dt * (
        (pushed[..., i] - pushed[..., j]) * (delta[:-1][..., i] - delta[:-1][..., j])
    ).sum(axis=0)
    gradient_m = -dt * (pushed * change).sum(axis=0)
    gradient_d = -dt * (pushed * omega[:-1]).sum(axis=0)
    return J, np.concatenate([gradient_k, gradient_m, gradient_d], axis=1)
