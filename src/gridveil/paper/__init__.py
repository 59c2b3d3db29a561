"""The paper's experiments and figures, by one call. Demos all: seeds and truth are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gridveil.dynamics.engine.compute import Where
from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.foundation.executors import Crew, here
from gridveil.paper.claims import Claim, claims
from gridveil.paper.experiment import collect, paper_experiment
from gridveil.paper.figures import FIGURES, draw
from gridveil.paper.measures import EpsilonLevel, levels
from gridveil.paper.report import report
from gridveil.paper.star import Inverted, cases

__all__ = ["Reproduction", "reproduce"]


@dataclass(frozen=True)
class Reproduction:
    """What a reproduction found, and the files that it wrote."""

    levels: tuple[EpsilonLevel, ...]
    star: tuple[Inverted, ...]
    claims: tuple[Claim, ...]
    files: tuple[str, ...]


def reproduce(
    runs: int,
    out: Path,
    only: Sequence[str] = (),
    *,
    compute: Where = "cpu",
    crew: Crew | None = None,
    iterations: int | None = None,
) -> Reproduction:
    """Run section IV (and II-D) of the paper; write figures, data and `reproduction.md`.

    compute : where step 3 is computed; noise is drawn on the CPU.
    crew : who runs Algorithm 1; None: this process, which a GPU is used from in any case.
    iterations : of step 3; None: the paper's.

    An interrupted call loses at most the blocks of runs that were at work: the next one goes on
    from there, to the same figures.
    """
    unknown = [name for name in only if name not in FIGURES]
    if unknown:
        raise OptionError(
            f"There is no figure {unknown[0]!r}.", remedy=f"Choose from {', '.join(FIGURES)}."
        )
    if not 2 <= runs <= 100_000:
        raise OptionError(f"{runs} runs are not possible.", expected="2 to 100000 runs per epsilon")
    experiment = paper_experiment(iterations, compute)
    crew = here() if crew is None or compute == "gpu" else crew
    try:
        out.mkdir(parents=True, exist_ok=True)
        results = collect(runs, out / "blocks", crew, iterations=iterations, where=compute)
        measured = tuple(levels(experiment, results))
        star = tuple(cases())
        judged = tuple(claims(experiment, measured, star))
        files = [
            path for name in (only or FIGURES) for path in draw(name, experiment, results, out)
        ]
        page = out / "reproduction.md"
        page.write_bytes(
            report(
                measured, star, judged, [name for name in FIGURES if (out / f"{name}.png").exists()]
            ).encode()
        )
    except OSError as error:
        raise GridveilError(
            f"Cannot write to {out} ({error.strerror}).",
            outcome="Finished blocks of runs are kept.",
            remedy="Make room or name another folder with --out, then run it again.",
        ) from None
    return Reproduction(measured, star, judged, tuple(str(path) for path in [*files, page]))
