"""The truth, for demos on public cases only: what this returns must never leave a demo."""

from __future__ import annotations

from gridveil.kron import reduced_model
from gridveil.models import FullModel, ReducedModel
from gridveil.vault.source import Private, SourceGrid


def true_model(source: SourceGrid) -> ReducedModel:
    """Reduce the source grid without noise, to show it beside its release."""
    return reduced_model(source.facts, Private.open(source.k), Private.open(source.m), Private.open(source.d))


def true_full_model(source: SourceGrid) -> FullModel:
    """The source grid with all its buses."""
    return FullModel(source.facts, Private.open(source.k), Private.open(source.m), Private.open(source.d))
