"""Propagation and exact discrete gradients for batches of linear models (array API)."""

from gridveil.dynamics.engine.lti import LTI, LinearFamily
from gridveil.dynamics.engine.objective import Objective
from gridveil.dynamics.engine.records import Record
from gridveil.dynamics.engine.schemes import SCHEMES, SchemeName

__all__ = ["LTI", "SCHEMES", "LinearFamily", "Objective", "Record", "SchemeName"]
