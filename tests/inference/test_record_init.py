"""Records as they come: what is found in a file, and what is read from it once its owner has filled
in the rest.
"""

import random
import tomllib

import numpy as np
import pandas as pd
import pytest

from fuzzing import mutate
from gridveil import init_record, open_grid
from gridveil.foundation.errors import GridveilError, InputError
from gridveil.inference.records import read_trajectory
from gridveil.inference.records.comtrade import open_pair
from gridveil.inference.records.times import check_format, seconds_of
from measured_helpers import signal, write_csv, write_measured, write_toml
from record_layouts import BUSES, LAYOUTS, comtrade_pair, fill_in, hour, hz_at, scada, two_pmus

TIME = np.arange(601) / 50


@pytest.fixture(scope="module")
def facts():
    return open_grid("star5").facts


def begun(folder, name, **words):
    """The declaration of a layout, filled in."""
    made = init_record(LAYOUTS[name](folder), folder / f"{name}.toml")
    return fill_in(made.path, BUSES[name], **words)


# --- from a file to a record ----------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_record_as_it_comes_is_read_right_once_it_is_filled_in(tmp_path, facts, name):
    found = read_trajectory(begun(tmp_path, name), facts)
    record = found.trajectory
    assert record.buses == tuple(BUSES[name])
    since = record.time_s - found.event_s
    for bus, omega in zip(BUSES[name], record.omega.T, strict=True):
        right = hz_at(bus, since) / 60 - 1
        # 1 mHz of noise, a slow swing before and after, and times good to a few milliseconds
        assert np.nanmax(np.abs(omega - right)[np.abs(since) > 2.5]) < 0.012 / 60
        assert np.nanstd(omega[since < -1]) < 0.004 / 60
    assert float(since[0]) >= -21
    assert float(since[-1]) <= 61


def test_two_files_at_30_hz_become_one_record(tmp_path, facts):
    found = read_trajectory(begun(tmp_path, "pmu"), facts)
    north, south = found.locations
    assert (north.file, south.file) == ("north.csv", "south.csv")
    assert (north.offset_hz, south.offset_hz) == pytest.approx((0.012, 0.016), abs=1e-3)
    assert found.flagged > 20
    for place in found.locations:
        (hole,) = [hole for hole in place.holes if hole.length_s > 1]
        assert hole.from_s == pytest.approx(10, abs=0.1)
        assert hole.length_s == pytest.approx(4.03, abs=0.1)
    assert found.unused == ("north.csv: V1 Magnitude", "south.csv: V1 Magnitude")
    assert found.interval_s == pytest.approx(1 / 30, rel=0.03)


@pytest.mark.parametrize("kind", ["ASCII", "BINARY"])
def test_a_comtrade_pair_is_read_to_a_count(tmp_path, kind):
    (path,) = comtrade_pair(tmp_path, kind)
    pair = open_pair(path)
    assert pair.names == ("VA", "FREQ")
    assert pair.units == ("kV", "Hz")
    assert pair.time_s == pytest.approx(np.arange(1500) / 25)
    assert pair.values[:, 0] == pytest.approx(132.8)
    noise = np.random.default_rng(4).normal(0, 0.001, 1500)
    right = hz_at("4", pair.time_s - 15) + noise
    assert np.abs(pair.values[:, 1] - right).max() <= 0.5e-4 + 1e-9
    assert (pair.trigger - pair.begin).total_seconds() == 15
    assert pair.nominal_hz == 60


def test_a_data_frame_is_written_beside_its_declaration(tmp_path, facts):
    index = pd.date_range("2016-01-05 12:33:16", periods=601, freq="20ms", tz="UTC", name="t")
    frame = pd.DataFrame(60 * (1 + signal(TIME)), index=index, columns=["f north", "f south"])
    made = init_record(frame, tmp_path / "frame.toml")
    found = read_trajectory(fill_in(made.path, ["1", "4"]), facts)
    since = found.trajectory.time_s - found.event_s
    assert np.nanmax(np.abs(found.trajectory.omega - signal(since, 0.0))) < 2e-4
    numbers = frame.set_axis(TIME, axis=0)
    with pytest.raises(GridveilError, match="exists already"):
        init_record(numbers, tmp_path / "frame.toml")
    assert 'time_format = "seconds"' in init_record(numbers, tmp_path / "numbers.toml").text
    with pytest.raises(GridveilError, match="out cannot be 7"):
        init_record(frame, 7)
    for wrong in (7, None, [], [7]):
        with pytest.raises(GridveilError, match="record"):
            init_record(wrong, tmp_path / "wrong.toml")


