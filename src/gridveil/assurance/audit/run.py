"""One-run audit of an adjacency: many canaries at once, the best guesses, what they prove, and the
measured advantage of the all-but-one adversary beside the exact one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridveil.adversary.attack.guess import bound
from gridveil.assurance.audit.canaries import Block, Coordinate, moved_together
from gridveil.assurance.audit.findings import Finding, Tally, epsilon_lower, finding, success_lower
from gridveil.assurance.audit.pieces import Plain
from gridveil.assurance.audit.releases import ChargedReleases, Draw, chain, perturbed
from gridveil.foundation.shards import cut
from gridveil.grid.facts import Array
from gridveil.grid.parameters import PARAMETERS
from gridveil.privacy.adjacency import Adjacency, Rule
from gridveil.privacy.allocation import ITEMS, Allocation
from gridveil.privacy.mechanisms import Noise, Sampler
from gridveil.vault.source import SourceGrid

Progress = Callable[[int], object]

LARGEST_BLOCK = 25_000  # positions: about two seconds of OpenDP a release
TWO_RELEASES = 20  # one canary in so many again, for what only two releases together show


@dataclass(frozen=True)
class Canaries:
    """Canaries of an adjacency, many in a release; all as in `audit_adjacency`.

    words : of the rows; empty: the rule.
    """

    adjacency: Adjacency
    epsilon: Fraction
    canaries: int
    allocation: Allocation = ITEMS
    alone: bool = False
    words: str = ""

    @property
    def subject(self) -> str:
        """What is audited."""
        return self.words or self.adjacency.rule

    @property
    def spans(self) -> list[range]:
        """A block each."""
        return cut(len(self._blocks), 1)

    @property
    def _blocks(self) -> list[tuple[int, int]]:
        return list(_blocks(self.adjacency.rule, self.canaries))

    def values(self, span: range) -> int:
        """Three a position and release."""
        releases, positions = self._blocks[span.start]
        return len(PARAMETERS) * releases * positions

    def tally(
        self,
        span: range,
        sampler: Sampler | None,
        random: np.random.Generator | None,
        draw: Draw | None = None,
    ) -> Plain:
        """Play a block, and guess; draw : default: of `perturb`."""
        releases, positions = self._blocks[span.start]
        draw = draw or perturbed(self.adjacency, self.epsilon, sampler, self.allocation)
        played = play(
            self.adjacency,
            self.epsilon,
            positions,
            releases,
            draw,
            alone=self.alone,
            random=random,
        )
        canaries = self.canaries if releases == 1 else math.ceil(self.canaries / TWO_RELEASES)
        counts = played.block.by_likelihood(played.z, played.losses, canaries, played.noise)
        differences = played.block.by_differences(played.z) if releases > 1 else {}
        return {
            "releases": releases,
            "likelihood": Tally(played.drawn.charged, counts).plain(),
            "differences": Tally(played.drawn.charged, differences).plain(),
        }

    def rows(self, tallies: Sequence[Plain], parts: int) -> tuple[Finding, ...]:
        """State a row for all canaries of one release, one for each pattern, and two for the pairs
        of releases.
        """
        single, double = (
            Tally.joined(one["likelihood"] for one in tallies if one["releases"] == releases)
            for releases in (1, 2)
        )
        differences = Tally.joined(one["differences"] for one in tallies).counts
        rows = {"all": single.whole()} | dict(single.counts)
        count = parts * (len(rows) + 2)
        largest = max(
            differences,
            key=lambda name: float(
                epsilon_lower(differences[name].correct, differences[name].guesses, 0.95)
            ),
        )
        return (
            *(
                finding(self.subject, name, single.charged, counts, rows=count)
                for name, counts in rows.items()
            ),
            finding(self.subject, "two releases", double.charged, double.whole(), rows=count),
            finding(
                self.subject,
                f"differences ({largest})",
                double.charged,
                differences[largest],
                rows=count,
                choices=len(differences),
            ),
        )


def audit_adjacency(
    adjacency: Adjacency,
    epsilon: Fraction,
    canaries: int,
    *,
    draw: Draw | None = None,
    alone: bool = False,
    subject: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    parts: int = 1,
) -> tuple[Finding, ...]:
    """Bound ε from below by guessing the secrets of canaries from draws (default: of `perturb`,
    with ε each).

    canaries : at least so many with one release, and a twentieth of it with two releases of two
    versions of a grid.
    alone : whether some canaries move one parameter of an asset alone, for joint noise.
    subject : of the rows, in words; default: the rule.
    workers : threads (OpenDP frees the interpreter while it draws).
    progress : told how many values a block drew.
    parts : of an audit of which this is one; all of them together keep to the confidence that
    decides.

    Privacy
    -------
    The canaries of a block lie in disjoint entries, and blocks are grids of their own, so a flip of
    one secret is one step of the adjacency in one grid: the draws together are ε-DP for it if each
    is, which is what `epsilon_lower` needs. The claim is the largest charge of any block.
    """
    part = Canaries(adjacency, epsilon, canaries, alone=alone, words=subject or "")
    pool = ThreadPoolExecutor(workers or os.cpu_count() or 1)
    try:
        jobs = {pool.submit(part.tally, span, None, None, draw): span for span in part.spans}
        for job in as_completed(jobs):
            job.result()
            if progress is not None:
                progress(part.values(jobs[job]))
    finally:
        pool.shutdown(cancel_futures=True)
    return part.rows([job.result() for job in jobs], parts)


def values_to_draw(rule: Rule, canaries: int) -> int:
    """Count the values that an audit draws, for a progress bar: three a position and release."""
    return sum(len(PARAMETERS) * releases * size for releases, size in _blocks(rule, canaries))


def _blocks(rule: Rule, canaries: int) -> Iterator[tuple[int, int]]:
    """Share the canaries among blocks: (releases, positions) of each."""
    for releases, wanted in (
        (1, math.ceil(canaries / len(moved_together(rule)))),
        (2, math.ceil(canaries / TWO_RELEASES)),
    ):
        blocks = math.ceil(wanted / LARGEST_BLOCK)
        yield from [(releases, math.ceil(wanted / blocks))] * blocks


@dataclass(frozen=True, eq=False)
class Played:
    """A block of canaries and what was drawn of it.

    z : (output − centre) / scale of each coordinate.
    losses : α/scale.
    noise : of each group, as the guarantee names it.
    """

    block: Block
    drawn: ChargedReleases
    z: Mapping[Coordinate, Array]
    losses: Mapping[str, float]
    noise: Mapping[str, Noise]


def play(
    adjacency: Adjacency,
    epsilon: Fraction,
    positions: int,
    releases: int,
    draw: Draw,
    *,
    alone: bool = False,
    random: np.random.Generator | None = None,
) -> Played:
    """Hide fresh secrets in a synthetic grid and draw releases of it."""
    block = Block.fresh(adjacency.rule, positions, releases, alone=alone, random=random)
    # Powers of two keep centre ± α/2 exact; a thousand scales from zero keep the source's values
    # positive.
    centre = {
        name: float(alpha) * 2.0 ** max(2, math.ceil(math.log2(1000 / epsilon)))
        for name, alpha in adjacency.alpha.items()
    }
    values = {
        (r, g): _moved(centre[g], float(adjacency.alpha[g]), adjacency, by)
        for (r, g), by in block.offsets().items()
    }
    facts = chain(positions)
    drawn = draw(
        [
            SourceGrid.of(facts, **{group: values[release, group] for group in PARAMETERS})
            for release in range(releases)
        ]
    )
    assert len(drawn.noisy) == releases, "a draw gives one release for each source"
    groups = drawn.noisy[0].guarantee.groups
    losses = {name: apart(adjacency, name) / groups[name].scale for name in PARAMETERS}
    noise = {name: loss.noise for name, loss in groups.items()}
    return Played(block, drawn, _standardised(drawn, centre, adjacency), losses, noise)


def _moved(centre: float, alpha: float, adjacency: Adjacency, by: Array) -> Array:
    """Move a group's centre by so many α, or by so many factors of 1 + α; (n,)."""
    return centre * (1 + alpha) ** by if adjacency.relative else centre + alpha * by


