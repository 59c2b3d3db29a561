"""The audit of detailed tables: assets as canaries, the noise of every entry, and whole bundles."""

from fractions import Fraction

import numpy as np
import pytest

from gridveil.assurance.audit import alphas, audited
from gridveil.assurance.audit.constant import audit_constant_detailed
from gridveil.assurance.audit.detailed import audit_assets, detailed_kind, facts, steps
from gridveil.assurance.audit.noise import audit_noise
from gridveil.foundation.errors import OptionError
from gridveil.grid.parameters import parameters_of
from gridveil.privacy.adjacency import RULES_OF, Adjacency
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import Private
from gridveil.workflow import detailed as workflow
from planted_faults import (
    columns_reuse_their_noise,
    fast_noise,
    joint_noise_of_smaller_scale,
    last_reuses_the_first,
    no_noise_above_the_bound,
)

ONE = Fraction(1)
LEVEL = 1e-6
RULES = RULES_OF["detailed"]


def adjacency(rule="one-asset-relative"):
    return Adjacency(rule, alphas("detailed"), family="detailed")


def noise(rule="one-asset-relative", releases=150, sampler=None):
    own = adjacency(rule)
    return audit_noise("x", own, ONE, releases, detailed_kind(own), sampler=sampler, level=LEVEL)


def assets(rule="one-asset-relative", releases=3000, sampler=None, epsilon=ONE):
    found = audit_assets(adjacency(rule), epsilon, releases, sampler=sampler or DemoSampler(1))
    return {row.pattern: row for row in found}


def test_the_synthetic_table_has_every_parameter_of_the_family():
    assert facts().parameters.keys() == parameters_of("detailed").keys()


@pytest.mark.parametrize(
    ("rule", "norm"),
    [
        ("one-asset-relative", lambda moves: np.abs(moves).max()),
        ("one-item-relative", lambda moves: np.abs(moves).sum()),
        ("asset-l1-relative", lambda moves: np.abs(moves).sum()),
    ],
)
def test_canaries_are_one_step_of_the_rule_and_no_less(rule, norm):
    for count in (1, 2, 10):
        for ways in steps(rule, count).values():
            assert [norm(moves) for moves in ways] == pytest.approx([1.0] * len(ways))
            assert all(len(moves) == count for moves in ways)


@pytest.mark.parametrize("rule", RULES)
def test_seeded_noise_of_the_right_law_passes(rule):
    assert noise(rule, sampler=DemoSampler(1)).passed


@pytest.mark.parametrize("rule", RULES)
def test_no_byte_of_a_detailed_bundle_depends_on_the_table_but_through_noise(rule):
    found = audit_constant_detailed(adjacency(rule), ONE)
    assert found.passed and found.pattern == "all equal"
    assert found.values >= 2 * 10  # files of both forms, with exports


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_guesses_about_whole_assets_prove_much_of_epsilon_and_never_more(rule):
    found = assets(rule)
    assert all(row.passed for row in found.values())
    way = "alone" if rule == "one-item-relative" else "together"
    assert found[f"a line's entries, {way}"].lower_95 > 0.5
    assert found["a shunt's entries, alone"].lower_95 > 0.7
    if rule == "one-asset-relative":
        assert found["a machine's entries, together"].lower_95 > 0.5  # items and means add up


@pytest.mark.slow
def test_noise_of_two_thirds_of_its_scale_is_caught_by_guesses():
    class Smaller(DemoSampler):
        def draw(self, values, scale, noise):
            return super().draw(values, scale / 1.5, noise)

    assert not all(row.passed for row in assets(sampler=Smaller(1)).values())


@pytest.mark.parametrize(
    "fault", [no_noise_above_the_bound, last_reuses_the_first, columns_reuse_their_noise]
)
def test_a_planted_fault_is_caught_in_detailed_tables(monkeypatch, fault):
    fast_noise(monkeypatch)
    fault(monkeypatch)
    assert not noise().passed


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_another_scale_of_joint_noise_is_caught_in_detailed_tables(monkeypatch, factor):
    fast_noise(monkeypatch)
    joint_noise_of_smaller_scale(monkeypatch, factor)
    assert not noise(releases=1000).passed


def test_a_true_value_in_the_12th_digit_of_a_detailed_bundle_is_caught(monkeypatch):
    honest, drawn, true = workflow.project, workflow.perturb_planned, []

    def perturb_planned(plan, **settings):
        true.append(float(Private.open(plan.source.values["M"]).sum()))
        return drawn(plan, **settings)

    def project(public, values):
        return honest(public, values | {"x": values["x"] * (1 + 1e-12 * true[-1])})

    monkeypatch.setattr(workflow, "perturb_planned", perturb_planned)
    monkeypatch.setattr(workflow, "project", project)
    assert not audit_constant_detailed(adjacency(), ONE).passed


def test_rules_are_audited_for_every_family_that_has_them():
    def chosen(*rules, power="quick"):
        return [(own.rule, own.family) for own in audited(rules or None, power)]

    assert chosen("one-asset") == [("one-asset", "swing")]
    both = [("one-asset-relative", "swing"), ("one-asset-relative", "detailed")]
    assert chosen("one-asset-relative") == both
    assert chosen("asset-l1-relative") == [("asset-l1-relative", "detailed")]
    assert chosen() == [("one-asset", "swing"), ("one-asset-relative", "detailed")]
    assert len(chosen(power="thorough")) == 5 and len(chosen(power="full")) == 9
    with pytest.raises(OptionError, match="unknown"):
        chosen("one-nothing")
