"""Terms of art that commands print, each with a few words on what it is."""

from __future__ import annotations

TERMS = {
    "ε": "how much a release may tell, less hides more",
    "α": "how far apart two grids may be that must look alike",
    "adjacency": "which two grids must look alike",
    "scale": "typical size of the noise",
    "lineage": "a grid with all its versions, which share one budget",
    "mechanism": "what is drawn with noise: each item, sums, or sums without the network",
    "nadir": "the largest deviation",
    "RoCoF": "rate of change of frequency",
    "mode": "how machines swing against each other",
    "RMS": "root mean square",
    "L": "squared error of all responses",
    "Σℓ": "total load of the event",
    "μ": "how far apart the records of two neighbours lie, in deviations of their noise",
    "bound": "relative error below which no estimate comes; none: the record leaves it open",
}


def explained(*names: str) -> str:
    """Say what some terms mean, in one line, to stand below them."""
    return f"({'; '.join(f'{name}: {TERMS[name]}' for name in names)})"
