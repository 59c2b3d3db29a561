"""The detailed linear family: models of one case as some of its numbers move.

A lever moves numbers: items each on their own, or many together by one common factor. `pull` runs
by hand: back through the elimination of the buses, through every group of units by a complex step
of their own equations, and through the power flow by the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from gridveil.dynamics.detailed.adjoint import Bars, pull_numbers
from gridveil.dynamics.detailed.linearise import Layout, Rest, outputs, pieces, places, rest, speeds
from gridveil.dynamics.detailed.model import without_common_angle
from gridveil.dynamics.detailed.numbers import Numbers, numbers_of
from gridveil.dynamics.engine.lti import LTI, LinearFamily
from gridveil.foundation.errors import OptionError
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array, IntArray
from gridveil.grid.parameters import Group, Range, slices


@dataclass(frozen=True, eq=False)
class LeverTarget:
    """Entries of one column that a lever moves.

    table, column : such as "branch" and "x", "load" and "p", "GENROU" and "M".
    rows : (r,) of them; all where it is None.
    weight : the power of a scaling factor, or the size of a shift.
    """

    table: str
    column: str
    rows: IntArray | None = None
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Lever:
    """Parameters of a family, and what they do.

    kind : "item", θ is the value itself, one for each row of each target in turn;
    "scale", value × θ^weight; "shift", value + θ · weight, with one θ for all rows.
    """

    name: str
    targets: tuple[LeverTarget, ...]
    kind: Literal["item", "scale", "shift"] = "scale"
    bounds: Range | None = None


@dataclass(frozen=True, eq=False)
class _Move:
    """A target with its rows and places in θ resolved."""

    lever: Lever
    target: LeverTarget
    rows: IntArray
    at: IntArray

    def value(self, before: Any, theta: Any) -> Any:
        """The entries after the move."""
        own, weight = theta[self.at], self.target.weight
        if self.lever.kind == "item":
            return own
        return before * own**weight if self.lever.kind == "scale" else before + own * weight

    def slopes(self, before: Any, theta: Any) -> tuple[Any, Any]:
        """Their derivatives by θ and by the entries before."""
        own, weight = theta[self.at], self.target.weight
        if self.lever.kind == "item":
            return np.ones_like(own), np.zeros_like(own)
        if self.lever.kind == "scale":
            return weight * before * own ** (weight - 1), own**weight
        return np.full_like(own, weight), np.ones_like(own)


@dataclass(eq=False)
class DetailedFamily(LinearFamily):
    """Models of a case whose levers stand at θ, from patterns of load to speed or frequency.

    ports : declared buses, besides the units'.
    drive : (p, s) P, or P + jQ, consumed at the ports for each input [p.u.].
    sense : ports whose speed or frequency is read, then, from p on, ports whose |V| is read.
    """

    case: DetailedCase
    levers: Sequence[Lever]
    ports: IntArray
    drive: Any
    sense: IntArray
    groups: tuple[Group, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._numbers = numbers_of(self.case)
        self._layout = Layout.of(self.case, self.ports)
        sizes = [self._size(lever) for lever in self.levers]
        self.groups = tuple(
            Group(lever.name, size, lever.bounds)
            for lever, size in zip(self.levers, sizes, strict=True)
        )
        self._moves = tuple(self._resolved())
        if len(self.drive) != len(self._layout.ports):
            raise OptionError(
                f"a pattern of load has {len(self.drive)} rows",
                expected=f"one for each of {len(self._layout.ports)} ports",
            )
        self._pattern = np.concatenate([np.real(self.drive), np.imag(self.drive)])
        self._sense = np.asarray(self.sense, dtype=np.int64)

    def _rows(self, target: LeverTarget) -> IntArray:
        try:
            column = self._numbers[target.table][target.column]
        except KeyError:
            raise OptionError(
                f"a lever moves {target.column} of {target.table}, which the case does not have",
                expected="a table and a column of the case",
            ) from None
        return np.arange(len(column)) if target.rows is None else np.asarray(target.rows)

    def _size(self, lever: Lever) -> int:
        if lever.kind != "item":
            return 1
        return sum(len(self._rows(target)) for target in lever.targets)

    def _resolved(self) -> Any:
        for lever, place in zip(self.levers, slices(self.groups).values(), strict=True):
            at = place.start
            for target in lever.targets:
                rows = self._rows(target)
                if lever.kind == "item":
                    yield _Move(lever, target, rows, at + np.arange(len(rows)))
                    at += len(rows)
                else:
                    yield _Move(lever, target, rows, np.full(len(rows), at))

    @cached_property
    def start(self) -> Array:
        """θ of the case itself."""
        theta = np.zeros(self.size)
        for move in self._moves:
            if move.lever.kind == "item":
                theta[move.at] = self._numbers[move.target.table][move.target.column][move.rows]
            else:
                theta[move.at] = 1.0 if move.lever.kind == "scale" else 0.0
        return theta

    @cached_property
    def _voltage(self) -> Any:
        """V of the case itself: where Newton's method begins for every θ."""
        return rest(self._layout, self._numbers).V

    def numbers(self, theta: Any) -> Numbers:
        """The case's numbers at θ (p,)."""
        return self._moved(theta)[0]

    def _moved(self, theta: Any) -> tuple[Numbers, list[Any]]:
        """The numbers at θ, and the entries that every move began with."""
        numbers = {table: dict(columns) for table, columns in self._numbers.items()}
        before = []
        for move in self._moves:
            column = numbers[move.target.table][move.target.column]
            before.append(column[move.rows])
            new = column.astype(np.result_type(column, theta))
            new[move.rows] = move.value(before[-1], theta)
            numbers[move.target.table][move.target.column] = new
        return numbers, before

    def at_rest(self, theta: Any) -> Rest:
        """The case at rest at θ (p,)."""
        return rest(self._layout, self.numbers(theta), self._voltage)

    def lti(self, theta: Any) -> LTI:
        """Build the model at θ (…, p); members of a batch one by one."""
        if theta.ndim > 1:
            members = [self.lti(own) for own in theta.reshape(-1, theta.shape[-1])]
            lead = theta.shape[:-1]
            F = np.stack([member.F for member in members])
            H = np.stack([member.H for member in members])
            return LTI(
                F.reshape(*lead, *F.shape[1:]), H.reshape(*lead, *H.shape[1:]), members[0].states
            )
        at = self.at_rest(theta)
        parts = pieces(self._layout, at)
        C, D = outputs(self._layout, parts, speeds(self._layout, at.settled))
        whole = LTI.of(
            parts.A, parts.B @ self._pattern, C[self._sense], D[self._sense] @ self._pattern
        )
        return without_common_angle(whole, self._angles(at))

    def _angles(self, at: Rest) -> IntArray:
        return np.concatenate(
            [
                own[:, [settled.states.index(name) for name in settled.angles]].ravel()
                for own, settled in zip(places(self._layout, at.settled), at.settled, strict=True)
            ]
        )

    def pull(self, theta: Any, bar: LTI) -> Any:
        """dJ/dθ (…, p) by hand."""
        if theta.ndim > 1:
            flat = theta.reshape(-1, theta.shape[-1])
            F, H = (part.reshape(-1, *part.shape[-2:]) for part in (bar.F, bar.H))
            rows = [self.pull(own, LTI(F[i], H[i], bar.states)) for i, own in enumerate(flat)]
            return np.stack(rows).reshape(theta.shape)
        numbers, before = self._moved(theta)
        at = rest(self._layout, numbers, self._voltage)
        bars = pull_numbers(self._layout, at, self._widened(at, bar))
        gradient = np.zeros(self.size)
        for move, old in zip(reversed(self._moves), reversed(before), strict=True):
            column = bars[move.target.table][move.target.column]
            by_theta, by_old = move.slopes(old, theta)
            np.add.at(gradient, move.at, column[move.rows] * by_theta)
            column[move.rows] = column[move.rows] * by_old
        return gradient

    def _widened(self, at: Rest, bar: LTI) -> Bars:
        """dJ/d(A, B, C, D) of the whole model, from that of the chosen inputs and outputs."""
        angles, p = self._angles(at), len(self._layout.ports)
        n, last = bar.states + 1, angles[-1]
        keep = np.delete(np.arange(n), last)
        A, B = np.zeros((n, n)), np.zeros((n, 2 * p))
        A[np.ix_(keep, keep)] = bar.A
        B[keep] = bar.B @ self._pattern.T
        A[last] = -A[angles[:-1]].sum(axis=0)
        B[last] = -B[angles[:-1]].sum(axis=0)
        C, D = np.zeros((2 * p, n)), np.zeros((2 * p, 2 * p))
        kept = np.zeros((len(self._sense), n))
        kept[:, keep] = bar.C
        np.add.at(C, self._sense, kept)
        np.add.at(D, self._sense, bar.D @ self._pattern.T)
        return Bars(A, B, C, D)
