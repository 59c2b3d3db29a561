"""Exports of drawn releases run nonlinearly in ANDES, and a small step there is the bundle's."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from andes_helpers import andes  # noqa: F401 - a fixture
from gridveil import DemoSampler, load, open_grid
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.workflow.bundles import export_bundle
from gridveil.workflow.detailed import publish_detailed

CASES = ("kundur", "ieee39", "ieee14")
# Case, form and loads of each release. A reduced form has loads as constant impedances.
RELEASES = [
    *((name, form, "Z") for name in CASES for form in ("network", "reduced")),
    *((name, "network", "P") for name in CASES),
    ("kundur", "reduced", "Z"),
]
PART = 0.001  # of all load: small, and far above the tolerance of ANDES's solver
AT_S, UNTIL_S = 0.125, 2.0
STEP_S = 1 / 512  # ANDES takes a jump of load half a step late

RUN = """
import json, sys
import andes, numpy as np
andes.config_logger(50)
for case in json.loads(sys.argv[1]):
    raw = case["file"].endswith(".raw")
    system = andes.load(case["file"], addfile=case["file"][:-3] + "dyr" if raw else None,
                        default_config=True, no_output=True, setup=False)
    system.add("PQ", {"idx": "step", "bus": case["bus"], "Vn": 1.0, "p0": 0.0, "q0": 0.0})
    system.setup()
    tds, system.PFlow.config.tol = system.TDS, 1e-10
    tds.config.no_tqdm, tds.config.fixt, tds.config.tstep = 1, 1, case["step_s"]
    tds.config.tf, tds.config.tol = case["at_s"], 1e-8
    assert system.PFlow.run() and tds.run(), case["file"]
    if system.PQ.config.p2z:
        system.PQ.Req.v[-1] += case["load"] / system.PQ.v0.v[-1] ** 2
    else:
        system.PQ.Ppf.v[-1] += case["load"]
    tds.config.tf = case["until_s"]
    assert tds.run() and system.exit_code == 0, case["file"]
    omega = system.dae.ts.x[:, system.GENROU.omega.a] - 1
    np.savez(case["out"], omega=omega[:, np.argsort(system.GENROU.bus.v)], t=system.dae.ts.t)
"""


@pytest.mark.slow
def test_ten_drawn_releases_run_in_andes_and_agree_with_their_linear_models(andes, tmp_path):  # noqa: F811
    runs, models = [], []
    for seed, (name, form, loads) in enumerate(RELEASES):
        source = open_grid(
            f"andes:{name}",
            model="detailed",
            options={"zip": loads, "unknown_devices": "typical"},
        )
        release = publish_detailed(
            source,
            epsilon=Fraction(1),
            ledger=None,
            sampler=DemoSampler(seed=seed),
            form=form,
            error_bars=False,
        )
        bundle = Path(release.save(tmp_path / f"{seed}").path)
        opened = load(bundle)
        bus = opened.shown.case.units.bus
        step = PART * opened.model.loads.sum()
        for to, end in (("andes", "json"), ("psse", "raw")):
            if to == "psse" and loads == "P":  # which ANDES takes for impedances
                continue
            place = export_bundle(bundle, to, out=tmp_path / f"{seed}-{to}").place
            runs.append(
                {
                    "file": str(place / f"network.{end}"),
                    "out": str(place / "omega.npz"),
                    "bus": int(bus[0]) + 1,
                    "load": step,
                    "at_s": AT_S,
                    "until_s": UNTIL_S,
                    "step_s": STEP_S,
                }
            )
            models.append((f"{seed} {name} {form} {loads} {to}", opened.model, bus, step))
    andes(RUN, json.dumps(runs))
    worst = {}
    for run, (title, model, bus, step) in zip(runs, models, strict=True):
        event = Event.parse(f"load:G1=+{step}@{AT_S}s", base_mva=model.base_mva)
        ours = simulate(model, event, horizon_s=UNTIL_S, dt_s=1 / 128)
        played = np.load(run["out"])
        theirs = np.stack(
            [np.interp(ours.time_s, played["t"], column) for column in played["omega"].T], axis=1
        )
        own = ours.omega[:, : len(bus)][:, np.argsort(bus, kind="stable")]
        off = np.abs(theirs - own).max() / np.abs(own).max()
        print(f"{title}: {100 * off:.2f} % of the peak")
        worst[title] = off
    assert max(worst.values()) < 0.02, worst
