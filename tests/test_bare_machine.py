"""The batch path needs numpy, scipy and array-api-compat alone: it runs on a bare GPU machine."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from helpers import PHYSICAL, star

HERE = Path(__file__).parent


def bare(grid) -> dict:
    facts = grid.facts
    given = {
        name: np.asarray(getattr(facts, name)).tolist()
        for name in (
            "buses",
            "edges",
            "machines",
            "governor_rate",
            "droop_gain",
            "loads",
            "load_damping",
        )
    }
    given |= {
        name: getattr(facts, name)
        for name in (
            "name",
            "omega_b",
            "frequency_hz",
            "base_mva",
            "loads_are_public",
            "operating_point",
        )
    }
    given["values"] = {name: own.tolist() for name, own in grid.values.items()}
    done = subprocess.run(
        [sys.executable, HERE / "bare_machine.py"],
        input=json.dumps(given),
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def test_noise_kron_gradients_fits_and_trials_run_without_any_other_package():
    grid = star().with_facts(omega_b=PHYSICAL)
    found = bare(grid)
    truth = grid.reduced.theta
    assert np.isfinite(found["J"]).all()
    assert np.isfinite(found["gradient"]).all()
    np.testing.assert_allclose(np.sum(found["fitted"]), truth.sum(), rtol=0.05)
    assert len(found["L"]) == len(found["seeded"]) == 20
