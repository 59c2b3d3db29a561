"""The audit: empirical lower bounds on ε from what `perturb` really puts out.

It sees synthetic grids of its own making only, and `perturb`'s output: it never opens a private value.
"""

from __future__ import annotations

from gridveil.audit.advantage import Advantage, measure_advantage
from gridveil.audit.draws import ALPHA, Draw, Drawn, perturbed
from gridveil.audit.findings import Finding
from gridveil.audit.low_bits import audit_low_bits
from gridveil.audit.run import audit_adjacency, values_to_draw
from gridveil.audit.sums import audit_sums

__all__ = [
    "ALPHA",
    "Advantage",
    "Draw",
    "Drawn",
    "Finding",
    "audit_adjacency",
    "audit_low_bits",
    "audit_sums",
    "measure_advantage",
    "perturbed",
    "values_to_draw",
]
