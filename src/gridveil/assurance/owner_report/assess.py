"""The owner's exit: how near the attacks come to the truth. Results are `Private`; only the
sign-off writer opens them.

Every attack is tried on the plain Kron reduction of the source and on the release, with a blind
guess beside it. Figures over ε and over several releases come from seeded demo draws of the source,
which never leave this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gridveil.adversary.attack.guess import within
from gridveil.adversary.attack.network import (
    LARGEST,
    Inversion,
    invert,
    is_star,
    port_patterns,
    recover_star,
    recover_star_by_share,
)
from gridveil.adversary.attack.topology import (
    EdgeGuess,
    Pair,
    can_guess,
    equal_columns,
    guess_edges,
)
from gridveil.adversary.explain import doubts
from gridveil.assurance.owner_report.redraws import (
    EPSILON_FACTORS,
    RELEASES,
    AveragingRow,
    EpsilonRow,
    Progress,
    Redraws,
    averaging_rows,
    best_guess,
    drawn_of,
    draws_of,
    epsilon_row,
    line_guesses,
    median_error,
)
from gridveil.assurance.owner_report.with_records import STEPS as STEPS_WITH_RECORDS
from gridveil.assurance.owner_report.with_records import RecordRow, record_rows
from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.errors import InputError
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import Array, GridFacts, IntArray
from gridveil.grid.parameters import INERTIA, REDUCED_WEIGHT, WEIGHT
from gridveil.inference.fit.problem import Observation
from gridveil.inference.posterior import middle
from gridveil.privacy.guarantee import GroupLoss
from gridveil.publication.ports import port_shares
from gridveil.publication.release import Release, loaded_buses, neutral
from gridveil.vault.source import Private, SourceGrid


@dataclass(frozen=True)
class LineScore:
    """How near guessed line weights come. rank, fixed : of the inversion, where there is one.

    hit_1 : lines within 1 % of the truth.
    hit_alpha : within α, where lines were drawn.
    error : median of |guess/truth − 1|.
    """

    hit_1: int
    hit_alpha: int | None
    error: float
    rank: int | None = None
    fixed: int | None = None


@dataclass(frozen=True)
class LineRow:
    """One attack on the lines: on the plain Kron reduction, on the release, and blind.

    None: it does not apply.
    """

    attack: str
    plain: LineScore | None
    release: LineScore | None


@dataclass(frozen=True)
class TopologyRow:
    """Edges guessed from a model: F1 beside that of as many drawn by lot, and buses named as behind
    one cut vertex.
    """

    model: str
    ports: int
    guessed: int
    f1: float
    blind_f1: float
    behind_cut: int


@dataclass(frozen=True)
class MachineRow:
    """Median relative error of the machines' values: as released, and blind. plain is 0: a plain
    reduction shows them.
    """

    group: str
    release: float
    blind: float


@dataclass(frozen=True, eq=False)
class Assessment:
    """What all attacks came to. truth, plain_guess, release_guess : (e,) line weights, for a
    figure; lines that are fixed.

    alpha : in words, None where nothing was drawn of the lines.
    edges : of the grid.
    counted : those of them between machines and loaded buses, which F1 is of.
    tried : whether lines were attacked, where the release shows anything of them.
    with_records : none where no trajectory was given.
    left_out : attacks that the grid is too large for, in sentences;
    doubts : why the release may be of another grid, likewise.
    """

    lines: int
    alpha: str | None
    rows: tuple[LineRow, ...]
    blind: LineScore
    topology: tuple[TopologyRow, ...]
    edges: int
    counted: int
    machines: tuple[MachineRow, ...]
    by_epsilon: tuple[EpsilonRow, ...]
    averaging: tuple[AveragingRow, ...]
    with_records: tuple[RecordRow, ...]
    averaged: str
    blind_m: float
    truth: Array
    plain_guess: Array
    release_guess: Array
    fixed: IntArray
    tried: bool
    left_out: tuple[str, ...]
    doubts: tuple[str, ...]


@sealed
def steps(source: SourceGrid, observed: Sequence[Observation] = ()) -> int:
    """Count the steps that `assess_attacks` tells its progress."""
    with_records = STEPS_WITH_RECORDS if observed else 0
    return 4 + len(EPSILON_FACTORS) * draws_of(source.facts) + max(RELEASES) + with_records


@sealed
def assess_attacks(
    source: SourceGrid,
    release: Release,
    observed: Sequence[Observation] = (),
    *,
    seed: int = 1,
    progress: Progress | None = None,
) -> Private[Assessment]:
    """Try every attack on the plain Kron reduction of a grid and on a release of it, and those that
    public records allow.

    Privacy
    -------
    For the owner alone: it compares with the truth, and no ε covers it. The result is `Private`.
    """
    told = progress or (lambda _: None)
    facts = source.facts
    values = {name: Private.open(private) for name, private in source.values.items()}
    k, m = values[WEIGHT.name], values[INERTIA.name]
    check_matches(source, release)
    shares = port_shares(facts, release)
    loss = release.guarantee.groups.get(WEIGHT.name)
    full = reduced_model(facts, values)
    plain = neutral(full, facts)
    own = port_patterns(facts, loaded_buses(facts))
    blind = np.full(len(k), middle(release.bounds[WEIGHT.name]))

    told("inverting the plain reduction")
    attacked: list[tuple[str, Inversion, Inversion | None]] = []
    guess, fixed, misfit = blind, np.zeros(len(k), dtype=bool), None
    if len(k) <= LARGEST:
        alone, by_loaded = (
            invert(plain, facts, release.bounds[WEIGHT.name]),
            invert(plain, facts, release.bounds[WEIGHT.name], own),
        )
        by_all = invert(full, facts, release.bounds[WEIGHT.name], np.eye(len(facts.interior)))
        told("inverting the release")
        both = None
        if shares is not None:
            both = invert(release.swing, facts, release.bounds[WEIGHT.name], own @ shares)
            guess, fixed = best_guess(line_guesses(both, release, blind), k, loss), both.fixed
            misfit = both.misfit
        attacked = [
            (
                "Gauss–Newton: L_red",
                alone,
                (shares is not None and invert(release.swing, facts, release.bounds[WEIGHT.name]))
                or None,
            ),
            ("Gauss–Newton: L_red, K_ac of the ports", by_loaded, both),
            ("Gauss–Newton: L_red, all of K_ac", by_all, None),
        ]
    rows = _star_rows(facts, full, release, k, loss)
    rows += [
        LineRow(
            name, _line_score(on_plain, k, loss), on_release and _line_score(on_release, k, loss)
        )
        for name, on_plain, on_release in attacked
    ]
    tried = len(k) <= LARGEST
    # A release that hides its network leaves nothing better than a blind guess; lines that nobody
    # attacked are another matter.
    best = _scored(guess, k, loss) if tried or shares is None else None
    rows.append(LineRow("best attack", rows[-1].plain if rows else None, best))

    told("guessing edges")
    topology = _topology(facts, plain, release, shares)

    told("comparing machines")
    released = release.swing.of_machines
    machines = tuple(
        MachineRow(
            name,
            median_error(released[name], truth),
            median_error(np.full(len(truth), middle(release.bounds[name])), truth),
        )
        for name, truth in full.of_machines.items()
    )
    again = Redraws(source, release, own @ shares if shares is not None else None, seed)
    by_epsilon = tuple(epsilon_row(again, factor, k, m, told) for factor in EPSILON_FACTORS)
    averaging = averaging_rows(again, k, m, np.flatnonzero(fixed), told)
    with_records = record_rows(again, observed, full, told) if observed else ()
    return Private(
        Assessment(
            lines=len(k),
            alpha=loss.alpha_in_words if loss else None,
            rows=tuple(rows),
            blind=_scored(blind, k, loss),
            topology=topology,
            edges=len(facts.edges),
            counted=true_pairs(facts, None)[1],
            machines=machines,
            by_epsilon=by_epsilon,
            averaging=averaging,
            with_records=with_records,
            averaged=f"Σ{INERTIA.name}" if again.of(INERTIA.name).takes == "sum" else INERTIA.name,
            blind_m=median_error(
                *drawn_of(
                    again.of(INERTIA.name), np.full(len(m), middle(release.bounds[INERTIA.name])), m
                )
            ),
            truth=k,
            plain_guess=attacked[-1][1].weights if attacked else blind,
            release_guess=guess,
            fixed=np.flatnonzero(fixed),
            tried=tried,
            left_out=_left_out(len(k), len(plain.ports), edges_guessed=bool(topology)),
            doubts=doubts(facts, release, misfit),
        )
    )


@sealed
def check_matches(source: SourceGrid, release: Release) -> None:
    """Refuse a grid without a network to win back, and a bundle that cannot be of it, by public
    sizes.
    """
    if len(source.facts.machines) < 2 or not len(loaded_buses(source.facts)):
        raise InputError(
            "a grid of one machine, or without load elsewhere than at machines, has no network to "
            "win back",
            expected="at least two machines and one other bus with load",
            outcome="Nothing was attacked and nothing was written.",
        )
    port_shares(source.facts, release)


def _left_out(lines: int, ports: int, *, edges_guessed: bool) -> tuple[str, ...]:
    """Attacks that a grid is too large for: that they found nothing is no sign that there is
    nothing to find.
    """
    said = []
    if lines > LARGEST:
        said.append(
            f"The grid has {lines} lines, and Gauss–Newton works on up to {LARGEST}: its lines "
            "were not attacked, which does not mean that an attacker gets nothing of them."
        )
    if not edges_guessed:
        said.append(
            f"Its plain reduction has {ports} ports, too many to guess edges between them here: "
            "nobody tried."
        )
    return tuple(said)


def _line_score(inversion: Inversion, k: Array, loss: GroupLoss | None) -> LineScore:
    return replace(
        _scored(inversion.weights, k, loss), rank=inversion.rank, fixed=int(inversion.fixed.sum())
    )


def _scored(guess: Array, k: Array, loss: GroupLoss | None) -> LineScore:
    near = np.abs(guess / k - 1)
    return LineScore(
        int((near <= 0.01).sum()),
        int(within(guess, k, loss).sum()) if loss else None,
        float(np.median(near)),
    )


def _star_rows(
    facts: GridFacts, full: ReducedModel, release: Release, k: Array, loss: GroupLoss | None
) -> list[LineRow]:
    if not is_star(facts) or release.guarantee.hides_network:
        return []
    leaves = [int(line[line != facts.interior[0]][0]) for line in facts.edges]
    # machine at the end of each line
    order = [int(np.flatnonzero(facts.machines == leaf)[0]) for leaf in leaves]
    rows = []
    if len(leaves) > 2:
        plain, noisy = (
            recover_star(model.values[REDUCED_WEIGHT.name], len(leaves))[order]
            for model in (full, release.swing)
        )
        rows.append(LineRow("star: k_r alone", _scored(plain, k, loss), _scored(noisy, k, loss)))
    if release.swing.K_ac.shape[1] == 1:
        plain, noisy = (
            recover_star_by_share(model.values[REDUCED_WEIGHT.name], model.K_ac[:, 0])[order]
            for model in (full, release.swing)
        )
        rows.append(LineRow("star: k_r and K_ac", _scored(plain, k, loss), _scored(noisy, k, loss)))
    return rows


def true_pairs(facts: GridFacts, shares: Array | None) -> tuple[set[Pair], int]:
    """Edges between ports, and how many edges the loaded buses and machines have among them; shares
    : how buses were merged.
    """
    g, loaded = len(facts.machines), loaded_buses(facts)
    own = {int(bus): place for place, bus in enumerate(np.concatenate([facts.machines, loaded]))}
    seen = [(own[i], own[j]) for i, j in facts.edges.tolist() if i in own and j in own]
    if shares is None:
        return {(min(pair), max(pair)) for pair in seen}, len(seen)
    port = np.concatenate([np.arange(g), g + shares.argmax(axis=1)])
    joined = {(min(port[i], port[j]), max(port[i], port[j])) for i, j in seen if port[i] != port[j]}
    return {(int(i), int(j)) for i, j in joined}, len(seen)


def _topology(
    facts: GridFacts, plain: ReducedModel, release: Release, shares: Array | None
) -> tuple[TopologyRow, ...]:
    """Guess edges from the plain reduction and from the release; nothing of a grid that is too
    large for it.
    """
    if not can_guess(plain):
        return ()
    truth, edges = true_pairs(facts, None)
    rows = [
        _topology_row(
            "plain Kron reduction",
            guess_edges(plain, release.bounds[WEIGHT.name]),
            truth,
            edges,
            plain,
            None,
        )
    ]
    ports = None
    if shares is None:  # topology mode: nothing but the machines is a bus
        ports = len(facts.machines)
        truth = {pair for pair in truth if max(pair) < ports}
    else:
        truth = true_pairs(facts, shares)[0]
    guess = guess_edges(release.swing, release.bounds[WEIGHT.name], ports=ports)
    return (*rows, _topology_row("release", guess, truth, edges, release.swing, ports))


def _topology_row(
    name: str,
    guess: EdgeGuess,
    truth: set[Pair],
    edges: int,
    model: ReducedModel,
    ports: int | None,
) -> TopologyRow:
    behind = sum(len(group) for group in equal_columns(model.K_ac)) if ports is None else 0
    return TopologyRow(
        name,
        ports or len(model.ports),
        guess.count,
        guess.f1(truth, edges),
        guess.blind_f1(truth, edges),
        behind,
    )
