"""Propagation and exact discrete gradients for batches of linear models (array API)."""

from gridveil.dynamics.engine.lti import LTI, LinearFamily
from gridveil.dynamics.engine.objective import Objective
from gridveil.dynamics.engine.propagate import SCHEMES, SchemeName
from gridveil.dynamics.engine.records import SampledRecord

__all__ = ["LTI", "SCHEMES", "LinearFamily", "Objective", "SampledRecord", "SchemeName"]