def test_what_is_to_be_filled_in_is_named_until_it_is(tmp_path, facts):
    made = init_record(two_pmus(tmp_path), tmp_path / "pmu.toml")
    with pytest.raises(InputError, match="event is still to be filled in"):
        read_trajectory(made.path, facts)
    made.path.write_text(made.text.replace('event = "EDIT"', 'event = "load:5=+0.1"'))
    with pytest.raises(InputError, match=r"locations: Frequency \(Hz\) is still to be filled in"):
        read_trajectory(made.path, facts)


def test_the_skeleton_says_what_was_found(tmp_path):
    text = init_record(scada(tmp_path)).text
    declared = tomllib.loads(text)
    assert declared["time_format"] == "%d-%b-%Y %H:%M:%S"
    assert declared["event_time"] == "28-Apr-2025 11:25:00"
    assert (declared["delimiter"], declared["decimal"], declared["header_line"]) == (";", ",", 4)
    assert declared["missing"] == ["0,0000"]
    assert (declared["window"], declared["offset_window"]) == ([-20.0, 40.0], [-20.0, -1.0])
    text = init_record(two_pmus(tmp_path)).text
    assert '"%m/%d/%Y %H:%M:%S" reads these times as well'.replace('"', "") in text
    assert "rows are missing at" in text
    assert tomllib.loads(text)["files"][1]["quality_good"] == ["00"]
    assert tomllib.loads(init_record(hour(tmp_path)).text)["time_format"] == "epoch-ms"


def test_a_long_file_without_a_window_is_told_of(tmp_path, facts):
    toml = begun(tmp_path, "scada")
    assert read_trajectory(toml, facts).notes[0].startswith("scada.csv: the last line does not end")
    text = toml.read_text()
    toml.write_text(text.replace("window = [-20.0, 40.0]", "window = [-20.0, 500.0]"))
    assert read_trajectory(toml, facts).cut_away > 1000
    toml.write_text(text.replace("window = [-20.0, 40.0]", ""))
    (_, note) = read_trajectory(toml, facts).notes
    assert "secondary control" in note


# --- layouts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "time_format", "seconds", "zoned"),
    [
        ("28-Apr-2025 11:00:00", "%d-%b-%Y %H:%M:%S", 1745838000, False),
        ("28-Apr-2025 11:00:00.0335", "%d-%b-%Y %H:%M:%S", 1745838000.0335, False),
        ("04/28/2025 11:00:00 PM", "%m/%d/%Y %I:%M:%S %p", 1745881200, False),
        ("28.04.2025 11:00:00,25 +0200", "%d.%m.%Y %H:%M:%S %z", 1745830800.25, True),
        ("1745838000250", "epoch-ms", 1745838000.25, None),
        ("1745838000250000000", "epoch-ns", 1745838000.25, None),
        ("2025-04-28T11:00:00.25", "iso", 1745838000.25, False),
    ],
)
def test_times_as_files_write_them(text, time_format, seconds, zoned):
    check_format(time_format, "a")
    found, said = seconds_of(text, time_format)
    assert found == pytest.approx(seconds, abs=1e-6)
    assert said == zoned


@pytest.mark.parametrize(
    "wrong", ["%H:%M:%S", "%d", "%d %d %H:%M:%S", "%Q%d %H:%M:%S", "%", "x" * 999]
)
def test_a_pattern_that_names_no_moment_is_refused(wrong):
    with pytest.raises(InputError, match="time_format is unknown"):
        check_format(wrong, "a")


