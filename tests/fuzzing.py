"""Throw mutated grid files at a reader, in a process of its own: `python fuzzing.py FORMAT COUNT
SEED` prints what went wrong.

A mutated file must give a grid that is whole (finite, connected) or one plain error; within 10 s of
processor time and 2 GB.
"""

import io
import json
import random
import re
import resource
import signal
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np

from gridveil.foundation.errors import GridveilError
from gridveil.readers.cases import HERE, open_grid
from gridveil.readers.cases.packages import package_case
from gridveil.vault.source import Private
from limited import own_peak

# seconds of processor time, its child processes' included: machines are shared
LIMIT_S, LIMIT_GB = (10, 2.0)
HUNG_S = 60  # by the clock on the wall
LONGEST_ERROR = 5000
OPTIONS = {"inertia": 8.0, "damping": 2.0, "negative_x": "abs", "zero_x": "merge"}
NUMBER = re.compile(rb"-?\d+\.?\d*(?:[eE][-+]?\d+)?")
STRANGE = [
    b"1e308",
    b"-1e308",
    b"1e999",
    b"nan",
    b"inf",
    b"-inf",
    b"0",
    b"-1",
    b"9" * 30,
    b"1e-320",
    b"--1",
    b"0x10",
    b"",
    b"'",
]
SEPARATOR = re.compile(rb"([,;\t ]+)")


class TooLong(BaseException):
    """Not an Exception: no reader may catch it."""


# --- files to begin with --------------------------------------------------------------------------


def seed_files(kind):
    """Sound files of a format, and which of them is the grid: (files, grid, those that are
    mutated).
    """
    if kind in ("m", "toml"):
        files = {
            "grid.m": (HERE / "ieee30.m").read_bytes(),
            "grid.toml": (HERE / "ieee30.toml").read_bytes(),
        }
        return files, "grid.m", ["grid.m" if kind == "m" else "grid.toml"]
    if kind in ("mat", "mat-compressed"):
        return {"grid.mat": _mat(compressed=kind == "mat-compressed")}, "grid.mat", ["grid.mat"]
    if kind in ("raw", "dyr"):
        case = package_case("andes:kundur/kundur.raw")
        files = {
            "grid.raw": case.read_bytes(),
            "grid.dyr": case.with_name("kundur_full.dyr").read_bytes(),
        }
        return files, "grid.raw", [f"grid.{kind}"]
    if kind == "xlsx":
        return (
            {"grid.xlsx": package_case("andes:kundur/kundur_full.xlsx").read_bytes()},
            "grid.xlsx",
            ["grid.xlsx"],
        )
    if kind == "andes":
        return (
            {"grid.json": package_case("andes:kundur/kundur_full.json").read_bytes()},
            "grid.json",
            ["grid.json"],
        )
    if kind == "pandapower":
        return {"grid.json": _pandapower()}, "grid.json", ["grid.json"]
    if kind == "cgmes":
        return {"grid.zip": _cgmes()}, "grid.zip", ["grid.zip"]
    if kind == "csv":
        files = _csv()
        return files, ".", list(files)
    raise SystemExit(f"no format {kind}")


def _mat(*, compressed):
    from scipy.io import savemat

    from gridveil.readers.matpower import read_tables

    tables, numbers, _ = read_tables(HERE / "ieee30.m")
    case = {name: table.values for name, table in tables.items()} | {
        "version": "2",
        "baseMVA": numbers["baseMVA"],
    }
    buffer = io.BytesIO()
    savemat(buffer, {"mpc": case}, do_compression=compressed)
    return buffer.getvalue()


def _pandapower():
    import pandapower
    import pandapower.networks

    return pandapower.to_json(pandapower.networks.case9()).encode()


def _cgmes():
    import pypowsybl.network as network

    with tempfile.TemporaryDirectory() as folder:
        network.create_ieee14().save(f"{folder}/grid.zip", format="CGMES")
        return Path(folder, "grid.zip").read_bytes()


