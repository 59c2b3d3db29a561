"""A device of one's own, in this file alone: two protected parameters and their physics go through
release, bundle, verify, simulate, audit and attack.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from cli_helpers import gridveil
from gridveil.adversary.leakage import leakage
from gridveil.assurance.audit import audit_adjacency, measure_advantage, perturbed
from gridveil.assurance.audit.noise import audit_noise
from gridveil.assurance.audit.releases import Kind, by_perturb
from gridveil.assurance.owner_report.assess import assess_attacks
from gridveil.dynamics.devices import DEVICES, DeviceResponse, registered_device
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.models import FullModel
from gridveil.dynamics.simulate import default_scheme, simulate
from gridveil.foundation.errors import GridveilError, InputError, OptionError
from gridveil.grid.parameters import DECLARED, PARAMETERS, Bounds, Parameter, Range, registered
from gridveil.grid.tables import PublicTable
from gridveil.inference.fit import FitSettings, Observation
from gridveil.planning.surrogate import at_middle
from gridveil.privacy.adjacency import RULES, Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation, aggregates, topology
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.provenance import Provenance
from gridveil.publication.bundle import load, verify, write
from gridveil.publication.export import FORMATS, export
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import Private, SourceGrid
from gridveil.workflow.publish import publish
from helpers import star

ONE = Fraction(1)


# --- the toy: a battery at every machine, with a droop gain and a lag -----------------------------


class Battery:
    """lag p' = -p - b ω."""

    parameters = (
        Parameter("b", "battery gain", "p.u. power / p.u. frequency", "machine", Range(1.0, 50.0)),
        Parameter(
            "lag", "battery lag", "s", "machine", Range(0.05, 5.0), positive=True,
            why_positive="a battery without a lag",
        ),
    )  # fmt: skip
    equations = ("lag p_b' = -p_b - b omega, with p_b added to M omega'",)

    def response(self, values):
        b, lag = values["b"], values["lag"]
        return DeviceResponse(
            -1 / lag[..., None, None], -(b / lag)[..., None], 0 * b[..., None] + 1, 0 * b
        )


BATTERY = Battery()


@pytest.fixture(autouse=True)
def battery():
    with registered_device(BATTERY):
        yield


def facts():
    return star().with_facts(operating_point="flat").facts


def values(**changed):
    grid = star()
    g = len(grid.m)
    return {**grid.values, "b": np.linspace(5, 20, g), "lag": np.linspace(0.2, 1.0, g), **changed}


def source(**changed):
    return SourceGrid.of(facts(), **values(**changed))


def choices(rule="one-asset", **given):
    return {
        "epsilon": ONE, "adjacency": Adjacency(rule), "bounds": Bounds(),
        "allocation": Allocation(), **given,
    }  # fmt: skip


def released(**given):
    return publish(source(), ledger=None, sampler=DemoSampler(1), **choices(**given))


@pytest.fixture
def bundle(tmp_path):
    write(released(), tmp_path / "bundle")
    return tmp_path / "bundle"


# --- declaration ----------------------------------------------------------------------------------


def test_what_is_declared_is_everywhere():
    assert list(PARAMETERS) == ["k", "m", "d", "b", "lag"]
    assert facts().sizes == {"k": 4, "m": 4, "d": 4, "b": 4, "lag": 4}
    assert Bounds()["lag"] == Range(0.05, 5.0)
    assert Adjacency().alpha["b"] == 1
    assert Allocation().draws["lag"] == "items"


def test_it_is_gone_after_its_block():
    with registered(Parameter("lead", "lead", "s", "machine", Range(0, 1))):
        assert "lead" in PARAMETERS
    assert "lead" not in DECLARED


def test_a_parameter_is_declared_once_and_a_device_stands_at_a_machine():
    with pytest.raises(OptionError, match="declared already"), registered(BATTERY.parameters[0]):
        pass

    class OnLines(Battery):
        parameters = (replace(BATTERY.parameters[0], name="x", asset="line"),)

    with pytest.raises(OptionError, match="stands at a machine"), registered_device(OnLines()):
        pass
    assert DEVICES == [BATTERY]


def test_a_grid_without_its_values_is_refused_and_so_is_a_value_that_has_no_meaning():
    with pytest.raises(InputError, match="a table names d, k, m"):
        SourceGrid.of(facts(), **star().values)
    with pytest.raises(InputError, match="battery lag lag of 2 is not usable"):
        source(lag=np.array([0.2, 0.0, 0.2, 0.2]))
    with pytest.raises(OptionError, match="The lower bound of lag must be above 0"):
        Bounds({"lag": Range(0, 1)})


