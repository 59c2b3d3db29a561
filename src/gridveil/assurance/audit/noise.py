"""The audit of noise: values at, inside and beyond the public bounds, and whether what comes out
has the law that was charged.

Noise is held against the scale that costs what was charged, not against the one that the guarantee
states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridveil.assurance.audit.findings import (
    DECIDING,
    Fit,
    pairs_p,
    repeats_p,
    uniforms,
    values_p,
)
from gridveil.assurance.audit.pieces import Plain, in_order
from gridveil.assurance.audit.releases import (
    Kind,
    Look,
    Seen,
    by_perturb,
    noisy_behind,
    source_of,
)
from gridveil.assurance.audit.rows import row_uniforms
from gridveil.assurance.audit.run import apart
from gridveil.foundation.shards import cut
from gridveil.grid.facts import Array, IntArray
from gridveil.grid.parameters import Bounds, Range, assets, parameters_of
from gridveil.inference.prior import prior_of
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.mechanisms import Sampler, parts

Opens = Callable[[Adjacency, Fraction, Bounds, Kind, Sampler | None], AbstractContextManager[Look]]
PLACES, MIDDLE = 9, 3
SPAN, BUNDLES = 200, 20  # releases of a piece, of `perturb` and in bundles


@dataclass(frozen=True)
class NoiseTest:
    """Releases of tables whose entries sit in every place; all as in `audit_noise`.

    bounds : None: the usual ones.
    """

    subject: str
    adjacency: Adjacency
    epsilon: Fraction
    releases: int
    kind: Kind
    opens: Opens = by_perturb
    bounds: Bounds | None = None

    @property
    def spans(self) -> list[range]:
        """Some releases each; those in bundles take longer."""
        return cut(self.releases, SPAN if self.opens is by_perturb else BUNDLES)

    def values(self, span: range) -> int:
        """All that is drawn."""
        return values_of_noise(len(span), self.kind)

    @property
    def _bounds(self) -> Bounds:
        return self.bounds or Bounds(family=self.adjacency.family)

    @property
    def _public(self) -> dict[str, Range]:
        return self.kind.ranges(self._bounds)

    def tally(
        self, span: range, sampler: Sampler | None, random: np.random.Generator | None
    ) -> Plain:
        """Release tables, and bring what comes out to what should be uniform; exact : whether
        equal values can be told from nearly equal ones.
        """
        kind, public, where = self.kind, self._public, self._where()
        placed = {
            name: _places(
                name,
                public[name],
                kind.allocation.of(name).noise.scale(
                    _moves(self.adjacency, name, kind), float(self.epsilon)
                ),
                self.adjacency,
            )
            for name in public
        }
        truth = {name: placed[name][where[name][span.start : span.stop]] for name in public}
        seen: list[Seen] = []
        with self.opens(self.adjacency, self.epsilon, self._bounds, kind, sampler) as look:
            for number in range(len(span)):
                seen.append(look(source_of(kind, {name: truth[name][number] for name in public})))
        u: dict[str, Array] = {}
        draws = {name: kind.allocation.draws[name] for name in public}
        for _, names in parts(draws, assets(self.adjacency.family)):
            own = {name: truth[name] for name in names}
            u |= _uniform(seen, own, public, kind, self.adjacency, random)
        # The inverse of posterior means is too coarse for that.
        exact = seen[0].means is None
        return {"u": {name: values.tolist() for name, values in u.items()}, "exact": exact}

    def _where(self) -> dict[str, IntArray]:
        """Places of all entries (releases, n): every other release in the middle, where no clip
        value hides the noise; in the others each entry goes round.
        """
        turn, sizes = np.arange(self.releases)[:, None], self.kind.facts.sizes
        return {
            name: np.where(
                turn % 2,
                (turn // 2 + np.arange(self.kind.allocation.of(name).size(sizes[name])) + number)
                % PLACES,
                MIDDLE,
            )
            for number, name in enumerate(self._public)
        }

    def rows(self, tallies: Sequence[Plain], parts: int) -> tuple[Fit]:
        """State one row, of the oddest test."""
        return (self.fit(tallies, (1 - DECIDING) / parts),)

    def fit(self, tallies: Sequence[Plain], level: float) -> Fit:
        """Test all values together; level : the row falls below this."""
        where = self._where()
        u = {name: np.concatenate([one["u"][name] for one in tallies]) for name in where}
        table = np.concatenate([*u.values()], axis=1)
        spots = np.concatenate([*where.values()], axis=1)
        tested = [
            table.ravel(),
            *(one.ravel() for one in u.values()),
            *(table[spots == place] for place in range(PLACES)),
        ]
        p_values = {
            "values": min(1.0, len(tested) * min(values_p(part) for part in tested if part.size)),
            "pairs": pairs_p(table),
        }
        if tallies[0]["exact"]:
            p_values["repeats"] = repeats_p(table)
        oddest = min(p_values, key=lambda name: p_values[name])
        least = min(1.0, len(p_values) * p_values[oddest])
        return Fit(self.subject, oddest, table.size, least, level)


def audit_noise(
    subject: str,
    adjacency: Adjacency,
    epsilon: Fraction,
    releases: int,
    kind: Kind,
    *,
    opens: Opens = by_perturb,
    sampler: Sampler | None = None,
    bounds: Bounds | None = None,
    level: float = 1e-4,
    progress: Callable[[int], object] | None = None,
) -> Fit:
    """Release tables whose entries sit in every place, in the bounds and beyond them, and test the
    noise on each.

    The row names the oddest of three tests: of values (all, by group and by place), of pairs, and
    of repeats.

    Privacy
    -------
    The auditor knows the whole table, and the mechanism claims that its noise is of its law, with
    the scale that costs ε_γ, independent in every entry or every asset, whatever the table. Noise
    of another law is not what was charged for.
    """
    part = NoiseTest(subject, adjacency, epsilon, releases, kind, opens, bounds)
    return part.fit(in_order(part, sampler, progress), level)


def values_of_noise(releases: int, kind: Kind) -> int:
    """Count the values that are drawn, for a progress bar."""
    sizes = kind.facts.sizes
    return releases * sum(kind.allocation.of(name).size(size) for name, size in sizes.items())


def _places(name: str, public: Range, scale: float, adjacency: Adjacency) -> Array:
    """At both bounds, half a scale to either side of them, in the middle, further above, far above,
    and next to 0 or at it.
    """
    lower, upper = public.lower, public.upper
    if adjacency.in_ratios(name):
        half = np.exp(scale / 2)
        middle = (lower * upper) ** 0.5
        return np.array(
            [
                lower / 1e3,
                lower,
                lower * half,
                middle,
                upper / half,
                upper,
                upper * half,
                upper * half**6,
                upper * 1e3,
            ]
        )
    positive = parameters_of(adjacency.family)[name].positive
    least, middle = lower / 1e3 if positive else 0.0, (lower + upper) / 2
    return np.array(
        [
            least,
            lower,
            lower + scale / 2,
            middle,
            upper - scale / 2,
            upper,
            upper + scale / 2,
            upper + 3 * scale,
            10 * upper,
        ]
    )


def _uniform(
    seen: list[Seen],
    truth: Mapping[str, Array],
    public: Mapping[str, Range],
    kind: Kind,
    adjacency: Adjacency,
    random: np.random.Generator | None,
) -> dict[str, Array]:
    """Bring the outputs of one draw to what should be uniform: (releases, n) of each group in it.

    A sum is put into its bounds before noise is added.
    """
    output, scale, known = dict[str, Array](), dict[str, Array](), dict[str, Array]()
    for name, values in truth.items():
        mechanism = kind.allocation.of(name)
        output[name] = np.array([one.drawn[name] for one in seen])
        if (means := seen[0].means) is not None:
            prior = prior_of(name, mechanism.takes, kind.facts.sizes[name])
            output[name] = noisy_behind(output[name], means[name], public[name], prior)
        charged = np.array([[one.spent[name]] for one in seen])
        scale[name] = mechanism.noise.scale(_moves(adjacency, name, kind), charged)
        within = (public[name].lower, public[name].upper)
        known[name] = np.clip(values, *within) if mechanism.takes == "sum" else values
    law = kind.allocation.of(next(iter(truth))).law(len(truth))
    if not law.joint:
        return {
            name: uniforms(
                output[name],
                known[name],
                scale[name],
                public[name],
                noise=law,
                relative=adjacency.in_ratios(name),
                random=random,
            )
            for name in truth
        }
    felt = {name: np.log if adjacency.in_ratios(name) else np.asarray for name in truth}
    z, low, high = (
        np.stack(
            [(felt[name](y[name]) - felt[name](known[name])) / scale[name] for name in truth],
            axis=-1,
        )
        for y in (
            output,
            {name: public[name].lower for name in truth},
            {name: public[name].upper for name in truth},
        )
    )
    z_rows, low_rows, high_rows = (part.reshape(-1, len(truth)) for part in (z, low, high))
    found = row_uniforms(z_rows, low_rows, high_rows, law, random).reshape(z.shape)
    return {name: found[..., column] for column, name in enumerate(truth)}


def _moves(adjacency: Adjacency, name: str, kind: Kind) -> float:
    """How far neighbours lie apart in what is drawn: of a mean, a part of what one entry moves."""
    entries = kind.facts.sizes[name] if kind.allocation.of(name).takes == "mean" else 1
    return apart(adjacency, name) / entries
