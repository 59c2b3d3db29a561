"""Members of a detailed release's ensemble: cases that the release leaves possible.

Each draws the entries from what was released, and what was not drawn from its public prior; then it
goes the release's own way: balanced, fitted to records where there are any, linearised.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gridveil.dynamics.detailed.entries import ENTRIES, released_case
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.numbers import numbers_of
from gridveil.dynamics.detailed.projection import LEAST_DAMPING, Standing, standing
from gridveil.foundation.progress import counted
from gridveil.grid.case import DetailedCase
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array
from gridveil.inference.detailed_draws import entry_draws, typical_factors
from gridveil.inference.fit.detailed import case_with
from gridveil.inference.fit.detailed_members import MemberFits
from gridveil.inference.plausible import plausible_case, plausible_loads
from gridveil.inference.posterior import seed_of
from gridveil.privacy.noisy import NoisyGrid

MEMBERS = 24
SHARES = (0.0, 0.5)  # of the way to the released case, until a member stands
# What a linear model misses of a nonlinear grid, as a share of a response: 1 to 3 % were measured.
LINEAR = 0.02

# What the spread of members counts.
OF_NOISE = "noise of the release"
OF_MEANS = "how entries differ of which a mean was drawn"
OF_TYPICAL = "typical constants, voltages, taps and resistances, which are not exact"
OF_LINEAR = "what a linear model misses of a grid that is not"
OF_RECORDS = "noise and model error of the records"


def counted_words(fitted: bool) -> tuple[str, ...]:
    """What the spread of an ensemble counts, in words."""
    words = (OF_NOISE, OF_MEANS, OF_TYPICAL, OF_LINEAR)
    return (*words, OF_RECORDS) if fitted else words


def offsets(members: int, ports: int, seed: int) -> Array:
    """Model error of each member (members, ports), half in common and half of each port.

    seed : public, of the release: `gridveil.inference.posterior.seed_of`.
    """
    random = np.random.default_rng([seed, 3])
    common = random.standard_normal((members, 1))
    return LINEAR * np.sqrt(0.5) * (common + random.standard_normal((members, ports)))


def detailed_members(
    noisy: NoisyGrid[DetailedFacts],
    released: Standing,
    fits: MemberFits | None = None,
    *,
    unknown_loads: bool = False,
    members: int = MEMBERS,
) -> list[DetailedModel]:
    """Models that a release leaves possible, each as likely as the others.

    released : the release before its fit, and its operating point.
    fits : to the release's records; None: there are none, or their fit was discarded.
    unknown_loads : nobody declared how loads depend on voltage, and no fit says so.

    Privacy
    -------
    Uses what was drawn, public values, public records and a public seed only: post-processing. A
    member that does not stand is moved toward the release; none is drawn again.
    """
    seed = seed_of(noisy)
    draws = entry_draws(noisy, np.random.default_rng([seed, 0]), members)
    models = []
    with counted("error bars", members) as more:
        for number in range(members):
            values = {name: entries[number] for name, entries in draws.items()}
            drawn = _drawn_case(noisy.facts, values, [seed, 1, number], unknown_loads)
            case, equilibrium = _standing(drawn, released)
            if fits is not None:
                case, equilibrium = fits.fitted(case, np.random.default_rng([seed, 2, number]))
            models.append(linearise(case, equilibrium, case.loads.bus))
            more()
    return models


def _drawn_case(
    facts: DetailedFacts, values: Mapping[str, Array], seed: list[int], unknown_loads: bool
) -> DetailedCase:
    """A case of drawn entries, and of what was not drawn by its public prior."""
    random = np.random.default_rng(seed)
    public = plausible_case(facts.public, random)
    if unknown_loads:
        public = plausible_loads(public, random)
    sized = released_case(public, values)
    typical = {
        name: ENTRIES[name].read(sized)[0] * typical_factors(name, random, facts.sizes[name])
        for name in facts.parameters
        if name not in values
    }
    return released_case(public, {**values, **typical})


def _standing(drawn: DetailedCase, released: Standing) -> Standing:
    """A drawn case, moved toward the released one until it stands; at last that one, which does."""
    own, goal = numbers_of(drawn), numbers_of(released[0])
    for share in SHARES:
        between = {
            table: {
                name: (1 - share) * values + share * goal[table][name]
                for name, values in columns.items()
            }
            for table, columns in own.items()
        }
        found = standing(case_with(drawn, between), LEAST_DAMPING)
        if found is not None:
            return found
    return released
