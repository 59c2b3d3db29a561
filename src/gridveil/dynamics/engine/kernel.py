# pyright: reportMissingImports=false
# ruff: noqa: ANN001, ANN202 - a kernel's arguments have Triton's types
"""Σ a b of many small matrices on a CUDA device, in float64: a Triton kernel, one tile of a model's
result to a program.

Most of a batch's time went to cuBLAS, which cuts 18 × 18 matrices into tiles of 32 × 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
import triton
import triton.language as tl


class Tile(NamedTuple):
    """How a result is cut: rows of a program, what it multiplies at a time, and its warps."""

    rows: int
    deep: int
    warps: int


# Of results of up to 32 rows, and of longer ones.
SHORT, LONG = Tile(32, 16, 1), Tile(32, 16, 1)
WIDE = 32
MOST_PAIRS = 3


@triton.jit
def _add(total, a, b, model, first, m, n, k, a_model, a_row, b_model, b_row,
         A_T: tl.constexpr, B_T: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr,
         DEEP: tl.constexpr):  # fmt: skip
    rows, columns = first + tl.arange(0, TALL)[:, None], tl.arange(0, WIDE)[None, :]
    a += model * a_model
    b += model * b_model
    for start in range(0, k, DEEP):
        across, down = start + tl.arange(0, DEEP)[None, :], start + tl.arange(0, DEEP)[:, None]
        a_at = across * a_row + rows if A_T else rows * a_row + across
        b_at = columns * b_row + down if B_T else down * b_row + columns
        left = tl.load(a + a_at, mask=(rows < m) & (across < k), other=0.0)
        right = tl.load(b + b_at, mask=(down < k) & (columns < n), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee", out_dtype=tl.float64)
    return total


SIZES = [
    "m", "n", "tiles", "out_model", "out_row", "base_model", "base_row",
    *(f"{name}{pair}" for pair in range(MOST_PAIRS)
      for name in ("k", "a_model", "a_row", "b_model", "b_row")),
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def _sum(out, base, a0, b0, a1, b1, a2, b2, m, n, tiles,
         out_model, out_row, base_model, base_row,
         k0, a_model0, a_row0, b_model0, b_row0,
         k1, a_model1, a_row1, b_model1, b_row1,
         k2, a_model2, a_row2, b_model2, b_row2,
         A0_T: tl.constexpr, B0_T: tl.constexpr, A1_T: tl.constexpr, B1_T: tl.constexpr,
         A2_T: tl.constexpr, B2_T: tl.constexpr, PAIRS: tl.constexpr, BASE: tl.constexpr,
         TALL: tl.constexpr, WIDE: tl.constexpr, DEEP: tl.constexpr):  # fmt: skip
    model = (tl.program_id(0) // tiles).to(tl.int64)
    first = (tl.program_id(0) % tiles) * TALL
    rows, columns = first + tl.arange(0, TALL)[:, None], tl.arange(0, WIDE)[None, :]
    kept = (rows < m) & (columns < n)
    if BASE:
        total = tl.load(base + model * base_model + rows * base_row + columns, kept, 0.0)
    else:
        total = tl.zeros((TALL, WIDE), tl.float64)
    total = _add(total, a0, b0, model, first, m, n, k0, a_model0, a_row0, b_model0, b_row0,
                 A0_T, B0_T, TALL, WIDE, DEEP)  # fmt: skip
    if PAIRS > 1:
        total = _add(total, a1, b1, model, first, m, n, k1, a_model1, a_row1, b_model1, b_row1,
                     A1_T, B1_T, TALL, WIDE, DEEP)  # fmt: skip
    if PAIRS > 2:
        total = _add(total, a2, b2, model, first, m, n, k2, a_model2, a_row2, b_model2, b_row2,
                     A2_T, B2_T, TALL, WIDE, DEEP)  # fmt: skip
    tl.store(out + model * out_model + rows * out_row + columns, total, kept)


def sum_of_products(
    pairs: Sequence[tuple[Any, Any]], base: Any = None, out: Any = None
) -> torch.Tensor:
    """Compute base + Σ a b for up to three pairs, (models, m, k) and (models, k, n ≤ 32); one that
    all models share has no first axis.

    out : written to if given, and may be base.
    """
    m, n = pairs[0][0].shape[-2], pairs[0][1].shape[-1]
    if out is None:
        models = max(one.shape[0] for pair in pairs for one in pair if one.ndim == 3)
        out = pairs[0][0].new_empty((models, m, n))
    taken = [(_plain(a), _plain(b)) for a, b in pairs]
    taken += taken[:1] * (MOST_PAIRS - len(taken))
    sizes = [size for a, b in taken for size in (a[0].shape[-1], *a[2:], *b[2:])]
    start = out if base is None else base
    tile, kernel = SHORT if m <= 32 else LONG, cast(Any, _sum)
    tiles = triton.cdiv(m, tile.rows)
    kernel[(out.shape[0] * tiles,)](
        out, start, *(one[0] for pair in taken for one in pair), m, n, tiles,
        *out.stride()[:2], *start.stride()[:2], *sizes,
        *(one[1] for pair in taken for one in pair), len(pairs), base is not None,
        tile.rows, WIDE, tile.deep, num_warps=tile.warps, num_stages=1,
    )  # fmt: skip
    return out


def _plain(array: torch.Tensor) -> tuple[torch.Tensor, bool, int, int]:
    """An array, whether it lies column by column, and the strides of models and of rows or else of
    columns.
    """
    if 1 not in array.stride()[-2:]:
        array = array.contiguous()
    *model, row, column = array.stride()
    by_column = column != 1
    return array, by_column, model[0] if model else 0, column if by_column else row


def works(device: str = "cuda") -> bool:
    """Whether the kernel can be compiled, and multiplies."""
    a = torch.arange(40.0, dtype=torch.float64, device=device).reshape(2, 4, 5)
    return bool((sum_of_products(((a, a.mT),)) == a @ a.mT).all())
