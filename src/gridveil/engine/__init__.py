"""Propagation and exact discrete gradients for batches of linear models, on the Python array API standard."""

from gridveil.engine.lti import LTI, LinearFamily
from gridveil.engine.objective import Objective
from gridveil.engine.records import Record
from gridveil.engine.schemes import SCHEMES, SchemeName

__all__ = ["LTI", "SCHEMES", "LinearFamily", "Objective", "Record", "SchemeName"]
