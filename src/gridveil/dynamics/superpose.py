"""Answers to events, put together from answers to unit steps and unit ramps: models are linear and
start at rest.

A ramp of a load over T is the same load rising at 1/T for ever from its begin on, less the same
from its end on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gridveil.dynamics.engine.lti import LTI, namespace
from gridveil.dynamics.engine.propagate import SchemeName, step_responses
from gridveil.dynamics.events import Event
from gridveil.grid.facts import Array


class SampleClock(Protocol):
    """An even clock on which changes of load fall."""

    @property
    def dt_s(self) -> float:
        """Step [s]."""
        ...

    def sample(self, at_s: float, *, behind: bool = False) -> int:
        """The sample at a time; behind : whether it may lie behind the horizon."""
        ...


@dataclass(frozen=True)
class Part:
    """A unit answer's share in the answer to an event.

    shift : the sample it begins at.
    weight : 1 of a step; of a ramp its rate, 1/T, and −1/T from its end on [1/s].
    """

    shift: int
    weight: float


def parts_of(event: Event, clock: SampleClock) -> list[list[Part]]:
    """Shares of each step of an event, on a clock."""
    parts = []
    for step in event.steps:
        begin = clock.sample(step.at_s)
        if not step.over_s:
            parts.append([Part(begin, 1.0)])
            continue
        rate = 1 / step.over_s
        end = clock.sample(step.at_s + step.over_s, behind=True)
        parts.append([Part(begin, rate), Part(end, -rate)])
    return parts


def unit_responses(
    lti: LTI, ramps: Sequence[bool], samples: int, *, dt_s: float, scheme: SchemeName
) -> Array:
    """Answer to each input, a unit step or, where `ramps` says so, a ramp of 1 a second:
    (..., inputs, samples, h).

    The scheme `exact` has no step error in either.
    """
    flags = np.asarray(ramps, dtype=bool)
    if not flags.any():
        return step_responses(lti, range(lti.inputs), samples, dt_s=dt_s, scheme=scheme)
    answers = [
        step_responses(system, np.flatnonzero(own).tolist(), samples, dt_s=dt_s, scheme=scheme)
        for system, own in ((lti, ~flags), (integrated(lti), flags))
        if own.any()
    ]
    order = np.argsort(np.concatenate([np.flatnonzero(~flags), np.flatnonzero(flags)]))
    return np.concatenate(answers, axis=-3)[..., order, :, :]


def integrated(lti: LTI) -> LTI:
    """The model whose inputs are the slopes of another's: x' = A x + B u, u' = w."""
    xp = namespace(lti.F)
    slopes = xp.zeros((*lti.F.shape[:-1], lti.inputs), dtype=lti.F.dtype)
    slopes[..., lti.states :, :] = xp.eye(lti.inputs, dtype=lti.F.dtype)
    through = xp.zeros((*lti.H.shape[:-1], lti.inputs), dtype=lti.H.dtype)
    return LTI.of(lti.F, slopes, lti.H, through)


def integral(responses: Array, dt_s: float) -> Array:
    """Unit-ramp answers of the trapezoidal rule from its unit-step answers (..., samples, h): the
    rule's own integral of them.
    """
    summed = np.cumsum(responses, axis=-2)
    return dt_s * (summed - 0.5 * (responses + responses[..., :1, :]))


def added(omega: Array, responses: Array, parts: Sequence[Sequence[Part]]) -> None:
    """Add the answer to an event to omega (..., samples, h).

    responses : (..., steps, samples, h), unit answers to the event's steps.
    """
    samples = omega.shape[-2]
    for column, shares in enumerate(parts):
        for part in shares:
            if part.shift < samples:
                own = responses[..., column, : samples - part.shift, :]
                omega[..., part.shift :, :] += part.weight * own
