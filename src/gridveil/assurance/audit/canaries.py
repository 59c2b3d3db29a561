"""Canaries: joint changes of a table that an adjacency calls one step, each with a secret sign.

Position i of a block is line i and machine i of a synthetic chain. A canary sits at one position
and moves some coordinates there, a coordinate being a group in one of the releases: x_c = centre_γ
+ s_c S α_γ / 2, with its pattern's sign s_c and its own secret S = ±1. Flipping S moves every one
of them by exactly α_γ: the neighbours of the adjacency. Where it counts in ratios, x_c = centre_γ
(1 + α_γ)^(s_c S / 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from gridveil.assurance.audit.findings import Counts, best_threshold
from gridveil.grid.facts import Array
from gridveil.grid.parameters import PARAMETERS
from gridveil.privacy.adjacency import Rule
from gridveil.privacy.mechanisms import Noise

Coordinate = tuple[int, str]  # (release, group)


def moved_together(rule: Rule) -> tuple[tuple[str, ...], ...]:
    """What may change together. Stated here again, and not taken from `Adjacency`: that is what the
    audit must not trust.

    >>> moved_together("one-asset"), moved_together("one-per-group-relative")
    ((('k',), ('m', 'd')), (('k', 'm', 'd'),))
    """
    if rule.startswith("one-per-group"):
        return (tuple(PARAMETERS),)
    if rule.startswith("one-item"):
        return tuple((name,) for name in PARAMETERS)
    kinds: dict[str, list[str]] = {}
    for name, parameter in PARAMETERS.items():
        kinds.setdefault(parameter.asset, []).append(name)
    return tuple(map(tuple, kinds.values()))


@dataclass(frozen=True)
class Pattern:
    """The coordinates that a canary moves, with their signs, and where such canaries sit: position
    first, first + every, …

    signs : 0 of one that stays, and is drawn jointly with others that move.
    """

    name: str
    signs: Mapping[Coordinate, int]
    first: int
    every: int

    @property
    def seats(self) -> slice:
        """Positions in a block."""
        return slice(self.first, None, self.every)

    @property
    def moving(self) -> dict[Coordinate, int]:
        """The coordinates that move, with their signs."""
        return {coordinate: sign for coordinate, sign in self.signs.items() if sign}

    def losses(self, of_groups: Mapping[str, float]) -> tuple[float, ...]:
        """How far each coordinate moves; of_groups : α/scale of each group."""
        return tuple(of_groups[group] if sign else 0.0 for (_, group), sign in self.signs.items())

    def law(self, noise: Mapping[str, Noise]) -> Noise:
        """The one law of all coordinates that it moves; noise : of each group."""
        (law,) = {noise[group].whole for _, group in self.signs}
        return law


def patterns(rule: Rule, releases: int, *, alone: bool = False) -> tuple[Pattern, ...]:
    """List every pattern of signs, up to a common one, of what the rule moves together.

    alone : also each of several that may move together alone, with sign 0 for those that stay:
    their noise is no other's where it is independent, and all of it tells where it is joint.

    With one release every entry of the table belongs to a canary. With two, a position has one
    canary, so that the auditor knows all the rest of it, as the neighbours of a guarantee do.

    >>> [pattern.name for pattern in patterns("one-asset", 1)]
    ['k', 'm, d (+, +)', 'm, d (+, −)']
    >>> len(patterns("one-per-group", 2))
    8
    """
    out: list[Pattern] = []
    kinds = [
        (moved, list(product(_signs(len(moved), alone=alone), _signs(releases))))
        for moved in moved_together(rule)
    ]
    total = sum(len(signs) for _, signs in kinds)
    for moved, signs in kinds:
        for number, (by_group, by_release) in enumerate(signs):
            moves = {
                (r, group): s * q
                for r, q in enumerate(by_release)
                for group, s in zip(moved, by_group, strict=True)
            }
            name = (
                ", ".join(moved)
                + _shown(by_group)
                + (" in releases" + _shown(by_release) if releases > 1 else "")
            )
            first, every = (number, len(signs)) if releases == 1 else (len(out), total)
            out.append(Pattern(name, moves, first, every))
    return tuple(out)


def _signs(count: int, *, alone: bool = False) -> list[tuple[int, ...]]:
    signs = [(1, *rest) for rest in product((1, -1), repeat=count - 1)]
    if alone and count > 1:
        signs += [tuple(int(i == j) for i in range(count)) for j in range(count)]
    return signs


def _shown(signs: Sequence[int]) -> str:
    return (
        " (" + ", ".join({1: "+", -1: "−", 0: "0"}[sign] for sign in signs) + ")"
        if len(signs) > 1
        else ""
    )


@dataclass(frozen=True, eq=False)
class Block:
    """The canaries of a synthetic grid with n lines and n machines, and their secrets.

    secrets : for each pattern, (seats,) ±1.
    """

    positions: int
    releases: int
    patterns: tuple[Pattern, ...]
    secrets: tuple[Array, ...]

    @classmethod
    def fresh(
        cls,
        rule: Rule,
        positions: int,
        releases: int,
        *,
        alone: bool = False,
        random: np.random.Generator | None = None,
    ) -> Block:
        """Toss a fair coin for each canary; alone : as in `patterns`."""
        random = random or np.random.default_rng()
        chosen = patterns(rule, releases, alone=alone)
        seats = (len(range(positions)[pattern.seats]) for pattern in chosen)
        return cls(
            positions,
            releases,
            chosen,
            tuple(random.choice(np.array([-1.0, 1.0]), size) for size in seats),
        )

    def offsets(self) -> dict[Coordinate, Array]:
        """Place every coordinate's entries: s S / 2 for a canary's, 0 elsewhere; (n,) each [α]."""
        out = {
            (release, group): np.zeros(self.positions)
            for release in range(self.releases)
            for group in PARAMETERS
        }
        for pattern, secret in zip(self.patterns, self.secrets, strict=True):
            for coordinate, sign in pattern.signs.items():
                out[coordinate][pattern.seats] = sign * secret / 2
        return out

    def by_likelihood(
        self,
        z: Mapping[Coordinate, Array],
        losses: Mapping[str, float],
        canaries: int,
        noise: Mapping[str, Noise],
    ) -> dict[str, Counts]:
        """Guess by the log-likelihood ratio, the best statistic there is.

        z : (n,) of each coordinate, (output − centre) / scale.
        losses : α/scale of each group.
        noise : of each group; one law for all that a canary moves.
        canaries : of the whole audit, for the threshold. Returns the counts of each pattern, by its
        name.
        """
        out: dict[str, Counts] = {}
        for pattern, secret, ratio in zip(
            self.patterns, self.secrets, self.ratios(z, losses, noise), strict=True
        ):
            share = max(1, round(canaries * len(secret) / sum(len(each) for each in self.secrets)))
            threshold = best_threshold(pattern.losses(losses), share, pattern.law(noise))
            out[pattern.name] = Counts.of(ratio, secret, threshold)
        return out

    def ratios(
        self,
        z: Mapping[Coordinate, Array],
        losses: Mapping[str, float],
        noise: Mapping[str, Noise],
    ) -> Iterator[Array]:
        """Log-likelihood ratios of the two secrets of each canary, (seats,) for each pattern; all
        as above.
        """
        for pattern in self.patterns:
            moved = [
                (sign or 1) * z[release, group][pattern.seats]
                for (release, group), sign in pattern.signs.items()
            ]
            apart = np.array(pattern.losses(losses))
            yield pattern.law(noise).ratio_of_rows(np.stack(moved, axis=-1), apart)

    def by_differences(self, z: Mapping[Coordinate, Array]) -> dict[str, Counts]:
        """Guess by s_a (z_a − z_b) and s_a (z_a + z_b), for each two coordinates of which a canary
        moves a at least.

        z : (n,) of each coordinate, (output − centre) / scale. Noise that b shares with a, in
        another group or in another release, cancels there and leaves the secret bare. For honest
        noise it is a function of the output like any other, so the same bound holds. Needs the
        layout of two releases, in which what a canary does not move sits at its centre.
        """
        out: dict[str, Counts] = {}
        for pattern, secret in zip(self.patterns, self.secrets, strict=True):
            moving = pattern.moving
            for pair in combinations(z, 2):
                for way, name in ((-1, "−"), (1, "+")):
                    a, b = pair if pair[0] in moving else reversed(pair)
                    if a not in moving or moving.get(b, 0) == -way * moving[a]:
                        continue  # nothing moves, or the two moves cancel as well
                    score = moving[a] * (z[a] + way * z[b])[pattern.seats]
                    key = f"{_named(pair[0])} {name} {_named(pair[1])}"
                    out[key] = out.get(key, Counts()) + Counts.of(score, secret)
        return out


def _named(coordinate: Coordinate) -> str:
    release, group = coordinate
    return f"{group}{release + 1}"
