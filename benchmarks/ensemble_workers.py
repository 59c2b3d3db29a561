"""How much faster an ensemble is with more Dask workers on this machine: the same fits by one and
by several, in turns, so that other load on the machine weighs on both.

Prints one JSON document. A demo: seeds and truth are known. Where Linux shares cores out by session
(autogroup) and the machine is loaded, workers of one session gain nothing by being many: start each
with setsid, and name their schedulers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from gridveil.foundation.executors import Crew, dask
from gridveil.foundation.shards import finish
from gridveil.workflow.ensemble import Spec, batches_of
from gridveil.workflow.ensemble.batch import Batch, Row, run_batch
from gridveil.workflow.ensemble.cells import cells_of


def batches(case: str, fit: str, seeds: int) -> list[Batch]:
    """The fits of one cell, four to a task."""
    table = {"case": case, "epsilon": 1, "mechanism": "items", "fit": fit, "seeds": seeds}
    spec = Spec.from_table("benchmark", table)
    return batches_of(spec, cells_of(spec, "benchmark")[:1])


def timed(some: list[Batch], crew: Crew) -> tuple[float, dict[str, list[Row]]]:
    """Seconds that a crew takes, and the rows it made."""
    made: dict[str, list[Row]] = {}
    start = time.perf_counter()
    failed = finish({one.name: one for one in some}, run_batch, made.__setitem__, crew)
    assert not failed, failed
    return time.perf_counter() - start, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", default="star5")
    parser.add_argument("--fit", default="two-stage")
    parser.add_argument("--fits", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--schedulers", nargs=2, default=(None, None), help="of one, of several")
    given = parser.parse_args()
    tasks = batches(given.case, given.fit, given.fits)
    seconds: dict[int, list[float]] = {1: [], given.workers: []}
    loads = []
    first, second = given.schedulers
    with dask(first, 1) as one, dask(second, given.workers) as several:
        crews = {1: one, given.workers: several}
        for crew in crews.values():  # workers import gridveil before the clock starts
            timed(tasks[: 4 * given.workers], crew)
        for number in range(given.rounds):
            some, found = tasks[number :: given.rounds], []
            for workers in (1, given.workers) if number % 2 else (given.workers, 1):
                loads.append(os.getloadavg()[0])
                took, made = timed(some, crews[workers])
                seconds[workers].append(took)
                found.append(made)
            sums = [f"{workers}: {sum(took):.1f} s" for workers, took in seconds.items()]
            print(f"round {number + 1}, workers {', '.join(sums)}", file=sys.stderr, flush=True)
            assert found[0] == found[1], "the same rows to the last bit"
    total = {workers: sum(took) for workers, took in seconds.items()}
    result = {
        "demo": True,
        "case": given.case,
        "fit": given.fit,
        "fits": given.fits,
        "seconds": {str(workers): took for workers, took in seconds.items()},
        "ratio": total[1] / total[given.workers],
        "load": loads,
        "cores": os.cpu_count(),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