def test_a_zone_puts_files_on_one_clock(tmp_path, facts):
    from measured_helpers import stamps

    write_csv(tmp_path / "a.csv", stamps(TIME), 60 * (1 + signal(TIME)))
    local = [text.replace("T12", "T14") for text in stamps(TIME, "")]
    write_csv(tmp_path / "b.csv", local, 60 * (1 + signal(TIME)))
    toml = tmp_path / "both.toml"
    toml.write_text(
        'nominal_hz = 60.0\nunit = "Hz"\nvalues = "absolute"\ntime_column = "time"\n'
        'time_format = "iso"\nevent = "load:5=+0.1"\nevent_time = "2016-01-05T12:33:18Z"\n'
        '[[files]]\nrecord = "a.csv"\nlocations = { north = "1" }\n'
        '[[files]]\nrecord = "b.csv"\nzone = "+02:00"\nlocations = { south = "4" }\n'
        '[provenance]\norigin = "measured"\nsource = "a"\ndate = "2016-01-06"\n'
        'link = "https://example.org"\nevent_source = "b"\n'
    )
    found = read_trajectory(toml, facts)
    assert np.allclose(found.trajectory.omega, signal(TIME), atol=1e-9)
    toml.write_text(toml.read_text().replace('zone = "+02:00"\n', ""))
    with pytest.raises(InputError, match=r"b\.csv and event_time have no common zero"):
        read_trajectory(toml, facts)


def test_flags_sentinels_and_two_columns_of_time(tmp_path, facts):
    values = 60 * (1 + signal(TIME))
    rows = [
        f"2016-01-05|{12}:33:{16 + t:06.3f}|{'Bad' if n % 7 == 0 else f'{a:.9f}'}|"
        f"{-9999 if n % 5 == 0 else f'{b:.9f}'}|{'OK' if n % 11 else 'SUSPECT'}"
        for n, (t, (a, b)) in enumerate(zip(TIME, values, strict=True))
    ]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["Date|Time|f north|f south|Quality", *rows]) + "\n")
    made = init_record(path)
    declared = tomllib.loads(made.text)
    assert declared["time_column"] == ["Date", "Time"]
    assert set(declared["missing"]) == {"Bad", "-9999"}
    assert (declared["quality_column"], declared["quality_good"]) == ("Quality", ["OK"])
    found = read_trajectory(fill_in(made.path, ["1", "4"], event="load:5=+0.1"), facts)
    number = np.arange(601)
    gaps = np.stack([number % 7 == 0, number % 5 == 0], axis=1) | (number % 11 == 0)[:, None]
    assert np.array_equal(np.isnan(found.trajectory.omega), gaps)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_encodings_units_and_rows_of_units(tmp_path, facts, encoding):
    rows = [
        f"{t:.2f};{1000 * f:.4f};" for t, f in zip(TIME, 60 * (1 + signal(TIME))[:, 0], strict=True)
    ]
    text = "\n".join(["Zeit;Freq Süd (mHz);", "s;mHz;", *rows]) + "\n"
    (tmp_path / "a.csv").write_text(text, encoding=encoding)
    made = init_record(tmp_path / "a.csv")
    declared = tomllib.loads(made.text)
    assert (declared["unit"], declared["nominal_hz"]) == ("mHz", 60.0)
    assert declared["data_line"] == 3
    found = read_trajectory(fill_in(made.path, ["1"]), facts)
    since = found.trajectory.time_s - found.event_s
    assert np.nanmax(np.abs(found.trajectory.omega[:, 0] - signal(since, 0.0)[:, 0])) < 2e-4


# --- window, offset and trend ---------------------------------------------------------------------


def test_the_window_cuts_what_is_no_part_of_the_event(tmp_path, facts):
    values = 60 * (1 + signal(TIME))
    values[500:] = 1.0  # the grid is dark
    toml = write_measured(tmp_path, TIME, values, window=[-1.0, 7.5])
    found = read_trajectory(toml, facts)
    since = found.trajectory.time_s - found.event_s
    assert (since[0], since[-1]) == pytest.approx((-1.0, 7.5))
    assert found.cut_away == 601 - 426
    for window, said in (([-1.0, 9.0], "no frequency"), ([50.0, 60.0], "does not hold the event")):
        write_toml(toml, window=window)
        with pytest.raises(InputError, match=said):
            read_trajectory(toml, facts)
    write_toml(toml, window=[-1.0, 7.5], event="load:5=+0.1@60s")
    with pytest.raises(
        InputError, match=r"window holds no sample: the record goes from -60 to -48"
    ):
        read_trajectory(toml, facts)


