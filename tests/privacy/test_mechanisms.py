"""A mechanism of one's own, in this file alone: it goes through all that a release goes through, as
a demo and as nothing else.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from cli_helpers import gridveil
from gridveil.assurance.audit import audit_adjacency, measure_advantage, perturbed
from gridveil.assurance.audit.constant import audit_constant
from gridveil.assurance.audit.noise import audit_noise
from gridveil.assurance.audit.releases import Kind, by_bundle, by_perturb
from gridveil.assurance.owner_report.assess import assess_attacks
from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.grid.parameters import PARAMETERS, Bounds
from gridveil.inference.posterior import beliefs
from gridveil.planning.surrogate import at_middle, trial_event
from gridveil.planning.trials import Trials
from gridveil.privacy.adjacency import RULES, Adjacency
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.epsilon import float_at_least
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import (
    PROVEN,
    USUAL,
    Additive,
    Calibration,
    Noise,
    for_demos_only,
    named,
    registered,
)
from gridveil.publication.bundle import load, verify, write
from gridveil.publication.stated import release_problems
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler, SecureSampler
from gridveil.vault.source import Private
from gridveil.workflow.publish import publish

ONE = Fraction(1)


# --- the toy: uniform noise, whose ε is infinite in truth -----------------------------------------


@dataclass(frozen=True)
class Uniform(Noise):
    """Uniform on ±1 at scale 1: it excludes some values for certain, so no ε bounds it."""

    name = "uniform"
    measured_by = ""
    reach = 1.0

    def calibrate(self, distance, epsilon, size):
        scale = 1.000001 * float(distance / epsilon)  # room for the roundings
        return Calibration(scale, float_at_least(distance / Fraction(scale)))

    def seeded(self, random, scale, size):
        return random.uniform(-scale, scale, size=size)

    def cdf(self, z):
        return np.clip((1 + z) / 2, 0.0, 1.0)

    def quantile(self, share):
        return 2 * share

    def likelihood(self, apart, scale, clipped):
        z = apart / scale
        return np.where(clipped == 0, np.abs(z) <= 1, self.cdf(clipped * z))

    def ratio(self, z, loss):
        return 50.0 * ((np.abs(z - loss / 2) <= 1).astype(float) - (np.abs(z + loss / 2) <= 1))

    def advantage(self, losses):
        return 1 - float(np.prod([max(0.0, 1 - loss / 2) for loss in losses]))


TOY = Additive(
    "uniform",
    Uniform(),
    each="each, with uniform noise",
    whole="every item, with uniform noise",
)


@pytest.fixture(autouse=True)
def toy():
    with registered(TOY):
        yield


def drawn_by_toy():
    return Allocation(dict.fromkeys(PARAMETERS, TOY.name))


def choices(rule="one-asset", epsilon=ONE):
    return {
        "epsilon": epsilon,
        "adjacency": Adjacency(rule),
        "bounds": Bounds(),
        "allocation": drawn_by_toy(),
    }


def released(seed=1, **given):
    return publish(open_grid("star5"), ledger=None, sampler=DemoSampler(seed), **choices(**given))


@pytest.fixture
def bundle(tmp_path):
    write(released(), tmp_path / "bundle")
    return tmp_path / "bundle"


# --- outside demos --------------------------------------------------------------------------------


@pytest.mark.parametrize("release", [perturb, publish])
def test_it_is_refused_outside_demos_before_any_charge(release, tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    drawn = []
    monkeypatch.setattr(SecureSampler, "draw", lambda *given: drawn.append(given))
    with pytest.raises(OptionError, match=r"uniform of k serves demos alone\. Nothing was"):
        release(open_grid("star5"), ledger=ledger, **choices())
    assert ledger.entries() == []
    assert not any(account.spent for account in ledger.accounts().values())
    assert not drawn


def test_a_name_for_one_of_its_groups_is_enough_to_refuse_it(tmp_path):
    given = choices() | {"allocation": Allocation({"k": "items", "m": "items", "d": TOY.name})}
    with pytest.raises(OptionError, match="uniform of d serves demos alone"):
        perturb(open_grid("star5"), ledger=Ledger(tmp_path / "ledger.sqlite"), **given)


def test_only_the_proven_mechanisms_themselves_are_real():
    assert [mechanism.name for mechanism in PROVEN] == [
        "items",
        "sum",
        "mean",
        "box",
        "box-means",
        "hexagon-0.25",
        "hexagon-0.3",
        "hexagon-0.4",
        "hexagon-0.6",
        "nothing",
        "published",
    ]
    assert not any(map(for_demos_only, PROVEN))
    assert for_demos_only(TOY)
    assert for_demos_only(replace(named("items"), noise=USUAL))  # an equal one is another one


def test_a_name_is_given_once():
    with pytest.raises(OptionError, match="registered already"), registered(replace(TOY)):
        pass
    with (
        pytest.raises(OptionError, match="registered already"),
        registered(replace(TOY, name="items")),
    ):
        pass


def test_a_forged_bundle_does_not_make_it_real():
    release = released()
    real = replace(release.guarantee, demo=False, mechanism="OpenDP 0.14.1 make_laplace")
    problems = list(release_problems(replace(release, guarantee=real)))
    assert "it was drawn by a mechanism that serves demos alone" in problems
    assert "its demo flag and its mechanism contradict each other" in problems


# --- release, bundle, verify, simulate ------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_its_noise_is_uniform_and_what_it_drew_is_believed(rule):
    source, given = open_grid("ieee30"), choices(rule)
    noisy = perturb(source, ledger=None, sampler=DemoSampler(1), **given)
    for name, belief in beliefs(noisy).items():
        loss, public = noisy.guarantee.groups[name], noisy.range(name)
        truth, y = Private.open(source.values[name]), noisy.values[name]
        inside = (y > public.lower) & (y < public.upper)
        felt = np.log if loss.relative else np.asarray
        assert (np.abs(felt(y) - felt(truth))[inside] <= loss.scale).all()
        low, high = (belief.quantile(np.full((1, len(y)), share))[0] for share in (0.0, 1.0))
        held = (truth >= public.lower) & (truth <= public.upper)
        assert (low[held] <= truth[held] * (1 + 1e-9)).all()
        assert (high[held] >= truth[held] * (1 - 1e-9)).all()
        assert loss.spent <= loss.epsilon


@pytest.mark.parametrize("rule", RULES)
def test_its_bundle_is_loaded_verified_and_simulated(rule, tmp_path):
    release = released(rule=rule)
    write(release, tmp_path / "bundle")
    report, loaded = verify(tmp_path / "bundle"), load(tmp_path / "bundle")
    assert report.demo
    assert all("every item, with uniform noise" in words for words in report.noise.values())
    assert {loss.drawn for loss in loaded.guarantee.groups.values()} == {"uniform"}
    assert loaded.guarantee.mechanism == "seeded NumPy uniform (demo: no privacy)"
    ours, theirs = (one.simulate("uniform:+10%").omega for one in (release, loaded))
    assert np.array_equal(ours, theirs)


def test_the_commands_take_its_bundle(bundle):
    assert "uniform" in gridveil("verify", bundle).out
    assert gridveil("simulate", bundle, "--event", "uniform:+10%").code == 0


def test_where_it_is_unknown_its_bundle_is_refused(bundle):
    from gridveil.privacy.mechanisms import REGISTERED

    known = REGISTERED.pop(TOY.name)
    try:
        with pytest.raises(GridveilError):
            load(bundle)
    finally:
        REGISTERED[TOY.name] = known


def test_trials_try_it():
    table = at_middle(open_grid("star5").facts, Bounds())
    trials = Trials(table, trial_event(table.facts), Bounds(), draws=200, seed=1)
    errors = [
        trials.distances(Adjacency(), drawn_by_toy(), epsilon).mean()
        for epsilon in (ONE / 4, ONE, 4 * ONE)
    ]
    assert errors == sorted(errors, reverse=True)


# --- audit and attack -----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["one-asset", "one-item-relative"])
def test_the_audit_finds_that_no_epsilon_bounds_it(rule):
    adjacency = Adjacency(rule)
    draw = perturbed(adjacency, ONE, DemoSampler(1), drawn_by_toy())
    found = audit_adjacency(adjacency, ONE, 20_000, draw=draw, workers=1)
    assert not found[0].passed
    assert found[0].lower_95 > 4


@pytest.mark.parametrize("opens", [by_perturb, by_bundle])
@pytest.mark.parametrize("rule", ["one-asset", "one-item-relative"])
def test_the_audit_of_noise_knows_its_law(rule, opens):
    kind, adjacency, law = Kind("uniform", drawn_by_toy(), "clipped"), Adjacency(rule), Uniform()
    count = 200 if opens is by_perturb else 20
    given = {"sampler": DemoSampler(1), "opens": opens}
    assert audit_noise("toy", adjacency, ONE, count, kind, **given).passed

    class Smaller(DemoSampler):
        def draw(self, values, scale, noise):
            return super().draw(values, 0.85 * scale, noise)

    class Laplace(DemoSampler):
        def draw(self, values, scale, noise):
            assert noise == law
            return super().draw(values, scale, USUAL)

    for fault in (Smaller, Laplace):
        assert not audit_noise(
            "toy", adjacency, ONE, 200, kind, sampler=fault(1), opens=by_perturb
        ).passed


def test_constant_noise_leaves_nothing_of_the_table_in_its_bundles():
    kinds = (Kind("uniform", drawn_by_toy()), Kind("clipped", drawn_by_toy(), "clipped"))
    assert audit_constant(Adjacency(), ONE, kinds).passed


def test_the_all_but_one_adversary_has_the_advantage_that_it_states():
    draw = perturbed(Adjacency(), ONE, DemoSampler(1), drawn_by_toy())
    found = measure_advantage(Adjacency(), ONE, 50_000, draw=draw, workers=1)
    assert all(row.passed for row in found)
    assert {row.moved for row in found} == {"k", "m, d"}


def test_it_is_attacked(bundle):
    found = Private.open(assess_attacks(open_grid("star5"), load(bundle)))
    assert found.lines == 4
    assert found.by_epsilon
    assert [row.error_m for row in found.averaging] == sorted(
        (row.error_m for row in found.averaging), reverse=True
    )
