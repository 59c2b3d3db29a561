"""Whole trajectories as matrix products: the path for small models.

With z_{n+1} = E z_n and y_n = H z_n, build O = [H; HE; …; HE^(b−1)] and Z = [z₀, E^b z₀, E^2b z₀,
…] by doubling. Then O Z holds every output at every sample: sample i + b j in block row i and block
column j. No time loop; the derivative runs back through the same products.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridveil.dynamics.engine.lti import XArray, namespace, product


@dataclass(frozen=True)
class Layout:
    """How samples lie in a block matrix: 2^row_doublings rows of blocks, block_count columns."""

    samples: int
    row_doublings: int
    column_doublings: int
    block_count: int

    @classmethod
    def of(cls, samples: int, outputs: int, columns: int) -> Layout:
        """Choose the block length so that O and Z have about as many entries each."""
        rows = 0
        while 4**rows * outputs < samples * columns:
            rows += 1
        count = -(-samples // 2**rows)
        return cls(samples, rows, (count - 1).bit_length(), count)

    @property
    def block_length(self) -> int:
        """Samples in a block."""
        return 2**self.row_doublings

    def pack(self, series: XArray) -> XArray:
        """Lay a series (..., c, samples, h) out as (..., block_length · h, block_count · c)."""
        xp = namespace(series)
        *lead, c, samples, h = series.shape
        padded = xp.zeros((*lead, c, self.block_count * self.block_length, h), dtype=series.dtype)
        padded[..., :samples, :] = series
        axes = len(lead)
        split = xp.reshape(padded, (*lead, c, self.block_count, self.block_length, h))
        moved = xp.permute_dims(split, (*range(axes), axes + 2, axes + 3, axes + 1, axes))
        return xp.reshape(moved, (*lead, self.block_length * h, self.block_count * c))

    def clear_padding(self, blocks: XArray, columns: int) -> None:
        """Set the places behind the last sample to zero."""
        h = blocks.shape[-2] // self.block_length
        last = self.samples - (self.block_count - 1) * self.block_length
        blocks[..., last * h :, (self.block_count - 1) * columns :] = 0.0

    def unpack(self, blocks: XArray, columns: int) -> XArray:
        """Turn a block matrix back into series (..., c, samples, h)."""
        xp = namespace(blocks)
        *lead, rows, _ = blocks.shape
        h = rows // self.block_length
        axes = len(lead)
        split = xp.reshape(blocks, (*lead, self.block_length, h, self.block_count, columns))
        moved = xp.permute_dims(split, (*range(axes), axes + 3, axes + 2, axes, axes + 1))
        series = xp.reshape(moved, (*lead, columns, self.block_count * self.block_length, h))
        return series[..., : self.samples, :]


@dataclass(frozen=True, eq=False)
class Responses:
    """Outputs of every starting column at every sample, with what the way back needs.

    outputs = O Z : (..., block_length · h, block_count · c).
    """

    outputs: XArray
    O_tape: list[XArray]
    Z_tape: list[XArray]
    O: XArray  # noqa: E741 - the observability matrix
    Z: XArray


def respond(E: XArray, H: XArray, start: XArray, layout: Layout) -> Responses:
    """Compute y_n = H Eⁿ z for every column z of start (..., n, c), laid out in blocks."""
    n = E.shape[-1]
    width = layout.block_count * start.shape[-1]
    O_tape = _grow(E.mT, H.mT, layout.row_doublings)
    last = O_tape[-1]
    Z_tape = _grow(last[..., :n].mT, start, layout.column_doublings)
    O, Z = last[..., n:].mT, Z_tape[-1][..., n : n + width]  # noqa: E741
    return Responses(product(O, Z), O_tape, Z_tape, O, Z)


def pull(responses: Responses, outputs_bar: XArray) -> tuple[XArray, XArray]:
    """Turn dJ/d(outputs) into dJ/dE and dJ/dH: `respond`, backwards."""
    xp = namespace(outputs_bar)
    n, width = responses.Z.shape[-2:]
    Z_bar = xp.zeros(responses.Z_tape[-1].shape, dtype=outputs_bar.dtype)
    Z_bar[..., n : n + width] = product(responses.O.mT, outputs_bar)
    power_bar = _shrink(responses.Z_tape, Z_bar)[..., :n]
    O_bar = xp.concat([power_bar.mT, product(responses.Z, outputs_bar.mT)], axis=-1)
    first = _shrink(responses.O_tape, O_bar)
    return first[..., :n].mT, first[..., n:].mT


def _grow(P: XArray, V: XArray, doublings: int) -> list[XArray]:
    """Double [P, V] to [P², V, P V] again and again; the last one is [P^N, V, P V, …, P^(N−1) V], N
    = 2^doublings.
    """
    xp = namespace(P)
    n = P.shape[-1]
    if V.ndim < P.ndim:
        V = xp.broadcast_to(V, (*P.shape[:-2], *V.shape))
    tape = [xp.concat([P, V], axis=-1)]
    for _ in range(doublings):
        S = tape[-1]
        R = product(S[..., :n], S)
        tape.append(xp.concat([R[..., :n], S[..., n:], R[..., n:]], axis=-1))
    return tape


def _shrink(tape: list[XArray], S_bar: XArray) -> XArray:
    """Turn the derivative by the last [P, V] of a tape into the derivative by the first."""
    xp = namespace(S_bar)
    n = S_bar.shape[-2]
    for S in reversed(tape[:-1]):
        width = S.shape[-1]
        R_bar = xp.concat([S_bar[..., :n], S_bar[..., width:]], axis=-1)
        before = product(S[..., :n].mT, R_bar)
        before[..., :n] += product(R_bar, S.mT)
        before[..., n:] += S_bar[..., n:width]
        S_bar = before
    return S_bar