def test_the_offset_window_is_where_the_mean_is_taken(tmp_path, facts):
    values = 60 * (1 + signal(TIME))
    values[:50] += 0.03
    toml = write_measured(tmp_path, TIME, values, offset_window=[-1.0, -0.01])
    found = read_trajectory(toml, facts)
    assert [one.offset_hz for one in found.locations] == pytest.approx([0, 0], abs=1e-9)
    # it may lie outside of what is used
    write_toml(toml, offset_window=[-2.0, -1.01], window=[-0.5, 9.0])
    found = read_trajectory(toml, facts)
    assert [one.offset_hz for one in found.locations] == pytest.approx([0.03, 0.03], abs=1e-9)
    for wrong in ([-1.0, 1.0], [-0.5, -1.0], [-1.0], ["a", "b"], 3):
        write_toml(toml, offset_window=wrong)
        with pytest.raises(InputError, match="offset_window is not usable"):
            read_trajectory(toml, facts)


def test_a_trend_is_taken_away_exactly(tmp_path, facts):
    values = 60 * (1 + signal(TIME)) + (0.01 + 0.002 * (TIME - 2))[:, None] * [1, -2]
    toml = write_measured(tmp_path, TIME, values, detrend="linear")
    found = read_trajectory(toml, facts)
    assert np.allclose(found.trajectory.omega, signal(TIME), rtol=0, atol=1e-11)
    assert [one.offset_hz for one in found.locations] == pytest.approx([0.01, -0.02])
    assert [one.trend_hz_per_s for one in found.locations] == pytest.approx([0.002, -0.004])
    write_toml(toml, detrend="linear", offset="none")
    with pytest.raises(InputError, match="detrend takes the offset away too"):
        read_trajectory(toml, facts)
    write_toml(toml, detrend="linear", offset_window=[-0.1, -0.01])
    with pytest.raises(InputError, match="too few for its trend"):
        read_trajectory(toml, facts)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "shift", "said"),
    [
        (1000, 0, 'unit = "mHz", values = "absolute"'),
        (1 / 60, 0, 'unit = "p.u.", values = "absolute"'),
        (2 * np.pi, 0, 'unit = "rad/s", values = "absolute"'),
        (1, -60, 'unit = "Hz", values = "deviation"'),
        (1000, -60000, 'unit = "mHz", values = "deviation"'),
        (5 / 6, 0, 'unit = "Hz", values = "absolute", nominal_hz = 50.0'),
    ],
)
def test_a_wrong_unit_is_refused_with_the_likely_one(tmp_path, facts, scale, shift, said):
    values = scale * 60 * (1 + signal(TIME)) + shift
    with pytest.raises(InputError, match="no frequency") as refusal:
        read_trajectory(write_measured(tmp_path, TIME, values), facts)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"delimiter": "x"}, "delimiter is unknown"),
        ({"decimal": "x"}, "decimal is unknown"),
        ({"encoding": "ebcdic"}, "encoding is unknown"),
        ({"zone": "Madrid"}, "zone is not usable"),
        ({"header_line": 0}, "header_line is not usable"),
        ({"header_line": 700}, "column 'time' is missing"),
        ({"quality_column": "north"}, "quality_column and quality_good do not stand together"),
        ({"quality_column": "east", "quality_good": ["0"]}, "column 'east' is missing"),
        ({"files": []}, "files is not usable"),
        ({"time_column": []}, "time_column is not usable"),
        ({"time_column": 7}, "time_column is not usable"),
        ({"encoding": "utf-16"}, "not in utf-16|cannot be split|is missing|bytes"),
        ({"missing": "0"}, "missing is not usable"),
        ({"detrend": "wavelet"}, "detrend is unknown; expected one of none, linear"),
    ],
    ids=str,
)
def test_a_wrong_layout_is_refused(tmp_path, facts, changes, said):
    toml = write_measured(tmp_path)
    write_toml(toml, **changes)
    with pytest.raises(InputError, match=said) as refusal:
        read_trajectory(toml, facts)
    assert "nothing was spent" in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.csv", b"", "empty"),
        ("a.csv", b"\x00\x01\x02\n" * 9, "binary"),
        ("a.csv", b"hello\nworld\nagain\n", "no delimiter"),
        ("a.csv", b"a,b\nx,60\ny,60\nz,60\nw,60\n", "no column looks like times"),
        ("a.csv", b"".join(b"%d,60\n" % n for n in range(9)), "no header"),
        ("a.csv", b"t,v\n" + b"".join(b"%d,1e9\n" % n for n in range(9)), "looks like a frequency"),
        ("a.csv", b"t,f\n" + b"9" * 2**21 + b",60\n", "a line is longer"),
        ("a.cff", b"--- file type: CFG ---\n", "the .cfg is wanted"),
        ("a.cfg", b"S,R,1999\n", "line 2: this is no .cfg"),
        ("a.cfg", b"S,R,1999\n999999999A\n", "line 2: this is no .cfg"),
        ("a.cfg", b"S,R,1999\n99999,99999A,0D\n", "up to 5000 channels"),
    ],
)
def test_what_is_no_record_is_refused_and_nothing_is_written(tmp_path, name, data, said):
    (tmp_path / name).write_bytes(data)
    (tmp_path / "a.dat").write_bytes(b"1,0,0\n")
    with pytest.raises(InputError, match=said) as refusal:
        init_record(tmp_path / name)
    assert "Nothing was written" in str(refusal.value)
    assert not (tmp_path / "a.toml").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("25,1500", "25,999999999", "too large"),
        ("25,1500", "25,1501", "it ends after 1500 of 1501 samples"),
        ("\r\n1\r\n25", "\r\n999\r\n25", "sampling rates"),
        ("ASCII", "EBCDIC", "ASCII, BINARY, BINARY32 or FLOAT32"),
        ("05/01/2016,12:33:16", "99/99/2016,12:33:16", "cannot be read as COMTRADE"),
        ("0.0001,60", "x,60", "cannot be read as COMTRADE"),
    ],
)
def test_a_pair_that_does_not_hold_what_it_says_is_refused(tmp_path, old, new, said):
    (path,) = comtrade_pair(tmp_path)
    path.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))
    with pytest.raises(InputError, match=said):
        open_pair(path)


