"""AC power flow by Newton's method: the operating point inside the line weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, IntArray

Complex = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class Network:
    """A network in p.u. for a power flow.

    ends : (l, 2) bus positions.
    series : (l,) r + jx.
    charging : (l,) b.
    ratio : (l,) complex tap t e^{jφ} at the first end;
    shunt : (n,) g + jb.
    injection : (n,) scheduled generation less load.
    slack : positions whose angle is held (one, as a rule).
    controlled : positions whose |V| is held at voltage.
    """

    ends: IntArray
    series: Complex
    charging: Array
    ratio: Complex
    shunt: Complex
    injection: Complex
    slack: IntArray
    controlled: IntArray


# a step may lead to infinity: reported below, as one that does not converge
@np.errstate(all="ignore")
def newton(
    network: Network,
    voltage: Array,
    angle: Array,
    *,
    tolerance: float = 1e-10,
    limit: int = 30,
    file: str = "",
) -> tuple[Array, Array]:
    """Solve V conj(Y V) = S for voltage magnitudes [p.u.] and angles [rad], from a start (n,) each.

    Generators hold their set-points; reactive limits are not enforced.
    file : where the network is from, for an error.
    """
    Y = admittance(network)
    n = len(voltage)
    pv = np.setdiff1d(network.controlled, network.slack)
    pq = np.setdiff1d(np.arange(n), np.concatenate([pv, network.slack]))
    free = np.concatenate([pv, pq])
    magnitude, angle = voltage.astype(float), angle.astype(float)
    # Rounding in V conj(Y V) grows with Y: a line of x = 1e-6 leaves more than 1e-10.
    # Up to 1e-6: beyond, a shunt without measure would let any start pass for a solution.
    tolerance = max(
        tolerance, min(16 * float(np.finfo(float).eps * np.abs(Y.diagonal()).max()), 1e-6)
    )
    for _ in range(limit):
        V = magnitude * np.exp(1j * angle)
        mismatch = V * np.conj(Y @ V) - network.injection
        residual = np.concatenate([mismatch[free].real, mismatch[pq].imag])
        if not np.isfinite(residual).all():
            break
        if np.abs(residual).max(initial=0.0) < tolerance:
            return magnitude, angle
        by_angle, by_magnitude = _derivatives(Y, V)
        J = sparse.block_array(
            [
                [by_angle[free][:, free].real, by_magnitude[free][:, pq].real],
                [by_angle[pq][:, free].imag, by_magnitude[pq][:, pq].imag],
            ],
            format="csc",
        )
        try:
            step = splu(J).solve(-residual)
        except RuntimeError:  # singular: report it below, without figures of the grid
            break
        angle[free] += step[: len(free)]
        magnitude[pq] += step[len(free) :]
    raise InputError(
        "the power flow does not converge from the file's own voltages",
        file=file,
        expected="a solvable operating point",
        remedy="Use the voltages of the file as they are with --operating-point file, or flat ones "
        "with flat.",
    )


def admittance(network: Network) -> sparse.csr_array:
    """Build the bus admittance matrix Y (n, n) [p.u.] of π-model branches with a tap at the first
    end.
    """
    i, j = network.ends.T
    n = len(network.shunt)
    y, half, t = 1 / network.series, 0.5j * network.charging, network.ratio
    values = [(y + half) / np.abs(t) ** 2, y + half, -y / np.conj(t), -y / t, network.shunt]
    rows = [i, j, i, j, np.arange(n)]
    columns = [i, j, j, i, np.arange(n)]
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.coo_array(entries, shape=(n, n)).tocsr()


def _derivatives(Y: sparse.csr_array, V: Complex) -> tuple[sparse.csr_array, sparse.csr_array]:
    """∂S/∂angle and ∂S/∂magnitude of S = V conj(Y V)."""
    current = Y @ V
    of_V, of_unit = sparse.diags_array(V), sparse.diags_array(V / np.abs(V))
    by_angle = 1j * of_V @ (sparse.diags_array(current) - Y @ of_V).conj()
    by_magnitude = of_V @ (Y @ of_unit).conj() + sparse.diags_array(np.conj(current)) @ of_unit
    return sparse.csr_array(by_angle), sparse.csr_array(by_magnitude)
