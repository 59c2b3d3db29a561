"""What a trajectory gives away by itself, against finite differences, brute force and integrals."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from gridveil import open_grid, simulate
from gridveil.adversary.attack.trajectory import estimate
from gridveil.adversary.leakage import joint_delta, joint_epsilon, largest_mu, leakage, own_sigma
from gridveil.adversary.leakage.neighbours import Moves
from gridveil.adversary.leakage.report import plot_leakage
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduce, reduced_model
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.errors import OptionError
from gridveil.grid.parameters import Bounds, Range
from gridveil.grid.tables import PublicTable
from gridveil.inference.fit import Observation, Unknown
from gridveil.inference.posterior import posterior_mean
from gridveil.planning.surrogate import at_middle
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import declared_public
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from helpers import make_grid, star

SIGMA = 1e-4
UP = Event.load({"1": 0.1, "5": 0.3})


def table_of(grid):
    return PublicTable(grid.facts, grid.values)


def omega(facts, values, event=UP, buses=("1", "5"), dt_s=0.1):
    return simulate(
        reduced_model(facts, dict(zip("kmd", values, strict=True))),
        event,
        horizon_s=15,
        dt_s=dt_s,
        buses=buses,
    ).omega


def observed(facts, values, event=UP, buses=("1", "5"), dt_s=0.1):
    record = simulate(
        reduced_model(facts, dict(zip("kmd", values, strict=True))),
        event,
        horizon_s=15,
        dt_s=dt_s,
        buses=buses,
    )
    return [Observation(event, record, Provenance("simulated", "a test"))]


@pytest.fixture
def grid():
    loads = [0.1, 0.3, 0.2, 0.4, 0.5]
    found = make_grid(
        [(0, 4), (1, 4), (2, 4), (3, 4)],
        [4, 10, 16, 10],
        range(4),
        m=1,
        d=1,
        rate=20,
        gain=0.04,
        loads=loads,
    )
    return found._replace(m=np.array([6.0, 9.0, 14.0, 21.0]), d=np.array([3.0, 4.0, 6.0, 9.0]))


def found_for(grid, adjacency=None, event=UP, buses=("1", "5"), sigma=SIGMA):
    values = (grid.k, grid.m, grid.d)
    seen = observed(grid.facts, values, event, buses)
    return leakage(table_of(grid), seen, Bounds(), adjacency or Adjacency(), sigma=sigma, dt_s=0.1)


def information(grid, event=UP, buses=("1", "5"), extra=()):
    """Slopes of ω by (log k, log m, log d) by central differences, with more columns behind: no
    code of leakage's own.
    """
    y = np.log(np.concatenate([grid.k, grid.m, grid.d]))

    def at(y):
        return omega(grid.facts, np.split(np.exp(y), [4, 8]), event, buses).ravel()

    columns = [(at(y + h) - at(y - h)) / 2e-4 for h in 1e-4 * np.eye(12)]
    return np.stack([*columns, *extra], axis=1), at(y)


# --- information ----------------------------------------------------------------------------------


@pytest.mark.parametrize("total_known", [True, False])
def test_rank_and_deviations_are_those_of_finite_differences(grid, total_known):
    J, base = information(grid)
    if not total_known:
        J = np.column_stack([J, base])  # ω is linear in loads: its slope by the log of their size
    prior = np.concatenate([np.full(4, np.log(100)), np.full(8, np.log(40))]) / np.sqrt(12)
    precision = np.zeros(J.shape[1])
    precision[:12] = prior**-2
    expected = np.sqrt(np.linalg.inv(J.T @ J / SIGMA**2 + np.diag(precision)).diagonal()[:12])
    leak = found_for(grid)
    one = leak.known if total_known else leak.unknown
    shown = np.concatenate([one.items[name].with_bounds for name in "kmd"])
    np.testing.assert_allclose(shown, expected, rtol=1e-4)
    assert one.items["m"].prior == pytest.approx(prior[-1])
    assert one.size == 12


def test_the_bound_without_topology_is_the_one_that_the_attack_reports(grid):
    buses = ("1", "2", "3", "4")
    leak = found_for(grid, buses=buses)
    attack = estimate(
        grid.facts, observed(grid.facts, grid[1:], buses=buses), dt_s=0.1, sigma=SIGMA
    )
    for name in ("k_r", "m", "d"):
        np.testing.assert_allclose(
            leak.known.reduced[name], attack.deviation[name] / attack.values[name], rtol=1e-6
        )
    unknown = estimate(
        grid.facts,
        observed(grid.facts, grid[1:], buses=buses),
        dt_s=0.1,
        sigma=SIGMA,
        total_known=False,
    )
    assert leak.unknown.scale == pytest.approx(
        unknown.scale.deviation / unknown.scale.per_load, rel=1e-3
    )


def test_with_every_machine_recorded_a_star_is_bounded_item_by_item(grid):
    buses = ("1", "2", "3", "4")
    J, _ = information(grid, buses=buses)
    bound = SIGMA * np.sqrt(np.linalg.inv(J.T @ J).diagonal())
    leak = found_for(grid, buses=buses)
    np.testing.assert_allclose(
        np.concatenate([leak.known.items[name].bound for name in "kmd"]), bound, rtol=1e-4
    )
    assert leak.known.rank == leak.known.size == 12


def test_ieee30_has_the_figures_of_the_background_paper():
    table = declared_public(open_grid("ieee30"))
    event = Event.uniform(0.2)
    record = simulate(reduce(table), event, dt_s=0.02)
    seen = [Observation(event, record, Provenance("simulated", "a test"))]
    leak = leakage(table, seen, Bounds(), Adjacency("one-item"), sigma=SIGMA, dt_s=0.02)
    assert (leak.known.rank, leak.known.size) == (31, 53)
    medians = {name: np.median(values) for name, values in leak.known.reduced.items()}
    assert (medians["k_r"], medians["m"], medians["d"]) == pytest.approx(
        (0.155, 0.0266, 0.0328), rel=0.02
    )
    assert leak.unknown.scale > 50
    assert leak.verdict().startswith(
        "This trajectory alone gives inertia to about 2.4 % and damping to about 2.5 %: there no ε "
        "protects them any more, and a release can only add to it."
    )
    # the derivative's form of μ is low where an item is small
    assert 1.05 < derivative_ratio(table, leak, event) < 1.5


def derivative_ratio(table, leak, event):
    """Largest of μ by finite difference at α over α |∂ω/∂k_i| / σ, over the five smallest line
    weights that ω sees.
    """
    ratios = []
    for i in np.argsort(table.values["k"])[:5]:
        step = np.zeros(len(table.values["k"]))
        step[i] = 1e-3
        up, down = (
            simulate(
                reduced_model(table.facts, {**table.values, "k": table.values["k"] + sign * step}),
                event,
                dt_s=0.02,
            ).omega
            for sign in (1, -1)
        )
        slope = np.linalg.norm(up - down) / 2e-3 / SIGMA
        if slope > 1e-3:
            ratios.append(leak.known.mu["k"][i] / slope)
    return max(ratios)


# --- μ --------------------------------------------------------------------------------------------


def brute_force(grid, moved, event=UP, project=False):
    """|ω(θ′) − ω(θ)|/σ, less what any size of the event explains."""
    base = omega(grid.facts, grid[1:], event).ravel()
    move = omega(grid.facts, moved, event).ravel() - base
    if project:
        move = move - base * (base @ move) / (base @ base)
    return np.linalg.norm(move) / SIGMA


def shifted(values, place, by):
    out = values.copy()
    out[place] += by
    return out


@pytest.mark.parametrize("project", [False, True], ids=["total public", "total unknown"])
def test_mu_is_the_largest_over_neighbours(grid, project):
    leak = found_for(grid, Adjacency("one-asset"))
    one = leak.unknown if project else leak.known
    k, m, d = grid[1:]
    for i in range(4):
        expected = max(
            brute_force(grid, (shifted(k, i, s), m, d), project=project) for s in (1, -1)
        )
        assert one.mu["k"][i] == pytest.approx(expected, rel=1e-9)
        expected = max(
            brute_force(grid, (k, shifted(m, i, s), d), project=project) for s in (1, -1)
        )
        assert one.mu["m"][i] == pytest.approx(expected, rel=1e-9)
    pairs = [
        brute_force(grid, (k, shifted(m, i, a), shifted(d, i, b)), project=project)
        for i in range(4)
        for a in (1, 0, -1)
        for b in (1, 0, -1)
    ]
    assert one.mu_neighbours == pytest.approx(max(pairs), rel=1e-9)


def test_neighbours_follow_the_adjacency(grid):
    single = found_for(grid, Adjacency("one-item")).known
    assert single.mu_neighbours == max(values.max() for values in single.mu.values())
    group = found_for(grid, Adjacency("one-per-group")).known
    assert group.mu_neighbours > single.mu_neighbours
    ratio = found_for(
        grid, Adjacency("one-item-relative", alpha=dict.fromkeys("kmd", Fraction(1, 10)))
    ).known
    k, m, d = grid[1:]
    expected = max(brute_force(grid, (k, m * np.array([f, 1, 1, 1]), d)) for f in (1.1, 1 / 1.1))
    assert ratio.mu["m"][0] == pytest.approx(expected, rel=1e-9)


def test_neighbours_stay_within_the_public_bounds(grid):
    low = grid._replace(d=np.array([1.0, 4.0, 6.0, 9.0]))
    leak = found_for(low, Adjacency("one-item"))
    k, m, d = low[1:]
    assert leak.known.mu["d"][0] == pytest.approx(
        brute_force(low, (k, m, shifted(d, 0, 1))), rel=1e-9
    )


def test_steps_of_unknown_size_each_take_a_direction_away(grid):
    event = Event.load({"1": 0.1}).then(Event.load({"3": 0.2}, at_s=5))
    leak = found_for(grid, event=event, buses=("1",))
    assert leak.unknown.mu_neighbours < leak.known.mu_neighbours
    assert leak.unknown.seen <= leak.known.seen
    # Brute force: both steps' answers are taken out.
    parts = [omega(grid.facts, grid[1:], Event((step,)), ("1",)).ravel() for step in event.steps]
    Q = np.linalg.qr(np.stack(parts, axis=1))[0]
    k, m, d = grid[1:]
    base = omega(grid.facts, grid[1:], event, ("1",)).ravel()
    moves = [
        omega(grid.facts, (k, shifted(m, 1, s), d), event, ("1",)).ravel() - base for s in (1, -1)
    ]
    expected = max(np.linalg.norm(move - Q @ (Q.T @ move)) for move in moves) / SIGMA
    assert leak.unknown.mu["m"][1] == pytest.approx(expected, rel=1e-6)


def test_the_corners_of_the_bounds_have_larger_mu(grid):
    seen = observed(grid.facts, grid[1:])
    here = found_for(grid).known.mu_neighbours
    assert largest_mu(table_of(grid), seen, Bounds(), Adjacency(), sigma=SIGMA, dt_s=0.1) > 2 * here


def test_wide_bounds_are_taken_as_they_are(grid):
    """Down to their own lower ends, however far below the upper ones: as a prior, and as corners
    for the largest μ.
    """
    wide = Bounds({"m": Range(0.004, 40)})
    seen, settings = observed(grid.facts, grid[1:]), {"sigma": SIGMA, "dt_s": 0.1}
    found = leakage(table_of(grid), seen, wide, Adjacency(), **settings)
    assert found.known.items["m"].prior == pytest.approx(np.log(1e4) / np.sqrt(12))
    corner = PublicTable(
        grid.facts, {"k": np.full(4, 1.0), "m": np.full(4, 0.004), "d": np.full(4, 1.0)}
    )
    there = leakage(corner, seen, wide, Adjacency(), **settings).known.mu_neighbours
    assert largest_mu(table_of(grid), seen, wide, Adjacency(), **settings) >= there > 0


CORNERS = [*product((1.0, 100.0), (1.0, 40.0), (1.0, 40.0)), (10.0, 6.0, 6.0)]


def at_corner(corner, rule):
    """What star5 gives away where all its values are those of a corner of the bounds."""
    facts, values = open_grid("star5").facts, [np.full(4, value) for value in corner]
    return leakage(
        PublicTable(facts, dict(zip("kmd", values, strict=True))),
        observed(facts, values),
        Bounds(),
        Adjacency(rule),
        sigma=SIGMA,
        dt_s=0.1,
    )


@pytest.mark.parametrize("relative", ["", "-relative"])
@pytest.mark.parametrize("corner", CORNERS)
def test_whoever_may_move_more_may_move_less(corner, relative):
    """Each entry differs by at most α: at a corner, where all that is left is a way inwards, moves
    cancel each other.
    """
    found = [
        at_corner(corner, rule + relative) for rule in ("one-item", "one-asset", "one-per-group")
    ]
    for total in ("known", "unknown"):
        item, asset, group = (getattr(one, total).mu_neighbours for one in found)
        assert item <= asset <= group


@pytest.mark.parametrize("corner", [(100.0, 40.0, 1.0), (1.0, 1.0, 1.0)])
def test_one_entry_in_each_group_is_searched_as_well_as_by_brute_force(corner):
    facts, values = open_grid("star5").facts, [np.full(4, value) for value in corner]
    base = omega(facts, values).ravel()
    ways = [
        [
            value,
            *(
                shifted(value, i, by)
                for i in range(4)
                for by in (1, -1)
                if 1 <= value[i] + by <= top
            ),
        ]
        for value, top in zip(values, (100, 40, 40), strict=True)
    ]
    moves = np.array([omega(facts, moved).ravel() - base for moved in product(*ways)])
    found = at_corner(corner, "one-per-group")
    assert found.known.mu_neighbours == pytest.approx(
        np.linalg.norm(moves, axis=1).max() / SIGMA, rel=1e-9
    )
    moves -= np.outer(moves @ base, base) / (base @ base)
    assert found.unknown.mu_neighbours == pytest.approx(
        np.linalg.norm(moves, axis=1).max() / SIGMA, rel=1e-6
    )


@pytest.mark.parametrize("relative", ["", "-relative"])
def test_the_largest_mu_follows_the_order_of_the_rules(grid, relative):
    seen, settings = observed(grid.facts, grid[1:]), {"sigma": SIGMA, "dt_s": 0.1}
    item, asset, group = (
        largest_mu(table_of(grid), seen, Bounds(), Adjacency(rule + relative), **settings)
        for rule in ("one-item", "one-asset", "one-per-group")
    )
    assert item <= asset <= group


@pytest.mark.parametrize(
    "unknown", [Unknown(split=True), Unknown(split=True, size=(0.1, 1.0)), Unknown(window_s=0.5)]
)
def test_the_largest_mu_needs_events_that_are_known(grid, unknown):
    seen = observed(grid.facts, grid[1:])
    with pytest.raises(OptionError, match="The event of record 2 is to be estimated"):
        largest_mu(
            table_of(grid),
            [*seen, replace(seen[0], unknown=unknown)],
            Bounds(),
            Adjacency(),
            sigma=SIGMA,
            dt_s=0.1,
        )


# --- the joint claim ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mu", "epsilon"), [(0.1, 0.05), (0.5, 1.0), (1.0, 0.0), (2.0, 3.0), (6.0, 20.0)]
)
def test_joint_delta_is_the_hockey_stick_integral(mu, epsilon):
    x = np.linspace(-12, 12 + mu, 400_001)
    over = np.maximum(norm.pdf(x, mu) - np.exp(epsilon) * norm.pdf(x), 0)
    assert joint_delta(mu, epsilon) == pytest.approx(np.trapezoid(over, x), rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("delta", [0.0, -1e-5, 1.0, 2.0, np.nan])
def test_no_epsilon_is_given_for_what_is_no_probability(delta):
    """Against normal noise every ε_x has a δ above 0: a finite ε_x at δ = 0 would be a promise that
    nobody can keep.
    """
    with pytest.raises(OptionError, match="a probability above 0"):
        joint_epsilon(1.0, delta)


@pytest.mark.parametrize("place", range(9))
def test_a_mu_that_cannot_be_computed_somewhere_is_not_passed_over(grid, monkeypatch, place):
    """A claim at the largest of the others would promise too much."""
    seen, moved = observed(grid.facts, (grid.k, grid.m, grid.d)), []

    def moves(at, adjacency, bounds):
        moved.append(np.full_like(at.omega, np.nan if len(moved) == place else 1.0))
        return Moves({name: [[moved[-1]], []] for name in "kmd"}, [])

    monkeypatch.setattr("gridveil.adversary.leakage.moves_of", moves)
    mu = largest_mu(table_of(grid), seen, Bounds(), Adjacency(), sigma=SIGMA, dt_s=0.1)
    assert (np.isnan(mu), len(moved)) == (True, 9)
    with pytest.raises(OptionError, match="mu = nan"):
        joint_epsilon(mu, 1e-5)


@pytest.mark.parametrize("mu", [-1.0, np.nan])
def test_no_joint_claim_is_made_at_what_is_no_length(mu):
    for compute in (joint_delta, joint_epsilon):
        with pytest.raises(OptionError, match="mu = "):
            compute(mu, 0.5)
    with pytest.raises(OptionError, match="epsilon_x"):
        joint_delta(1.0, np.nan)


def test_the_figure_says_what_its_line_is_and_has_ticks_that_can_be_read(grid):
    figure = plot_leakage({"as it is": found_for(grid), "coarser": found_for(grid, sigma=0.1)})
    figure.canvas.draw()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()][-1] == "public bounds alone"
    for panel in figure.axes:
        low, high = panel.get_ylim()
        shown = [
            float(tick.get_text())
            for tick in panel.get_yticklabels()
            if low <= tick.get_position()[1] <= high
        ]
        assert len(shown) >= 3 and 100 in shown
        assert all(float(tick.get_text()).is_integer() for tick in panel.get_xticklabels())


def test_records_and_their_noise_are_asked_for(grid):
    seen = observed(grid.facts, (grid.k, grid.m, grid.d))
    for compute in (leakage, largest_mu):
        with pytest.raises(OptionError, match="No record was given"):
            compute(table_of(grid), [], Bounds(), Adjacency(), sigma=SIGMA)
        for sigma in (0.0, -SIGMA, np.nan, np.inf):
            with pytest.raises(OptionError, match="standard deviation above 0"):
                compute(table_of(grid), seen, Bounds(), Adjacency(), sigma=sigma, dt_s=0.1)


def test_joint_delta_at_its_ends():
    assert joint_delta(0.0, 1.0) == 0
    assert joint_delta(np.inf, 1.0) == 1
    assert joint_delta(500.0, 1.0) == pytest.approx(1)
    assert joint_delta(1.0, 800.0) == 0
    assert joint_epsilon(0.01, 0.1) == 0
    assert joint_epsilon(np.inf, 1e-5) == np.inf
    assert joint_delta(400.0, joint_epsilon(400.0, 1e-5)) == pytest.approx(1e-5, rel=1e-4)


# --- the record's own noise, and words ------------------------------------------------------------


@pytest.mark.parametrize("lead", [0, 250])
def test_a_record_shows_its_own_noise(lead):
    random = np.random.default_rng(3)
    time = np.arange(1501) / 50
    since = np.maximum(time - lead / 50, 0)
    clean = -0.01 * (1 - np.exp(-since))[:, None] * [1, 1.1]
    record = Trajectory(
        time, clean + random.normal(0, SIGMA, (1501, 2)), ("1", "2"), 60.0, float("nan")
    )
    sigma, origin = own_sigma(record, lead / 50)
    assert sigma == pytest.approx(SIGMA, rel=0.1)
    assert origin.startswith("its scatter")
    drift = replace(record, omega=record.omega + 1e-3 * np.sin(time / 3)[:, None])
    # slow drifts are not taken for noise
    assert own_sigma(drift, lead / 50)[0] == pytest.approx(SIGMA, rel=0.1)
    with pytest.raises(OptionError, match="too short to show its own noise"):
        own_sigma(replace(record, time_s=time[:9], omega=record.omega[:9]), 0.0)


def test_verdicts_follow_the_figures(grid):
    everything = found_for(grid, buses=("1", "2", "3", "4"), sigma=1e-8)
    assert "alone gives line weights to about" in everything.verdict()
    assert "there no ε protects them any more" in everything.verdict()
    nothing = found_for(grid, buses=("1",), sigma=0.5)
    assert nothing.verdict().startswith(
        "This trajectory, of bus 1 only, leaves single values of line weights, inertia and damping "
        "about where the public"
    )
    some = found_for(grid, buses=("1",), sigma=1e-4)
    assert "narrows" in some.verdict()
    inertia = some.known.items["m"].with_bounds
    assert inertia.argmin() == 0  # the machine at the recorded bus
    assert inertia[0] < 0.25 * np.median(inertia)
    assert (
        f"(the best known one to {100 * inertia[0]:.0f} %, the public bounds alone: 106 %)"
        in some.verdict()
    )
    assert "a common factor of k, m, d, u; only G ω fixes it" in some.verdict()


def test_json_holds_no_infinity(grid):
    import json

    text = json.dumps(found_for(grid, buses=("1",)).to_json(), allow_nan=False)
    assert (
        json.loads(text)["total_load_unknown"]["scale"]
        == "a common factor of k, m, d, u; only G ω fixes it"
    )


def test_what_cannot_be_computed_is_refused(grid):
    with pytest.raises(OptionError, match="above 0"):
        found_for(grid, sigma=0.0)


def test_a_single_machine_without_damping_is_no_trouble():
    one = make_grid([(0, 1)], [5.0], [0], m=8.0, d=0.0, rate=20, gain=2.0, loads=[0.1, 0.4])
    seen = observed(one.facts, (one.k, one.m, np.ones(1)), Event.load({"2": 0.1}), ("1",))
    leak = leakage(table_of(one), seen, Bounds(), Adjacency(), sigma=SIGMA, dt_s=0.1)
    assert leak.to_json()["total_load_public"]["relative_deviation_without_topology"]["k_r"] is None
    assert leak.known.items["m"].bound[0] < 0.01
    assert leak.known.items["k"].bound[0] == np.inf
    assert "alone gives inertia" in leak.verdict()


def test_a_noisy_release_may_stand_in_for_a_surrogate():
    noisy = perturb(
        open_grid("star5"),
        epsilon=Fraction(1),
        adjacency=Adjacency(),
        bounds=Bounds(),
        ledger=None,
        sampler=DemoSampler(seed=1),
    )
    table = posterior_mean(noisy)
    seen = observed(table.facts, (table.values["k"], table.values["m"], table.values["d"]))
    leak = leakage(
        table, seen, Bounds(), Adjacency(), sigma=SIGMA, dt_s=0.1, origin="a noisy release"
    )
    assert (leak.origin, leak.known.size) == ("a noisy release", 12)


def test_the_surrogate_needs_no_private_value():
    grid = star()
    middle = at_middle(grid.facts, Bounds())
    seen = observed(grid.facts, (middle.values["k"], middle.values["m"], middle.values["d"]))
    leak = leakage(middle, seen, Bounds(), Adjacency(), sigma=SIGMA, dt_s=0.1)
    assert "geometric middle" in leak.origin
