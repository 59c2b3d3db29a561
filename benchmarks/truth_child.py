"""Run ANDES in a process of its own: `python truth_child.py JOB.json`, with HOME set by the caller.

A job names a case file, shares of the loads, events and where results go. Nothing else of the
project imports ANDES.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

AT_S = 1.0  # when an event falls; the second before it shows that the case is at rest
STEP_S = 0.01
MACHINES = ("GENROU", "GENCLS")
TIMED = ("Toggle", "Fault", "Alter")


def main() -> None:
    """Do what the job file asks; print the name of each event as it is done."""
    job = json.loads(Path(sys.argv[1]).read_text())
    import andes

    andes.config_logger(50)
    if job["dump"]:
        Path(job["dump"]).write_text(json.dumps(dump(job)))
        print("dump", flush=True)
    for name, event in job["events"].items():
        np.savez_compressed(event["to"], **simulate(job, event))
        print(name, flush=True)


def system(job: dict[str, Any]) -> Any:
    """Load a case with its own disturbances removed and the loads' shares set."""
    import andes

    case: Any = andes.load(job["file"], setup=False, no_output=True, default_config=True)
    for name in TIMED:
        model = getattr(case, name)
        model.u.v[:] = [0] * model.n
    config = case.PQ.config
    config.pq2z = 0
    (config.p2p, config.p2i, config.p2z), (config.q2q, config.q2i, config.q2z) = job["shares"]
    return case


def simulate(job: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
    """Simulate one event: ω of the machines as deviations on an even clock from the event on."""
    case = system(job)
    load = dict(zip(map(str, case.PQ.bus.v), case.PQ.idx.v, strict=True))
    total = float(np.sum(case.PQ.p0.v))
    size = event.get("share", 0.0) * total / len(event["buses"])
    if event["kind"] == "step":
        for bus in event["buses"]:
            alter = {"t": AT_S, "model": "PQ", "dev": load[bus], "src": "Ppf", "attr": "v"}
            case.add("Alter", {**alter, "method": "+", "amount": size})
    else:
        model, device = machine_at(case, event["buses"][0])
        case.add("Toggle", {"t": AT_S, "model": model, "dev": device})
    case.setup()
    if not case.PFlow.run():
        raise SystemExit("the power flow did not converge")
    lost = injected(case, event["buses"][0]) if event["kind"] == "trip" else 0j
    run = case.TDS.config
    run.tf, run.tstep, run.fixt = AT_S + job["horizon_s"], STEP_S, 1
    run.criteria, run.no_tqdm = 0, 1
    case.TDS.init()
    hold_constant_power(case)
    if not case.TDS.run() or case.dae.t < run.tf - 1e-6:
        raise SystemExit("the time-domain simulation did not reach its end")
    time = np.arange(round(job["horizon_s"] / job["dt_s"]) + 1) * job["dt_s"]
    machines, omega, inertia = [], [], []
    for name in MACHINES:
        model = getattr(case, name)
        machines += [str(bus) for bus in model.bus.v]
        inertia += list(model.M.v)
        omega += list(case.dae.ts.x[:, model.omega.a].T)
    before = case.dae.ts.t < AT_S - 1e-6
    drift = max(float(np.abs(one[before] - 1).max()) for one in omega)
    if drift > 1e-7:
        raise SystemExit(f"the case is not at rest before the event: it drifts by {drift:g} p.u.")
    return {
        "time_s": time,
        "omega": np.stack([np.interp(time + AT_S, case.dae.ts.t, one - 1) for one in omega], 1),
        "machines": np.array(machines),
        "inertia": np.array(inertia),
        "frequency_hz": float(case.config.freq),
        "base_mva": float(case.config.mva),
        "buses": np.array(event["buses"]),
        "change": np.full(len(event["buses"]), size),
        "lost": lost,
    }


def hold_constant_power(case: Any) -> None:
    """Give every load its own three parts, so that a step of `Ppf` is constant power beside loads
    of any kind.
    """
    loads, config = case.PQ, case.PQ.config
    for part, share in (("Ppf", config.p2p), ("Ipeq", config.p2i), ("Req", config.p2z)):
        getattr(loads, part).v[:] *= share
    config.p2p = config.p2i = config.p2z = 1.0
    loads.refresh_inputs()
    loads.refresh_inputs_arg()


def machine_at(case: Any, bus: str) -> tuple[str, Any]:
    """Find the machine at a bus: its model and its name."""
    for name in MACHINES:
        model = getattr(case, name)
        for place, device in zip(model.bus.v, model.idx.v, strict=True):
            if str(place) == bus:
                return name, device
    raise SystemExit(f"no machine at bus {bus}")


def injected(case: Any, bus: str) -> complex:
    """P + jQ that the unit at a bus delivers in the power flow [p.u.]."""
    for model in (case.PV, case.Slack):
        for number, place in enumerate(model.bus.v):
            if str(place) == bus:
                return complex(model.p.v[number], model.q.v[number])
    raise SystemExit(f"no unit at bus {bus}")


def dump(job: dict[str, Any]) -> dict[str, Any]:
    """List every table of the case after its power flow: parameters in p.u. of the system base,
    bus voltages, power of units.
    """
    from andes.core.param import IdxParam, NumParam

    case = system(job)
    case.setup()
    if not case.PFlow.run():
        raise SystemExit("the power flow did not converge")
    tables: dict[str, Any] = {}
    for name, model in case.models.items():
        if not model.n or name in TIMED:
            continue
        table: dict[str, Any] = {"idx": [str(one) for one in model.idx.v]}
        for column, param in model.params.items():
            if isinstance(param, IdxParam):
                table[column] = [None if one is None else str(one) for one in param.v]
            elif isinstance(param, NumParam) and np.asarray(param.v).dtype.kind in "biuf":
                table[column] = [float(one) for one in param.v]
        tables[name] = table
    tables["Bus"]["v"] = case.Bus.v.v.tolist()
    tables["Bus"]["a"] = case.Bus.a.v.tolist()
    for name in ("PV", "Slack"):
        tables[name]["p"] = getattr(case, name).p.v.tolist()
        tables[name]["q"] = getattr(case, name).q.v.tolist()
    return {
        "base_mva": float(case.config.mva),
        "frequency_hz": float(case.config.freq),
        "shares": job["shares"],
        "tables": tables,
    }


if __name__ == "__main__":
    main()
