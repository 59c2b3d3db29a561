"""Faults of noise and of bundles, planted into the code that makes real releases; a good audit
catches each.
"""

import threading
from dataclasses import replace

import numpy as np

from gridveil.privacy.mechanisms import Additive
from gridveil.vault.sampler import SecureSampler
from gridveil.vault.source import Private
from gridveil.workflow import publish as algorithm

TRIES = 50


def fast_noise(monkeypatch, seed=1):
    """NumPy's noise in place of OpenDP's, where not the sampler is tested but what is done with
    it.
    """
    random = np.random.default_rng(seed)
    monkeypatch.setattr(
        SecureSampler,
        "draw",
        lambda self, values, scale, noise: values + noise.seeded(random, scale, values.shape),
    )


def _redrawn(monkeypatch, change):
    """Have change(values, scale, loss, bounds where noise is added, honest draw) make every
    draw.
    """
    prepare, draw, last = Additive.prepare, SecureSampler.draw, threading.local()

    def noted(self, values, loss, public):
        felt = np.log if loss.relative else float
        # the columns of a joint draw are prepared one after the other
        last.columns = [*getattr(last, "columns", ()), (felt(public.lower), felt(public.upper))]
        last.loss = loss
        return prepare(self, values, loss, public)

    def changed(self, values, scale, noise):
        columns, last.columns = getattr(last, "columns", []), []
        if not columns:  # the sampler itself is tested: no release
            return draw(self, values, scale, noise)
        # what another sampler drew was prepared too: the last columns are this draw's
        bounds = np.array(columns[-values[0].size :]).T
        if values.ndim == 1:
            bounds = bounds[:, 0]
        return change(values, scale, last.loss, bounds, lambda v, s: draw(self, v, s, noise))

    monkeypatch.setattr(Additive, "prepare", noted)
    monkeypatch.setattr(SecureSampler, "draw", changed)


def no_noise_above_the_bound(monkeypatch):
    def change(values, scale, loss, bounds, draw):
        return np.where(values > bounds[1], values, draw(values, scale))

    _redrawn(monkeypatch, change)


def last_reuses_the_first(monkeypatch):
    def change(values, scale, loss, bounds, draw):
        drawn = draw(values, scale)
        if len(values) > 1:
            drawn[-1] = values[-1] + (drawn[0] - values[0])
        return drawn

    _redrawn(monkeypatch, change)


def redrawn_until_inside(monkeypatch):
    def change(values, scale, loss, bounds, draw):
        drawn = draw(values, scale)
        for _ in range(TRIES if loss.mechanism.takes == "items" else 0):
            outside = (drawn <= bounds[0]) | (drawn >= bounds[1])
            if not outside.any():
                break
            drawn = np.where(outside, draw(values, scale), drawn)
        return drawn

    _redrawn(monkeypatch, change)


def sums_have_no_noise_at_the_bound(monkeypatch):
    def change(values, scale, loss, bounds, draw):
        return np.where(values >= bounds[1], values, draw(values, scale))

    _redrawn(monkeypatch, change)


def sums_are_redrawn_until_inside(monkeypatch):
    def change(values, scale, loss, bounds, draw):
        drawn = draw(values, scale)
        for _ in range(TRIES if loss.mechanism.takes == "sum" else 0):
            outside = (drawn <= bounds[0]) | (drawn >= bounds[1])
            if not outside.any():
                break
            drawn = np.where(outside, draw(values, scale), drawn)
        return drawn

    _redrawn(monkeypatch, change)


def joint_noise_of_smaller_scale(monkeypatch, factor=0.85):
    def change(values, scale, loss, bounds, draw):
        return draw(values, scale * (factor if loss.mechanism.joint else 1))

    _redrawn(monkeypatch, change)


def columns_reuse_their_noise(monkeypatch):
    """All values of an asset with the noise of its first, in scales."""

    def change(values, scale, loss, bounds, draw):
        drawn = draw(values, scale)
        if values.ndim == 2:  # rows are drawn jointly
            z = (drawn[:, :1] - values[:, :1]) / scale[0]
            drawn = values + scale * z
        return drawn

    _redrawn(monkeypatch, change)


def sums_of_smaller_scale(monkeypatch, factor=0.85):
    def change(values, scale, loss, bounds, draw):
        return draw(values, scale * (factor if loss.drawn == "sum" else 1))

    _redrawn(monkeypatch, change)


def true_value_in_a_public_figure(monkeypatch, figure="omega_b"):
    """The true Σm in about the 12th digit of a public fact: a number, or every number of a
    vector.
    """
    honest = algorithm.perturb_planned

    def perturb_planned(plan, **settings):
        noisy = honest(plan, **settings)
        told = 1 + 1e-12 * float(Private.open(plan.source.values["m"]).sum())
        return replace(
            noisy, facts=replace(noisy.facts, **{figure: getattr(noisy.facts, figure) * told})
        )

    monkeypatch.setattr(algorithm, "perturb_planned", perturb_planned)
