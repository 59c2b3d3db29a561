"""Section IV of the paper: many batched runs of Algorithm 1, in blocks that survive a stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from io import BytesIO
from pathlib import Path

import numpy as np

from gridveil.dynamics.engine import Objective, SampledRecord
from gridveil.dynamics.engine.compute import CPU, Compute, Where, compute_on
from gridveil.dynamics.engine.propagate import step_responses
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduce
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import simulate
from gridveil.dynamics.swing import DrivenSwingFamily
from gridveil.foundation.executors import Crew, check_worker
from gridveil.foundation.progress import counted
from gridveil.foundation.shards import Kept, check_made, gather, name_of
from gridveil.foundation.version import __version__
from gridveil.grid.facts import Array
from gridveil.inference.fit.problem import Problem, box, projected_gradient
from gridveil.planning.profiles import PROFILES
from gridveil.privacy.adjacency import Adjacency
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.vault.truth import true_model

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2))
RUNS_A_SEED = 100  # the paper's number of runs; more runs take the next seeds
BLOCK = 20  # runs that are computed, and saved, together: a second or two of work
HORIZON_S, EVENT_S = 30.0, 10.0


@dataclass(frozen=True)
class Transient:
    """An event on which releases are judged, with a short name."""

    name: str
    event: Event


def named_transients() -> list[Transient]:
    """The five that the paper names, all at t = 10 s, on IEEE-30."""
    return [
        Transient("1: +5 % everywhere", Event.uniform(0.05, at_s=EVENT_S)),
        Transient("2: +0.2 at 3 and 4", Event.load({"3": 0.2, "4": 0.2}, at_s=EVENT_S)),
        Transient("3: +0.2 at 5 and 20", Event.load({"5": 0.2, "20": 0.2}, at_s=EVENT_S)),
        Transient("4: loads of 10 and 30 lost", Event.lost(["10", "30"], at_s=EVENT_S)),
        Transient("5: +0.5 at 1", Event.load({"1": 0.5}, at_s=EVENT_S)),
    ]


def random_transients(buses: Sequence[str], count: int, seed: int = 2026) -> list[Transient]:
    """Draw transients by a fixed rule: 1 to 3 buses, ±0.1 to ±0.5 p.u. of load each, at 10 s."""
    random = np.random.default_rng(seed)
    transients = []
    for number in range(count):
        places = random.choice(len(buses), size=random.integers(1, 4), replace=False)
        sizes = random.uniform(0.1, 0.5, len(places)) * random.choice([-1.0, 1.0], len(places))
        change = {buses[int(place)]: float(size) for place, size in zip(places, sizes, strict=True)}
        transients.append(Transient(f"random {number + 1}", Event.load(change, at_s=EVENT_S)))
    return transients


@dataclass(frozen=True, eq=False)
class Runs:
    """What runs of Algorithm 1 at one ε gave, run by run.

    before, after : (runs, p) θ = (k_r, m, d) after step 2 and after step 3.
    K_ac : (runs, g, b).
    history : (runs, iterations + 1) mismatch J [p.u.² s].
    L_lap, L_pp : (runs, transients) [p.u.² s].
    """

    before: Array
    after: Array
    K_ac: Array
    history: Array
    L_lap: Array
    L_pp: Array


class Experiment:
    """The paper's experiment: profile `paper`, one public trajectory, transients unseen by the fit.

    Everything it makes is a demo: it draws with seeds and compares with the truth.
    """

    def __init__(
        self,
        source: SourceGrid,
        transients: Sequence[Transient],
        *,
        iterations: int | None = None,
        compute: Compute = CPU,
    ) -> None:
        self.source = source
        self.compute = compute
        # a GPU earns its keep on all runs of a seed
        self.block = BLOCK if compute is CPU else RUNS_A_SEED
        self.transients = tuple(transients)
        self.profile = PROFILES["paper"]
        if iterations is not None:
            self.profile = replace(
                self.profile, settings=replace(self.profile.settings, iterations=iterations)
            )
        self.truth = true_model(source)
        self.dt_s = self.profile.settings.dt_s
        self._public = Event.uniform(0.2).steps[0].loads(self.truth)
        trajectory = simulate(
            self.truth, Event.uniform(0.2), horizon_s=HORIZON_S, dt_s=self.dt_s, scheme="euler"
        )
        weights = np.full(trajectory.omega.shape, self.dt_s)
        self._record = SampledRecord(((0, 0),), trajectory.omega, weights)
        self._loads = np.stack(
            [transient.event.steps[0].loads(self.truth) for transient in self.transients], axis=1
        )
        self.true_responses = self.responses(self.truth.theta[None], self.truth.K_ac[None])[0]

    @classmethod
    def ieee30(cls, *, iterations: int | None = None, compute: Compute = CPU) -> Experiment:
        """The paper's own: the five named transients and five random ones."""
        source = open_grid("ieee30")
        return cls(
            source,
            [*named_transients(), *random_transients(source.facts.buses, 5)],
            iterations=iterations,
            compute=compute,
        )

    def responses(self, theta: Array, K_ac: Array) -> Array:
        """Frequencies of models (runs, p) after events (runs, transients, samples, g) [p.u.]."""
        family, parameters = self._driven(theta, K_ac, self._loads)
        samples = round((HORIZON_S - EVENT_S) / self.dt_s) + 1
        return step_responses(
            family.lti(parameters),
            range(self._loads.shape[1]),
            samples,
            dt_s=self.dt_s,
            scheme="euler",
        )

    def run(self, epsilon: Fraction, seed: int, first: int, count: int) -> Runs:
        """Run Algorithm 1 `count` times; run number r of a seed always draws the same noise."""
        noisy = [self._noisy(epsilon, seed, first + number) for number in range(count)]
        before = np.array([model.theta for model in noisy])
        K_ac = np.array([model.K_ac for model in noisy])
        family, parameters = self._driven(before, K_ac, self._public[:, None])
        objective = Objective(family, [self._record], dt_s=self.dt_s, scheme="euler")
        p, u = before.shape[1], parameters[:, before.shape[1] :]

        def mismatch(theta: Array) -> tuple[Array, Array]:
            there = self.compute.put(np.concatenate([theta, u], axis=1))
            J, gradient = (self.compute.get(one) for one in objective(there))
            return J, gradient[:, :p]

        lower, upper = box(family)
        settings = self.profile.settings
        after, history = projected_gradient(
            Problem(mismatch, before, lower[:p], upper[:p], settings.rho),
            before,
            step=settings.step,
            iterations=settings.iterations,
        )
        return Runs(
            before,
            after,
            K_ac,
            history.T,
            self._distance(before, K_ac),
            self._distance(after, K_ac),
        )

    def _noisy(self, epsilon: Fraction, seed: int, run: int) -> ReducedModel:
        sampler = DemoSampler([seed, run, epsilon.numerator, epsilon.denominator])
        adjacency = Adjacency(self.profile.rule)
        return reduce(
            perturb(
                self.source,
                epsilon=epsilon,
                adjacency=adjacency,
                bounds=self.profile.bounds,
                ledger=None,
                sampler=sampler,
            )
        )

    def _driven(self, theta: Array, K_ac: Array, loads: Array) -> tuple[DrivenSwingFamily, Array]:
        """The family with inputs `loads` (ports, s), and θ with each model's u = ℓ_γ + K_ac ℓ_β."""
        g = len(self.truth.m)
        u = loads[:g].T + (K_ac @ loads[g:]).swapaxes(1, 2)
        family = DrivenSwingFamily(
            self.truth.edges,
            inputs=loads.shape[1],
            governor_rate=self.truth.governor_rate,
            droop_gain=self.truth.droop_gain,
            omega_b=self.truth.omega_b,
            sense=np.eye(g),
            bounds=self.profile.bounds,
        )
        return family, np.concatenate([theta, u.reshape(len(theta), -1)], axis=1)

    def _distance(self, theta: Array, K_ac: Array) -> Array:
        """L of each model on each transient: Σ ∫ |ω − ω_ref|² dt (runs, transients) [p.u.² s]."""
        deviation = self.responses(theta, K_ac) - self.true_responses
        return self.dt_s * np.einsum("rtng,rtng->rt", deviation, deviation)

    def key(self) -> str:
        """Name everything that a saved block depends on."""
        events = [transient.event for transient in self.transients]
        return name_of(self.block, self.profile, events, self.truth.theta, self.truth.K_ac)


