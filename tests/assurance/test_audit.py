"""The audit proves nearly all of the ε that an honest perturb spends, never more, and catches a
dishonest one.
"""

import json
import math
import tempfile
from fractions import Fraction

import numpy as np
import pytest
import typer
from scipy.stats import beta, binom, binomtest
from typer.testing import CliRunner

from gridveil.assurance.audit import (
    ChargedReleases,
    Effort,
    alphas,
    audit_adjacency,
    audit_low_bits,
    audit_sums,
    perturbed,
    values_to_draw,
)
from gridveil.assurance.audit.canaries import Block, moved_together, patterns
from gridveil.assurance.audit.findings import (
    Counts,
    best_threshold,
    epsilon_lower,
    finding,
    success_lower,
)
from gridveil.assurance.audit.releases import KINDS
from gridveil.cli import assurance
from gridveil.foundation.errors import OptionError
from gridveil.grid.parameters import PARAMETERS
from gridveil.privacy.adjacency import ABSOLUTE, RELATIVE, Adjacency
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import USUAL
from gridveil.vault.sampler import DemoSampler, SecureSampler

ALPHA = alphas()

ONE = Fraction(1)


def adjacency(rule, **shares):
    return Adjacency(
        rule, alphas(), {name: Fraction(share) for name, share in shares.items()} or None
    )


def failed(found):
    return {row.pattern.partition(" (")[0] for row in found if not row.passed}


def audit_demo(rule, sampler, *, epsilon=ONE, canaries=100_000, **shares):
    """Audit perturb with a sampler of our own; its claim is what its guarantees say.

    One thread, so calls keep their order.
    """
    audited = adjacency(rule, **shares)
    return audit_adjacency(
        audited, epsilon, canaries, draw=perturbed(audited, epsilon, sampler), workers=1
    )


# --- the bound ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("correct", "guesses"), [(1, 1), (7, 10), (730, 1000), (200_000, 270_000), (0, 5)]
)
@pytest.mark.parametrize("confidence", [0.95, 0.9999])
def test_the_bound_on_a_probability_is_scipys_clopper_pearson(correct, guesses, confidence):
    found = success_lower(correct, guesses, confidence)
    # One-sided: the lower end of a two-sided interval that leaves as much out again above.
    two_sided = binomtest(correct, guesses).proportion_ci(2 * confidence - 1, method="exact")
    assert found == pytest.approx(two_sided.low, rel=1e-9)
    if correct:
        assert found == pytest.approx(
            beta.ppf(1 - confidence, correct, guesses - correct + 1), rel=1e-9
        )


@pytest.mark.parametrize(("correct", "guesses"), [(60, 100), (740, 1000), (200_000, 270_000)])
def test_at_the_bound_the_p_value_of_steinke_nasr_and_jagielski_is_one_minus_the_confidence(
    correct, guesses
):
    epsilon = epsilon_lower(correct, guesses, 0.95)
    assert binom.sf(correct - 1, guesses, 1 / (1 + math.exp(-epsilon))) == pytest.approx(
        0.05, rel=1e-6
    )


def test_all_guesses_right_prove_the_closed_form():
    p = 0.05 ** (1 / 1000)
    assert epsilon_lower(1000, 1000, 0.95) == pytest.approx(math.log(p / (1 - p)), rel=1e-9)


def test_guesses_no_better_than_a_coin_and_no_guesses_at_all_prove_nothing():
    assert [epsilon_lower(v, r, 0.95) for v, r in ((0, 0), (0, 10), (500, 1000), (300, 1000))] == [
        0,
        0,
        0,
        0,
    ]


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("confidence", [0.95, 0.9999])
@pytest.mark.parametrize("guesses", [5, 300, 20_000])
def test_the_bound_exceeds_epsilon_no_more_often_than_it_says(epsilon, confidence, guesses):
    right = np.arange(guesses + 1)
    chance = binom.pmf(right, guesses, 1 / (1 + math.exp(-epsilon)))
    assert chance[epsilon_lower(right, guesses, confidence) > epsilon].sum() <= 1 - confidence


