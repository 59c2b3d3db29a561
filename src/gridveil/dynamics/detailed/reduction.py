"""The reduced form of a case: its units, with their devices, on the Kron-reduced admittance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.detailed.equilibrium import Equilibrium
from gridveil.dynamics.powerflow import Network, admittance
from gridveil.grid.case import Branches, Complex, DetailedCase, Loads, Units
from gridveil.grid.facts import IntArray

# A branch this much weaker than the strongest is what rounding left of none.
NO_BRANCH = 1e-12
# Of a branch's admittances from either end, which a phase shifter makes different.
SYMMETRIC = 1e-9


@dataclass(frozen=True, eq=False)
class ReducedCase:
    """A reduced case. notes : what it cannot carry exactly."""

    case: DetailedCase
    notes: tuple[str, ...]


def reduce_case(
    case: DetailedCase, equilibrium: Equilibrium, ports: IntArray | None = None
) -> ReducedCase:
    """Eliminate buses without units: Y_red = Y_γγ − Y_γβ Y_ββ⁻¹ Y_βγ, loads as admittances in Y.

    ports : positions of further buses to keep; a load there stays a load.
    The operating point stays the same: units have the power and the voltage of the equilibrium.
    """
    V, n = equilibrium.voltage, len(case.buses)
    with_units = np.unique(case.units.bus)
    wanted = np.array([], dtype=np.int64) if ports is None else np.asarray(ports, dtype=np.int64)
    kept = np.concatenate([with_units, wanted[~np.isin(wanted, with_units)]])
    rest = np.setdiff1d(np.arange(n), kept)
    stays = np.isin(case.loads.bus, wanted)
    shunt = case.shunt.astype(complex)
    np.add.at(
        shunt,
        case.loads.bus[~stays],
        (np.conj(case.loads.power) / np.abs(V[case.loads.bus]) ** 2)[~stays],
    )
    Y = _admittance(case, shunt)
    Y = Y[np.ix_(kept, kept)] - Y[np.ix_(kept, rest)] @ np.linalg.solve(
        Y[np.ix_(rest, rest)], Y[np.ix_(rest, kept)]
    )
    branches, uneven = _branches(Y)
    bare = _admittance_of(branches, np.zeros(len(kept), dtype=complex))
    position = np.full(n, -1)
    position[kept] = np.arange(len(kept))
    units, loads = case.units, case.loads
    return ReducedCase(
        replace(
            case,
            buses=tuple(case.buses[bus] for bus in kept),
            branches=branches,
            shunt=np.diag(Y) - np.diag(bare),
            loads=Loads(
                position[loads.bus[stays]],
                loads.power[stays],
                loads.impedance[stays],
                loads.current[stays],
            ),
            units=Units(
                position[units.bus],
                np.ascontiguousarray(equilibrium.power.real),
                np.abs(V[units.bus]),
                units.slack,
            ),
        ),
        _notes(case, stays, uneven),
    )


def _admittance(case: DetailedCase, shunt: Complex) -> Complex:
    return _admittance_of(case.branches, shunt)


def _admittance_of(branches: Branches, shunt: Complex) -> Complex:
    none = np.array([], dtype=np.int64)
    network = Network(
        branches.ends,
        branches.series,
        branches.charging,
        branches.ratio,
        shunt,
        np.zeros(len(shunt), dtype=complex),
        none,
        none,
    )
    return admittance(network).toarray()


def _branches(Y: Complex) -> tuple[Branches, int]:
    """Branches between all pairs that Y joins: Y_ij = −y e^{jφ}, Y_ji = −y e^{−jφ}; and how many of
    them Y has with other sizes from either end, of which the geometric mean is taken.
    """
    i, j = np.triu_indices(len(Y), k=1)
    forth, back = Y[i, j], Y[j, i]
    strong = np.abs(forth) > NO_BRANCH * np.abs(Y).max(initial=0.0)
    i, j, forth, back = i[strong], j[strong], forth[strong], back[strong]
    shift = np.angle(forth / back) / 2
    shift = np.where(np.abs(shift) < SYMMETRIC, 0.0, shift)
    size = np.sqrt(np.abs(forth) * np.abs(back))
    y: Complex = np.asarray(-size * np.exp(1j * (np.angle(forth) - shift)), dtype=complex)
    uneven = int((np.abs(np.abs(forth) - np.abs(back)) > SYMMETRIC * size).sum())
    ends = np.stack([i, j], axis=1).astype(np.int64)
    return Branches(ends, np.reciprocal(y), np.zeros(len(y)), np.exp(1j * shift)), uneven


def _notes(case: DetailedCase, stays: NDArray[np.bool_], uneven: int) -> tuple[str, ...]:
    loads = case.loads
    other = (~stays) & (loads.impedance < 1).any(axis=1)
    notes = ["Limits of branches and trips of lines are not part of the reduced form."]
    if other.any():
        notes.append(
            f"{int(other.sum())} loads that are not constant impedances are taken as such: the "
            "reduced form cannot carry them exactly."
        )
    if uneven:
        notes.append(
            f"{uneven} branches are taken as alike from both ends, which phase shifters make them "
            "not."
        )
    return tuple(notes)
