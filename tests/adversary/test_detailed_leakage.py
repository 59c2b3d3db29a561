"""What a record of a detailed grid gives away, against finite differences and closed forms."""

from itertools import product

import numpy as np
import pytest

from cli_helpers import as_json, charges, gridveil
from detailed_releases import demo, detailed
from gridveil.adversary.leakage import detailed as module
from gridveil.adversary.leakage.detailed import EntryCoordinates, detailed_leakage, slopes_of
from gridveil.adversary.leakage.information import Information
from gridveil.adversary.leakage.report import plot_leakage
from gridveil.dynamics.detailed.entries import entries_of
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.numbers import numbers_of
from gridveil.dynamics.detailed.projection import project
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.foundation.errors import OptionError
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit.problem import Observation
from gridveil.privacy.adjacency import Adjacency
from measured_helpers import write_csv, write_toml
from small_detailed import EVENT, ORIGIN, PORTS, recorded, small_case

DT = 0.04
SIGMA = 1e-4
BOUNDS = Bounds(family="detailed")
ONE_ASSET = Adjacency("one-asset-relative", family="detailed")


def answers(case, record, ports=PORTS):
    model = linearise(case, solve(case), ports)
    end = float(record.trajectory.time_s[-1])
    clock = {"horizon_s": end, "dt_s": DT, "buses": record.trajectory.buses}
    return simulate(model, record.event, **clock).omega.ravel()


def differences(case, record, ports=PORTS, entries=None, h=1e-4):
    """Central differences of whole simulations: none of leakage's own slopes."""
    coordinates = EntryCoordinates.of(case)
    entries = range(len(coordinates.names)) if entries is None else entries
    return np.stack(
        [
            (
                answers(coordinates.moved(entry, h), record, ports)
                - answers(coordinates.moved(entry, -h), record, ports)
            )
            / (2 * h)
            for entry in entries
        ],
        axis=1,
    )


@pytest.fixture(scope="module")
def case():
    return small_case()


@pytest.fixture(scope="module")
def record(case):
    return recorded(case)


@pytest.fixture(scope="module")
def slopes(case, record):
    return slopes_of(case, [record], DT)


# --- slopes ---------------------------------------------------------------------------------------


def test_a_moved_coordinate_moves_its_own_entry_alone(case):
    coordinates = EntryCoordinates.of(case)
    before = np.concatenate([values for values, _ in entries_of(case).values()])
    signed = np.array([name == "q_ratio" for name in coordinates.names])
    for entry in range(len(coordinates.names)):
        moved = entries_of(coordinates.moved(entry, 0.01))
        after = np.concatenate([values for values, _ in moved.values()])
        by = np.where(signed, after - before, np.log(np.abs(after / before)))
        assert by == pytest.approx(0.01 * np.eye(len(by))[entry], abs=1e-12)


def test_entries_that_are_written_back_leave_the_case_as_it_was(case):
    again = numbers_of(EntryCoordinates.of(case).moved(0, 0.0))
    for table, columns in numbers_of(case).items():
        for name, column in columns.items():
            assert again[table][name] == pytest.approx(column, rel=1e-14), (table, name)


