"""The private grid: values that leave through `perturb` alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

from gridveil.foundation.errors import InputError, PrivateValueError
from gridveil.foundation.looks import looks
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import Array, Facts, TableFacts, frozen
from gridveil.grid.parameters import Parameter
from gridveil.grid.tables import check_names

T = TypeVar("T")


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise PrivateValueError(
        "This value is private: it leaves the vault through perturb (or assess, for its owner)."
    )


class Private(Generic[T]):
    """A value that refuses to be seen: no repr, str, format, iteration, index, array, copy, pickle
    or JSON.

    It guards against accidents (a log line, a traceback, a pickle in a work queue), not against
    code that means to look: Python has no such wall. The folder `vault` and its import contract are
    the other half.
    """

    __slots__ = ("__value",)

    def __init__(self, value: T) -> None:
        self.__value = value

    @staticmethod
    def open(private: Private[T]) -> T:
        """Look inside. For code in `gridveil.vault` only."""
        return private.__value

    __repr__ = __str__ = __format__ = __bytes__ = _refuse
    __iter__ = __getitem__ = __len__ = __contains__ = _refuse
    __bool__ = __int__ = __float__ = __complex__ = __index__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __array__ = _refuse
    __copy__ = __deepcopy__ = _refuse
    __reduce__ = __reduce_ex__ = __getstate__ = _refuse
    __hash__ = None  # pyright: ignore[reportAssignmentType]


@looks()  # as `repr` below: public facts alone
@dataclass(frozen=True, eq=False, repr=False)
class SourceGrid(Generic[Facts]):
    """A grid as its owner knows it: public facts, and the private values of each parameter.

    values : of a swing model, k (e,) line weights v_i v_j cos(δ_i − δ_j) / x_ij [p.u. power / rad],
    m (g,) inertia M = 2H on the system base [p.u. power · s / p.u. frequency],
    d (g,) damping [p.u. power / p.u. frequency], and those of devices; of a detailed one, what its
    facts have entries of.
    """

    facts: Facts
    values: Mapping[str, Private[Array]]

    @classmethod
    @sealed
    def of(cls, facts: Facts, **values: Any) -> SourceGrid[Facts]:
        """Check the private values and lock them away. Errors name the item, never its value."""
        check_names(values, facts)
        return cls(
            facts,
            {
                name: Private(_checked(facts, parameter, values[name]))
                for name, parameter in facts.parameters.items()
            },
        )

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = _refuse

    def __repr__(self) -> str:
        f = self.facts
        return (
            f"<SourceGrid {f.name}: {len(f.buses)} buses, {len(f.edges)} lines, "
            f"{len(f.machines)} machines; {', '.join(self.values)} private>"
        )


def _checked(facts: TableFacts, parameter: Parameter, values: Any) -> Array:
    file, what, positive = facts.name, parameter.words, parameter.positive
    items = facts.items(parameter.name)
    array = _numbers(values)
    if array is None:
        raise InputError(
            f"{what} holds something that is not a number", file=file, expected="numbers"
        )
    if array.shape != (len(items),):
        raise InputError(f"{what} has shape {array.shape}", file=file, expected=f"({len(items)},)")
    least = "" if parameter.bounds.signed else " above 0" if positive else ", 0 or more"
    allowed = np.isfinite(array)
    if least:
        allowed &= array > 0 if positive else array >= 0
    if not allowed.all():
        item = items[int(np.flatnonzero(~allowed)[0])]
        raise InputError(
            f"{what} of {item} is not usable",
            file=file,
            expected=f"a finite number{least}",
            remedy=f"Fix the entry of {item} in the source.",
        )
    return array


def _numbers(values: Any) -> Array | None:
    # None, not a new error: even "from None" would keep the old one, whose message holds the value,
    # as its __context__.
    try:
        return frozen(values)
    except (TypeError, ValueError, OverflowError):
        return None