def test_rows_and_choices_lower_the_confidence_that_each_may_use():
    counts = Counts(2000, 1000, 740)
    row = finding("one-item", "k", ONE, counts, rows=5, choices=3)
    assert row.lower_95 == epsilon_lower(740, 1000, 1 - (1 - 0.95) / 3)
    assert row.lower_9999 == epsilon_lower(740, 1000, 1 - (1 - 0.9999) / 3 / 5)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("coordinates", [1, 2, 3])
def test_many_canaries_make_guesses_where_the_likelihood_ratio_saturates(epsilon, coordinates):
    threshold = best_threshold((epsilon / coordinates,) * coordinates, 10**12, USUAL)
    assert epsilon * (1 - 2e-9) < threshold < epsilon


def test_a_threshold_gives_up_certainty_for_guesses_where_canaries_are_few():
    few, many = (best_threshold((1 / 3,) * 6, count, USUAL) for count in (1000, 10**9))
    assert few < 1.8 < many


# --- the canaries ---------------------------------------------------------------------------------


@pytest.mark.parametrize("releases", [1, 2])
@pytest.mark.parametrize("rule", ABSOLUTE)
def test_flipping_a_secret_moves_what_the_rule_moves_together_by_alpha_at_one_position(
    rule, releases
):
    block = Block.fresh(rule, 24, releases)
    before = block.offsets()
    for number, pattern in enumerate(block.patterns):
        secrets = [secret.copy() for secret in block.secrets]
        secrets[number][0] *= -1
        after = Block(24, releases, block.patterns, tuple(secrets)).offsets()
        moved = {
            coordinate: np.flatnonzero(after[coordinate] != before[coordinate])
            for coordinate in before
        }
        groups = {group for (_, group), where in moved.items() if where.size}
        assert tuple(sorted(groups, key=list(PARAMETERS).index)) in moved_together(rule)
        for coordinate, where in moved.items():
            assert where.tolist() == ([pattern.first] if coordinate in pattern.signs else [])
            assert np.abs(after[coordinate] - before[coordinate])[where] == pytest.approx(1)


@pytest.mark.parametrize(
    ("rule", "one", "two"), [("one-item", 3, 6), ("one-asset", 3, 6), ("one-per-group", 4, 8)]
)
def test_every_pattern_of_signs_is_there_once(rule, one, two):
    for releases, count in ((1, one), (2, two)):
        found = patterns(rule, releases)
        assert (
            len({(tuple(pattern.signs.items()), pattern.name) for pattern in found})
            == len(found)
            == count
        )


def test_canaries_of_joint_noise_also_move_one_parameter_alone():
    found = patterns("one-asset", 1, alone=True)
    signs = [tuple(pattern.signs.values()) for pattern in found]
    assert signs == [(1,), (1, 1), (1, -1), (1, 0), (0, 1)]
    assert [len(pattern.moving) for pattern in found] == [1, 2, 2, 1, 1]
    block = Block.fresh("one-asset", 24, 1, alone=True)
    still = block.patterns[3]
    assert not block.offsets()[0, "d"][still.seats].any()
    assert (np.abs(block.offsets()[0, "m"][still.seats]) == 0.5).all()


def test_each_entry_of_a_single_release_belongs_to_one_canary():
    for rule in ABSOLUTE:
        assert all(
            (np.abs(offset) == 0.5).all() for offset in Block.fresh(rule, 24, 1).offsets().values()
        )


