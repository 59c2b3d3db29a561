"""Arguments of public functions: read where what is meant is clear, else refused with what to pass.

Nothing of an argument but a short text or number is quoted: others may hold private values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from inspect import BoundArguments, Parameter, Signature, signature
from math import isfinite
from numbers import Integral, Real
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

from gridveil.foundation.errors import InputError, OptionError

Reader = Callable[[Any], Any]
T = TypeVar("T", bound=Callable[..., Any])
LONGEST_QUOTED = 40  # characters
# What a reader may raise for a value that it does not understand.
UNFIT = (TypeError, ValueError, AttributeError, KeyError, IndexError, OverflowError)
DONE_NOTHING = "Nothing was done."


class Unfit(ValueError):
    """A value that an argument does not take; expected : what it takes."""

    def __init__(self, expected: str) -> None:
        self.expected = expected
        super().__init__(expected)


def takes(
    *,
    outcome: str = DONE_NOTHING,
    error: type[InputError] = OptionError,
    gathers: str = "",
    **readers: Reader,
) -> Callable[[T], T]:
    """Read the arguments of a function, or of a class's constructor, before it is called.

    outcome : what did not happen, of a call that is refused.
    error : what a refused argument raises.
    gathers : a parameter that takes further keywords, as a mapping.
    readers : by parameter; each returns what is meant, or raises `Unfit`. None passes where it is
    the parameter's default.

    >>> @takes(count=whole("how many"))
    ... def draw(count, *, seed=1):
    ...     return count
    >>> draw(2)
    2
    >>> draw("two")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    gridveil.foundation.errors.OptionError: draw: count cannot be 'two'; expected how many. ...
    """

    def decorate(function: T) -> T:
        made: Any = function
        rules = _Rules(made.__qualname__, readers, outcome, error, gathers)
        if not isinstance(function, type):
            return rules.around(made)
        made.__init__ = rules.around(made.__init__)
        return made

    return decorate


@dataclass(frozen=True)
class _Rules:
    """How calls of a function are read; see `takes`."""

    name: str
    readers: Mapping[str, Reader]
    outcome: str
    error: type[InputError]
    gathers: str

    def around(self, function: Callable[..., Any]) -> Any:
        """The function, with its arguments read before."""
        form = signature(function)

        @wraps(function)
        def entry(*args: Any, **kwargs: Any) -> Any:
            bound = self.bound(form, args, kwargs)
            return function(*bound.args, **bound.kwargs)

        return entry

    def bound(
        self, form: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> BoundArguments:
        """Arguments by parameter, each read."""
        if self.gathers and (further := kwargs.keys() - form.parameters.keys()):
            named = {key: kwargs.pop(key) for key in sorted(further)}
            kwargs[self.gathers] = {**dict(kwargs.get(self.gathers) or {}), **named}
        bound, problem = None, ""
        try:
            bound = form.bind(*args, **kwargs)
        except TypeError as error:
            problem = str(error)
        if bound is None:  # raised out here, without the other error as its context
            raise self.miscalled(problem, form, kwargs)
        for key, value in bound.arguments.items():
            if key in self.readers and not (value is None and form.parameters[key].default is None):
                bound.arguments[key] = self.read(key, value)
        return bound

    def read(self, key: str, value: Any) -> Any:
        """What an argument means."""
        try:
            return self.readers[key](value)
        except Unfit as unfit:
            expected = unfit.expected
        raise self.error(
            f"{self.name}: {key} cannot be {quoted(value)}",
            expected=expected,
            outcome=self.outcome,
            remedy=f"Pass that as {key}.",
        )

    def miscalled(self, problem: str, form: Signature, kwargs: Mapping[str, Any]) -> InputError:
        """An argument that is missing, or that is none."""
        known = [key for key in form.parameters if key not in ("self", "cls")]
        unknown = [key for key in kwargs if key not in known]
        close = get_close_matches(unknown[0], known, n=1) if unknown else []
        shown = ", ".join(
            key if form.parameters[key].default is Parameter.empty else f"{key}=…" for key in known
        )
        return self.error(
            f"{self.name}: {problem}",
            expected=f"{self.name}({shown})",
            outcome=self.outcome,
            remedy=f"Did you mean {close[0]}?" if close else "Pass what it takes, by name.",
        )


def quoted(value: Any) -> str:
    """A short text or number as it is written, anything else by its type."""
    if value is None or isinstance(value, str | bool | int | float):
        text = repr(value)
        return text if len(text) <= LONGEST_QUOTED else f"{text[:LONGEST_QUOTED]}…"
    if isinstance(value, Real):
        return str(value)[:LONGEST_QUOTED]
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'AEIOUaeiou' else 'a'} {kind}"


def of_type(kind: type | tuple[type, ...], words: str, *how: Reader) -> Reader:
    """Take what is of a type, or what one of `how` makes of something else.

    words : what to pass.
    """

    def read(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        for way in how:
            try:
                return way(value)
            except UNFIT:
                continue
        raise Unfit(words)

    return read


def a_number(words: str, *, above: float | None = None) -> Reader:
    """Take a number, where there is a bound a finite one above it; True and False are none."""

    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise Unfit(words)
        number = float(value)
        if above is not None and not (isfinite(number) and number > above):
            raise Unfit(words)
        return number

    return read


def whole(words: str, *, least: int = 0) -> Reader:
    """Take a whole number, also one of a float that is one."""

    def read(value: Any) -> int:
        integral = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not integral or value < least:
            raise Unfit(words)
        return int(value)

    return read


def a_place(words: str) -> Reader:
    """Take a path: a text that is not empty, or a `Path`."""

    def read(value: Any) -> Path:
        text = fspath(value) if isinstance(value, PathLike) else value
        if not (isinstance(text, str) and text and "\0" not in text):
            raise Unfit(words)
        return Path(text)

    return read


def one_of(choices: Sequence[str], words: str = "") -> Reader:
    """Take one of some words."""

    def read(value: Any) -> str:
        if not (isinstance(value, str) and value in choices):
            close = get_close_matches(str(value), choices, n=1) if isinstance(value, str) else []
            meant = f"; did you mean {close[0]}?" if close else ""
            raise Unfit(f"{words or 'one of'} {', '.join(choices)}{meant}".strip())
        return value

    return read


def names(words: str, *, least: int = 1) -> Reader:
    """Take names: a sequence of texts, or one text with commas between them."""

    def read(value: Any) -> tuple[str, ...]:
        listed = value.split(",") if isinstance(value, str) else value
        try:
            found = tuple(name.strip() for name in listed)
        except UNFIT:
            raise Unfit(words) from None
        if len(found) < least or not all(found):
            raise Unfit(words)
        return found

    return read


def several(reader: Reader, words: str) -> Reader:
    """Take a sequence of what a reader takes, or one of them."""

    def read(value: Any) -> tuple[Any, ...]:
        try:
            return (reader(value),)
        except Unfit:
            pass
        try:
            return tuple(reader(item) for item in ([None] if isinstance(value, str) else value))
        except UNFIT:
            raise Unfit(words) from None

    return read
