"""A plan for detailed releases: treatments and ε that meet targets, on a public surrogate alone."""

import shlex
from fractions import Fraction

import numpy as np
import pytest

from cli_helpers import as_json, gridveil
from detailed_releases import FILE, charged, detailed, write_private
from gridveil.dynamics.detailed.entries import ENTRIES, ITEM_SHARE
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.foundation.errors import OptionError
from gridveil.foundation.executors import local
from gridveil.foundation.shards import Kept
from gridveil.grid.parameters import Bounds
from gridveil.planning.plan.targets import Target
from gridveil.planning.treatments import candidates
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.ledger import Ledger
from gridveil.readers.cases import public_detailed
from gridveil.vault.sampler import DemoSampler
from gridveil.workflow.detailed import allocate, publish_detailed
from gridveil.workflow.plan import PlanSettings, plan_release
from gridveil.workflow.plan_detailed import DT_S, HORIZON_S, plan_detailed
from gridveil.workflow.settings import ReleaseSettings
from shard_helpers import lost, stopped

KUNDUR = "andes:kundur"
RULE = Adjacency("one-asset-relative", family="detailed")
LOOSE = Target.parse("nadir", "300%")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRIDVEIL_WITNESS", str(tmp_path / "home/witness.sqlite"))
    monkeypatch.delenv("GRIDVEIL_LEDGER", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def planned():
    """A plan with few draws, at one ε that is large enough."""
    return made()


def made(**given):
    source = detailed(KUNDUR)
    table, whole = public_detailed(source, KUNDUR)
    return plan_detailed(
        source,
        whole,
        table.values,
        [LOOSE],
        adjacency=RULE,
        bounds=Bounds(family="detailed"),
        draws=10,
        quantile=0.5,
        epsilons=[Fraction(8)],
        **given,
    )


def plain(found):
    """All figures of a plan, to the bit."""
    tried = [
        (one.candidate, {name: own.tolist() for name, own in one.errors.items()}, one.moved)
        for one in (*found.tried, *found.checked)
    ]
    return repr((tried, found.control, found.noiseless))


@pytest.mark.parametrize("jointly", [True, False])
def test_candidates_are_releases_that_can_be_drawn_and_publish_nothing(jointly):
    facts = detailed(KUNDUR).facts
    rule = RULE if jointly else Adjacency("asset-l1-relative", family="detailed")
    tried = candidates(facts, jointly=jointly)
    assert tried[0].name == "usual" and not tried[0].options
    found = [allocate(facts, rule, one.treatments, one.item_shares) for one in tried]
    assert len({str(one) for one in found}) == len(tried)  # no two of them are alike
    assert not any(one.published for one in found)
    shares = {one.item_shares["machine"] for one in tried if one.item_shares}
    assert ITEM_SHARE["machine"] not in shares and bool(shares) == jointly
    assert all(ENTRIES[name].treatment != way for one in tried for name, way in
               one.treatments.items())  # fmt: skip


def test_errors_are_those_of_releases_from_the_same_seeds(planned):
    """The oracle: whole releases, each event simulated by itself, figures read off by hand."""
    usual = planned.tried[0]
    count = len(usual.errors["rms_mhz"])
    assert (usual.candidate.name, count, planned.chosen.candidate is not None) == ("usual", 2, True)
    from gridveil.dynamics.detailed.equilibrium import solve
    from gridveil.dynamics.detailed.linearise import linearise

    _, whole = public_detailed(detailed(KUNDUR), KUNDUR)
    truth = linearise(whole, solve(whole), whole.loads.bus)
    for seed in range(count):
        made = publish_detailed(
            detailed(KUNDUR),
            epsilon=Fraction(8),
            ledger=None,
            sampler=DemoSampler(seed),
            error_bars=False,
        )
        rms, low = [], []
        for event in planned.events:
            ((bus, size),) = event.steps[0].change.items()
            neutral = made.model.ports[truth.ports.index(bus)]
            settings = {"horizon_s": HORIZON_S, "dt_s": DT_S}
            one = simulate(truth, Event.load({bus: size}), **settings)
            other = simulate(made.model, Event.load({neutral: size}), **settings)
            off = truth.frequency_hz * (one.omega - other.omega)
            rms.append(1e3 * np.sqrt(np.mean(off**2)))
            means = [(m.inertia * t.omega).sum(axis=1) / m.inertia.sum()
                     for m, t in ((truth, one), (made.model, other))]  # fmt: skip
            nadirs = [mean[np.argmax(np.abs(mean))] for mean in means]
            low.append(100 * abs(nadirs[1] / nadirs[0] - 1))
        assert usual.errors["rms_mhz"][seed] == pytest.approx(np.mean(rms), rel=1e-6)
        # between samples, a nadir is found by a parabola
        assert usual.errors["nadir_percent"][seed] == pytest.approx(np.mean(low), abs=0.1)


def test_a_plan_that_was_stopped_or_lost_its_workers_goes_on_to_the_same(planned, tmp_path):
    kept = Kept.plain(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        made(crew=stopped(3), kept=kept)
    assert len([*tmp_path.iterdir()]) == 3
    assert plain(made(crew=lost(2), kept=kept)) == plain(planned)


def test_two_workers_plan_as_one_does(planned):
    assert plain(made(crew=local(2))) == plain(planned)


def test_controls_stand_beside_a_plan(planned):
    assert planned.noiseless["nadir_percent"] < 10 < planned.control["nadir_percent"]
    assert planned.noiseless["rms_mhz"] < planned.tried[0].mean("rms_mhz")
    assert planned.met_without  # so loose a target says nothing, and the plan says that
    assert planned.chosen.epsilon == 8 and planned.chosen.met(planned.targets) == 1


def test_a_command_proposes_treatments_that_a_release_takes(home):
    asked = ("plan", KUNDUR, "--nadir-error=40%", "--quantile=0.5", "--draws=10")
    found = as_json(gridveil(*asked, "--json"))
    assert found["model"] == "detailed"
    proposal = found["proposal"]
    assert Fraction(proposal["epsilon"]) <= 2
    assert proposal["share_met"] >= 0.5
    assert not found["met_without_release"]
    words = shlex.split(proposal["command"])
    given = dict(zip((w.lstrip("-") for w in words[3::2]), words[4::2], strict=True))
    settings = ReleaseSettings.of({"grid": KUNDUR}, **given)
    assert dict(settings.treatments) == proposal["treatments"]
    assert {n: str(share) for n, share in settings.item_shares.items()} == proposal["split"]
    assert not (home / "home").exists()  # no ledger was opened, nothing was charged


@pytest.mark.slow
def test_the_command_says_its_controls_and_its_proposal(home):
    done = gridveil("plan", KUNDUR, "--nadir-error=40%", "--quantile=0.5", "--draws=10")
    assert done.code == 0, done.err
    for words in ("nothing drawn at all", "no noise at all", "Proposal", "gridveil release GRID"):
        assert words in done.out
    done = gridveil("plan", KUNDUR, "--nadir-error=0.001%", "--quantile=0.5", "--draws=10")
    assert "No ε up to 8 meets the targets" in " ".join(done.out.split())


def test_a_grid_that_was_released_is_no_surrogate_with_devices_either(home):
    path = write_private(home, seed=3)
    ledger = Ledger(home / "ledger.sqlite")
    charged(home, path)
    asked = PlanSettings.of(surrogate=str(path), nadir_error="10%", model="detailed")
    with pytest.raises(OptionError, match="as a version of the lineage"):
        plan_release(asked, ledger)
    with pytest.raises(OptionError, match="as a version of the lineage"):
        public_detailed(detailed(path), path, ledger=ledger)
    asked = ("plan", FILE, "--nadir-error=10%", "--draws=1")
    for said, refused in (([], "nobody said that it is public"), (["--public"], "--draws")):
        done = gridveil(*asked, *said)
        assert (done.code, refused in done.err) == (2, True)


@pytest.mark.parametrize(
    "given",
    [{"mechanism": "items"}, {"plot": "plan.png"}, {"share_by": "rating"}, {"event": "trip:1"}],
    ids=str,
)
def test_what_a_detailed_plan_has_no_place_for_is_refused(given, home):
    with pytest.raises(OptionError, match=r"Nothing was planned\.") as caught:
        plan_release(
            PlanSettings.of(surrogate=KUNDUR, nadir_error="10%", model="detailed", **given)
        )
    assert "swing" in str(caught.value) or "trips" in str(caught.value)


def test_settings_of_swing_models_keep_the_swing_plan():
    given = {"surrogate": KUNDUR, "nadir_error": "10%"}
    assert PlanSettings.of(**given).family is None
    assert PlanSettings.of(**given, mechanism="items").family == "swing"
    assert PlanSettings.of(**given, adjacency="one-asset").family == "swing"
    assert PlanSettings.of(**given, alpha="x=1/10").family == "detailed"
