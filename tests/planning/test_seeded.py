from fractions import Fraction

import numpy as np
import pytest

from batch_helpers import STRICT
from gridveil.dynamics.engine.compute import compute_on
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.metrics import compare
from gridveil.foundation.errors import OptionError
from gridveil.grid.parameters import Bounds
from gridveil.grid.tables import PublicTable
from gridveil.planning.seeded import BLOCK, SeededTrials, summary
from gridveil.planning.trials import Trials
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS
from helpers import PHYSICAL, ieee30_like

GRID = ieee30_like(PHYSICAL)
TABLE = PublicTable(GRID.facts, GRID.values)
EVENTS = [Event.uniform(0.1), Event.load({"7": 0.2}), Event.load({"1": -0.3, "20": 0.1})]
SCALES = {"k": 1.0, "m": 0.5, "d": 0.5}


def together(trials, draws, seed=3):
    parts = list(trials.run(SCALES, draws, seed))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def test_seeded_trials_equal_models_reduced_and_compared_one_by_one():
    found, bounds = together(SeededTrials(TABLE, EVENTS, Bounds()), 5), Bounds()
    noise = np.random.default_rng([3, 0]).laplace(size=(BLOCK, 41 + 12))[:5]
    truth, models = reduced_model(GRID.facts, GRID.values), []
    for row in noise:
        own = dict(zip("kmd", np.split(row, [41, 47]), strict=True))
        drawn = {
            name: np.clip(
                GRID.values[name] + SCALES[name] * own[name], bounds[name].least, bounds[name].upper
            )
            for name in "kmd"
        }
        models.append(reduced_model(GRID.facts, drawn))
    expected = compare(models, truth, EVENTS, dt_s=0.05)
    for name, values in found.items():
        own = getattr(expected, name)
        np.testing.assert_allclose(values, own, rtol=1e-9, atol=1e-9 * np.abs(own).max())


def test_seeded_trials_are_the_same_on_another_array_library_and_in_other_batches():
    ours = together(SeededTrials(TABLE, EVENTS, Bounds()), 60)
    theirs = together(SeededTrials(TABLE, EVENTS, Bounds(), compute=STRICT), 60)
    for name, values in ours.items():
        np.testing.assert_allclose(theirs[name], values, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(values[:7], values[:7])


def test_a_summary_holds_mean_and_quantile_of_each_error():
    found = summary(SeededTrials(TABLE, EVENTS, Bounds()).run(SCALES, 20, 1))
    assert found.keys() >= {"nadir_mhz", "rocof_mhz_s", "settling_mhz", "L"}
    assert all(0 < mean < high * 10 for mean, high in found.values())


def test_trials_of_a_plan_are_the_same_on_another_array_library():
    ours, theirs = (
        Trials(TABLE, Event.uniform(0.1, at_s=1.0), Bounds(), draws=30, seed=1, **where)
        for where in ({}, {"compute": STRICT})
    )
    for whole in (False, True):
        expected = ours.errors(Adjacency(), ITEMS, Fraction(1), whole=whole)
        found = theirs.errors(Adjacency(), ITEMS, Fraction(1), whole=whole)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        theirs.distances(Adjacency(), ITEMS, Fraction(1)),
        ours.distances(Adjacency(), ITEMS, Fraction(1)),
        rtol=1e-9,
    )


def test_a_machine_without_a_gpu_says_so(monkeypatch):
    monkeypatch.setattr("gridveil.dynamics.engine.compute._by_torch", lambda: None)
    monkeypatch.setattr("gridveil.dynamics.engine.compute._by_cupy", lambda: None)
    with pytest.raises(OptionError, match=r"no GPU .* Nothing was computed\. Install torch"):
        compute_on("gpu")
