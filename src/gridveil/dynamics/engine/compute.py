"""Where batches are computed: on the CPU by NumPy, or on a GPU by torch or CuPy, in float64.

Noise never comes from here: that of real releases is OpenDP's, that of seeded trials NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np

from gridveil.dynamics.engine.lti import XArray
from gridveil.foundation.errors import OptionError

Where = Literal["cpu", "gpu"]
# Numbers that a batch holds at a time on the CPU (32 MiB), and the share of a GPU's free memory.
HELD, FREE_SHARE = 2**22, 0.4


@dataclass(frozen=True)
class Compute:
    """An array library on a device.

    name : in words.
    put : copy a NumPy array there.
    get : copy an array back to NumPy.
    numbers : how many a batch may hold at a time.
    """

    name: str
    put: Callable[[Any], XArray]
    get: Callable[[XArray], np.ndarray]
    numbers: int = HELD

    def models(self, each: int) -> int:
        """Models of a batch, each of which holds so many numbers."""
        return max(1, self.numbers // each)


CPU = Compute("NumPy on the CPU", np.asarray, np.asarray)


def compute_on(where: Where) -> Compute:
    """Find the CPU, or a GPU: torch's first, else CuPy's."""
    if where == "cpu":
        return CPU
    found = _by_torch() or _by_cupy()
    if found is None:
        raise OptionError(
            "There is no GPU that torch or CuPy can use here.",
            expected="a CUDA device, and one of the two packages built for it",
            outcome="Nothing was computed.",
            remedy="Install torch with CUDA, or CuPy, or leave --compute out: the CPU gives the "
            "same numbers.",
        )
    return found


def _by_torch() -> Compute | None:
    try:
        torch = import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    free = torch.cuda.mem_get_info()[0]
    return Compute(
        f"torch on {torch.cuda.get_device_name()}",
        lambda array: torch.from_numpy(np.array(array)).to("cuda"),
        lambda array: array.cpu().numpy(),
        int(FREE_SHARE * free / 8),
    )


def _by_cupy() -> Compute | None:
    try:
        cupy = import_module("cupy")
        free = cupy.cuda.runtime.memGetInfo()[0]
    except Exception:  # without a driver CuPy raises errors of its own
        return None
    return Compute("CuPy on a GPU", cupy.asarray, cupy.asnumpy, int(FREE_SHARE * free / 8))
