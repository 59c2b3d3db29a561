"""Ensembles: many seeded demos of public cases, over ε, rules, mechanisms, fits and seeds, on one
machine or many.

A shard is a range of seeds and the hash of all other settings. It is one file, can be lost and made
again, and is the same whoever makes it. A demo for ever: see `table.DEMO`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.foundation.executors import Crew
from gridveil.foundation.files import replace_whole
from gridveil.foundation.progress import counted
from gridveil.foundation.shards import Kept, finish
from gridveil.workflow.ensemble.batch import Batch, Row, run_batch, share, shares_out
from gridveil.workflow.ensemble.cells import CONTROLS, Cell, cells_of, left_out
from gridveil.workflow.ensemble.spec import Spec
from gridveil.workflow.ensemble.summary import CellFigures, levels, markdown, plot
from gridveil.workflow.ensemble.table import decode, encode, parquet
from gridveil.workflow.places import writing

__all__ = ["EnsembleRun", "Shards", "Spec", "Unmade", "run_ensemble"]

TABLE, SUMMARY, FIGURE, SHARDS = "ensemble.parquet", "summary.md", "error.png", "shards"


@dataclass(frozen=True)
class Shards:
    """Part `index` of `count` of an ensemble's tasks, for an array of jobs."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shards:
        """Read i/n, such as 0/4."""
        first, _, second = text.partition("/")
        if first.isdecimal() and second.isdecimal() and int(first) < int(second) <= 10**6:
            return cls(int(first), int(second))
        raise OptionError(
            f"--shard {text[:40]} cannot be read.",
            expected="i/n with i from 0 to n - 1, such as 0/4",
        )


@dataclass(frozen=True)
class Unmade:
    """Rows that are missing: of which cell, which seeds, and why."""

    cell: str
    first: int
    last: int
    tries: int
    why: str


@dataclass(frozen=True, eq=False)
class EnsembleRun:
    """What a run came to.

    tasks : all that were asked for; made : those that this run made, the others were there.
    levels : figures of each cell; none of a run of one shard.
    left_out : combinations that cannot be, in words.
    """

    tasks: int
    made: int
    failed: tuple[Unmade, ...]
    levels: tuple[CellFigures, ...] = ()
    left_out: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def run_ensemble(
    spec: Spec, out: Path, crew: Crew, *, place: str = "the spec", shard: Shards | None = None
) -> EnsembleRun:
    """Make what is missing of an ensemble and, unless one shard is asked for, put all together:
    table, summary and figure.

    place : the spec's name, for errors.
    """
    parquet()
    batches = batches_of(spec, cells_of(spec, place))
    if shard is not None:
        batches = batches[shard.index :: shard.count]
    kept = Kept(out / SHARDS, encode, decode)
    try:
        kept.folder.mkdir(parents=True, exist_ok=True)
        missing = [one for one in batches if _rows(kept, one) is None]
        failed = _make(missing, kept, crew)
        found = EnsembleRun(
            len(batches), len(missing) - len(failed), failed, left_out=tuple(left_out(spec))
        )
        return found if shard is not None else _merged(found, batches, kept, out)
    except OSError as error:
        raise GridveilError(
            f"Cannot write to {out} ({error.strerror}).",
            outcome="Finished shards are kept.",
            remedy="Make room or name another folder with --out, then run it again.",
        ) from None


def batches_of(spec: Spec, cells: Sequence[Cell]) -> list[Batch]:
    """Cut the seeds of every cell, where the spec says; of controls, one batch."""
    found: list[Batch] = []
    end = spec.first_seed + spec.seeds
    for cell in cells:
        size = spec.seeds_of_a_batch(cell.fit)
        starts = range(spec.first_seed, end, size)
        for start in starts[:1] if cell.mechanism in CONTROLS else starts:
            found.append(Batch(cell, start, min(start + size, end) - 1))
    return found


def _make(missing: Sequence[Batch], kept: Kept[list[Row]], crew: Crew) -> tuple[Unmade, ...]:
    """Make batches and keep each as soon as it is done; say which could not be made."""
    cells = {one.cell.hash: one.cell for one in missing if shares_out(one.cell)}
    allocations = {}
    with counted("running the ensemble", len(cells) + len(missing)) as more, crew:
        unshared = finish(cells, share, allocations.__setitem__, crew, more=more)
        why = {failure.name: failure for failure in unshared}
        pieces = {
            one.name: Batch(one.cell, one.first, one.last, allocations.get(one.cell.hash))
            for one in missing
            if one.cell.hash not in why
        }
        failures = {
            failure.name: failure
            for failure in finish(pieces, run_batch, kept.write, crew, more=more)
        }
    unmade = []
    for one in missing:
        if failure := failures.get(one.name) or why.get(one.cell.hash):
            unmade.append(
                Unmade(one.cell.in_words(), one.first, one.last, failure.tries, failure.why)
            )
    return tuple(unmade)


def _rows(kept: Kept[list[Row]], batch: Batch) -> list[Row] | None:
    """The rows of a batch, if its file holds them."""
    rows = kept.read(batch.name)
    if rows is None or [(row["hash"], row["seed"]) for row in rows] != [
        (batch.cell.hash, seed) for seed in batch.seeds
    ]:
        return None
    return rows


def _merged(
    found: EnsembleRun, batches: Sequence[Batch], kept: Kept[list[Row]], out: Path
) -> EnsembleRun:
    """Put all shards together in the spec's order: the same bytes, whoever made them."""
    rows = [row for one in batches for row in _rows(kept, one) or ()]
    figures = tuple(levels(rows))
    whole = EnsembleRun(
        found.tasks,
        found.made,
        found.failed,
        figures,
        found.left_out,
        tuple(str(out / name) for name in (TABLE, SUMMARY, FIGURE)),
    )
    replace_whole(out / TABLE, encode(rows), mode=0o644)
    replace_whole(
        out / SUMMARY, markdown(figures, found.failed, found.left_out).encode(), mode=0o644
    )
    with writing(out / FIGURE, "--out") as place:
        plot(figures, str(place))
    return whole
