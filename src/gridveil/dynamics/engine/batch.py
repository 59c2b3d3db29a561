"""Outputs of a NumPy batch by blocks: `Blocks`, in arrays that are allocated once and used again.

Threads share a batch, and wait for one another whenever one returns from NumPy's arithmetic: so
there are few calls, each of them long. What would be two products by the same matrix is one, of
rows that lie below one another:

- The derivative by P^2k lies below the rows that it is multiplied with, and P below the rows of V,
  where those of later doublings are not needed any more.
- A record that all models share stands beside O and Z, so that Gram matrices hold its products too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.grid.facts import Array

if TYPE_CHECKING:
    from gridveil.dynamics.engine.propagate import BlockLayout


class BatchBlocks:
    """What the outputs of every starting column at every sample are made of: they are O Z.

    O : (m, b · h, n) of m models; Zt : (m, block_count · c, n).
    record : for `against_record`, Y (b · h, block_count · c) as `left` (b · h, q) times `right`.
    last_rows : number of rows of O that the record's last block column has samples of.
    One thread at a time may use an instance: each call overwrites what the one before left.
    """

    def __init__(
        self,
        models: int,
        outputs: int,
        start: Array,
        layout: BlockLayout,
        record: Any = None,
        last_rows: int = 0,
    ) -> None:
        n, columns = start.shape
        self.layout = layout
        q = 0 if record is None else record.left.shape[1]
        self._observing = _Chain(models, n, outputs, layout.block_length, q, onwards=True)
        self._starting = _Chain(models, n, columns, layout.block_count, q)
        self.O, self.Zt = self._observing.V, self._starting.V
        self._starting.first[:] = start.T
        if record is not None:
            self._observing.beside[:] = record.left
            self._starting.beside[:] = -record.right.T
        self._n, self._columns, self._last_rows = n, columns, last_rows
        self._turn = self._observing.P[-1].mT

    @property
    def nbytes(self) -> int:
        """Memory that the instance holds."""
        return self._observing.nbytes + self._starting.nbytes

    def grow(self, E: Array, H: Array) -> None:
        """Lay y_n = H Eⁿ z out in blocks, for E (m, n, n) and H (m, h, n)."""
        observing, starting = self._observing, self._starting
        np.copyto(observing.P[0], E)
        np.copyto(observing.first, H)
        observing.grow()
        if self.layout.row_doublings:  # (E^b)ᵀ from E^(b/2)
            np.matmul(self._turn, self._turn, starting.P[0])
        else:
            np.copyto(starting.P[0], self._turn)
        starting.grow()

    def outputs(self) -> Array:
        """O Z : (m, block_length · h, block_count · c)."""
        return self.O @ self.Zt.mT

    def against_record(self, size: float) -> Array:
        """Compute Σ R² (m,) of R = O Z − Y with |Y|² = size, and keep R Zᵀ and Rᵀ O, without R,
        which is most of what would have to be moved.

        R Zᵀ = O (Z Zᵀ) − Y Zᵀ and Rᵀ O = Zᵀ (Oᵀ O) − Yᵀ O, with Y Zᵀ = left · (right Zᵀ). The last
        block column may be cut short: what the last rows of O see of it is taken out.
        """
        n, dot, matmul = self._n, np.vecdot, np.matmul
        O_bar, Zt_bar = self._observing.V_bar, self._starting.V_bar
        of_O = matmul(self._observing.wide.mT, self.O)  # Oᵀ O, above leftᵀ O
        of_Z = matmul(self._starting.wide.mT, self.Zt)  # Z Zᵀ, above −right Zᵀ
        flat = len(of_O), -1
        J = size + dot(of_O.reshape(flat), of_Z.reshape(flat))
        J += dot(of_O[:, n:].reshape(flat), of_Z[:, n:].reshape(flat))
        matmul(self._observing.wide, of_Z, O_bar)
        matmul(self._starting.wide, of_O, Zt_bar)
        rows, column = self._last_rows, self.Zt.shape[-2] - self._columns
        if rows < self.O.shape[-2]:
            tail, last = self.O[:, rows:], self.Zt[:, column:]
            outside = tail @ last.mT
            O_bar[:, rows:] -= outside @ last
            Zt_bar[:, column:] -= outside.mT @ tail
            J -= dot(outside.reshape(flat), outside.reshape(flat))
        return J

    def pull_outputs(self, bar: Array) -> tuple[Array, Array]:
        """Turn dJ/d(O Z) into dJ/dE and dJ/dH."""
        np.matmul(bar, self.Zt, self._observing.V_bar)
        np.matmul(bar.mT, self.O, self._starting.V_bar)
        return self.pull()

    def pull(self) -> tuple[Array, Array]:
        """Turn dJ/dO and dJ/dZᵀ, which are kept, into dJ/dE and dJ/dH: `grow`, backwards, once.

        Both are copies: another thread may use this instance next.
        """
        observing, starting = self._observing, self._starting
        starting.shrink()
        np.copyto(observing.onwards_bar, starting.P_bar.mT)
        observing.shrink()
        return observing.P_bar.copy(), observing.first_bar.copy()


class _Chain:
    """V = [V₀; V₀ P; V₀ P²; …] by doubling, and back: `Chain` in arrays of its own.

    V : (m, count · rows, n), where `first` is V₀. wide : V with constants, `beside`, on its right.
    P : P, P², P⁴, … as far as V needs them, and P itself always, (levels, m, n, n).
    onwards : whether something depends on P^count, too; count is then a power of 2.
    V_bar, onwards_bar : dJ/dV and dJ/d(P^count), to be put there. first_bar, P_bar : dJ/dV₀ and
    dJ/dP, which `shrink` leaves there.
    """

    def __init__(
        self, models: int, n: int, rows: int, count: int, q: int, *, onwards: bool = False
    ) -> None:
        levels, end = (count - 1).bit_length(), count * rows
        starts = [rows * 2**level for level in range(levels)]  # rows before each doubling
        doublings = [(have, min(have, end - have)) for have in starts]  # and rows that it adds
        # of V, and of P below the half of V that the last doubling starts from
        room = np.empty((models, max(end, rows * 2**levels // 2 + n), n + q))
        self.wide = room[:, :end]
        self.V, self.beside = self.wide[..., :n], self.wide[..., n:]
        self.first = self.V[:, :rows]
        self.P = np.empty((max(levels, 1), models, n, n))
        self._growing = []
        for level, (have, more) in enumerate(doublings):
            if level:
                before = self.P[level - 1]
                self._growing.append((before, before, self.P[level]))
            add = self.V[:, :more], self.P[level], self.V[:, have : have + more]
            self._growing.append(add)

        bars = np.empty((models, end + n, n))
        self.V_bar, self.onwards_bar = bars[:, :end], bars[:, end:]
        self.first_bar, self.P_bar = bars[:, :rows], bars[:, rows : rows + n]
        self._turned = np.empty_like(self.P)
        self._single = not (levels or onwards)  # a single block, which does not depend on P
        moved = np.empty((models, max([0, *(more for _, more in doublings)]) + n, n))
        self.nbytes = sum(own.nbytes for own in (room, self.P, bars, self._turned, moved))
        self._shrinking, below = [], n if onwards else 0
        for level, (have, more) in reversed(list(enumerate(doublings))):
            both = more + below  # rows of V or its derivative, and below them of P or that by P²
            step = bars[:, have : have + both], self._turned[level], moved[:, :both]
            put = (room[:, have : have + n, :n], self.P[level]) if below else ()
            by_P = room[:, :both, :n].mT, bars[:, have : have + n]
            self._shrinking.append((*step, put, *by_P, bars[:, :both]))
            below = n

    def grow(self) -> None:
        """Fill V, from V₀ and P."""
        matmul = np.matmul
        for a, b, out in self._growing:
            matmul(a, b, out)

    def shrink(self) -> None:
        """Fill dJ/dV₀ and dJ/dP; V is overwritten."""
        matmul, add, copyto = np.matmul, np.add, np.copyto
        if self._single:
            self.P_bar[:] = 0.0
        copyto(self._turned, self.P.mT)
        for last, turned, moved, put, Vt, by_P, first in self._shrinking:
            matmul(last, turned, moved)
            if put:
                copyto(*put)
            matmul(Vt, last, by_P)  # over what was read; NumPy sees to that
            add(first, moved, first)
