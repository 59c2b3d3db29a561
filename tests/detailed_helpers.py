"""Cases of ANDES as detailed cases, taken from its memory: independent of the file readers."""

import json

import numpy as np

from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.grid.case import Branches, DetailedCase, DeviceTable, Loads, Units

DUMP = '''
import json, sys, io, contextlib, logging, pathlib
import numpy as np
import andes

_zip = zip
# ANDES adds this much to slopes of algebraic equations: its option diag_eps. The usual 1e-8 is seen
# in eigenvalues: beside a time constant of 0.01 s it is 1e-6. With 0, npcc's equations are singular
DIAGONAL = ["System.diag_eps=1e-12"]
CODE = "pycode-diagonal"  # in the home folder

def generate():
    """Write ANDES's numerical code, which holds that option, unless it stands already."""
    if not pathlib.Path(CODE, "__init__.py").exists():
        options = {"default_config": True, "config_option": DIAGONAL, "pycode_path": CODE}
        # in this process: its workers would not know of the option
        andes.System(no_undill=True, **options).prepare(quick=True, nomp=True)

def prepare(case, addfile=None, drop=(), change=(), zip=(0, 0, 1), add=(), off=()):
    """A case of ANDES, set up on the system's base: without models `drop`, with values `change`d,
    devices `add`ed and others switched `off`.
    """
    logging.disable(logging.CRITICAL)
    generate()
    system = andes.load(
        andes.get_case(case), addfile=andes.get_case(addfile) if addfile else None, setup=False,
        no_output=True, default_config=True, config_option=DIAGONAL, pycode_path=CODE,
    )
    for name in drop:
        model = getattr(system, name)
        for idx in range(model.n):
            model.u.v[idx] = 0
    for model in ("Toggle", "Fault", "Alter"):
        for i in range(getattr(system, model).n):
            getattr(system, model).u.v[i] = 0
    for name, parameter, value in change:
        column = getattr(getattr(system, name), parameter).v
        for i in range(len(column)):
            column[i] = value[i] if isinstance(value, list) else value
    for name, device in add:
        system.add(name, device)
    for name, number in off:
        getattr(system, name).u.v[number] = 0
    system.setup()
    p, i, z = zip
    config = system.PQ.config
    config.p2p, config.p2i, config.p2z = p, i, z
    config.q2q, config.q2i, config.q2z = p, 0, z + i
    system.TDS.config.no_tqdm = 1
    system.PFlow.config.tol = 1e-11
    system.PFlow.run()
    return system

def dump(system, known):
    """Everything a detailed case holds, as plain lists."""
    def listed(array):
        return np.asarray(array, dtype=float).tolist()
    def table(model, names):
        return {name: listed(getattr(model, name).v) for name in names}
    result = {"base": float(system.config.mva), "hz": float(system.config.freq)}
    result["bus"] = list(map(str, system.Bus.idx.v))
    line = system.Line
    result["line"] = table(line, ("r", "x", "b", "tap", "phi", "u", "g", "b1", "b2", "g1", "g2"))
    result["line"]["ends"] = [list(map(str, line.bus1.v)), list(map(str, line.bus2.v))]
    result["shunt"] = {"g": [], "b": [], "u": []}
    if system.Shunt.n:
        result["shunt"] = table(system.Shunt, ("g", "b", "u"))
    result["shunt"]["bus"] = list(map(str, system.Shunt.bus.v))
    result["load"] = table(system.PQ, ("p0", "q0", "u"))
    result["load"]["bus"] = list(map(str, system.PQ.bus.v))
    c = system.PQ.config
    result["zip"] = [c.p2z, c.q2z, c.p2i, c.q2i]
    static = {}
    for model in (system.PV, system.Slack):
        for k, idx in enumerate(model.idx.v):
            values = float(model.p0.v[k]), float(model.v0.v[k])
            static[idx] = (*values, str(model.bus.v[k]), model is system.Slack)
    units, place, devices = [], {}, {}
    avr = {i: s for m in system.Exciter.models.values() for i, s in zip(m.idx.v, m.syn.v)}
    rating = {i: float(s) for m in system.SynGen.models.values() for i, s in zip(m.idx.v, m.Sn.v)}
    for name, model in system.models.items():
        if name in known and model.n and hasattr(model, "gen"):
            for k, idx in enumerate(model.idx.v):
                if not model.u.v[k]:
                    continue
                p, v, bus, slack = static[model.gen.v[k]]
                share = float(model.gammap.v[k]) if hasattr(model, "gammap") else 1.0
                place[idx] = len(units)
                units.append({"p": p * share, "v": v, "bus": bus, "slack": slack})
    for name, model in system.models.items():
        if name not in known or not model.n:
            continue
        rows = [k for k in range(model.n) if model.u.v[k]]
        if hasattr(model, "gen"):
            at = [place[model.idx.v[k]] for k in rows]
        elif hasattr(model, "avr"):
            at = [place[avr[model.avr.v[k]]] for k in rows]
        elif hasattr(model, "syn"):
            at = [place[model.syn.v[k]] for k in rows]
        else:
            at = [place[model.reg.v[k]] for k in rows]
        if rows:
            values = {
                p: [float(np.nan_to_num(getattr(model, p).v[k])) for k in rows]
                for p in known[name]
                if hasattr(model, p)
            }
            # modes 3 take power on the machine's own base
            for mode, gain in (("MODE", "KS"), ("MODE", "K1"), ("MODE2", "K2")):
                if mode in values and gain in values:
                    own = [rating[avr[model.avr.v[k]]] / system.config.mva for k in rows]
                    values[gain] = [
                        k / s if m == 3 else k for k, s, m in _zip(values[gain], own, values[mode])
                    ]
            if name == "REGCP1":
                pll = {i: k for k, i in enumerate(system.PLL1.idx.v)}
                for p in ("Kp", "Ki", "Tf", "Tp"):
                    column = getattr(system.PLL1, p).v
                    values[p] = [float(column[pll[model.pll.v[k]]]) for k in rows]
            devices[name] = {"unit": at, "values": values}
    # machines that nothing here knows would be missing without a word
    for name, model in system.models.items():
        roles = ("SynGen", "Exciter", "TurbineGov", "PSS", "RenGen", "RenExciter")
        if model.n and model.group in roles and name not in known:
            assert not any(model.u.v), name
    result["units"], result["devices"] = units, devices
    result["v"], result["a"] = listed(system.Bus.v.v), listed(system.Bus.a.v)
    return result

def spectrum(system):
    """What ANDES's own EIG says."""
    with contextlib.redirect_stdout(io.StringIO()):
        assert system.EIG.run()
    return [system.EIG.mu.real.tolist(), system.EIG.mu.imag.tolist()]
'''