def _csv():
    from gridveil.readers.matpower import read_matpower

    grid = read_matpower(HERE / "ieee30.m")
    b, branch, m = grid.buses, grid.branches, grid.machines
    kinds = {1: "load", 2: "controlled", 3: "reference"}
    rows = {
        "buses.csv": ["bus,kind,load_mw,load_mvar,voltage_pu,angle_deg"]
        + [
            f"{name},{kinds[kind]},{100 * load.real},{100 * load.imag},{voltage},"
            f"{np.rad2deg(angle)}"
            for name, kind, load, voltage, angle in zip(
                b.labels, b.kind, b.load, b.voltage, b.angle, strict=True
            )
        ],
        "branches.csv": ["from_bus,to_bus,r_pu,x_pu,b_pu,tap_ratio"]
        + [
            f"{b.labels[i]},{b.labels[j]},{z.real},{z.imag},{c},{abs(t)}"
            for (i, j), z, c, t in zip(
                branch.ends, branch.series, branch.charging, branch.ratio, strict=True
            )
        ],
        "machines.csv": ["bus,power_mw,set_point_pu"]
        + [
            f"{b.labels[i]},{100 * p.real},{v}"
            for i, p, v in zip(m.bus, m.power, m.set_point, strict=True)
        ],
        "system.toml": ["base_mva = 100.0", "frequency_hz = 60.0"],
    }
    return {name: ("\n".join(lines) + "\n").encode() for name, lines in rows.items()}


# --- what is done to them -------------------------------------------------------------------------


def mutate(rng, data, hard=None):
    """One to three changes to a file; those inside a zip leave its checksums right half of the
    time. hard : others instead.
    """
    if data[:2] == b"PK" and rng.random() < 0.6:
        return _inside_zip(rng, data, hard)
    if hard is not None:
        return hard(rng, data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = rng.choice(MUTATIONS)(rng, data)
    return data


def _inside_zip(rng, data, hard):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    members[name] = mutate(rng, members[name], hard)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return buffer.getvalue()


def flip_bits(rng, data):
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(rng, data):
    return data[: rng.randrange(len(data) + 1)]


def move_slice(rng, data):
    """Cut a piece out, or put it in once more."""
    start = rng.randrange(len(data) + 1)
    piece = data[start : start + rng.randint(1, 200)]
    return data[:start] + (piece * 2 if rng.random() < 0.5 else b"") + data[start + len(piece) :]


def strange_number(rng, data):
    found = list(NUMBER.finditer(data))
    if not found:
        return flip_bits(rng, data)
    hit = rng.choice(found)
    return data[: hit.start()] + rng.choice(STRANGE) + data[hit.end() :]


def swap_columns(rng, data):
    """Exchange two fields of a line, or of a run of lines."""
    lines = data.split(b"\n")
    start, two = rng.randrange(len(lines)), None
    for n in range(start, min(len(lines), start + rng.choice((1, 1, 30)))):
        parts = SEPARATOR.split(lines[n][:20000])
        if len(parts) < 3 or len(lines[n]) > 20000:
            continue
        two = two or rng.sample(range(0, len(parts), 2), 2)
        if max(two) < len(parts):
            parts[two[0]], parts[two[1]] = parts[two[1]], parts[two[0]]
        lines[n] = b"".join(parts)
    return b"\n".join(lines)


def shuffle_lines(rng, data):
    lines = data.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(3):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case _:
            lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def wrong_encoding(rng, data):
    text = data.decode("latin-1")
    place = rng.randrange(len(data) + 1)
    return rng.choice(
        (
            text.encode("utf-16"),
            text.encode("utf-8-sig"),
            data[:place] + "é€".encode() + data[place:],
            data[:place] + b"\xe9\xff" + data[place:],
            data[:place] + b"\0" * 8 + data[place:],
            text.replace(".", ",").encode("latin-1"),
            data.replace(b"\n", b"\r"),
        )
    )


MUTATIONS = (
    flip_bits,
    truncate,
    move_slice,
    strange_number,
    strange_number,
    swap_columns,
    shuffle_lines,
    wrong_encoding,
)


# --- what must come of it -------------------------------------------------------------------------


def problem_with(source):
    """Say what is wrong with a grid that was accepted, looked at afresh; None if nothing is."""
    facts = source.facts
    for name in ("k", "m", "d"):
        values = Private.open(source.values[name])
        if not np.isfinite(values).all() or (values < 0).any():
            return f"{name} is not finite and positive"
    for name in ("governor_rate", "droop_gain", "loads", "load_damping"):
        if not np.isfinite(getattr(facts, name)).all():
            return f"{name} is not finite"
    reached, to_do = {0}, [0]
    neighbours = {}
    for i, j in facts.edges.tolist():
        neighbours.setdefault(i, []).append(j)
        neighbours.setdefault(j, []).append(i)
    while to_do:
        for bus in neighbours.get(to_do.pop(), []):
            if bus not in reached:
                reached.add(bus)
                to_do.append(bus)
    return None if len(reached) == len(facts.buses) else "the grid is not connected"


def _too_long(*_):
    raise TooLong


def attempt(read, *, private=True):
    """Read a grid or a text: (outcome, what went wrong or None).

    private : whether its errors may not carry others along.
    """
    signal.alarm(HUNG_S)
    try:
        return "read", read()
    except GridveilError as error:
        along = error.__context__ if private else None
        if along is not None and not isinstance(
            along, (GridveilError, OSError, KeyError, StopIteration)
        ):
            return "refused", f"the error carries along a {type(along).__name__}: {error}"
        if len(str(error)) > LONGEST_ERROR or "\n" in str(error):
            return "refused", "the error is no line"
        return "refused", None if error.problem else "an error without words"
    except TooLong:
        return "hung", f"more than {HUNG_S} s"
    except BaseException as error:
        return "crashed", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)


