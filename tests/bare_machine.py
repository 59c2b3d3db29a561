"""What a bare machine must be able to do: run in a process of its own, where any other package than
numpy, scipy and array-api-compat is refused. Reads a grid's arrays from standard input.
"""

import sys
from importlib.abc import MetaPathFinder

ALLOWED = {"gridveil", "numpy", "scipy", "array_api_compat", *sys.stdlib_module_names}


class Refuse(MetaPathFinder):
    """Find nothing of other packages, whatever is installed."""

    def find_spec(self, name, path=None, target=None):
        own = name.startswith("_sysconfigdata")  # of Python itself, by a name of its platform
        if name.partition(".")[0] not in ALLOWED and not own:
            raise ModuleNotFoundError(f"refused: {name}", name=name)


def main():
    import json
    from fractions import Fraction

    import numpy as np

    from gridveil.dynamics.events import Event
    from gridveil.dynamics.kron import reduced_model
    from gridveil.dynamics.simulate import simulate
    from gridveil.grid.facts import GridFacts
    from gridveil.grid.parameters import Bounds
    from gridveil.grid.tables import PublicTable
    from gridveil.inference.fit import Observation, problem
    from gridveil.inference.fit.many import ManyFits  # noqa: F401
    from gridveil.inference.fit.two_stage import two_stage
    from gridveil.inference.posterior import Posterior, no_release
    from gridveil.planning.seeded import SeededTrials
    from gridveil.planning.trials import Trials
    from gridveil.privacy.adjacency import Adjacency
    from gridveil.privacy.allocation import ITEMS
    from gridveil.privacy.provenance import Provenance

    given = json.load(sys.stdin)
    values = {name: np.array(own) for name, own in given.pop("values").items()}
    given = {name: np.array(v) if isinstance(v, list) else v for name, v in given.items()}
    facts = GridFacts(**given | {"buses": tuple(given["buses"].tolist())})
    truth, event, bounds = reduced_model(facts, values), Event.uniform(0.2), Bounds()
    record = Observation(event, simulate(truth, event), Provenance("simulated", "test"))
    J, gradient = problem(truth, [record], bounds, dt_s=0.01, scheme="exact", rho=0.0)(
        truth.theta * np.linspace(0.9, 1.1, 40)[:, None]
    )
    fitted = two_stage(
        facts,
        [record],
        no_release(facts.sizes, bounds)
        | {name: Posterior.of(own, 1.0, 0.5, 200.0) for name, own in values.items()},
        bounds,
        dt_s=0.01,
        scheme="exact",
        sigma=1e-5,
        starts=1,
    )
    trials = Trials(PublicTable(facts, values), event, bounds, draws=20, seed=1)
    errors = trials.errors(Adjacency(), ITEMS, Fraction(1), whole=True)
    scales = dict.fromkeys(("k", "m", "d"), 0.5)
    (seeded,) = SeededTrials(PublicTable(facts, values), [event], bounds).run(scales, 20, 1)
    found = {
        "J": J.tolist(),
        "gradient": gradient.tolist(),
        "fitted": fitted.model.theta.tolist(),
        "L": errors["L"].tolist(),
        "seeded": seeded["L"].tolist(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    sys.meta_path.insert(0, Refuse())
    main()