KNOWN = {model: [p.name for p in device.parameters] for model, device in DEVICES.items()}


def dumped(andes, case, *, after="", **options):
    """Set a case of ANDES up; its dump, with its eigenvalues and what `after` puts in `result`."""
    code = DUMP + (
        "options = json.loads(sys.argv[1])\n"
        "system = prepare(**options)\n"
        "result = dump(system, json.loads(sys.argv[2]))\n"
        + (after or "result['mu'] = spectrum(system)")
        + "\n"
        "print('DUMP' + json.dumps(result))\n"
    )
    printed = andes(code, json.dumps({"case": case, **options}), json.dumps(KNOWN))
    return json.loads(printed.rsplit("DUMP", 1)[1])


def case_of(data, name="andes"):
    """A dump as a detailed case; ANDES adds 1e-8 to r and x."""
    position = {bus: number for number, bus in enumerate(data["bus"])}
    line, load = data["line"], data["load"]
    on = np.array(line["u"]) > 0
    for missing in ("g", "b1", "b2", "g1", "g2"):
        assert not np.any(np.array(line[missing])[on])
    shunt = np.zeros(len(position), dtype=complex)
    for bus, g, b, u in zip(*(data["shunt"][key] for key in ("bus", "g", "b", "u")), strict=True):
        shunt[position[bus]] += u * (g + 1j * b)
    loaded = np.array(load["u"]) > 0
    zp, zq, ip, iq = data["zip"]
    m = int(loaded.sum())
    units = data["units"]
    return DetailedCase(
        name=name,
        buses=tuple(data["bus"]),
        base_mva=data["base"],
        frequency_hz=data["hz"],
        branches=Branches(
            np.array([[position[bus] for bus in end] for end in line["ends"]]).T[on],
            (np.array(line["r"]) + 1e-8 + 1j * (np.array(line["x"]) + 1e-8))[on],
            np.array(line["b"])[on],
            (np.array(line["tap"]) * np.exp(1j * np.array(line["phi"])))[on],
        ),
        shunt=shunt,
        loads=Loads(
            np.array([position[bus] for bus in load["bus"]])[loaded],
            (np.array(load["p0"]) + 1j * np.array(load["q0"]))[loaded],
            np.tile([zp, zq], (m, 1)).astype(float),
            np.tile([ip, iq], (m, 1)).astype(float),
        ),
        units=Units(
            np.array([position[unit["bus"]] for unit in units]),
            np.array([unit["p"] for unit in units]),
            np.array([unit["v"] for unit in units]),
            next(number for number, unit in enumerate(units) if unit["slack"]),
        ),
        devices=tuple(
            DeviceTable(model, np.array(table["unit"]), table["values"])
            for model, table in data["devices"].items()
        ),
    )


