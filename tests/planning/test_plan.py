"""Plans: what they propose holds for releases of the surrogate that the library draws itself."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest

from cli_helpers import as_json, gridveil, make_release, write_grid
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import networkless_model, reduce
from gridveil.dynamics.metrics import compare, measure
from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.foundation.executors import local
from gridveil.foundation.shards import Kept
from gridveil.grid.parameters import Bounds, Range
from gridveil.inference.posterior import Posterior, middle, posterior_mean
from gridveil.planning.places import even_places
from gridveil.planning.plan import odds_in_words, plan
from gridveil.planning.plan.search import LEAST, MOST, Choice, Search, neat
from gridveil.planning.plan.targets import Target
from gridveil.planning.trials import Trials, _means
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, candidates
from gridveil.privacy.mechanisms import USUAL
from gridveil.readers.cases import declared_public, open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.truth import true_model
from gridveil.workflow.plan import PlanSettings, plan_release
from shard_helpers import lost, stopped

EVENT = Event.uniform(0.1)
NADIR = [Target.parse("nadir", "10%")]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


class Injected:
    """Adds noise that was drawn before: group by group, in the order in which perturb asks for
    them.
    """

    def __init__(self, units):
        self.units = iter(units)

    def in_words(self, noises):
        return "injected"

    def draw(self, values, scale, noise):
        return values + scale * next(self.units)


def unit_noise(trials, allocation):
    by = {name: allocation.of(name) for name in allocation.drawn}
    return [trials._noise[one.law(1), one.takes, name] for name, one in by.items()]


def released(source, adjacency, allocation, epsilon, sampler):
    noisy = perturb(
        source,
        epsilon=epsilon,
        adjacency=adjacency,
        bounds=Bounds(),
        ledger=None,
        sampler=sampler,
        allocation=allocation,
    )
    table = posterior_mean(noisy)
    return (
        networkless_model(table, middle(Bounds()["k"]) / len(source.facts.machines))
        if allocation.hides_network
        else reduce(table)
    )


@pytest.mark.parametrize("rule", ["one-asset", "one-per-group", "one-asset-relative"])
@pytest.mark.parametrize("mechanism", ["aggregates", "items", "topology"])
def test_trials_are_what_the_library_releases_with_the_same_noise(rule, mechanism):
    source, adjacency = open_grid("ieee30"), Adjacency(rule)
    for allocation in (candidates(adjacency, mechanism)[0], candidates(adjacency, mechanism)[-1]):
        trials = Trials(declared_public(source), EVENT, Bounds(), draws=4, seed=3)
        found = trials.errors(adjacency, allocation, Fraction(1), whole=True)
        units = unit_noise(trials, allocation)
        noise = [Injected([unit[draw] for unit in units]) for draw in range(4)]
        models = [released(source, adjacency, allocation, Fraction(1), one) for one in noise]
        expected = compare(models, true_model(source), [EVENT], dt_s=0.05)
        for name, values in found.items():
            theirs = getattr(expected, name)
            theirs = theirs if name.startswith("mode_") else theirs[:, 0]
            np.testing.assert_allclose(values, theirs, rtol=1e-6, atol=1e-9, err_msg=name)


def test_trials_know_load_damping_and_events_of_several_steps_on_any_bus(tmp_path):
    source = open_grid(
        str(write_grid(tmp_path)), options={"load_damping": 1.5, "publish_loads": True}
    )
    event = Event.parse("load:4=+0.2;gen:2=-0.3@2s", base_mva=100)
    for mechanism in ("aggregates", "items"):
        split = candidates(Adjacency(), mechanism)[0]
        trials = Trials(declared_public(source), event, Bounds(), draws=3, seed=3)
        found = trials.errors(Adjacency(), split, Fraction(2))
        units = unit_noise(trials, split)
        noise = [Injected([unit[draw] for unit in units]) for draw in range(3)]
        models = [released(source, Adjacency(), split, Fraction(2), one) for one in noise]
        expected = compare(models, true_model(source), [event], dt_s=0.05)
        for name in (
            "nadir_mhz",
            "rocof_mhz_s",
            "initial_rocof_mhz_s",
            "settling_mhz",
            "machine_nadir_mhz",
        ):
            np.testing.assert_allclose(
                found[name], getattr(expected, name)[:, 0], rtol=1e-6, atol=1e-9, err_msg=name
            )


def test_a_box_of_damping_from_zero_is_no_obstacle():
    table, bounds = declared_public(open_grid("ieee30")), Bounds({"d": Range(0, 40)})
    found = Trials(table, EVENT, bounds, draws=300, seed=0).errors(
        Adjacency(), candidates(Adjacency(), "items")[0], Fraction(1, 4)
    )
    assert np.isfinite(found["nadir_mhz"]).all()


def test_all_machines_as_one_have_nearly_the_systems_figures():
    table = declared_public(open_grid("ieee30"))
    whole, lumped = (
        Trials(table, EVENT, Bounds(), draws=50, seed=0, lumped=one) for one in (False, True)
    )
    for name in ("nadir_hz", "rocof_hz_s", "settling_hz", "initial_rocof_hz_s"):
        np.testing.assert_allclose(
            getattr(lumped.reference, name), getattr(whole.reference, name), rtol=1e-6
        )
    adjacency = Adjacency()
    for mechanism in ("aggregates", "items", "topology"):
        split = candidates(adjacency, mechanism)[-1]
        ours, theirs = (one.errors(adjacency, split, Fraction(2)) for one in (lumped, whole))
        quantiles = [np.quantile(np.abs(one["nadir_mhz"]), 0.9) for one in (ours, theirs)]
        assert quantiles[0] == pytest.approx(quantiles[1], rel=0.1)


def test_the_reference_of_trials_is_the_surrogates_own_answer():
    source = open_grid("star5")
    found = Trials(declared_public(source), EVENT, Bounds(), draws=2, seed=0).reference
    expected = measure(true_model(source), [EVENT], dt_s=0.05)
    assert found.nadir_hz == pytest.approx(expected.nadir_hz)
    assert found.settling_hz == pytest.approx(expected.settling_hz)


def test_the_noise_of_trials_is_laplace_and_covers_it_evenly():
    noise = USUAL.quantile(even_places(np.random.default_rng(0), 1000, 3))
    assert all(kstest(column, "laplace").pvalue > 0.99 for column in noise.T)
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.1
    share = np.sort(np.where(noise < 0, np.exp(noise) / 2, 1 - np.exp(-noise) / 2)[:, 0])
    assert (np.floor(1000 * share) == np.arange(1000)).all()


def test_posterior_means_between_knots_are_near_the_exact_ones():
    random = np.random.default_rng(1)
    for scale in (0.5, 5.0, 50.0):
        y = np.clip(
            np.exp(random.uniform(0.5, 4, (100, 40)))
            + scale * USUAL.quantile(even_places(random, 100, 40)),
            1,
            100,
        )

        def exact(values, scale=scale):
            return Posterior.of(values, scale, 1, 100).mean

        np.testing.assert_allclose(_means(y, exact), exact(y.ravel()).reshape(y.shape), rtol=1e-3)


@pytest.mark.parametrize("figure", ["nadir", "rocof"])
def test_a_proposal_holds_for_releases_that_the_library_draws(figure):
    """At the proposed ε the promised share of releases meets the target; at two thirds of it, it
    does not.
    """
    source = open_grid("star5")
    target = Target.parse(figure, "10%")
    found = plan(
        declared_public(source),
        [target],
        event=EVENT,
        adjacencies=[Adjacency()],
        bounds=Bounds(),
        draws=100,
    )
    chosen = found.chosen
    shares = []
    for factor in (Fraction(1), Fraction(2, 3)):
        epsilon = factor * chosen.epsilon
        samplers = [DemoSampler([9, seed]) for seed in range(300)]
        models = [
            released(source, chosen.adjacency, chosen.allocation, epsilon, one) for one in samplers
        ]
        error = getattr(compare(models, true_model(source), [EVENT], dt_s=0.05), target.error)[:, 0]
        shares.append(float((np.abs(error) <= target.limit).mean()))
    assert shares[0] > 0.9 - 3 * np.sqrt(0.9 * 0.1 / 300)
    assert shares[1] < 0.9
    assert chosen.share >= 0.9 > chosen.share_low
    assert [one.mechanism for one in found.choices] == ["aggregates", "items", "topology"]
    assert min(one.epsilon for one in found.choices) >= chosen.epsilon / Fraction(105, 100)


def test_tighter_targets_wider_bounds_of_alpha_and_stricter_rules_cost_more():
    table = declared_public(open_grid("star5"))

    def least(text="10%", rule="one-asset", alpha=1, quantile=0.9):
        adjacency = Adjacency(rule, dict.fromkeys("kmd", Fraction(alpha)))
        found = plan(
            table,
            [Target.parse("nadir", text)],
            event=EVENT,
            adjacencies=[adjacency],
            bounds=Bounds(),
            mechanisms=["aggregates"],
            draws=60,
            quantile=quantile,
        )
        return found.chosen.epsilon

    usual = least()
    assert least("5%") > usual
    assert least(quantile=0.5) < usual
    assert least(rule="one-item") < usual
    assert float(least(alpha=2)) == pytest.approx(2 * float(usual), rel=0.1)


@pytest.mark.parametrize(
    ("miss", "least"),
    [
        (lambda e: 3 / e, 3.0),
        (lambda e: 0.2 / e, 0.2),
        (
            lambda e: min(3 / e, 0.9 if e < 0.5 else 2.0),
            3.0,
        ),  # met at a small ε by chance: not taken
        (lambda e: 0.9, float(LEAST)),
        (lambda e: 99.9 / e, 99.9),
        (lambda e: 200 / e, None),
        (lambda e: 2.0, None),
    ],
)
@pytest.mark.parametrize("start", [float(MOST), 1.0])
def test_the_least_epsilon_is_found_from_above(miss, least, start):
    found = Search._least(None, miss, start, within=1.05)
    if least is None:
        assert found is None
    else:
        assert miss(found) <= 1
        assert least <= found * (1 + 1e-12) <= 1.06 * least


def test_the_bounds_alone_may_meet_a_target_and_the_plan_says_so():
    table = declared_public(open_grid("star5"))
    near = Bounds({"m": Range(9.9, 10.1), "d": Range(4.95, 5.05)})
    settings = {
        "event": EVENT,
        "adjacencies": [Adjacency()],
        "draws": 50,
        "mechanisms": ["aggregates"],
    }
    found = plan(table, NADIR, bounds=near, **settings)
    assert found.met_without
    assert found.control["nadir_percent"] < 1
    assert found.chosen.epsilon == LEAST
    assert not plan(table, NADIR, bounds=Bounds(), **settings).met_without


def test_bounds_that_miss_the_surrogate_leave_an_error_that_no_epsilon_mends():
    table = declared_public(open_grid("star5"))
    bounds = Bounds({"m": Range(1, 8)})  # every m is 10
    settings = {"event": EVENT, "adjacencies": [Adjacency()], "draws": 50, "bounds": bounds}
    found = plan(table, [Target.parse("rocof", "10%")], **settings)
    assert found.outside() == {"m": 4}
    assert found.chosen is None
    assert plan(table, NADIR, **settings).chosen is not None


@pytest.mark.parametrize("needed", [1.5, 1.55, 2.0, 7.7, 80.0, 300.0])
def test_an_epsilon_that_fails_its_check_is_raised_to_one_that_does_not(needed, monkeypatch):
    asked = []

    def check(self, choice, epsilon):
        asked.append(epsilon)
        return replace(choice, epsilon=epsilon) if epsilon >= needed else None

    monkeypatch.setattr(Search, "_check", check)
    start = Choice(Adjacency(), "items", ITEMS, None)
    found = Search._checked(Search(None, None, (), 0.9), start, 1.5).epsilon
    assert len(asked) < 16
    assert found is None if needed > 100 else needed <= float(found) <= 1.1 * needed


def test_a_target_out_of_reach_has_no_proposal():
    table = declared_public(open_grid("star5"))
    target = [Target.parse("nadir", "0.001mHz")]
    found = plan(table, target, event=EVENT, adjacencies=[Adjacency()], bounds=Bounds(), draws=50)
    assert found.chosen is None
    assert all(one.epsilon is None for one in found.choices)


@pytest.mark.parametrize(
    ("figure", "text", "error", "limit"),
    [
        ("nadir", "5mHz", "nadir_mhz", 5.0),
        ("nadir", "0.01 Hz", "nadir_mhz", 10.0),
        ("rocof", "10 %", "rocof_percent", 10.0),
        ("rocof", "0.02Hz/s", "rocof_mhz_s", 20.0),
        ("settling", "1e1 mhz", "settling_mhz", 10.0),
    ],
)
def test_targets_are_read_with_their_units(figure, text, error, limit):
    found = Target.parse(figure, text)
    assert (found.error, found.limit) == (error, pytest.approx(limit))


@pytest.mark.parametrize(
    "text", ["5", "mHz", "5 mHz/s", "-5mHz", "0mHz", "nan mHz", "infmHz", "5 p.u.", "", "5mHz!"]
)
def test_a_target_without_a_usable_size_and_unit_is_refused(text):
    with pytest.raises(OptionError, match="--nadir-error"):
        Target.parse("nadir", text)


def test_epsilon_is_rounded_up_to_two_digits():
    assert [str(neat(value)) for value in (0.0123, 0.5, 1.01, 9.91, 99.1)] == [
        "13/1000",
        "1/2",
        "11/10",
        "10",
        "100",
    ]
    assert "e^0.5 = 1.65" in odds_in_words(Fraction(1, 2))


def test_a_small_epsilon_is_not_said_to_change_nothing():
    assert odds_in_words(Fraction(1, 1000)).endswith(
        "e^0.001 = 1 + 0.001: from 50 % sure to 50 + 0.025 % sure at most"
    )
    assert odds_in_words(Fraction(1, 200)).endswith(
        "e^0.005 = 1.01: from 50 % sure to 50.1 % sure at most"
    )


# --- the command ----------------------------------------------------------------------------------


def test_the_command_proposes_a_release_that_works(tmp_path, home):
    done = gridveil(
        "plan",
        "star5",
        "--nadir-error=10%",
        "--adjacency=one-per-group",
        "--draws=60",
        "--plot",
        tmp_path / "a.png",
    )
    assert done.code == 0, done.err
    for words in (
        "Targets    nadir within 10 %, in 90 % of releases",
        "bind nothing for the private grid",
        "odds between two",
    ):
        assert words in done.out
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert not home.exists()  # no ledger was opened
    (line,) = [line.split()[2:] for line in done.out.splitlines() if line.startswith("Release")]
    again = gridveil(
        *["star5" if part == "GRID" else part for part in line[0:]],
        "--out",
        tmp_path / "out",
        "--json",
    )
    assert again.code == 0, again.err
    assert json.loads(again.out)["guarantee"]["adjacency"] == "one-per-group"


def test_the_document_holds_the_table_the_proposal_and_the_curves():
    done = gridveil(
        "plan",
        "star5",
        "--rocof-error=20%",
        "--settling-error=50mHz",
        "--draws=60",
        "--mechanism=aggregates",
        "--json",
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [one["adjacency"] for one in found["choices"]] == [
        "one-asset",
        "one-item",
        "one-per-group",
    ]
    assert found["proposal"]["adjacency"] == "one-asset"
    assert found["proposal"]["command"].startswith("gridveil release GRID --epsilon")
    assert Fraction(found["proposal"]["counted_by"]["one-asset"]) == Fraction(
        found["proposal"]["epsilon"]
    )
    assert found["targets"][1] == {"figure": "settling", "limit": 50.0, "unit": "mHz"}
    (curve,) = found["curves"]
    assert len(curve["epsilon"]) == len(curve["rocof_percent"]) == len(curve["settling_mhz"])
    assert "NaN" not in done.out
    assert set(found["control"]) >= {"nadir_mhz", "rocof_percent"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "needs a target"),
        (["--nadir-error=5"], "cannot be read"),
        (["--nadir-error=5mHz", "--quantile=1"], "no share"),
        (["--nadir-error=5mHz", "--draws=20"], "does not suit a quantile"),
        (["--nadir-error=5mHz", "--adjacency=two"], "Adjacency 'two' is unknown"),
        (["--nadir-error=5mHz", "--mechanism=two"], "--mechanism two is unknown"),
        (["--nadir-error=5mHz", "--share-by=two"], "--share-by two is unknown"),
        (["--nadir-error=5mHz", "--plot=a.txt"], "no figure"),
        (["--nadir-error=5mHz", "--event=load:77=1"], "'77' is not a bus"),
        (["--nadir-error=5mHz", "--event=load:1=0"], "changes no load"),
        (["--nadir-error=5mHz", "--bounds=m=4:2"], "--bounds m"),
    ],
)
def test_a_mistake_is_told_before_anything_is_drawn(options, said):
    done = gridveil("plan", "star5", *options)
    assert done.code == 2
    assert said in done.err


def test_a_grid_that_the_ledger_knows_is_no_public_surrogate(tmp_path, monkeypatch):
    make_release(tmp_path / "ours")
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "ours" / "ledger.sqlite"))
    for said in ([], ["--public"]):
        done = gridveil("plan", tmp_path / "ours" / "private.m", "--nadir-error=5mHz", *said)
        assert done.code == 2
        assert "it is a private grid" in done.err


def test_a_file_is_a_surrogate_only_if_it_is_said_to_be_public(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "none.sqlite"))
    file = write_grid(tmp_path / "theirs")
    asked = ("plan", file, "--nadir-error=20%", "--adjacency=one-asset", "--draws=50")
    opened = []
    with monkeypatch.context() as patched:
        patched.setattr("gridveil.vault.truth.public_table", opened.append)
        done = gridveil(*asked)
        with pytest.raises(OptionError, match="nobody said that it is public"):
            plan_release(PlanSettings.of(surrogate=str(file), nadir_error="20%"))
    assert done.code == 2
    for words in ("is a file, and nobody said that it is public", "Nothing was drawn", "--public"):
        assert words in " ".join(done.err.split())
    assert not opened  # its values stayed closed
    assert gridveil(*asked, "--public").code == 0
    assert not (tmp_path / "none.sqlite").exists()


def test_a_surrogate_with_too_many_machines_is_refused():
    table = declared_public(open_grid("star5"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gridveil.planning.trials.TRIALS_UP_TO", 3)
        with pytest.raises(OptionError, match="4 machines"):
            plan(table, NADIR, event=EVENT, adjacencies=[Adjacency()], bounds=Bounds())


# --- in pieces ------------------------------------------------------------------------------------


def planned(**given):
    return plan(
        declared_public(open_grid("star5")),
        NADIR,
        event=EVENT,
        adjacencies=[Adjacency("one-asset"), Adjacency("one-item")],
        bounds=Bounds(),
        draws=60,
        **given,
    )


def plain(found):
    """All figures of a plan, to the bit."""
    choices = [
        (one.mechanism, one.allocation, one.epsilon, one.share, one.share_low, one.errors, one.L)
        for one in found.choices
    ]
    curves = [
        (one.epsilon.tolist(), {name: own.tolist() for name, own in one.errors.items()})
        for one in found.curves
    ]
    return repr((choices, curves, found.control, found.chosen.mechanism, found.chosen.epsilon))


def test_two_workers_plan_as_one_does_and_so_do_workers_that_are_lost():
    alone = plain(planned())
    assert plain(planned(crew=local(2))) == alone
    assert plain(planned(crew=lost(2))) == alone


def test_a_plan_that_was_stopped_goes_on_to_the_same(tmp_path):
    kept = Kept.plain(tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt):
        planned(crew=stopped(4), kept=kept)
    assert len([*kept.folder.iterdir()]) == 4
    assert plain(planned(kept=kept)) == plain(planned())
    assert plain(planned(kept=kept, crew=stopped(0))) == plain(planned())


def test_a_search_that_fails_is_told_and_nothing_is_proposed(monkeypatch):
    def fails(self, *_):
        raise RuntimeError("bad luck")

    monkeypatch.setattr(Search, "choose", fails)
    with pytest.raises(GridveilError) as error:
        planned()
    assert "6 of 6 batches could not be made: one-asset, aggregates (3 tries): RuntimeError" in str(
        error.value
    )


def test_the_command_keeps_what_it_finds_and_goes_on(tmp_path):
    asked = ("plan", "star5", "--nadir-error=10%", "--draws=60", "--adjacency=one-asset", "--json")
    kept = tmp_path / "kept"
    first, *others = (as_json(gridveil(*asked, f"--keep={kept}", *own))
                      for own in ((), ("--workers=2",)))  # fmt: skip
    assert others == [first] and len([*kept.iterdir()]) == 3 + 3
