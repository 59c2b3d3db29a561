"""π models with any admittances at their ends, as readers of transformers have them, turned into
branches and shunts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridveil.grid.facts import IntArray
from gridveil.readers.network import BranchRecords, Complex
from gridveil.readers.table import Flags, Rows


@dataclass(frozen=True, eq=False)
class PiModels:
    """π models of one table, in p.u. first, second : admittances to ground, behind the tap and at
    the second bus.

    rows : (l,) rows of the table, from 0.
    ends : (l, 2) buses.
    ratio : complex tap at the first end;
    opened : (l, 2) ends that hang open.
    """

    rows: IntArray
    ends: IntArray
    series: Complex
    first: Complex
    second: Complex
    ratio: Complex
    in_service: Flags
    opened: Flags


def pi_models(
    ends: tuple[IntArray, IntArray],
    series: Complex,
    shunts: tuple[Complex, Complex],
    ratio: Complex,
    in_service: Flags,
) -> PiModels:
    """Make π models of a table's rows, in their order, with no end open."""
    opened = np.zeros((len(in_service), 2), dtype=bool)
    return PiModels(
        np.arange(len(in_service)),
        np.stack(ends, axis=1),
        series,
        *shunts,
        ratio,
        in_service,
        opened,
    )


def joined(models: Sequence[PiModels], offsets: Sequence[int]) -> PiModels:
    """One table after the other. offsets : the first row of each in all of them."""
    columns: dict[str, Any] = {
        what: np.concatenate([getattr(model, what) for model in models])
        for what in PiModels.__dataclass_fields__
    }
    columns["rows"] = np.concatenate(
        [model.rows + offset for model, offset in zip(models, offsets, strict=True)]
    )
    return PiModels(**columns)


def as_branches(where: Rows, models: PiModels, connected: Flags) -> tuple[BranchRecords, Complex]:
    """Build branches, and the admittance (n,) [p.u.] that they leave at buses. connected : (n,)
    buses in service.

    A FileGrid's branch has equal susceptances at its ends and no conductance: the rest of a π model
    goes to its buses. So does what a branch that hangs open at one end draws: Y_ff − Y_ft Y_tf /
    Y_tt.
    """
    ends, series, first, second = models.ends, models.series, models.first, models.second
    opened = models.opened | ~connected[ends]
    charging = first.imag + second.imag
    half, size = 0.5j * charging, np.abs(models.ratio) ** 2
    closed = models.in_service & ~opened.any(axis=1)
    shunt = np.zeros(len(connected), dtype=complex)
    np.add.at(shunt, ends[closed, 0], ((first - half) / size)[closed])
    np.add.at(shunt, ends[closed, 1], (second - half)[closed])
    for end, own, other in ((0, first, second), (1, second, first)):
        hanging = models.in_service & ~opened[:, end] & opened[:, 1 - end] & (np.abs(series) > 0)
        y = 1 / series[hanging]
        drawn = own[hanging] + y * other[hanging] / (y + other[hanging])
        np.add.at(shunt, ends[hanging, end], drawn / (size[hanging] if end == 0 else 1.0))
    branches = BranchRecords(
        where,
        models.rows,
        ends=ends,
        series=series,
        charging=charging,
        ratio=models.ratio,
        in_service=closed,
    )
    return branches, shunt
