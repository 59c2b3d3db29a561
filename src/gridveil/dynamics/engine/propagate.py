"""Step responses of linear models, by blocks or step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from gridveil.dynamics.engine import block, stepping
from gridveil.dynamics.engine.block import Layout
from gridveil.dynamics.engine.lti import LTI, XArray, namespace
from gridveil.dynamics.engine.schemes import SCHEMES, SchemeName

Path = Literal["auto", "block", "stepping"]

# Above this many states and inputs (about 150 machines), a step costs less than its share of the
# matrix powers.
STEPPING_FROM = 450


def takes_steps(lti: LTI, path: Path) -> bool:
    """Decide whether a model goes the stepping path."""
    return path == "stepping" or (path == "auto" and lti.F.shape[-1] > STEPPING_FROM)


def unit_steps(lti: LTI, inputs: Sequence[int]) -> XArray:
    """Columns z₀ = [0; e_input] that start a unit step of each named input: (n + s, c)."""
    start = np.zeros((lti.F.shape[-1], len(inputs)))
    start[[lti.states + i for i in inputs], range(len(inputs))] = 1.0
    return namespace(lti.F).asarray(start)


def step_responses(
    lti: LTI,
    inputs: Sequence[int],
    samples: int,
    *,
    dt_s: float,
    scheme: SchemeName,
    path: Path = "auto",
    start: XArray | None = None,
) -> XArray:
    """Simulate a unit step of each input, or columns `start` (n + s, c): (..., c, samples, h)."""
    E, _ = SCHEMES[scheme](lti.F, dt_s)
    start = unit_steps(lti, inputs) if start is None else start
    if takes_steps(lti, path):
        return stepping.respond(E, lti.H, start, samples)[1]
    layout = Layout.of(samples, lti.H.shape[-2], len(inputs))
    return layout.unpack(block.respond(E, lti.H, start, layout).outputs, len(inputs))
