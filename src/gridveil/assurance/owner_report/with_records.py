"""What public trajectories give an attacker: alone, and beside a demo release of the grid.

For the owner's figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gridveil.adversary.attack.trajectory import from_both, from_records
from gridveil.assurance.owner_report.redraws import Progress, Redraws, median_error
from gridveil.dynamics.kron import reduce
from gridveil.dynamics.models import ReducedModel
from gridveil.grid.parameters import PARAMETERS
from gridveil.inference.fit import FitSettings, Observation
from gridveil.planning.surrogate import at_middle

STEPS = 2  # that are told


@dataclass(frozen=True)
class RecordRow:
    """Median relative errors of the reduced model's values for an attacker who has this."""

    attacker_has: str
    errors: Mapping[str, float]


def record_rows(
    again: Redraws, observed: Sequence[Observation], truth: ReducedModel, told: Progress
) -> tuple[RecordRow, ...]:
    """Estimate the model from records with the public topology and bounds, from a demo release, and
    from both.

    Records weigh as in a release's fit. Of sums, which no fit takes, there is no row for both.
    """
    return tuple(
        RecordRow(
            name,
            {
                group: median_error(model.values[group], values)
                for group, values in truth.values.items()
            },
        )
        for name, model in _models(again, observed, told)
    )


def _models(
    again: Redraws, observed: Sequence[Observation], told: Progress
) -> Iterator[tuple[str, ReducedModel]]:
    release, facts = again.release, again.source.facts
    epsilon, settings = release.guarantee.epsilon, FitSettings()
    how = {"dt_s": settings.dt_s, "scheme": settings.scheme, "sigma": settings.sigma}
    yield "blind", reduce(at_middle(facts, release.bounds))
    told("estimating from the trajectories")
    yield "the trajectories", from_records(facts, observed, release.bounds, **how).model
    told("estimating from a demo release and the trajectories")
    yield f"a demo release at ε = {float(epsilon):g}", again.at(epsilon, 0).swing
    if all(again.of(name).takes != "sum" for name in PARAMETERS):
        yield "both", from_both(again.noisy(epsilon, 0), observed, **how).model
