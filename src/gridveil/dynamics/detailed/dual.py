"""Forward-mode duals over arrays: a value and its slopes, in real or complex numbers.

Slopes are d/dx, by the states and inputs of a device; d/dθ rides in the imaginary part of the same
numbers. So every rule here is analytic: no abs, no conj; a comparison looks at real parts alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# A dual, an array or a number: what the equations of a device are written in.
Number = Any


@dataclass(frozen=True, eq=False)
class Dual:
    """A quantity and its derivatives by k variables.

    value : (…,), real or complex.
    slopes : (…, k).
    """

    value: Any
    slopes: Any

    # arrays on the left of an operator leave it to the dual on the right
    __array_ufunc__ = None

    def __add__(self, other: Number) -> Dual:
        if isinstance(other, Dual):
            return Dual(self.value + other.value, self.slopes + other.slopes)
        return Dual(self.value + other, self.slopes)

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.slopes)

    def __sub__(self, other: Number) -> Dual:
        if isinstance(other, Dual):
            return Dual(self.value - other.value, self.slopes - other.slopes)
        return Dual(self.value - other, self.slopes)

    def __rsub__(self, other: Number) -> Dual:
        return Dual(other - self.value, -self.slopes)

    def __mul__(self, other: Number) -> Dual:
        if isinstance(other, Dual):
            slopes = self.slopes * other.value[..., None] + other.slopes * self.value[..., None]
            return Dual(self.value * other.value, slopes)
        return Dual(self.value * other, self.slopes * np.asarray(other)[..., None])

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> Dual:
        return self * (1 / other)

    def __rtruediv__(self, other: Number) -> Dual:
        inverse = 1 / self.value
        return Dual(other * inverse, self.slopes * (-other * inverse * inverse)[..., None])

    def __pow__(self, power: float) -> Dual:
        return _by_rule(self, self.value**power, power * self.value ** (power - 1))


def _by_rule(dual: Dual, value: Any, slope: Any) -> Dual:
    return Dual(value, dual.slopes * slope[..., None])


def sin(angle: Number) -> Number:
    """Sine of a dual or an array [rad]."""
    if isinstance(angle, Dual):
        return _by_rule(angle, np.sin(angle.value), np.cos(angle.value))
    return np.sin(angle)


def cos(angle: Number) -> Number:
    """Cosine of a dual or an array [rad]."""
    if isinstance(angle, Dual):
        return _by_rule(angle, np.cos(angle.value), -np.sin(angle.value))
    return np.cos(angle)


def exp(power: Number) -> Number:
    """Exponential of a dual or an array."""
    if isinstance(power, Dual):
        value = np.exp(power.value)
        return _by_rule(power, value, value)
    return np.exp(power)


def sqrt(square: Number) -> Number:
    """Square root of a dual or an array with a positive real part."""
    if isinstance(square, Dual):
        root = np.sqrt(square.value)
        return _by_rule(square, root, 0.5 / root)
    return np.sqrt(square)


def magnitude(phasor: tuple[Number, Number]) -> Number:
    """√(re² + im²), analytic."""
    re, im = phasor
    return sqrt(re * re + im * im)


def angle(phasor: tuple[Number, Number]) -> Number:
    """Angle of a phasor [rad], analytic to first order in imaginary parts."""
    re, im = phasor
    if not (isinstance(re, Dual) and isinstance(im, Dual)):
        return np.arctan2(real(im), real(re))
    square = re.value * re.value + im.value * im.value
    value = np.arctan2(np.real(im.value), np.real(re.value))
    if np.iscomplexobj(square):
        turn = np.real(re.value) * np.imag(im.value) - np.real(im.value) * np.imag(re.value)
        value = value + 1j * turn / np.real(square)
    slopes = (re.value[..., None] * im.slopes - im.value[..., None] * re.slopes) / square[..., None]
    return Dual(value, slopes)


def real(number: Number) -> Any:
    """Real part of the value, for a comparison."""
    return np.real(number.value if isinstance(number, Dual) else number)


def where(condition: Any, then: Number, otherwise: Number) -> Number:
    """Take one of two quantities at each place."""
    if not (isinstance(then, Dual) or isinstance(otherwise, Dual)):
        return np.where(condition, then, otherwise)
    like = then if isinstance(then, Dual) else otherwise
    then, otherwise = _dual(then, like), _dual(otherwise, like)
    return Dual(
        np.where(condition, then.value, otherwise.value),
        np.where(np.asarray(condition)[..., None], then.slopes, otherwise.slopes),
    )


def _dual(number: Number, like: Dual) -> Dual:
    if isinstance(number, Dual):
        return number
    return Dual(np.asarray(number), np.zeros_like(like.slopes))


def seeds(values: Any) -> list[Dual]:
    """Make the variables themselves: values (…, k) to k duals with unit slopes."""
    k = values.shape[-1]
    unit = np.eye(k, dtype=values.dtype)
    shape = (*values.shape[:-1], k)
    return [Dual(values[..., i], np.broadcast_to(unit[i], shape)) for i in range(k)]
