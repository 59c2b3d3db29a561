import numpy as np
import pytest
from scipy.optimize import least_squares

from batch_helpers import STRICT
from gridveil.dynamics.engine import Objective, SampledRecord
from gridveil.dynamics.swing import DrivenSwingFamily
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit.many import ManyFits
from helpers import PAPER, ieee30_like

REDUCED = ieee30_like(PAPER).reduced
SIGMA, DT = 1e-3, 0.1
FAMILY = DrivenSwingFamily(
    REDUCED.edges,
    inputs=1,
    governor_rate=REDUCED.governor_rate,
    droop_gain=REDUCED.droop_gain,
    omega_b=REDUCED.omega_b,
    sense=np.eye(6),
    bounds=Bounds(),
)
U = REDUCED.port_map @ (0.2 * REDUCED.loads)
WEIGHTS = np.full((301, 6), DT)
WEIGHTS[40:50, 2] = 0.0


def record(scheme):
    blank = SampledRecord(((0, 0),), np.zeros((301, 6)), WEIGHTS)
    truth = Objective(FAMILY, [blank], dt_s=DT, scheme=scheme)
    seen = truth.predict(np.append(REDUCED.theta, U))[0]
    seen = seen + SIGMA * np.random.default_rng(2).standard_normal(seen.shape)
    return SampledRecord(((0, 0),), seen, WEIGHTS)


def batch(models=6):
    rng = np.random.default_rng(5)
    theta = REDUCED.theta * np.exp(rng.uniform(-0.4, 0.4, (models, len(REDUCED.theta))))
    loads = U * rng.uniform(0.95, 1.05, (models, 6))
    return theta, loads, np.full(len(REDUCED.theta), 4.0)


class PlainResiduals:
    """Residuals of one model by the engine, slopes by central differences."""

    def __init__(self, objective, u, observed):
        self.objective, self.u, self.observed = objective, u, observed

    def at(self, x):
        y = self.objective.predict(np.append(np.exp(x), self.u))[0]
        return (np.sqrt(WEIGHTS) * (y - self.observed) / SIGMA).ravel()

    def slopes(self, x):
        step = 1e-5 * np.eye(len(x))
        return np.stack([(self.at(x + h) - self.at(x - h)) / 2e-5 for h in step], axis=1)


@pytest.mark.parametrize("scheme", ["exact", "euler"])
def test_slopes_of_many_fits_equal_differences(scheme):
    own, (theta, u, _) = record(scheme), batch(3)
    fits = ManyFits(FAMILY, [own], dt_s=DT, sigma=SIGMA, scheme=scheme)
    r, slopes = fits._residuals(np.concatenate([theta, u], axis=1))
    objective = Objective(FAMILY, [own], dt_s=DT, scheme=scheme)
    for row in range(3):
        plain = PlainResiduals(objective, u[row], own.observed)
        expected = plain.slopes(np.log(theta[row]))
        found = slopes[row] * theta[row][:, None]
        np.testing.assert_allclose(
            found @ found.T, expected.T @ expected, atol=1e-7 * (expected**2).sum()
        )
        np.testing.assert_allclose((r[row] ** 2).sum(), (plain.at(np.log(theta[row])) ** 2).sum())


def test_many_fits_end_where_scipy_finds_nothing_better():
    own, (theta, u, precision) = record("exact"), batch(3)
    fits = ManyFits(FAMILY, [own], dt_s=DT, sigma=SIGMA)
    found = fits(theta, u, precision, iterations=60, close=1e-12)
    assert found.converged.all()
    objective, box = Objective(FAMILY, [own], dt_s=DT), fits._constants.beside(theta)
    for row in range(3):
        mean, end = np.log(theta[row]), np.log(found.theta[row])
        plain = PlainResiduals(objective, u[row], own.observed)
        prior = np.sqrt(precision)

        def both(x, plain=plain, mean=mean, prior=prior):
            return np.append(plain.at(x), prior * (x - mean))

        def slopes(x, plain=plain, prior=prior):
            return np.concatenate([plain.slopes(x), np.diag(prior)])

        further = least_squares(
            both,
            np.clip(end, box.lower + 1e-12, box.upper - 1e-12),
            jac=slopes,
            bounds=(box.lower, box.upper),
            xtol=1e-12,
            ftol=1e-12,
            gtol=1e-10,
        )
        assert found.cost[row] == pytest.approx(further.cost, rel=1e-8)
        np.testing.assert_allclose(end, further.x, atol=1e-3)
        misfit, _ = objective(np.append(found.theta[row], u[row]))
        assert found.misfit[row] == pytest.approx(misfit, rel=1e-9)


def test_many_fits_stay_in_the_box_and_equal_those_of_another_array_library():
    own, (theta, u, precision) = record("exact"), batch()
    theta[:, 0] = 1e-9  # far outside
    ours, theirs = (
        ManyFits(FAMILY, [own], dt_s=DT, sigma=SIGMA, **where)(theta, u, precision)
        for where in ({}, {"compute": STRICT})
    )
    for name in ("theta", "cost", "misfit"):
        np.testing.assert_allclose(getattr(theirs, name), getattr(ours, name), rtol=1e-9)
    np.testing.assert_array_equal(theirs.converged, ours.converged)
    box = ManyFits(FAMILY, [own], dt_s=DT, sigma=SIGMA)._constants.beside(theta)
    x = np.log(ours.theta)
    assert ((x >= box.lower - 1e-12) & (x <= box.upper + 1e-12)).all()
