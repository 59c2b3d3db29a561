"""Algorithm 1 of the paper in plain steps, written from its equations: the reference of the batched
one. No gridveil code.
"""

import numpy as np


def reduced(edges, k, machines, buses):
    """Eliminate the other buses one at a time: L_ab − L_ai L_ib / L_ii. Returns k_r (12, 13, …) and
    K_ac.
    """
    L = np.zeros((buses, buses))
    for (i, j), weight in zip(edges, k, strict=True):
        L[i, i] += weight
        L[j, j] += weight
        L[i, j] -= weight
        L[j, i] -= weight
    inner = [bus for bus in range(buses) if bus not in machines]
    K_ac = -L[np.ix_(machines, inner)] @ np.linalg.inv(L[np.ix_(inner, inner)])
    left = list(range(buses))
    for bus in inner:
        rest = [other for other in left if other != bus]
        L[np.ix_(rest, rest)] -= np.outer(L[rest, bus], L[bus, rest]) / L[bus, bus]
        left = rest
    return np.array([-L[a, b] for n, a in enumerate(machines) for b in machines[n + 1 :]]), K_ac


def euler(k_r, m, d, T, G, u, dt, steps):
    """ω, δ, p of M ω' = −L δ + p − D ω − u, δ' = ω, p' = −T (p + G ω), from rest."""
    g = len(m)
    omega, delta, power = (np.zeros((steps + 1, g)) for _ in range(3))
    for n in range(steps):
        flow = np.zeros(g)
        for weight, (i, j) in zip(k_r, pairs(g), strict=True):
            flow[i] += weight * (delta[n, i] - delta[n, j])
            flow[j] -= weight * (delta[n, i] - delta[n, j])
        omega[n + 1] = omega[n] + dt * (power[n] - flow - d * omega[n] - u) / m
        delta[n + 1] = delta[n] + dt * omega[n]
        power[n + 1] = power[n] - dt * T * (power[n] + G * omega[n])
    return omega, delta, power


def gradient(k_r, m, d, T, G, u, observed, dt):
    """J = dt Σ |ω − ω̂|² and its gradient by the adjoint of the recursion above."""
    g, steps = len(m), len(observed) - 1
    omega, delta, _ = euler(k_r, m, d, T, G, u, dt, steps)
    miss = omega - observed
    to_k, to_m, to_d = np.zeros(len(k_r)), np.zeros(g), np.zeros(g)
    to_omega, to_delta, to_power = 2 * dt * miss[steps], np.zeros(g), np.zeros(g)
    for n in range(steps - 1, -1, -1):
        push = dt * to_omega / m
        to_m -= push * (omega[n + 1] - omega[n]) / dt
        to_d -= push * omega[n]
        back = np.zeros(g)
        for e, (i, j) in enumerate(pairs(g)):
            to_k[e] -= (push[i] - push[j]) * (delta[n, i] - delta[n, j])
            back[i] -= k_r[e] * (push[i] - push[j])
            back[j] += k_r[e] * (push[i] - push[j])
        to_omega = to_omega - push * d + dt * to_delta - dt * T * G * to_power + 2 * dt * miss[n]
        to_delta = to_delta + back
        to_power = to_power + push - dt * T * to_power
    return dt * (miss**2).sum(), to_k, to_m, to_d


def descend(k_r, m, d, T, G, u, observed, dt, iterations, eta=100.0, k_box=(1, 100), box=(1, 40)):
    """Take the projected steps of Algorithm 1, step 3. Returns k_r, m, d and J before each step."""
    history = []
    for _ in range(iterations):
        J, to_k, to_m, to_d = gradient(k_r, m, d, T, G, u, observed, dt)
        history.append(J)
        k_r = np.clip(k_r - eta * to_k, *k_box)
        m = np.clip(m - eta * to_m, *box)
        d = np.clip(d - eta * to_d, *box)
    return k_r, m, d, history


def pairs(g):
    return [(i, j) for i in range(g) for j in range(i + 1, g)]
