"""Controls beside a detailed release: what a frequency response answers, and the swing release."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduce
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.trajectory import Trajectory
from gridveil.grid.facts import Array
from gridveil.grid.parameters import Bounds, Range
from gridveil.inference.fit import Observation
from gridveil.inference.fit.controls import FrequencyResponse
from gridveil.inference.fit.two_stage import two_stage
from gridveil.inference.posterior import beliefs, posterior_mean
from gridveil.planning.surrogate import at_middle, choose
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation
from gridveil.privacy.noisy import NoisyGrid
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.vault.truth import true_model
from truth_cases import DT_S, RECORD, LoadKind, TruthCase, case_file
from truth_runs import Runs, Truth

SIGMA = 1e-4  # of a record's samples [p.u.]
DAMPING = 2.0  # of swing models, on each machine's own base: the files have none
RULE = "one-asset-relative"
ORIGIN = Provenance("simulated", "ANDES's time-domain simulation of the case")


def record_of(runs: Runs, case: TruthCase, kind: LoadKind, seed: int) -> Observation:
    """The public record: event A at a few machines' buses, 20 s at 50 Hz, with noise of σ = 1e-4
    p.u.
    """
    truth = runs.truth(case.name, kind, RECORD)
    seen = [truth.machines.index(bus) for bus in case.recorded]
    noise = SIGMA * np.random.default_rng([seed, 14]).standard_normal(truth.omega[:, seen].shape)
    return Observation(
        Event.load(truth.change),
        Trajectory(
            truth.time_s,
            truth.omega[:, seen] + noise,
            case.recorded,
            truth.frequency_hz,
            float("nan"),
        ),
        ORIGIN,
        sigma=SIGMA,
    )


# --- a frequency response -------------------------------------------------------------------------


def response_answer(response: FrequencyResponse, truth: Truth) -> Array:
    """All machines alike; a machine that trips is its power."""
    total = sum(truth.change.values()) + truth.lost.real
    step = response.step(len(truth.time_s), DT_S)
    return np.repeat(total * step[:, None], len(truth.machines), axis=1)


# --- the swing release ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SwingStudy:
    """The swing release of a case, as it is without detailed models.

    `one-asset-relative`, α = 5 %, bounds from a tenth to ten times a typical value of each group,
    D = 2 on machine base. Events are in MW at known buses, as for every model here.
    """

    case: TruthCase
    source: SourceGrid
    epsilon: Fraction = Fraction(1)

    @classmethod
    def of(cls, case: TruthCase, runs: Runs) -> SwingStudy:
        """Read the case's file as a swing model."""
        options = {"damping": DAMPING, "base": "rated", "publish_loads": True}
        return cls(case, open_grid(case_file(case, runs.cache), options=options))

    @cached_property
    def truth(self) -> ReducedModel:
        """The swing model without noise."""
        return true_model(self.source)

    @cached_property
    def bounds(self) -> Bounds:
        """A tenth to ten times the geometric mean of each group, to one digit: the stand-in for
        what an engineer would publish.
        """
        middle = {
            name: float(f"{np.exp(np.mean(np.log(values))):.0e}")
            for name, values in self._opened().items()
        }
        box = {name: Range(value / 10, value * 10) for name, value in middle.items()}
        return Bounds(
            {**box, "k_r": Range(0.0, box["k"].upper)}, origin="0.1 to 10 times a typical value"
        )

    @cached_property
    def adjacency(self) -> Adjacency:
        """α = 5 %."""
        return Adjacency(RULE, alpha=dict.fromkeys(("k", "m", "d"), Fraction(1, 20)))

    @cached_property
    def allocation(self) -> Allocation:
        """Chosen as a release without a record chooses it."""
        surrogate = at_middle(self.source.facts, self.bounds)
        return choose(surrogate, self.adjacency, self.epsilon, self.bounds)

    def released(self, seed: int) -> ReducedModel:
        """A release of aggregates, without a record."""
        return reduce(posterior_mean(self._draw(seed, self.allocation)))

    def fitted(self, seed: int, record: Observation) -> ReducedModel:
        """A release of items, fitted to the record."""
        return two_stage(
            self.source.facts,
            [record],
            beliefs(self._draw(seed, ITEMS)),
            self.bounds,
            dt_s=DT_S,
            scheme="exact",
            sigma=SIGMA,
        ).model

    def _draw(self, seed: int, allocation: Allocation) -> NoisyGrid:
        return perturb(
            self.source,
            epsilon=self.epsilon,
            adjacency=self.adjacency,
            bounds=self.bounds,
            ledger=None,
            sampler=DemoSampler([seed, 1]),
            allocation=allocation,
        )

    def _opened(self) -> dict[str, Array]:
        from gridveil.vault.truth import public_table

        return dict(public_table(self.source).values)