@lru_cache(maxsize=1)
def paper_experiment(iterations: int | None, where: Where) -> Experiment:
    """The paper's own; workers open it once."""
    return Experiment.ieee30(iterations=iterations, compute=compute_on(where))


@dataclass(frozen=True)
class RunBlock:
    """Runs first … first + count − 1 of a seed at one ε."""

    epsilon: Fraction
    seed: int
    first: int
    count: int

    @property
    def name(self) -> str:
        """File name of the saved block."""
        last = self.first + self.count - 1
        return f"epsilon-{float(self.epsilon):g}-seed-{self.seed}-runs-{self.first}-{last}.npz"


def blocks(runs: int, size: int = BLOCK) -> Iterator[RunBlock]:
    """Cut the runs of all ε into blocks."""
    for epsilon in EPSILONS:
        for start in range(0, runs, size):
            seed, first = divmod(start, RUNS_A_SEED)
            yield RunBlock(epsilon, seed, first, min(size, runs - start))


@dataclass(frozen=True)
class RunTask:
    """A block of the paper's experiment, for a worker."""

    block: RunBlock
    iterations: int | None
    where: Where
    version: str = __version__


def run_task(task: RunTask) -> Runs:
    """Run a block. This is what workers do."""
    check_worker(task.version)
    block = task.block
    return paper_experiment(task.iterations, task.where).run(
        block.epsilon, block.seed, block.first, block.count
    )


def collect(
    runs: int, folder: Path, crew: Crew, *, iterations: int | None = None, where: Where = "cpu"
) -> dict[Fraction, Runs]:
    """Run the paper's experiment, or read it back, block by block; each is saved as soon as it is
    done.
    """
    experiment = paper_experiment(iterations, where)
    kept = Kept(folder / experiment.key(), _encode, _decode)
    cut = {block.name: block for block in blocks(runs, experiment.block)}
    tasks = {name: RunTask(block, iterations, where) for name, block in cut.items()}
    with counted("running Algorithm 1", len(tasks)) as more, crew:
        found, failed = gather(tasks, run_task, crew, kept=kept, more=lambda _: more())
    check_made(failed, {name: name for name in tasks}, "Finished blocks of runs are kept.")
    parts: dict[Fraction, list[Runs]] = {epsilon: [] for epsilon in EPSILONS}
    for name, block in cut.items():
        parts[block.epsilon].append(found[name])
    return {
        epsilon: Runs(
            *(
                np.concatenate([getattr(part, name) for part in some])
                for name in Runs.__dataclass_fields__
            )
        )
        for epsilon, some in parts.items()
    }


def _decode(data: bytes) -> Runs:
    with np.load(BytesIO(data)) as saved:
        return Runs(**{name: saved[name] for name in Runs.__dataclass_fields__})


def _encode(runs: Runs) -> bytes:
    buffer = BytesIO()
    np.savez(buffer, **{name: getattr(runs, name) for name in Runs.__dataclass_fields__})
    return buffer.getvalue()
