"""The audit: empirical lower bounds on ε, and tests of the noise, from what `perturb` and bundles
really put out.

It sees synthetic grids of its own making only, and what is released of them: it never opens a
private value.
"""

from __future__ import annotations

from gridveil.assurance.audit.advantage import Advantage, measure_advantage
from gridveil.assurance.audit.draws import Draw, Drawn, alphas, perturbed
from gridveil.assurance.audit.findings import Finding
from gridveil.assurance.audit.fits import Fit
from gridveil.assurance.audit.low_bits import audit_low_bits
from gridveil.assurance.audit.run import audit_adjacency, values_to_draw
from gridveil.assurance.audit.sums import audit_sums
from gridveil.assurance.audit.whole import Effort, audit_all, values_in_all

__all__ = [
    "Advantage",
    "Draw",
    "Drawn",
    "Effort",
    "Finding",
    "Fit",
    "alphas",
    "audit_adjacency",
    "audit_all",
    "audit_low_bits",
    "audit_sums",
    "measure_advantage",
    "perturbed",
    "values_in_all",
    "values_to_draw",
]