def _processor_s():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def run(kind, count, seed, hard=None):
    """Try a number of mutated files; hard : what mutates them, instead of the usual."""
    from fuzzing_limits import read_text, text_files

    signal.signal(signal.SIGALRM, _too_long)
    warnings.simplefilter("error")
    with warnings.catch_warnings():  # of the packages that write the sound files
        warnings.simplefilter("ignore")
        with tempfile.TemporaryDirectory() as name:
            texts = text_files(kind, Path(name))
        files, grid, mutated = seed_files(kind) if texts is None else (texts[0], "", texts[1])
    outcomes, failures, slowest, sizes = {}, [], 0.0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(-1, count):  # the first one is left as it is
            rng = random.Random(f"{kind} {seed} {number}")
            changed = dict(files)
            if number >= 0:
                target = rng.choice(mutated)
                changed[target] = mutate(rng, changed[target], hard)
                sizes += len(changed[target])
            for file, data in changed.items():
                (folder / file).write_bytes(data)
            start = _processor_s()
            if texts is None:
                outcome, wrong = attempt(
                    lambda: problem_with(open_grid(str(folder / grid), options=OPTIONS))
                )
            else:
                outcome, wrong = attempt(lambda: read_text(kind, folder), private=False)
            slowest = max(slowest, _processor_s() - start)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            if number < 0 and (outcome, wrong) != ("read", None):
                failures.append(f"the sound file: {outcome}, {wrong}")
            elif wrong:
                failures.append(f"file {number}: {wrong}")
    of_children = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    peak = max(own_peak(), of_children) / 1e9
    return {
        "format": kind,
        "outcomes": outcomes,
        "failures": failures,
        "slowest_s": slowest,
        "peak_gb": peak,
        "mean_bytes": sizes // max(count, 1),
        "total_s": _processor_s(),
    }


if __name__ == "__main__":
    from fuzzing_limits import mutate_hard

    print(
        json.dumps(
            run(
                sys.argv[1],
                int(sys.argv[2]),
                int(sys.argv[3]),
                mutate_hard if "hard" in sys.argv else None,
            )
        )
    )
