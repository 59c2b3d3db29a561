"""Error bars of a swing release: tables that its noise, and its records, leave possible.

Without a record, every member is a draw of the release's posterior. With records it is a draw of
the posterior of both, see `gridveil.inference.fit.members`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.kron import networkless_model, reduced_model
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.swing import SWING
from gridveil.foundation.progress import told_to
from gridveil.grid.facts import Array, IntArray
from gridveil.grid.parameters import WEIGHT
from gridveil.grid.tables import PublicTable
from gridveil.inference.alike import Alike, beliefs_alike, split, uneven_shares
from gridveil.inference.fit.members import Members
from gridveil.inference.fit.outcome import SearchEnd
from gridveil.inference.fit.search import MANY_MACHINES
from gridveil.inference.fit.walk import walk
from gridveil.inference.posterior import Posterior, middle, seed_of
from gridveil.inference.prior import LOG_UNIFORM, around_middle, prior_of
from gridveil.privacy.allocation import machine_shares
from gridveil.privacy.guarantee import Guarantee
from gridveil.privacy.noisy import NoisyGrid

# Numbers plus one are multiples of ten: bands then hold a further member in 80 % exactly. With
# records of few places every member is a search of its own.
MEMBERS, FEWER, OF_FEW_PLACES = 49, 29, 19
# Members that are fitted to records of many machines take seconds each.
OF_MANY_MACHINES = 9
# Machines above which there is no ensemble, and numbers that all members hold at most.
ENSEMBLE_UP_TO, MOST_NUMBERS = 100, 400_000
OF_NOISE = "noise of the release"
OF_SPLIT = "how machines share a sum that was drawn"
OF_LINES = "line weights of which nothing was drawn"
OF_RECORDS = "noise of the records"


def members_for(machines: int, loaded: int) -> int:
    """How many members a grid's ensemble has; none above 100 machines."""
    each = machines * (machines - 1) // 2 + 2 * machines + machines * loaded
    if machines > ENSEMBLE_UP_TO:
        return 0
    return MEMBERS if MEMBERS * each <= MOST_NUMBERS else FEWER


def counted(guarantee: Guarantee, *, fitted: bool) -> tuple[str, ...]:
    """What the spread of an ensemble counts, in words.

    fitted : whether its members were fitted to records.
    """
    groups = guarantee.groups
    takes = {
        groups[name].mechanism.takes if name in groups else "nothing"
        for name in guarantee.parameters
    }
    found = [OF_NOISE]
    found += [OF_SPLIT] if takes & {"sum", "mean"} else []
    found += [OF_LINES] if "nothing" in takes else []
    return (*found, OF_RECORDS) if fitted else tuple(found)


def tables(noisy: NoisyGrid, count: int, random: np.random.Generator) -> dict[str, Array]:
    """Draw whole tables that a release leaves possible: (count, entries) of each parameter.

    Items of machines may be alike, see `gridveil.inference.alike`; sums are shared out among
    machines that may be; lines of which nothing was drawn have their prior.

    Privacy
    -------
    Uses the noisy values, public bounds and public noise scales only, and a public seed:
    post-processing.
    """
    found: dict[str, Array] = {}
    for name, entries in noisy.facts.sizes.items():
        takes, loss = noisy.allocation.of(name).takes, noisy.guarantee.groups.get(name)
        if loss is None and noisy.allocation.hides_network:
            # not even how many lines there are may show, in what is drawn after them
            found[name] = np.full((count, entries), middle(noisy.bounds[name]))
            continue
        if loss is None:
            found[name] = around_middle(random.random((count, entries)), noisy.bounds[name])
            continue
        drawn, prior = noisy.range(name), prior_of(name, takes, entries)
        belief = Posterior.behind(noisy.values[name], loss, drawn, prior)
        if takes == "items":
            alone = drawn.signed or entries == 1
            items = belief if alone else Alike(replace(belief, prior=LOG_UNIFORM))
            found[name] = items.sample(random, count)
            continue
        total = belief.sample(random, count)[:, 0] * (entries if takes == "mean" else 1)
        public = noisy.bounds[name]
        shares = machine_shares(noisy.facts, noisy.allocation.sharing)
        found[name] = split(total, shares, (public.least, public.upper), random)
    return found


def possible(noisy: NoisyGrid, buses: IntArray | None, count: int) -> list[ReducedModel]:
    """Models that a release without a record leaves possible; buses : as for `reduce`."""
    random = np.random.default_rng(seed_of(noisy))
    drawn = tables(noisy, count, random)
    each = [{name: values[number] for name, values in drawn.items()} for number in range(count)]
    if noisy.allocation.hides_network:
        return [_networkless(noisy, table, random) for table in each]
    with told_to(None):
        return [reduced_model(noisy.facts, table, buses) for table in each]


def _networkless(
    noisy: NoisyGrid, table: Mapping[str, Array], random: np.random.Generator
) -> ReducedModel:
    """A member of topology mode: weights and shares of load as a network of no known shape has
    them.
    """
    public, g = noisy.bounds[WEIGHT.name], len(noisy.facts.machines)
    model = networkless_model(PublicTable(noisy.facts, table), 1.0)
    k_r = around_middle(random.random(len(model.k_r)), public) / g
    K_ac = uneven_shares(g, random)[:, None]
    return ReducedModel.of_arrays(
        model.arrays | {"k_r": k_r, "K_ac": K_ac},
        ports=model.ports,
        omega_b=model.omega_b,
        frequency_hz=model.frequency_hz,
        base_mva=model.base_mva,
    )


@one_blas_thread()
def fitted_members(
    ended: SearchEnd, noisy: NoisyGrid, buses: IntArray | None, count: int
) -> list[ReducedModel]:
    """Models that a release and its records leave possible.

    Every member starts from its own draw of the release's posterior, and of what is believed of
    events that are not wholly known.
    """
    random, making = np.random.default_rng(seed_of(noisy)), Members(ended)
    if making.few_places:
        count = min(count, OF_FEW_PLACES)
    if len(noisy.facts.machines) > MANY_MACHINES:
        count = min(count, OF_MANY_MACHINES)
    drawn = tables(noisy, count, random)
    facts, prior = noisy.facts, ended.prior
    logs = np.log(np.concatenate([drawn[name] for name in SWING], axis=1))
    size = logs.shape[1]
    events = random.standard_normal((count, len(prior.mean) - size))
    spread = 1 / np.sqrt(prior.precision.diagonal()[size:])
    means = np.concatenate([logs, prior.mean[size:] + spread * events], axis=1)
    ends = np.cumsum([facts.sizes[name] for name in SWING])[:-1]
    with told_to(None):
        members = making.members(means, random)
        if making.few_places and not ended.direct and len(facts.machines) <= MANY_MACHINES:
            members = walk(ended, beliefs_alike(noisy), members, random)
        found = np.exp(members[:, :size])
        tables_of = (dict(zip(SWING, np.split(row, ends), strict=True)) for row in found)
        return [reduced_model(facts, table, buses) for table in tables_of]