@pytest.mark.parametrize("name", ["pmu", "scada", "recorder"])
def test_a_mutated_record_is_looked_at_or_refused(tmp_path, name):
    """Whatever happens to a file, there is one plain error, or a TOML that can be read."""
    rng, files = random.Random(5), LAYOUTS[name](tmp_path)
    files = [*files, *tmp_path.glob("*.dat")]
    sound = {path: path.read_bytes()[:6000] for path in files}
    outcomes = {"written": 0, "refused": 0}
    for number in range(60):
        for path, data in sound.items():
            path.write_bytes(data)
        path = files[number % len(files)]
        path.write_bytes(mutate(rng, sound[path]))
        (tmp_path / "out.toml").unlink(missing_ok=True)
        try:
            text = init_record(files[0], tmp_path / "out.toml").text
        except GridveilError:
            outcomes["refused"] += 1
            continue
        tomllib.loads(text)
        outcomes["written"] += 1
    assert outcomes["refused"] > 0


def test_a_name_cannot_add_a_line_to_the_toml(tmp_path):
    nasty = 'f "x"\\ \x1b]0;'
    north = 60 * (1 + signal(TIME))[:, 0]
    rows = [f"{t:.2f},{f:.4f}" for t, f in zip(TIME, north, strict=True)]
    header = 'time,"' + nasty.replace('"', '""') + '"'
    (tmp_path / "a.csv").write_text("\n".join([header, *rows]) + "\n")
    with pytest.raises(InputError, match="binary"):
        init_record(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("\n".join([header.replace("\x1b", "\u2028\x85"), *rows]) + "\n")
    declared = tomllib.loads(init_record(tmp_path / "a.csv").text)
    assert list(declared["locations"].values()) == ["EDIT"]