@pytest.mark.parametrize(("rule", "coordinates"), [("one-item", 1), ("one-per-group", 3)])
def test_the_ratio_saturates_as_often_as_the_closed_form_says(rule, coordinates):
    """All coordinates lie beyond the right end with probability 2^−c, beyond the wrong one with
    2^−c e^−ε.
    """
    random, block = np.random.default_rng(1), Block.fresh(rule, 100_000, 1)
    z = {
        each: offset / coordinates + random.laplace(size=len(offset))
        for each, offset in block.offsets().items()
    }
    for counts in block.by_likelihood(
        z, dict.fromkeys(PARAMETERS, 1 / coordinates), 10**12, dict.fromkeys(PARAMETERS, USUAL)
    ).values():
        right, wrong = (binomtest(n, counts.canaries, 0.5**coordinates * p).pvalue for n, p in (
            (counts.correct, 1), (counts.guesses - counts.correct, math.exp(-1)),
        ))  # fmt: skip
        assert min(right, wrong) > 1e-6


def test_progress_tells_of_every_value_once():
    told = []
    audited = adjacency("one-asset")
    audit_adjacency(
        audited, ONE, 60_000, draw=perturbed(audited, ONE, DemoSampler(1)), progress=told.append
    )
    assert len(told) > 1
    assert sum(told) == values_to_draw("one-asset", 60_000) == 3 * 30_000 + 6 * 3000


# --- an honest perturb ----------------------------------------------------------------------------


def check_honest(rule, epsilon, canaries):
    found = audit_adjacency(adjacency(rule), epsilon, canaries)
    assert failed(found) == set()  # false alarm: at most 1e-4 for all rows together
    whole = found[0]
    assert whole.pattern == "all"
    assert whole.counts.canaries >= canaries
    # what the ledger was charged
    assert epsilon * (1 - Fraction(1, 10**9)) < whole.epsilon <= epsilon
    assert whole.lower_95 > 0.9 * epsilon
    two = {row.pattern.partition(" (")[0]: row for row in found[-2:]}
    assert set(two) == {"two releases", "differences"}
    assert 2 * epsilon * (1 - Fraction(1, 10**9)) < two["two releases"].epsilon <= 2 * epsilon


# At 60 000 canaries the 95 % bound of all of them has mean 0.97 ε and deviation 0.017 ε or better:
# 0.9 ε is four away.
@pytest.mark.parametrize("rule", ABSOLUTE)
def test_nearly_all_of_epsilon_is_proven_and_never_more(rule):
    check_honest(rule, Fraction(2), 60_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "epsilon"),
    [*((rule, ONE) for rule in ABSOLUTE), *((ABSOLUTE[0], e) for e in (ONE / 2, 2 * ONE))],
    ids=str,
)
def test_a_million_canaries_prove_nearly_all_of_epsilon_and_never_more(rule, epsilon):
    check_honest(rule, epsilon, 1_000_000)


# --- planted faults -------------------------------------------------------------------------------


class TooSmall(DemoSampler):
    """Draws the groups listed (0: k, 1: m, 2: d) with a scale 1.5 times too small."""

    def __init__(self, groups):
        super().__init__(1)
        self.groups, self.calls = groups, 0

    def draw(self, values, scale, noise):
        group, self.calls = self.calls % 3, self.calls + 1
        return super().draw(values, scale / 1.5 if group in self.groups else scale, noise)


class Reused(DemoSampler):
    """Draws noise that comes again: with the same key for the number of a call, the same noise,
    times a sign.
    """

    def __init__(self, key, sign=lambda call: 1):
        super().__init__(1)
        self.key, self.sign, self.calls, self.kept = key, sign, 0, {}

    def draw(self, values, scale, noise):
        call, self.calls = self.calls, self.calls + 1
        kept = self.kept.setdefault(
            (self.key(call), len(values)), super().draw(np.zeros(len(values)), 1.0, noise)
        )
        return values + self.sign(call) * scale * kept


@pytest.mark.parametrize("rule", ABSOLUTE)
def test_a_scale_that_is_too_small_is_caught(rule):
    found = audit_demo(rule, TooSmall({0, 1, 2}))
    assert "all" in failed(found)
    assert found[0].lower_95 == pytest.approx(1.5, rel=0.1)


