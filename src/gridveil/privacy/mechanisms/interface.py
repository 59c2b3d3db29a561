"""What a mechanism is: how it calibrates, draws, and says what it drew; and what a sampler is.

A mechanism takes something of a parameter (its entries, their sum or mean, nothing), and adds noise
to it.
It works on a part of a table: one parameter, or, where its noise is joint, all parameters of one
asset that it draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from gridveil.foundation.errors import NOTHING_SPENT, OptionError
from gridveil.grid.facts import Array, IntArray
from gridveil.grid.parameters import Range

Takes = Literal["items", "sum", "mean", "nothing", "published"]
# Of these, noise is drawn.
NOISY: tuple[Takes, ...] = ("items", "sum", "mean")
HALVINGS = 60  # of an interval, when a distribution function is inverted


@dataclass(frozen=True)
class Calibration:
    """A scale of noise, and the exact privacy loss of a change by the distance it was made for.

    scale : [the parameter's unit]
    spent : never above the ε that was asked for
    """

    scale: float
    spent: float


class Noise(ABC):
    """Noise of one law, symmetric and with a scale, drawn for each value independently, or for each
    d values of a row jointly.

    z stands for a distance in scales, y for a clipped noisy value, x for the value behind it. The
    law of one value alone is its marginal.
    """

    name: str
    """In words, such as "Laplace"."""
    measured_by: str
    """What samples it exactly, as a certificate names it; empty: nothing does."""
    joint: bool = False
    """Whether the values of a row are drawn together."""
    reach: float
    """Beyond this many scales the density is next to nothing."""

    @property
    def whole(self) -> Noise:
        """The law of a row, whichever of its values is meant by one alone."""
        return self

    @abstractmethod
    def calibrate(self, distance: Fraction, epsilon: Fraction, size: int) -> Calibration:
        """Find the least scale with a loss of at most ε, for two vectors (size,) that are so far
        apart in the sum of absolute differences.
        """

    @property
    def deviation(self) -> float:
        """Standard deviation of one value at scale 1; by quadrature where a law has no formula."""
        share = (np.arange(10_000) + 0.5) / 10_000 - 0.5
        return float(np.sqrt(np.mean(self.quantile(share) ** 2)))

    def cost(self, distance: Any, scale: Any) -> Any:
        """Loss between values that are so far apart."""
        return distance / scale

    def scale(self, distance: Any, cost: Any) -> Any:
        """Scale at which values so far apart cost this much: the inverse of `cost`."""
        return distance / cost

    def measurement(self, size: int, scale: Any) -> Callable[[list[Any]], list[Any]]:  # noqa: ARG002
        """Make what adds this noise to vectors (size,), or to rows (size, d), in exact arithmetic,
        from the system's own generator.

        scale : of every value; joint noise: (d,).
        """
        raise OptionError(
            f"Nothing samples {self.name} noise exactly.",
            outcome="Nothing was drawn.",
            remedy="Use a DemoSampler.",
        )

    @abstractmethod
    def seeded(self, random: np.random.Generator, scale: Any, size: int | tuple[int, ...]) -> Array:
        """Draw floating-point noise, for demos and simulations alone; scale as above."""

    @abstractmethod
    def cdf(self, z: Array) -> Array:
        """P(noise ≤ z) at scale 1."""

    def quantile(self, share: Array) -> Array:
        """Invert the distribution function of one value at scale 1, at ½ + share; by bisection
        where a law has no formula.
        """
        size = np.abs(share)
        return np.sign(share) * _inverted(self.cdf, 0.5 + size, 0 * size, 2 * self.reach)

    @abstractmethod
    def likelihood(self, apart: Array, scale: Array, clipped: Array) -> Array:
        """Likelihood of y given x, up to a factor that depends on y alone; flat at an infinite
        scale.

        apart : x − y, where noise was added
        clipped : −1 where y is the lower clip value, 1 where it is the upper one, else 0
        """

    @abstractmethod
    def ratio(self, z: Array, loss: Any) -> Array:
        """Log-likelihood ratio of two values `loss` scales apart; z : from their middle."""

    def ratio_of_rows(self, z: Array, losses: Array) -> Array:
        """Log-likelihood ratio of rows that lie `losses` (c,) scales apart; z (..., c)."""
        return self.ratio(z, losses).sum(axis=-1)

    def independent(self, z: Array) -> Array:
        """Bring rows of noise (..., c) to what is uniform on (0, 1) and independent, if and only if
        they are of this law.
        """
        return self.cdf(z)

    def rows(self, share: Array) -> Array:
        """Bring rows of places in the law, −½ to ½ (..., c), to rows of noise at scale 1: the
        inverse of `independent`, column by column. For trials, never as privacy noise.
        """
        if not self.joint:
            return self.quantile(share)
        z = np.zeros(share.shape)
        z[..., 0] = self.whole.quantile(share[..., 0])
        for column in range(1, share.shape[-1]):

            def so_far(value: Array, column: int = column) -> Array:
                z[..., column] = value
                return self.independent(z)[..., column]

            ends = (np.full(share.shape[:-1], way * 2 * self.reach) for way in (-1, 1))
            z[..., column] = _inverted(so_far, 0.5 + share[..., column], *ends)
        return z

    @abstractmethod
    def advantage(self, losses: Sequence[float]) -> float:
        """TPR − FPR of the best test between neighbours that differ in some coordinates by so many
        scales.
        """

    def depth(self, x: Array, y: Array, scale: float) -> Array:
        """Log-likelihood of x (points, n) given all of y (R, n), clipping left aside."""
        inside, b = np.zeros(1), np.array([scale])
        each = (self.likelihood(x - row, b, inside) for row in y)
        return sum((np.log(np.maximum(part, 1e-300)) for part in each), np.zeros(x.shape))


@runtime_checkable
class Sampler(Protocol):
    """Adds noise to a vector: the source of its randomness."""

    def in_words(self, noises: Sequence[Noise]) -> str:
        """Name what draws such noises, with its version, for the guarantee."""
        ...

    def draw(self, values: Array, scale: Any, noise: Noise) -> Array:
        """Return values (n,) + noise of a scale; or rows (n, d) + joint noise of scales (d,)."""
        ...


@dataclass(frozen=True)
class Asked:
    """What is asked of a mechanism for one parameter. Public, all of it.

    unit : of the parameter
    entries : how many it has
    public : bounds of one entry
    alpha : distance that the promise speaks of [unit; relative: a ratio]
    distance : how far apart two neighbours' entries are at most, where noise is added
    epsilon : share of ε
    relative : whether noise goes on logarithms
    summed : whether entries are sums of parts themselves, and so rounded
    """

    unit: str
    entries: int
    public: Range
    alpha: Fraction
    distance: Fraction
    epsilon: Fraction
    relative: bool
    summed: bool


@dataclass(frozen=True)
class GroupLoss:
    """What one parameter was charged.

    alpha : distance the promise speaks of [unit]
    epsilon : exact ε that was asked for
    spent : what the mechanism's own map gives, never above it
    scale : of the noise [unit]
    drawn : name of the mechanism
    relative : whether noise is on logarithms: then α is a ratio, the promise speaks of
        log(1 + α), and scale has no unit
    together : how many parameters one joint draw covers, this one included; they share one loss
    place : which of these it is, from 0
    """

    unit: str
    alpha: Fraction
    epsilon: Fraction
    spent: float
    scale: float
    drawn: str = "items"
    relative: bool = False
    together: int = 1
    place: int = 0

    @property
    def mechanism(self) -> Mechanism:
        """What drew it."""
        return named(self.drawn)

    @property
    def noise(self) -> Noise:
        """The law of its noise, of one value alone and of all that were drawn with it."""
        return self.mechanism.law(self.together, self.place)

    @property
    def alpha_in_words(self) -> str:
        """α with its unit."""
        return f"{self.alpha} (a ratio)" if self.relative else f"{self.alpha} {self.unit}"

    @property
    def scale_in_words(self) -> str:
        """The noise's scale with its unit."""
        return (
            f"{self.scale:.6g} of the logarithm"
            if self.relative
            else f"{self.scale:.6g} {self.unit}"
        )


class Mechanism(ABC):
    """Calibrates, prepares, draws, and says itself in words. Frozen, and without any value."""

    name: str
    """Of the mechanism, in allocations, ledgers and bundles."""
    takes: Takes
    """What it takes of a parameter: every entry, their sum, their mean, or nothing; published:
    every entry, to go out without noise.
    """
    noise: Noise
    """Its noise, whatever the number of parameters that it draws together: see `law`."""
    each: str
    """What is drawn, in an allocation's words, such as "their sum"."""
    whole: str
    """The same in a sentence, such as "every item"."""
    joint: bool = False
    """Whether it draws the parameters of an asset together, with one loss."""
    at_once: tuple[str, ...] = ("one-asset",)
    """Rules by which all that it draws together may move at once, and shows in one row."""

    def size(self, entries: int) -> int:
        """How many values it draws of so many entries."""
        return {"items": entries, "sum": 1, "mean": 1}.get(self.takes, 0)

    def law(self, together: int, place: int = 0) -> Noise:  # noqa: ARG002
        """The law of its noise on so many parameters, for whoever judges what it drew.

        place : which of them is meant by "one value alone", where their marginals differ.
        """
        return self.noise

    def range(self, public: Range, entries: int) -> Range:
        """Public bounds of what it draws; public : of one entry."""
        if self.takes != "sum":
            return public
        return Range(entries * public.lower, entries * public.upper)

    @abstractmethod
    def distance(self, asked: Asked) -> Fraction:
        """How far apart two neighbours are at most in what it draws: noise is made for it, and
        whoever verifies a bundle compares its scale with it.
        """

    @abstractmethod
    def calibrate(self, part: Mapping[str, Asked]) -> dict[str, GroupLoss]:
        """Fix scales and losses of a part, before anything is charged."""

    def loss(self, part: Mapping[str, GroupLoss], moved: Collection[str]) -> Fraction:
        """Exact loss of a part between neighbours that differ in the parameters moved.

        Losses of independent noise add up.
        """
        return sum(
            (Fraction(loss.spent) for name, loss in part.items() if name in moved), Fraction(0)
        )

    @abstractmethod
    def prepare(self, values: Array, loss: GroupLoss, public: Range) -> Array:
        """What noise is added to; values : true ones, which `perturb` alone passes; public : bounds
        of what is drawn.
        """

    @abstractmethod
    def draw(
        self,
        prepared: Mapping[str, Array],
        part: Mapping[str, GroupLoss],
        sampler: Sampler,
        at: Mapping[str, IntArray],
    ) -> dict[str, Array]:
        """Add the noise of a part: the one time it is drawn.

        at : (entries,) of each parameter, which asset of its kind an entry belongs to.
        """

    @abstractmethod
    def released(self, drawn: Array, loss: GroupLoss, public: Range) -> Array:
        """Bring what was drawn into its public bounds: post-processing."""


def _inverted(rising: Callable[[Array], Array], target: Array, low: Array, high: Any) -> Array:
    """Find where a rising function has these values, between low and high, by bisection."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        under = rising(middle) < target
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return (low + high) / 2


REGISTERED: dict[str, Mechanism] = {}


@contextmanager
def registered(*mechanisms: Mechanism) -> Iterator[None]:
    """Make further mechanisms known by their names within a block; they serve demos alone."""
    for mechanism in mechanisms:
        if mechanism.name in REGISTERED:
            raise OptionError(f"A mechanism {mechanism.name!r} is registered already.")
        REGISTERED[mechanism.name] = mechanism
    try:
        yield
    finally:
        for mechanism in mechanisms:
            del REGISTERED[mechanism.name]


def named(name: str) -> Mechanism:
    """The mechanism of a name."""
    if name not in REGISTERED:
        raise OptionError(
            "This mechanism is unknown.",
            expected=f"one of {', '.join(REGISTERED)}",
            outcome=NOTHING_SPENT,
        )
    return REGISTERED[name]


def parts(
    draws: Mapping[str, str], assets: Mapping[str, str]
) -> list[tuple[Mechanism, tuple[str, ...]]]:
    """List what is drawn together, in the order of draws; what is not drawn is left out.

    Two mechanisms never share a draw, even on one asset: items and means of a machine are two.
    """
    together: dict[tuple[str, str], list[str]] = {}
    for name, way in draws.items():
        if named(way).takes in NOISY:
            key = assets[name] if named(way).joint else name
            together.setdefault((way, key), []).append(name)
    return [(named(way), tuple(names)) for (way, _), names in together.items()]


def drawn_jointly(
    draws: Mapping[str, str], assets: Mapping[str, str], counts: str | None = None
) -> dict[str, str]:
    """Name the joint draw that each parameter belongs to, where it covers more than one.

    A draw of one value is like independent noise, by every rule.
    counts : a rule; draws of which not all moves at once by it are left out.
    """
    return {
        name: f"{mechanism.name}: {', '.join(sorted(names))}"
        for mechanism, names in parts(draws, assets)
        if mechanism.joint and len(names) > 1
        if counts is None or counts in mechanism.at_once
        for name in names
    }