def test_slopes_are_those_of_finite_differences(case, record, slopes):
    coordinates, J = slopes
    expected = differences(case, record)
    assert J.shape == expected.shape == (2 * 301, len(coordinates.names))
    assert np.abs(J - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.slow
def test_slopes_of_kundur_are_those_of_finite_differences():
    facts = detailed().facts
    case = project(facts.public, {}).case
    ports = np.unique(case.loads.bus)
    model = linearise(case, solve(case), ports)
    event = Event.load({facts.buses[case.loads.bus[0]]: 0.5})
    trajectory = simulate(model, event, horizon_s=10.0, dt_s=DT, buses=facts.units[:2])
    seen = Observation(event, trajectory, ORIGIN)
    _, J = slopes_of(case, [seen], DT)
    expected = differences(case, seen, ports)
    for column, own in zip(J.T, expected.T, strict=True):
        assert np.abs(column - own).max() <= 1e-5 * np.abs(own).max() + 1e-9 * np.abs(J).max()


def test_slopes_of_a_record_with_a_trip_are_those_of_finite_differences(case):
    seen = recorded(case, Event.trip({"G2": None}))
    coordinates, J = slopes_of(case, [seen], DT)
    entries = [coordinates.names.index(name) for name in ("x", "p_load", "M", "gov_gain")]
    expected = differences(case, seen, entries=entries)
    assert np.abs(J[:, entries] - expected).max() <= 1e-5 * np.abs(expected).max()


def test_no_record_shows_the_dispatch_of_the_slack(case, slopes):
    coordinates, J = slopes
    dispatch = J[:, coordinates.places["p_gen"]]
    sizes = np.linalg.norm(dispatch, axis=0)
    assert sizes[case.units.slack] == 0.0
    assert np.delete(sizes, case.units.slack).min() > 0.0


# --- what follows from slopes ---------------------------------------------------------------------


def test_independent_entries_have_closed_forms():
    J = np.zeros((5, 3))
    J[0, 0], J[1, 1] = 3.0, 0.5
    prior, sigma = np.array([1.0, 2.0, 4.0]), 0.1
    found = Information.of(J, prior, sigma)
    assert (found.rank, found.seen) == (2, 2)
    assert found.bound == pytest.approx([0.1 / 3, 0.2, np.inf])
    left = 1 / np.sqrt(np.array([900.0, 25.0, 0.0]) + prior**-2.0)
    assert found.with_prior == pytest.approx(left)
    assert found.of_mean(np.array([0, 1])) == pytest.approx(np.hypot(left[0], left[1]) / 2)


def test_a_sum_that_is_seen_is_known_where_its_parts_are_not():
    J = np.full((1, 2), 10.0)  # of the sum alone
    found = Information.of(J, np.ones(2), 0.1)
    assert np.isinf(found.bound).all()
    assert found.with_prior == pytest.approx(np.full(2, np.sqrt(0.5)), rel=1e-3)
    assert found.of_mean(np.arange(2)) == pytest.approx(0.1 / 20, rel=1e-3)


def test_deviations_are_those_of_the_inverse_information(case, record):
    J = differences(case, record)
    coordinates = EntryCoordinates.of(case)
    found = detailed_leakage(case, [record], BOUNDS, ONE_ASSET, sigma=SIGMA, dt_s=DT).known
    prior = np.array(
        [
            2 / np.sqrt(12)
            if BOUNDS[name].signed
            else np.log(BOUNDS[name].upper / BOUNDS[name].lower) / np.sqrt(12)
            for name in coordinates.names
        ]
    )
    covariance = np.linalg.inv(J.T @ J / SIGMA**2 + np.diag(prior**-2.0))
    for name, place in coordinates.places.items():
        told, own = found.items[name], covariance[np.ix_(place, place)]
        np.testing.assert_allclose(told.with_bounds, np.sqrt(own.diagonal()), rtol=1e-3)
        assert told.mean == pytest.approx(np.sqrt(own.mean()), rel=1e-3)
    assert found.size == len(coordinates.names)
    assert 0 < found.seen <= found.rank < found.size  # the slack's dispatch is not seen


@pytest.mark.parametrize("rule", ["one-asset-relative", "one-item-relative", "asset-l1-relative"])
def test_mu_is_the_farthest_neighbour_by_brute_force(case, record, slopes, rule):
    coordinates, J = slopes
    adjacency = Adjacency(rule, family="detailed")
    found = detailed_leakage(case, [record], BOUNDS, adjacency, sigma=SIGMA, dt_s=DT).known
    moves = J * [float(adjacency.distance(name)) / SIGMA for name in coordinates.names]
    alone = np.linalg.norm(moves, axis=0)
    assert found.mu["M"] == pytest.approx(alone[coordinates.places["M"]])
    expected = alone.max()
    if rule == "one-asset-relative":
        for asset in set(coordinates.assets):
            own = moves[:, [at == asset for at in coordinates.assets]]
            for signs in product((1, -1), repeat=own.shape[1]):
                expected = max(expected, np.linalg.norm(own @ signs))
        assert expected > alone.max()
    assert found.mu_neighbours == pytest.approx(expected)


def test_mu_is_that_of_a_real_neighbour_to_first_order(case, record, slopes):
    coordinates, _ = slopes
    adjacency = Adjacency(
        "one-item-relative", dict.fromkeys(coordinates.values, "1/1000"), family="detailed"
    )
    found = detailed_leakage(case, [record], BOUNDS, adjacency, sigma=SIGMA, dt_s=DT).known
    for name in ("x", "p_load", "M", "gov_gain"):
        entry = coordinates.names.index(name)
        moved = coordinates.moved(entry, np.log(1.001))
        off = np.linalg.norm(answers(moved, record) - answers(case, record)) / SIGMA
        assert found.mu[name][0] == pytest.approx(off, rel=1e-2)


# --- in words, and refusals -----------------------------------------------------------------------


def test_a_precise_record_gives_inertia_and_governors_away(case):
    seen = recorded(case, EVENT, buses=("G1", "G2", "G3"))
    sharp, dull = (
        detailed_leakage(case, [seen], BOUNDS, ONE_ASSET, sigma=sigma, dt_s=DT)
        for sigma in (1e-10, 1e-1)
    )
    assert "alone gives" in sharp.verdict() and "inertia to about" in sharp.verdict()
    assert "about where the public bounds do" in dull.verdict()
    assert "gives" not in dull.verdict()
    shown = sharp.to_json()
    assert "total_load_unknown" not in shown
    assert shown["total_load_public"]["relative_deviation"]["M"]["of_the_mean"] < 0.01
    panels = [axes for axes in plot_leakage({"as it is": sharp}).axes if axes.get_visible()]
    assert len(panels) == len(sharp.known.items)


def test_a_grid_that_would_take_minutes_is_refused_in_words(case, record, monkeypatch):
    monkeypatch.setattr(module, "MOST_WORK", 1e5)
    with pytest.raises(OptionError, match="would take minutes"):
        detailed_leakage(case, [record], BOUNDS, ONE_ASSET, sigma=SIGMA, dt_s=DT)


# --- commands -------------------------------------------------------------------------------------


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A folder with a record of kundur, made at public values."""
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRIDVEIL_WITNESS", str(tmp_path / "home/witness.sqlite"))
    monkeypatch.chdir(tmp_path)
    facts = detailed().facts
    at = project(facts.public, {})
    model = linearise(at.case, at.equilibrium, np.unique(at.case.loads.bus))
    bus, units = facts.buses[facts.loads[0]], facts.units[:2]
    event = Event.load({bus: 0.5}, at_s=2.0)
    seen = simulate(model, event, horizon_s=6.0, dt_s=0.04, buses=units)
    noise = SIGMA * np.random.default_rng(0).standard_normal(seen.omega.shape)
    write_csv(tmp_path / "record.csv", seen.time_s, 60 * (1 + seen.omega + noise))
    places = {"north": units[0], "south": units[1]}
    write_toml(tmp_path / "record.toml", event=f"load:{bus}=+0.5@2s", locations=places)
    return tmp_path


def leakage(*options):
    return gridveil("leakage", "andes:kundur", "--trajectory=record.toml", *options)


def test_a_detailed_grid_s_record_is_looked_at_at_public_values_and_made_coarser(room):
    done = as_json(leakage("--json", "--sigma=1e-4", "--rate=5Hz"))
    fine, coarse = (record["total_load_public"] for record in done["records"])
    assert "public values" in done["records"][0]["computed_at"]
    assert fine["mu"]["gov_gain"][0] > 1.5 * coarse["mu"]["gov_gain"][0]
    shown = leakage("--sigma=1e-4")
    assert shown.code == 0 and "x_machine" in shown.out and "Verdict" in shown.out
    refused = leakage("--sigma=1e-4", "--delta=1e-5")
    assert refused.code == 2 and "not worked out for detailed grids" in refused.err
    swing = as_json(leakage("--json", "--sigma=1e-4", "--model=swing", "--damping=1"))
    assert "total_load_unknown" in swing["records"][0]


def test_a_bundle_that_shows_its_network_is_computed_at(room):
    for form in ("network", "reduced"):
        demo(form=form).save(room / form)
    done = as_json(leakage("--json", "--sigma=1e-4", "--surrogate=network"))
    assert done["records"][0]["computed_at"] == "the noisy release network"
    assert any("DEMO" in note for note in done["records"][0]["notes"])
    for options, words in (
        (("--surrogate=reduced",), "does not show the network"),
        (("--surrogate=andes:kundur",), "a version of the grid itself"),
        (("--model=detailed", "--damping=1"), "for swing models"),
    ):
        refused = leakage("--sigma=1e-4", *options)
        assert refused.code == 2 and words in refused.err, refused.err


@pytest.mark.slow
def test_a_release_shows_what_its_record_gives_away_and_its_controls(room):
    done = as_json(
        gridveil("release", "andes:kundur", "--epsilon=1", "--trajectory=record.toml", "--json")
    )
    assert done["leakage"]["verdict"] and "public values" in done["leakage"]["computed_at"]
    places = done["fits"][0]["rms_mhz"]
    assert [(place["record"], place["place"]) for place in places] == [(1, 1), (1, 2)]
    assert all(place["whole"]["public_values"] > 0 for place in places)
    assert gridveil("verify", "release").code == 0
    assert len(charges(room / "home/ledger.sqlite")) == 1