@pytest.mark.parametrize("rule", RELATIVE)
def test_noise_on_logarithms_is_audited_too(rule):
    assert failed(audit_demo(rule, DemoSampler(1), canaries=50_000)) == set()
    found = audit_demo(rule, TooSmall({0, 1, 2}), canaries=50_000)
    assert "all" in failed(found)
    assert found[0].lower_95 == pytest.approx(1.5, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["one-asset", "one-item", "one-per-group", "one-asset-relative"])
def test_sums_are_audited_each_in_a_release_of_its_own(rule):
    # Secrets are fresh in every run: of 12 000 guesses the bounds spread by 0.05, and both limits
    # lie five such steps away.
    honest = audit_sums(adjacency(rule), ONE, 12_000, sampler=DemoSampler(1))
    assert honest.passed and honest.epsilon <= ONE
    assert honest.lower_95 > 0.6
    assert not audit_sums(adjacency(rule), ONE, 12_000, sampler=TooSmall({0, 1, 2})).passed


def test_sums_are_audited_with_the_secure_noise():
    found = audit_sums(adjacency("one-asset"), ONE, 200)
    assert found.passed and 0 < found.counts.guesses <= 200


@pytest.mark.parametrize("group", range(3), ids=PARAMETERS)
@pytest.mark.parametrize("rule", ABSOLUTE)
def test_a_scale_that_is_too_small_in_one_group_is_caught(rule, group):
    assert failed(audit_demo(rule, TooSmall({group})))


@pytest.mark.parametrize("rule", ABSOLUTE)
def test_a_draw_that_was_not_charged_is_caught(rule):
    audited = adjacency(rule)
    honest = perturbed(audited, ONE, DemoSampler(1))

    def charged_once(sources):
        drawn = honest(sources)
        return ChargedReleases(drawn.noisy, drawn.noisy[0].guarantee.spent)

    assert failed(audit_adjacency(audited, ONE, 200_000, draw=charged_once)) == {"two releases"}


def test_a_ledger_that_forgets_the_second_draw_is_caught(monkeypatch):
    honest = Ledger.charge

    def charge_once(self, charge):
        drawn = self.entries()
        return drawn[0].number if drawn else honest(self, charge)

    monkeypatch.setattr(Ledger, "charge", charge_once)
    assert failed(audit_adjacency(adjacency("one-item"), ONE, 40_000)) == {"two releases"}


