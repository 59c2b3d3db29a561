"""Where a power flow may begin at buses whose voltage a file does not have: it follows taps and
phase shifts.
"""

from __future__ import annotations

import numpy as np

from gridveil.grid.facts import Array, IntArray
from gridveil.readers.network import BranchRecords, Complex

# rad; of vector groups such as Yd5, in multiples of 30°; no operating angle across one branch is as
# large
LARGE_SHIFT = 0.4


def first_guess(
    branches: BranchRecords, roots: IntArray, held: Array, voltage: Array, angle: Array
) -> tuple[Array, Array]:
    """Fill in magnitudes and angles (n,) [p.u., rad] that are NaN. held : angles of the buses
    roots.

    Next to a bus that is known: its voltage through the branch's tap. Else 1 p.u., and angles that
    follow the phase shifts from the roots: from angles of 0 Newton's method does not converge
    across a transformer that turns them by 150°. Angles that were computed without such shifts, as
    pandapower may, get them.
    """
    known = ~np.isnan(angle)
    turned = np.zeros(len(angle), dtype=complex)
    turned[roots] = np.exp(1j * held)
    turned = spread(branches, turned, branches.ratio / np.abs(branches.ratio))
    turned = np.where(turned == 0, 1.0, turned)
    if not known.any():
        return np.ones(len(angle)), np.angle(turned)
    if _without_shifts(branches, angle):
        angle = angle + np.angle(turned)
    phasor = np.where(known, voltage * np.exp(1j * angle), 0)
    phasor = spread(branches, np.nan_to_num(phasor), branches.ratio)
    size = np.abs(phasor)
    usable = (size > 0.5) & (size < 1.5)
    return (
        np.where(known, voltage, np.where(usable, size, 1.0)),
        np.where(known, angle, np.where(size > 0, np.angle(phasor), np.angle(turned))),
    )


def _without_shifts(branches: BranchRecords, angle: Array) -> bool:
    """Whether angles (n,) do not know of large phase shifts."""
    i, j = branches.ends[branches.in_service].T
    shift = np.angle(branches.ratio[branches.in_service])
    across = angle[i] - angle[j]
    told = (np.abs(shift) > LARGE_SHIFT) & ~np.isnan(across)
    off, without = (np.abs(np.angle(np.exp(1j * turn[told]))) for turn in (across - shift, across))
    return bool(told.any() and np.median(off) > np.median(without))


def spread(branches: BranchRecords, voltage: Complex, ratio: Complex) -> Complex:
    """Fill in voltages (n,) that are 0, from bus to bus: V_j = V_i / t."""
    from scipy import sparse
    from scipy.sparse.csgraph import breadth_first_order

    n = len(voltage)
    sources = np.flatnonzero(voltage)
    if len(sources) == n or not len(sources):
        return voltage
    i, j = branches.ends[branches.in_service].T
    taps = ratio[branches.in_service]
    gain = dict(zip(zip(j.tolist(), i.tolist(), strict=True), taps.tolist(), strict=True))
    gain |= dict(zip(zip(i.tolist(), j.tolist(), strict=True), (1 / taps).tolist(), strict=True))
    # A node more, tied to all sources, makes one search of many.
    ends = np.concatenate([np.stack([i, j]), np.stack([np.full(len(sources), n), sources])], axis=1)
    graph = sparse.coo_array(
        (np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n + 1, n + 1)
    ).tocsr()
    order, before = breadth_first_order(graph, n, directed=False)
    voltage = voltage.copy()
    for node in order[1:].tolist():
        if before[node] < n:
            voltage[node] = voltage[before[node]] * gain[int(before[node]), node]
    return voltage