def unmatched(ours, theirs, *, more=False):
    """Largest |Δλ| / max(1, |λ|) of matched eigenvalues, structural zeros left out.

    more : ANDES has further ones: of frequency meters that nothing here listens to, and of devices
    that are switched off.
    """
    from scipy.optimize import linear_sum_assignment

    def moving(values):
        return values[np.abs(values) > 1e-4]

    ours, theirs = moving(ours), moving(theirs)
    assert len(ours) == len(theirs) or (more and len(ours) < len(theirs))
    distance = np.abs(ours[:, None] - theirs[None]) / np.maximum(1, np.abs(theirs))[None]
    rows, columns = linear_sum_assignment(distance)
    return distance[rows, columns].max()


def small_case(*tables, shares=((0.4, 0.5), (0.3, 0.2))):
    """Four buses in a ring with a transformer and loads at two of them, units at buses 0, 1, 2."""
    return DetailedCase(
        name="small",
        buses=("a", "b", "c", "d"),
        base_mva=100.0,
        frequency_hz=60.0,
        branches=Branches(
            np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]),
            np.array([0.01 + 0.1j, 0.02 + 0.15j, 0.01 + 0.08j, 0.005 + 0.06j, 0.0 + 0.2j]),
            np.array([0.05, 0.0, 0.1, 0.02, 0.0]),
            np.array([1.0, 1.0, 1.0, 1.02 * np.exp(0.03j), 0.98]),
        ),
        shunt=np.array([0, 0.02, 0.01 + 0.1j, 0.2j]),
        loads=Loads(
            np.array([3, 1]),
            np.array([1.4 + 0.3j, 0.6 - 0.1j]),
            np.tile(shares[0], (2, 1)),
            np.tile(shares[1], (2, 1)),
        ),
        units=Units(np.array([0, 1, 2]), np.array([0.7, 0.6, 0.7]), np.array([1.02, 1.01, 1.0]), 0),
        devices=tables,
    )


def typical_table(model, units, **changed):
    """A device at its typical values, on the system's base."""
    values = {p.name: np.full(len(units), float(p.typical)) for p in DEVICES[model].parameters}
    values |= {name: np.full(len(units), float(value)) for name, value in changed.items()}
    return DeviceTable(model, np.array(units), values)
