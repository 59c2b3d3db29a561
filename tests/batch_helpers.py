"""Another array library than NumPy, to run batches on as a GPU does."""

import array_api_strict
import numpy as np

from gridveil.dynamics.engine.compute import Compute

# Batches of a few models each, so that their borders are crossed.
STRICT = Compute("array-api-strict", array_api_strict.asarray, np.asarray, numbers=2**21)
