"""Records in the shape of real files, made from what the case star5 answers to an event."""

from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np

from gridveil import open_grid, simulate
from gridveil.dynamics.events import Event
from gridveil.vault.truth import true_model

LOAD = 0.1  # p.u., added at bus 5
FILLED = {
    "event": "load:5=+0.1",
    "source": "Wide-area record",
    "date": "2016-01-06",
    "link": "https://example.org/record",
    "event_source": "the operator's report",
}


@cache
def answer(bus):
    """Times [s] and deviations [p.u.] of a bus after the event."""
    found = simulate(
        true_model(open_grid("star5")), Event.load({"5": LOAD}), horizon_s=60.0, buses=[bus]
    )
    return found.time_s, found.omega[:, 0]


def hz_at(bus, since_s):
    """Frequency [Hz] at times after the event [s]; before it, and a minute after it, it rests."""
    time, omega = answer(bus)
    return 60 * (1 + np.interp(since_s, time, omega, left=0.0))


def stamp(begin, seconds, pattern, digits=None):
    text = (begin + timedelta(seconds=float(seconds))).strftime(pattern)
    return text if digits is None else text[: digits - 6]


def two_pmus(folder: Path) -> list[Path]:
    """30 Hz with jitter, holes, flags, a BOM and zone-less American times, in two files."""
    rng, files = np.random.default_rng(1), []
    for number, (name, bus) in enumerate((("north", "1"), ("south", "4"))):
        time = np.arange(2700) / 30 + rng.uniform(-0.004, 0.004, 2700) + 0.011 * number
        hz = hz_at(bus, time - 30) + 0.012 + 0.004 * number + rng.normal(0, 0.001, 2700)
        there = rng.random(2700) > 0.02
        there[1200:1320] = False
        bad = rng.random(2700) < 0.01
        begin = datetime(2016, 1, 5, 12, 33, 16)
        rows = [
            f"{stamp(begin, t, '%m/%d/%Y %H:%M:%S.%f', 3)},{71.5 if wrong else f:.4f},"
            f"{230000 + number:.1f},{'80' if wrong else '00'}"
            for t, f, wrong, seen in zip(time, hz, bad, there, strict=True)
            if seen
        ]
        files.append(folder / f"{name}.csv")
        files[-1].write_text(
            "\n".join(["Timestamp,Frequency (Hz),V1 Magnitude,Status", *rows]) + "\n",
            encoding="utf-8-sig",
        )
    return files


def scada(folder: Path) -> list[Path]:
    """A log of one value in 2 s: semicolons, decimal commas, lines above the header, a last line
    without an end; half an hour later the grid collapses, and zeros follow.
    """
    rng, time = np.random.default_rng(2), np.arange(0.0, 3600.0, 2.0)
    hz = hz_at("1", time - 1500) + 0.01 * np.sin(time / 200) + rng.normal(0, 0.001, len(time))
    hz -= np.where(time > 3000, 0.004 * (time - 3000), 0.0)
    hz = np.where(time > 3300, 0.0, hz)
    begin = datetime(2025, 4, 28, 11)
    rows = [
        f"{stamp(begin, t, '%d-%b-%Y %H:%M:%S')};{f:.4f};Good".replace(".", ",")
        for t, f in zip(time, hz, strict=True)
    ]
    path = folder / "scada.csv"
    head = ["Historian export", "Tag: F.SYSTEM", "", "Time;Frequency;Quality"]
    path.write_text("\n".join([*head, *rows]), encoding="utf-8")
    return [path]


def hour(folder: Path) -> list[Path]:
    """An hour of the system's frequency, a value a second, as epoch milliseconds."""
    rng, time = np.random.default_rng(3), np.arange(3600.0)
    hz = hz_at("1", time - 2000) + 0.015 * np.sin(time / 300) + rng.normal(0, 0.001, len(time))
    begin = 1_565_362_800_000
    rows = [
        f"{begin + 1000 * int(t)}\t{f:.4f}\t{1000 * (f - 60):.2f}"
        for t, f in zip(time, hz, strict=True)
    ]
    path = folder / "hour.csv"
    path.write_text("\n".join(["utc_ms\tf_hz\tdev_mhz", *rows]) + "\n", encoding="utf-8")
    return [path]


def comtrade_pair(folder: Path, kind="ASCII", samples=1500) -> list[Path]:
    """A recorder's pair at 25 Hz: a voltage and a frequency, triggered 15 s after its start."""
    time = np.arange(samples) / 25
    hz = hz_at("4", time - 15) + np.random.default_rng(4).normal(0, 0.001, samples)
    counts = np.rint((hz - 60) / 1e-4).astype(int)
    lines = [
        "STATION,REC1,1999",
        "3,2A,1D",
        "1,VA,A,,kV,0.01,0,0,-32767,32767,1,1,P",
        "2,FREQ,,,Hz,0.0001,60,0,-32767,32767,1,1,P",
        "1,TRIP,,,0",
        "60",
        "1",
        f"25,{samples}",
        "05/01/2016,12:33:16.000000",
        "05/01/2016,12:33:31.000000",
        kind,
        "1",
    ]
    (folder / "recorder.cfg").write_text("\r\n".join(lines) + "\r\n", encoding="ascii")
    if kind == "ASCII":
        data = "".join(
            f"{n + 1},{n * 40000},{13280},{c},0\r\n" for n, c in enumerate(counts)
        ).encode()
    else:
        fields = [("n", "<u4"), ("t", "<u4"), ("v", "<i2"), ("f", "<i2"), ("d", "<u2")]
        rows = np.zeros(samples, dtype=fields)
        rows["n"], rows["t"] = np.arange(1, samples + 1), 40000 * np.arange(samples)
        rows["v"], rows["f"] = 13280, counts
        data = rows.tobytes()
    (folder / "recorder.dat").write_bytes(data)
    return [folder / "recorder.cfg"]


LAYOUTS = {"pmu": two_pmus, "scada": scada, "hour": hour, "recorder": comtrade_pair}
BUSES = {"pmu": ["1", "4"], "scada": ["1"], "hour": ["1"], "recorder": ["4"]}


def fill_in(toml: Path, buses, **words):
    """Do what the owner is asked to: put something in the place of each EDIT."""
    waiting, lines = list(buses), []
    for line in toml.read_text(encoding="utf-8").splitlines():
        key = line.split(" =")[0]
        if '= "EDIT"' in line:
            said = (FILLED | words)[key] if key in FILLED else waiting.pop(0)
            line = line.replace('"EDIT"', f'"{said}"', 1)
        lines.append(line)
    assert not waiting
    toml.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return toml
