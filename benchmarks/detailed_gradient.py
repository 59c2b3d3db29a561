"""Time a gradient of ieee39's detailed model: by hand, and by a complex step, side by side.

`python benchmarks/detailed_gradient.py` prints the processor time of one thread, the least of
several runs, and the ratio of the two.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from gridveil.dynamics.detailed.family import DetailedFamily, Lever, LeverTarget
from gridveil.dynamics.engine.lti import LTI, LinearFamily
from gridveil.readers.cases import open_grid

# Every parameter of a column is one coordinate of the gradient.
COLUMNS = (
    ("branch", "x"),
    ("load", "p"),
    ("unit", "power"),
    ("GENROU", "M"),
    ("GENROU", "xd1"),
    ("TGOV1N", "R"),
    ("TGOV1N", "T3"),
    ("IEEEX1", "KA"),
    ("IEEEX1", "TE"),
    ("IEEEST", "KS"),
)


def main() -> None:
    """Measure and print."""
    case = open_grid("andes:ieee39", model="detailed").facts.public
    levers = [
        Lever(f"{table} {name}", (LeverTarget(table, name),), "item") for table, name in COLUMNS
    ]
    ports = np.unique(case.loads.bus)
    places = len(case.units.bus) + len(ports[~np.isin(ports, case.units.bus)])
    family = DetailedFamily(case, levers, ports, np.eye(places), np.arange(places))
    at = family.lti(family.start)
    random = np.random.default_rng(0)
    bar = LTI(random.normal(size=at.F.shape), random.normal(size=at.H.shape), at.states)
    with threadpool_limits(1):
        own = _least(lambda: family.pull(family.start, bar), 5)
        other = _least(lambda: LinearFamily.pull(family, family.start, bar), 1)
    print(
        f"ieee39, {at.states} states, {family.size} parameters: {1000 * own:.0f} ms by hand, "
        f"{1000 * other:.0f} ms by a complex step, {other / own:.0f}x"
    )


def _least(call: Callable[[], object], times: int) -> float:
    """Processor time of a call, the least of several [s]."""
    spent = []
    for _ in range(times):
        begun = time.process_time()
        call()
        spent.append(time.process_time() - begun)
    return min(spent)


if __name__ == "__main__":
    main()