def apart(adjacency: Adjacency, name: str) -> float:
    """How far apart the two values of a canary are, where the noise is added."""
    alpha = float(adjacency.alpha[name])
    return math.log1p(alpha) if adjacency.in_ratios(name) else alpha


def _standardised(
    drawn: ChargedReleases, centre: Mapping[str, float], adjacency: Adjacency
) -> dict[Coordinate, Array]:
    """Express outputs as (output − centre) / scale, with the scale that the guarantee states; (n,)
    each.
    """
    felt = np.log if adjacency.relative else np.asarray
    return {
        (release, name): (felt(noisy.values[name]) - felt(centre[name]))
        / noisy.guarantee.groups[name].scale
        for release, noisy in enumerate(drawn.noisy)
        for name in PARAMETERS
    }


CONFIDENCE = 0.999


@dataclass(frozen=True)
class Advantage:
    """How well the best test tells two neighbours apart: TPR − FPR = 2 P(right) − 1.

    moved : what differs between the two, in whichever directions.
    draws : guesses made.
    low, high : 99.9 % interval of the measured value (Clopper–Pearson).
    exact : against noise of the law and the scales that the guarantee states.
    bound : against anything ε-DP.
    """

    rule: str
    moved: str
    epsilon: Fraction
    draws: int
    measured: float
    low: float
    high: float
    exact: float
    bound: float

    @property
    def passed(self) -> bool:
        """Whether the exact value lies in the measured interval."""
        return self.low <= self.exact <= self.high