# --- physics --------------------------------------------------------------------------------------


def test_reduced_and_full_model_agree_and_settle_by_the_gain():
    event = Event.uniform(0.1)
    reduced, full = reduced_model(facts(), values()), FullModel(facts(), values())
    ours = simulate(reduced, event, horizon_s=60)
    theirs = simulate(full, event, horizon_s=60)
    np.testing.assert_allclose(ours.omega, theirs.omega, atol=1e-12)
    np.testing.assert_allclose(ours.omega[-1], ours.settling, rtol=1e-6)
    without = replace(reduced, device={})
    assert abs(simulate(without, event).settling) > abs(ours.settling)


def test_a_large_model_does_not_lose_its_devices(monkeypatch):
    reduced, event = reduced_model(facts(), values()), Event.uniform(0.1)
    usual = simulate(reduced, event, horizon_s=10).omega
    monkeypatch.setattr("gridveil.dynamics.simulate.LARGE", 1)
    np.testing.assert_array_equal(simulate(reduced, event, horizon_s=10).omega, usual)
    without = replace(reduced, device={})
    assert default_scheme(without) == "trapezoidal"


def test_slopes_of_the_family_are_those_of_differences():
    model = reduced_model(facts(), values())
    family = model.family(np.ones((len(model.ports), 1)), [0])
    bar = family.lti(np.ones(family.size))
    bar = replace(bar, F=np.random.default_rng(1).normal(size=bar.F.shape), H=0 * bar.H)
    slopes = family.pull(model.theta, bar)
    for place, slope in enumerate(slopes):
        step = np.zeros(family.size)
        step[place] = 1e-5 * model.theta[place]
        up, down = (family.lti(model.theta + sign * step).A for sign in (1, -1))
        difference = (bar.A * (up - down)).sum() / (2 * step[place])
        n = bar.states
        b_up, b_down = (family.lti(model.theta + sign * step).B for sign in (1, -1))
        difference += (bar.F[:n, n:] * (b_up - b_down)).sum() / (2 * step[place])
        assert slope == pytest.approx(difference, rel=1e-5, abs=1e-8)


# --- release, bundle, verify, simulate ------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("allocation", [Allocation, aggregates, topology])
def test_a_demo_is_released_loaded_verified_and_simulated(rule, allocation, tmp_path):
    release = released(rule=rule, allocation=allocation())
    write(release, tmp_path / "bundle", formats=["mat", "csv"])
    report, loaded = verify(tmp_path / "bundle"), load(tmp_path / "bundle")
    assert {"b", "lag"} <= report.noise.keys()
    for name, theirs in loaded.model.arrays.items():
        assert np.array_equal(release.model.arrays[name], theirs, equal_nan=True), name
    event = "load:G1=+0.1"
    assert np.array_equal(release.simulate(event).omega, loaded.simulate(event).omega)
    bare = replace(loaded, model=replace(loaded.model, device={}))
    assert not np.allclose(bare.simulate(event).omega, loaded.simulate(event).omega)


def test_a_real_one_is_charged_certified_and_verified(tmp_path):
    ledger, adjacency = Ledger(tmp_path / "ledger.sqlite"), Adjacency()
    ledger.set_budget("test", adjacency, ONE)
    release = publish(source(), ledger=ledger, lineage="test", **choices(adjacency=adjacency))
    write(release, tmp_path / "bundle")
    assert not verify(tmp_path / "bundle").demo
    (entry,) = ledger.entries()
    assert entry.spent.keys() == PARAMETERS.keys()
    account = ledger.accounts()["test"]
    of_a_machine = sum(Fraction(entry.spent[name]) for name in ("m", "d", "b", "lag"))
    assert account.spent == max(Fraction(entry.spent["k"]), of_a_machine) <= 1
    with pytest.raises(GridveilError, match="does not cover"):
        publish(source(), ledger=ledger, lineage="test", **choices(adjacency=adjacency))
    assert "battery gain b" in (tmp_path / "bundle" / "certificate.json").read_text()


def test_the_commands_take_its_bundle(bundle):
    assert "lag" in gridveil("verify", bundle).out
    assert gridveil("simulate", bundle, "--event", "load:G1=+0.1").code == 0


def test_formats_that_have_no_words_for_it_refuse(bundle):
    release = load(bundle)
    for name in FORMATS:
        if name in ("mat", "csv"):
            assert any(b"lag" in data for data in export(release, name).values())
        else:
            with pytest.raises(GridveilError, match="cannot hold b, lag"):
                export(release, name)


