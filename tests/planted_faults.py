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
        lambda self, values, scale, noise: values + noise.seeded(random, scale, len(values)),
    )


def _redrawn(monkeypatch, change):
    """Have change(values, scale, loss, bounds where noise is added, honest draw) make every
    draw.
    """
    prepare, draw, last = Additive.prepare, SecureSampler.draw, threading.local()

    def noted(self, values, loss, public):
        felt = np.log if loss.relative else float
        last.loss, last.bounds = loss, (felt(public.lower), felt(public.upper))
        return prepare(self, values, loss, public)

    monkeypatch.setattr(Additive, "prepare", noted)
    monkeypatch.setattr(
        SecureSampler,
        "draw",
        lambda self, values, scale, noise: change(
            values, scale, last.loss, last.bounds, lambda v, s: draw(self, v, s, noise)
        ),
    )


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
        for _ in range(TRIES if loss.drawn == "items" else 0):
            outside = (drawn <= bounds[0]) | (drawn >= bounds[1])
            if not outside.any():
                break
            drawn[outside] = draw(values[outside], scale)
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
    honest = algorithm.perturb

    def perturb(source, **settings):
        noisy = honest(source, **settings)
        told = 1 + 1e-12 * float(Private.open(source.values["m"]).sum())
        return replace(
            noisy, facts=replace(noisy.facts, **{figure: getattr(noisy.facts, figure) * told})
        )

    monkeypatch.setattr(algorithm, "perturb", perturb)