def measure_advantage(
    adjacency: Adjacency,
    epsilon: Fraction,
    draws: int,
    *,
    draw: Draw | None = None,
    workers: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> tuple[Advantage, ...]:
    """Guess secrets by the sign of the likelihood ratio, at least `draws` times for each step of
    the adjacency.

    draw : what releases are made by; default: `perturb`, with ε each.
    progress : told how many values a block drew.
    """
    draw = draw or perturbed(adjacency, epsilon)
    right: dict[str, float] = {}
    made: dict[str, int] = {}
    exact: dict[str, float] = {}
    pool = ThreadPoolExecutor(workers or os.cpu_count() or 1)
    try:
        blocks = math.ceil(draws / LARGEST_BLOCK)
        size = math.ceil(draws / blocks)
        jobs = [pool.submit(play, adjacency, epsilon, size, 1, draw) for _ in range(blocks)]
        for job in as_completed(jobs):
            played = job.result()
            for pattern, secret, ratio in zip(
                played.block.patterns,
                played.block.secrets,
                played.block.ratios(played.z, played.losses, played.noise),
                strict=True,
            ):
                # ℓ = 0 tells nothing: half of those are right.
                hits = (np.sign(ratio) == secret).sum() + 0.5 * (ratio == 0).sum()
                moved = ", ".join(group for _, group in pattern.signs)
                right[moved] = right.get(moved, 0.0) + float(hits)
                made[moved] = made.get(moved, 0) + len(secret)
                # The signs of a pattern do not matter to it: the noise is symmetric.
                exact[moved] = pattern.law(played.noise).advantage(
                    [played.losses[group] for _, group in pattern.signs]
                )
            if progress is not None:
                progress(len(PARAMETERS) * size)
    finally:
        pool.shutdown(cancel_futures=True)
    out = []
    for name, count in made.items():
        low, high = _interval(right[name], count)
        out.append(
            Advantage(
                rule=adjacency.rule,
                moved=name,
                epsilon=epsilon,
                draws=count,
                measured=2 * right[name] / count - 1,
                low=2 * low - 1,
                high=2 * high - 1,
                exact=exact[name],
                bound=bound(float(epsilon)),
            )
        )
    return tuple(out)


def values_for_advantage(draws: int) -> int:
    """Count the values that are drawn, for a progress bar: three a position, one position for each
    guess of a step.
    """
    blocks = math.ceil(draws / LARGEST_BLOCK)
    return len(PARAMETERS) * blocks * math.ceil(draws / blocks)


def _interval(right: float, count: int) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    return float(success_lower(right, count, 1 - tail)), 1 - float(
        success_lower(count - right, count, 1 - tail)
    )