def test_where_it_is_unknown_its_bundle_is_refused(bundle):
    declared = {name: DECLARED.pop(name) for name in ("b", "lag")}
    try:
        with pytest.raises(GridveilError, match="does not follow schema"):
            load(bundle)
    finally:
        DECLARED.update(declared)


def test_a_fit_moves_its_parameters_too():
    event = Event.uniform(0.2)
    truth = reduced_model(facts(), values())
    record = simulate(truth, event, horizon_s=10, dt_s=0.05, buses=truth.machines)
    observed = [Observation(event, record, Provenance("simulated", "a test"))]
    settings = FitSettings(dt_s=0.05, iterations=30)
    made = publish(
        source(), observed, ledger=None, sampler=DemoSampler(1), settings=settings, **choices()
    )
    assert made.fitted.method == "l-bfgs-b"
    assert made.fitted.mismatch_after < 0.1 * made.fitted.mismatch_before
    assert not np.array_equal(made.model.device["b"], released().model.device["b"])


def test_what_records_tell_is_computed_of_the_swing_model_alone():
    event = Event.uniform(0.2)
    table = PublicTable(facts(), values())
    record = simulate(reduced_model(facts(), values()), event, horizon_s=5, dt_s=0.1)
    observed = [Observation(event, record, Provenance("simulated", "a test"))]
    with pytest.raises(OptionError, match="a grid with b, lag cannot be taken apart"):
        leakage(table, observed, Bounds(), Adjacency(), sigma=1e-4, dt_s=0.1)


# --- audit and attack -----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["one-asset", "one-per-group-relative"])
def test_the_audit_passes_it_and_notices_noise_that_is_too_small_on_it(rule):
    adjacency = Adjacency(rule)

    class Faulty(DemoSampler):
        """A twentieth of the noise on the battery's gain, the fourth group that is drawn."""

        calls = 0

        def draw(self, drawn, scale, noise):
            self.calls += 1
            small = (self.calls - 1) % len(PARAMETERS) == list(PARAMETERS).index("b")
            return super().draw(drawn, scale / 20 if small else scale, noise)

    for sampler, passed in ((DemoSampler(1), True), (Faulty(1), False)):
        draw = perturbed(adjacency, ONE, sampler, Allocation())
        found = audit_adjacency(adjacency, ONE, 20_000, draw=draw, workers=1)
        assert all(one.passed for one in found) == passed


def test_the_audit_of_noise_looks_at_its_groups():
    given = {"sampler": DemoSampler(1), "opens": by_perturb}
    kind = Kind("items", Allocation(), "clipped")
    assert audit_noise("toy", Adjacency(), ONE, 200, kind, **given).passed


def test_the_all_but_one_adversary_moves_a_machine_with_its_battery():
    draw = perturbed(Adjacency(), ONE, DemoSampler(1), Allocation())
    found = measure_advantage(Adjacency(), ONE, 20_000, draw=draw, workers=1)
    assert all(row.passed for row in found)
    assert {row.moved for row in found} == {"k", "m, d, b, lag"}


def test_it_is_attacked(bundle):
    found = Private.open(assess_attacks(source(), load(bundle)))
    assert [row.group for row in found.machines] == ["m", "d", "b", "lag"]
    assert all(row.release > 0 for row in found.machines)
    assert found.averaging[-1].error_m < found.averaging[0].error_m


def test_what_is_drawn_of_it_lies_within_its_bounds():
    noisy = perturb(source(), ledger=None, sampler=DemoSampler(2), **choices())
    for name in ("b", "lag"):
        public = Bounds()[name]
        assert ((noisy.values[name] >= public.lower) & (noisy.values[name] <= public.upper)).all()
    table = at_middle(facts(), Bounds())
    assert isinstance(table, PublicTable)
    assert table.values["lag"] == pytest.approx(0.5)


def test_an_allocation_that_does_not_know_it_is_refused_before_the_charge(tmp_path, home):
    book = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(OptionError, match="does not say what is drawn of each parameter"):
        publish(source(), ledger=book, **choices(allocation=ITEMS))
    assert list(book.entries()) == []


def test_a_ledger_that_was_charged_for_it_is_read_where_it_is_unknown(tmp_path, home, monkeypatch):
    book = Ledger(tmp_path / "ledger.sqlite")
    publish(source(), ledger=book, **choices(), lineage="with a battery")
    spent = book.account("with a battery").spent
    with monkeypatch.context() as without:
        for parameter in BATTERY.parameters:
            without.delitem(DECLARED, parameter.name)
        other = Ledger(tmp_path / "ledger.sqlite").account("with a battery")
        assert other.spent == spent > 0