@pytest.mark.parametrize("rule", ABSOLUTE)
@pytest.mark.parametrize(
    "sampler",
    [
        lambda: Reused(lambda call: call % 3),
        lambda: Reused(lambda call: call // 3),
        lambda: Reused(lambda call: call // 3, lambda call: (-1) ** call),
        lambda: Reused(lambda call: call if call % 3 == 0 else call // 3),
    ],
    ids=[
        "in the next release",
        "in the next group",
        "in the next group with another sign",
        "in d as in m",
    ],
)
def test_a_reused_noise_vector_is_caught(rule, sampler):
    assert "differences" in failed(audit_demo(rule, sampler(), canaries=40_000))


class Forgetful(Adjacency):
    """Leaves damping out of the sum, so that it lets more be spent than it says."""

    def moved(self, assets):
        return super().moved({name: asset for name, asset in assets.items() if name != "d"})


@pytest.mark.parametrize(
    ("rule", "shares"),
    [("one-item", "1 1 3/2"), ("one-asset", "1 1 1/2"), ("one-per-group", "1/2 1/2 1/2")],
)
def test_a_group_left_out_of_the_sum_is_caught(rule, shares):
    audited = Forgetful(
        rule,
        alphas(),
        {name: Fraction(share) for name, share in zip("kmd", shares.split(), strict=True)},
    )
    found = audit_adjacency(audited, ONE, 100_000, draw=perturbed(audited, ONE, DemoSampler(1)))
    assert found[0].epsilon == pytest.approx(1)
    assert failed(found)


@pytest.mark.parametrize("rule", ABSOLUTE)
def test_without_a_fault_the_same_audits_pass(rule):
    assert failed(audit_demo(rule, DemoSampler(1))) == set()


# --- low bits -------------------------------------------------------------------------------------


class InverseCdf(DemoSampler):
    def draw(self, values, scale, noise):
        u = self._random.random(len(values)) - 0.5
        return values - scale * np.sign(u) * np.log1p(-2 * np.abs(u))


class TwoExponentials(DemoSampler):
    def draw(self, values, scale, noise):
        return values + scale * (
            self._random.exponential(size=len(values)) - self._random.exponential(size=len(values))
        )


@pytest.mark.parametrize(
    "sampler",
    [DemoSampler(1), InverseCdf(1), TwoExponentials(1)],
    ids=lambda sampler: type(sampler).__name__,
)
def test_a_float_sampler_gives_its_input_away_by_low_bits(sampler):
    found = audit_low_bits(sampler)
    assert not found.passed
    assert found.counts.correct == found.counts.guesses
    assert found.lower_95 > 6


def test_our_sampler_does_not():
    found = audit_low_bits(SecureSampler(), draws=60_000)
    assert found.passed  # false alarm: at most 1e-4
    assert found.counts.guesses > 1000
    assert found.lower_95 < 0.4


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Run `gridveil audit` with a home, a ledger and a place for temporary files that must stay
    empty.
    """
    for name in (
        "GRIDVEIL_HOME",
        "GRIDVEIL_LEDGER",
        "GRIDVEIL_WITNESS",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
    ):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # Few releases: what they find out is in test_audit_noise.py.
    monkeypatch.setattr(
        Effort,
        "of",
        lambda canaries, power: Effort(canaries, 200, 20, 2, KINDS[:2], processes=False),
    )
    app = typer.Typer(rich_markup_mode=None)
    app.command()(assurance.audit)
    yield lambda *arguments: CliRunner().invoke(app, [*arguments, "--workers=1"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_command_prints_a_row_a_pattern_and_a_verdict(command):
    done = command("--canaries", "3000", "--thorough")
    assert done.exit_code == 0, done.output
    # patterns, sums of each rule, the sampler, noise; joint noise likewise; detailed tables
    swing = 6 + 6 + 7 + 3 + 1 + 3 * 5
    joint = 8 + 1 + 1 + 3
    pairs_of_sums = 2 + 1 + 2
    assert done.stdout.count("stands") == swing + joint + pairs_of_sums + 2 * (7 + 2)
    assert (
        "Passed: no bound exceeds the ε that was charged, and the noise is what was charged for."
        in done.stdout
    )


def test_the_command_prints_json_and_nothing_else(command):
    done = command("--canaries", "2000", "--adjacency", "one-item", "--epsilon", "1/2", "--json")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert (found["passed"], found["epsilon"]) == (True, "1/2")
    assert {row["subject"] for row in found["findings"]} == {
        "one-item",
        "one-item, sums",
        "sampler",
    }
    assert set(found["findings"][0]) == {
        "subject",
        "pattern",
        "epsilon_charged",
        "canaries",
        "guesses",
        "correct",
        "lower_95",
        "lower_9999",
        "passed",
    }
    assert set(found["noise"][0]) == {"subject", "oddest", "values", "p_value", "level", "passed"}


def test_the_command_fails_where_the_claim_falls(command, monkeypatch):
    random = np.random.default_rng(1)
    monkeypatch.setattr(
        SecureSampler,
        "draw",
        lambda self, values, scale, _: values + random.laplace(0, scale / 1.5, values.shape),
    )
    done = command("--canaries", "50000", "--adjacency", "one-asset")
    assert done.exit_code == 1
    assert "FAILED: more than the charged ε leaks (one-asset: all;" in done.stdout
    assert "sampler: low bits" in done.stdout.partition("FAILED")[2]


@pytest.mark.parametrize("wrong", [("--adjacency", "two-assets"), ("--epsilon", "0")])
def test_the_command_refuses_what_it_cannot_audit(command, wrong):
    assert isinstance(command(*wrong).exception, OptionError)
