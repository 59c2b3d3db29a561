"""Trials of a mechanism on a public surrogate: many seeded draws at once, and how far their figures
are off.

Nothing here is a release, and nothing touches a private grid: values, noise and seed are public.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from gridveil.dynamics.engine.compute import CPU, Compute
from gridveil.dynamics.engine.lti import XArray, beside, namespace
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.events import NOT_SIMULATED, Event
from gridveil.dynamics.kron import reduce_each
from gridveil.dynamics.metrics import HORIZON_S, Metrics, errors, mode_errors
from gridveil.dynamics.models import FullModel
from gridveil.dynamics.simulate import Clock, oscillating
from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array
from gridveil.grid.parameters import DAMPING, INERTIA, PARAMETERS, WEIGHT, Bounds, of_asset
from gridveil.grid.tables import PublicTable
from gridveil.inference.posterior import Posterior, middle
from gridveil.inference.prior import prior_of
from gridveil.planning.answers import BatchAnswers, Reduced
from gridveil.planning.places import even_places, joint_places
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation, machine_shares
from gridveil.privacy.mechanisms import GroupLoss, Mechanism, Noise, Takes, parts

DT_S = 0.05  # between samples only: the scheme is exact
# Above this many machines a trial takes seconds for each draw.
TRIALS_UP_TO = 150
KEPT, KNOTS = 8, 600
Errors = dict[str, Array]
SWING = INERTIA.name, DAMPING.name  # what of the machines the swing equations know


class Trials:
    """Draws of a public case, with the same unit noise for every ε, split and mechanism:
    differences are then their own.

    lumped : whether all machines are simulated as one, of the same Σm, Σd and ΣG; near enough to
    the system's frequency for a search, and cheap for any number of machines.
    tables : values by parameter (tables, n), each for as many of the draws; None: the surrogate's
    own.
    stands_for : number of machines that the surrogate's stand for; the noise on a sum over all of
    them weighs the less on these.
    compute : where networks are reduced and events simulated; noise is NumPy's everywhere.
    """

    def __init__(
        self,
        surrogate: PublicTable,
        event: Event,
        bounds: Bounds,
        *,
        draws: int,
        seed: int,
        lumped: bool = False,
        dt_s: float = DT_S,
        tables: Mapping[str, Array] | None = None,
        stands_for: int | None = None,
        compute: Compute = CPU,
    ) -> None:
        if len(surrogate.facts.machines) > TRIALS_UP_TO and not lumped:
            raise OptionError(
                f"{surrogate.facts.name} has {len(surrogate.facts.machines)} machines.",
                expected=f"a surrogate of at most {TRIALS_UP_TO}",
                outcome="Nothing was drawn.",
                remedy="Name a smaller public case, such as ieee30 or matpower:case118.",
            )
        self.surrogate = surrogate
        self.event, self.bounds, self.draws, self.lumped = event, bounds, draws, lumped
        self.clock = Clock(HORIZON_S, dt_s)
        facts, random = self.surrogate.facts, np.random.default_rng(seed)
        values = tables or {name: own[None] for name, own in surrogate.values.items()}
        self._each = draws // len(values[WEIGHT.name])  # draws of a table, one after the other
        self._values = (
            {name: np.repeat(own, self._each, axis=0) for name, own in values.items()}
            if tables
            else values
        )
        self._part = 1.0 if stands_for is None else len(facts.machines) / stands_for
        # Where in its law the noise of each draw lies: of entries, and of sums.
        self._places: dict[tuple[Takes, str], Array] = {}
        if len(facts.machines) <= TRIALS_UP_TO:  # of more machines, sums alone are tried
            for name in PARAMETERS:
                size = len(surrogate.values[name])
                self._places["items", name] = even_places(random, draws, size)
        machines = of_asset("machine")
        for name, column in zip(
            machines, joint_places(random, draws, len(machines)).T, strict=True
        ):
            self._places["sum", name] = column[:, None]
        self._noise: dict[tuple[Noise, Takes, str], Array] = {}
        self._kept: dict[
            tuple[str, float, bool] | None, tuple[Array, Array]
        ] = {}  # networks by the noise on k: splits often share it
        full = FullModel(facts, surrogate.values)
        # Loads of each step, and the loads' damping, which machines feel in the same way: (steps +
        # 1, n).
        self._felt = np.stack([*(step.loads(full) for step in event.steps), facts.load_damping])
        if not self._felt[:-1].any():
            raise OptionError(
                "The event changes no load, so there is no nadir to compare.",
                expected="an event that adds or loses load",
                outcome=NOT_SIMULATED,
            )
        self._compute = compute
        self._answer = BatchAnswers(
            facts, event, bounds, self.clock, lumped=lumped, compute=compute
        )
        network = self._no_network() if lumped else self._kron(values[WEIGHT.name])
        self._truth = self._joined(network, {name: values[name] for name in SWING})

    @cached_property
    def _answers(self) -> Array:
        """ω of the tables after each step (tables, steps, N + 1, g)."""
        chunks = self._answer.chunks(len(self._truth.inertia))
        return np.concatenate([self._answer.each(self._truth.some(part)) for part in chunks])

    @cached_property
    def _omega(self) -> Array:
        return self._answer.through(self._truth)

    @cached_property
    def reference(self) -> Metrics:
        """Figures of the surrogate itself."""
        return self._answer.read(self._truth, self._omega)

    @cached_property
    def _modes(self) -> np.ndarray:
        return self._eigenvalues(self._truth)[0]

    def errors(
        self,
        adjacency: Adjacency,
        allocation: Allocation,
        epsilon: Fraction,
        *,
        whole: bool = False,
    ) -> Errors:
        """Errors of each draw (draws,), by the names of `Comparison`; whole : with L and modes
        (draws, modes) as well.
        """
        with one_blas_thread():
            return self._errors(self.reduced(adjacency, allocation, epsilon), whole)

    def _errors(self, drawn: Reduced, whole: bool) -> Errors:
        parts: list[Errors] = []
        for some in self._answer.chunks(len(drawn.inertia)):
            part = drawn.some(some, self._compute.put)
            omega = self._answer.through(part)
            read = vars(self._answer.read(part, omega))
            read = Metrics(**{name: self._compute.get(own) for name, own in read.items()})
            each = errors(read, self.reference)
            if whole:
                each["L"] = self._compute.get(self._distance(omega, self._omega))
                each |= mode_errors(self._eigenvalues(drawn.some(some)), self._modes)
            parts.append(each)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def distances(self, adjacency: Adjacency, allocation: Allocation, epsilon: Fraction) -> Array:
        """∫ |ω − ω_table|² dt of each draw (draws,), the mean over the event's steps, each taken
        alone [p.u.² s].
        """
        drawn, mismatch = self.reduced(adjacency, allocation, epsilon), np.empty(self.draws)
        with one_blas_thread():
            for some in self._answer.chunks(self.draws):
                own = np.arange(self.draws)[some] // self._each
                omega = self._answer.each(drawn.some(some, self._compute.put))
                whole = self._distance(omega, self._answers[own])
                mismatch[some] = self._compute.get(whole) / len(self.event.steps)
        return mismatch

    def by_table(self, adjacency: Adjacency, allocation: Allocation, epsilon: Fraction) -> Array:
        """Mean of `distances` over the draws of each table (tables,)."""
        return self.distances(adjacency, allocation, epsilon).reshape(-1, self._each).mean(axis=1)

    @cached_property
    def sizes(self) -> Array:
        """∫ |ω_table|² dt of each table, as `distances` has it [p.u.² s]."""
        return self._distance(self._answers, np.zeros(1)) / len(self.event.steps)

    def _distance(self, omega: XArray, reference: Array) -> XArray:
        """∫ |ω − ω_ref|² dt of each draw (draws,) [p.u.² s]."""
        xp = namespace(omega)
        off = xp.reshape(omega - beside(reference, omega), (omega.shape[0], -1))
        return self.clock.dt_s * xp.vecdot(off, off)

    def control(self) -> Errors:
        """Errors of the public bounds alone (1,): m and d at their prior means, k in the middle,
        and nothing drawn.
        """
        prior = {}
        for name in SWING:
            public = self.bounds[name]
            alone = Posterior.of(public.upper, np.inf, public.lower, public.upper).mean
            prior[name] = np.broadcast_to(alone, (1, len(self.surrogate.facts.machines)))
        model = self._joined(self._network(None), prior)
        return errors(self._answer.read(model, self._answer.through(model)), self.reference)

    def reduced(self, adjacency: Adjacency, allocation: Allocation, epsilon: Fraction) -> Reduced:
        """Draw, estimate and reduce as a release does: what `perturb`, `posterior_mean` and
        `reduce` give for each draw.
        """
        shares = allocation.over(adjacency).split(epsilon, allocation.assets)
        losses: dict[str, GroupLoss] = {}
        for mechanism, names in parts(
            {name: allocation.draws[name] for name in shares}, allocation.assets
        ):
            losses |= _losses(adjacency, mechanism, {name: shares[name] for name in names})
            self._draw(mechanism, names)
        machines = {}
        for name in SWING:
            mean = self._estimate(name, losses[name])
            machines[name] = (
                mean * machine_shares(self.surrogate.facts, allocation.sharing)
                if allocation.of(name).takes == "sum"
                else mean
            )
        if allocation.hides_network:
            return self._joined(self._no_network(), machines)
        return self._joined(self._network(losses.get(WEIGHT.name)), machines)

    def _estimate(self, name: str, loss: GroupLoss) -> Array:
        """Estimates by noisy items (draws, n), or by their noisy sum (draws, 1)."""
        values, mechanism = self._values[name], loss.mechanism
        entries = values.shape[1]
        public = mechanism.range(self.bounds[name], entries)
        if mechanism.takes == "sum":
            values = np.clip(values.sum(axis=1, keepdims=True), public.lower, public.upper)
            if not loss.relative:  # a logarithm moves as far, however many machines there are
                loss = replace(loss, scale=loss.scale * self._part)
        noise = loss.scale * self._noise[loss.noise, mechanism.takes, name]
        with np.errstate(over="ignore"):
            noisy = np.clip(
                values * np.exp(noise) if loss.relative else values + noise,
                public.lower,
                public.upper,
            )
        prior = prior_of(name, mechanism.takes, entries)
        return _means(noisy, lambda y: Posterior.behind(y, loss, public, prior).estimate)

    def _draw(self, mechanism: Mechanism, names: Sequence[str]) -> None:
        """Keep noise of scale 1 on what a mechanism takes of each group: (draws, n), or (draws,
        1); its mean square over the draws of a table is that of the law, so that few of them
        compare laws fairly.
        """
        if (mechanism.law(len(names)), mechanism.takes, names[0]) in self._noise:
            return
        places = np.stack([self._places[mechanism.takes, name] for name in names], axis=-1)
        rows = mechanism.law(len(names)).rows(places)
        for column, name in enumerate(names):
            law, z = mechanism.law(len(names), column), rows[..., column]
            by_table = z.reshape(-1, self._each * z.shape[1])
            square = np.mean(by_table**2, axis=1, keepdims=True)
            self._noise[law, mechanism.takes, name] = (
                by_table * (law.deviation / np.sqrt(square))
            ).reshape(z.shape)

    def _network(self, loss: GroupLoss | None) -> tuple[Array, Array]:
        """Reduce the networks of all draws of k; of one, in the middle of k's box, if nothing of k
        is drawn.
        """
        if self.lumped:
            return self._no_network()
        key = loss and (loss.drawn, loss.scale, loss.relative)
        if key not in self._kept:
            if loss is None:
                k = np.full((1, len(self.surrogate.facts.edges)), middle(self.bounds[WEIGHT.name]))
            else:
                k = self._estimate(WEIGHT.name, loss)
            if len(self._kept) == KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = self._kron(k)
        return self._kept[key]

    def _no_network(self) -> tuple[Array, Array]:
        """The network of topology mode: complete, and load elsewhere felt by all machines alike."""
        facts, g = self.surrogate.facts, len(self.surrogate.facts.machines)
        u = (
            self._felt[:, facts.machines]
            + self._felt[:, facts.interior].sum(axis=1, keepdims=True) / g
        )
        return np.full((1, g * (g - 1) // 2), middle(self.bounds[WEIGHT.name]) / g), u[None]

    def _joined(self, network: tuple[Array, Array], machines: Mapping[str, Array]) -> Reduced:
        inertia, damping = (machines[name] for name in SWING)
        weights, u = (np.broadcast_to(part, (len(inertia), *part.shape[1:])) for part in network)
        whole = Reduced(weights, inertia, damping + u[:, -1], u[:, :-1])
        return whole.lumped() if self.lumped else whole

    def _kron(self, k: Array) -> tuple[Array, Array]:
        """Reduced weights (draws, e) of networks (draws, lines), and what the machines feel of
        loads (draws, steps + 1, g).
        """
        facts, size = (
            self.surrogate.facts,
            self._compute.models(len(self.surrogate.facts.buses) ** 2),
        )
        k_r, u = zip(
            *(
                reduce_each(facts, self._compute.put(k[start : start + size]), self._felt)
                for start in range(0, len(k), size)
            ),
            strict=True,
        )
        get = self._compute.get
        return np.concatenate([*map(get, k_r)]), np.concatenate([*map(get, u)])

    def _eigenvalues(self, models: Reduced) -> list[np.ndarray]:
        values = np.linalg.eigvals(self._answer.A(models)).astype(np.complex128)
        return [oscillating(own) for own in values]


def _means(noisy: Array, mean: Callable[[Array], Array]) -> Array:
    """Apply a smooth function of one number to many: by cubics between knots, since each one
    costs.
    """
    if noisy.size <= 2 * KNOTS:
        return mean(noisy.ravel()).reshape(noisy.shape)
    from scipy.interpolate import PchipInterpolator

    even, low, high = np.linspace(0, 1, KNOTS // 2), noisy.min(), noisy.max()
    spread = np.geomspace(low, high, KNOTS // 2) if low > 0 else low + (high - low) * even
    knots = np.unique(np.clip(np.concatenate([np.quantile(noisy, even), spread]), low, high))
    return (
        PchipInterpolator(knots, mean(knots))(noisy)
        if len(knots) > 1
        else np.full(noisy.shape, mean(knots)[0])
    )


def _losses(
    adjacency: Adjacency, mechanism: Mechanism, shares: Mapping[str, Fraction]
) -> dict[str, GroupLoss]:
    """What a part costs in a trial: scales as they are without roundings."""
    return {
        name: GroupLoss(
            PARAMETERS[name].unit,
            adjacency.alpha[name],
            epsilon,
            float(epsilon),
            float(mechanism.noise.scale(adjacency.distance(name), epsilon)),
            mechanism.name,
            adjacency.relative,
            len(shares),
            place if mechanism.joint else 0,
        )
        for place, (name, epsilon) in enumerate(shares.items())
    }
