"""MAT-files of level 5 with texts and matrices; their bytes depend on their content alone."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.foundation.errors import GridveilError
from gridveil.publication.export.common import NOT_WRITTEN

# The text in front of a MAT-file; SciPy would write the platform and the time there.
HEADER = b"MATLAB 5.0 MAT-file, gridveil export".ljust(116)
LARGEST = 2**31 - 1  # bytes of one matrix that a file of this level holds


def mat_file(content: Mapping[str, Any]) -> bytes:
    """Write matrices, numbers, texts, cells and structs, uncompressed; vectors become columns."""
    from scipy.io import savemat

    for name, values in content.items():
        if isinstance(values, np.ndarray) and values.nbytes > LARGEST:
            raise GridveilError(
                f"The matrix {name} takes {values.nbytes / 2**30:.1f} GiB, and a MAT-file of level "
                "5 holds 2 GiB at most.",
                outcome=NOT_WRITTEN,
                remedy="Use the bundle from Python: gridveil.load gives the arrays as they are.",
            )
    buffer = io.BytesIO()
    savemat(buffer, dict(content), format="5", do_compression=False, oned_as="column")
    return HEADER + buffer.getvalue()[len(HEADER) :]


def cells(texts: tuple[str, ...]) -> NDArray[np.object_]:
    """Turn texts into a column of cells (n, 1): MATLAB's char arrays would pad them."""
    column = np.empty((len(texts), 1), dtype=object)
    column[:, 0] = texts
    return column
