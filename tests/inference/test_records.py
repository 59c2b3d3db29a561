"""Measured records come onto the fit's clock as they are, or are refused by line; nothing about
them is guessed.
"""

import random
from dataclasses import replace

import numpy as np
import pytest

from fuzzing import mutate
from gridveil.foundation.errors import InputError
from gridveil.grid.parameters import Bounds, Range
from gridveil.inference.fit.problem import as_records
from gridveil.inference.records import check_size, read_trajectory
from gridveil.readers.cases import open_grid
from measured_helpers import BEGIN, in_words, signal, stamps, write_csv, write_measured, write_toml

TIME = np.arange(601) / 50


@pytest.fixture(scope="module")
def facts():
    return open_grid("star5").facts


def read(folder, facts, *given, dt_s=0.01, **changes):
    return read_trajectory(write_measured(folder, *given, **changes), facts, dt_s=dt_s)


def refused(folder, facts, *given, match, line=None, **changes):
    with pytest.raises(InputError, match=match) as refusal:
        read(folder, facts, *given, **changes)
    said = str(refusal.value)
    assert "nothing was spent" in said
    assert "record." in said  # the file that is wrong
    if line is not None:
        assert f"line {line}:" in said
    return said


# --- units, offsets and times ---------------------------------------------------------------------

UNITS = {"Hz": 60.0, "mHz": 60_000.0, "p.u.": 1.0, "rad/s": 2 * np.pi * 60}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["absolute", "deviation"])
def test_every_unit_gives_the_same_deviations_in_pu(tmp_path, facts, unit, kind):
    values = UNITS[unit] * (signal(TIME) + (kind == "absolute"))
    found = read(tmp_path, facts, TIME, values, unit=unit, values=kind).trajectory
    assert np.allclose(found.omega, signal(TIME), rtol=0, atol=1e-12)
    assert (found.buses, found.frequency_hz) == (("1", "4"), 60.0)
    assert np.allclose(found.time_s, TIME, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("form", "times", "event_time"),
    [
        ("seconds", TIME + 1234.5, 1236.5),
        ("epoch", TIME + BEGIN.timestamp(), BEGIN.timestamp() + 2),
        ("iso", stamps(TIME), "2016-01-05T12:33:18Z"),
        ("iso", stamps(TIME, "+02:00"), "2016-01-05T10:33:18+00:00"),
        ("iso", stamps(TIME, ""), "2016-01-05 12:33:18"),
    ],
    ids=["seconds", "epoch", "iso", "iso in another zone", "iso without a zone"],
)
def test_times_in_seconds_epoch_or_timestamps(tmp_path, facts, form, times, event_time):
    values = 60 * (1 + signal(TIME))
    found = read(
        tmp_path,
        facts,
        times,
        values,
        time_format=form,
        event_time=event_time,
        event="load:5=+0.1; load:4=0.1@3s",
    )
    assert np.allclose(found.trajectory.time_s, TIME, rtol=0, atol=1e-9)
    assert np.allclose(found.trajectory.omega, signal(TIME), rtol=0, atol=1e-9)
    assert [step.at_s for step in found.event.steps] == pytest.approx([2.0, 5.0])
    assert (found.interval_s, found.duration_s) == (pytest.approx(0.02), pytest.approx(12.0))


def test_a_timestamp_may_stand_in_toml_without_quotes(tmp_path, facts):
    given = {"time_format": "iso", "event": "load:5=+0.1", "event_time": "AT"}
    path = write_measured(tmp_path, stamps(TIME), 60 * (1 + signal(TIME)), **given)
    path.write_text(path.read_text().replace('"AT"', "2016-01-05T12:33:18Z"))
    assert read_trajectory(path, facts).event_s == pytest.approx(2.0)


def test_the_mean_before_the_event_is_taken_away(tmp_path, facts):
    values = 60 * (1 + signal(TIME)) + [0.015, -0.008]
    found = read(tmp_path, facts, TIME, values)
    assert np.allclose(found.trajectory.omega, signal(TIME), rtol=0, atol=1e-12)
    assert [one.offset_hz for one in found.locations] == pytest.approx([0.015, -0.008])
    kept = read(tmp_path, facts, TIME, values, offset="none")
    assert np.allclose(kept.trajectory.deviation_hz, values - 60, rtol=0, atol=1e-9)
    assert [one.offset_hz for one in kept.locations] == [0, 0]


def test_columns_may_stand_in_any_order_and_others_are_left_alone(tmp_path, facts):
    values = 60 * (1 + signal(TIME))
    toml = write_measured(tmp_path)
    table = np.column_stack([values[:, 1], np.full(len(TIME), 230.0), values[:, 0]])
    write_csv(tmp_path / "record.csv", TIME, table, columns=("south", "voltage", "north"))
    found = read_trajectory(toml, facts)
    assert np.allclose(found.trajectory.omega, signal(TIME), atol=1e-12)
    assert found.unused == ("voltage",)


def test_what_was_read_is_told(tmp_path, facts):
    values = 60 * (1 + signal(TIME))
    values[100:400, 1] = np.nan
    found = read(tmp_path, facts, TIME, values)
    north, south = found.locations
    assert (north.column, north.bus, north.samples, north.used, north.gaps) == (
        "north",
        "1",
        601,
        601,
        0,
    )
    assert (south.samples, south.gaps) == (301, pytest.approx(300 / 601))
    assert north.peak_hz == pytest.approx(60 * signal(TIME)[:, 0].min())
    assert north.peak_s == pytest.approx(10.0)
    assert found.observation.provenance.source == "Wide-area record"
    assert found.observation.event is found.event


# --- gaps, repeats and rates ----------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.4, 0.85])
def test_gaps_stay_gaps_whether_cells_are_empty_or_rows_missing(tmp_path, facts, share):
    rng = np.random.default_rng(1)
    values = 60 * (1 + signal(TIME))
    empty = np.where(rng.random(values.shape) < share, np.nan, values)
    found = read(tmp_path, facts, TIME, empty)
    assert np.array_equal(np.isnan(found.trajectory.omega), np.isnan(empty))
    assert [one.gaps for one in found.locations] == pytest.approx(
        np.isnan(empty).mean(axis=0).tolist()
    )
    there = rng.random(len(TIME)) >= share
    there[[0, -1]] = True
    found = read(tmp_path, facts, TIME[there], values[there])
    assert found.interval_s == pytest.approx(0.02)
    assert [one.gaps for one in found.locations] == pytest.approx([1 - there.mean()] * 2)
    # what is missing is there as NaN, so that weights are right
    assert len(found.trajectory.time_s) == len(TIME)
    assert np.array_equal(np.isfinite(found.trajectory.omega[:, 0]), there)
    assert (found.on_step, found.interpolated, found.left_out) == (2 * there.sum(), 0, 0)


def test_nan_is_a_gap_too(tmp_path, facts):
    values = [[in_words(one) or "NaN" for one in row] for row in 60 * (1 + signal(TIME))]
    values[7][0] = "nan"
    assert np.isnan(read(tmp_path, facts, TIME, values).trajectory.omega[7, 0])


def test_repeated_rows_count_once(tmp_path, facts):
    twice = np.sort(np.concatenate([TIME, TIME[50:60]]))
    values = 60 * (1 + signal(twice))
    values[50, 0] = np.nan  # the row after it has the value
    found = read(tmp_path, facts, twice, values)
    assert found.repeated == 10
    assert np.allclose(found.trajectory.omega, signal(TIME), atol=1e-12)


def test_a_rate_of_30_hz_is_moved_by_less_than_half_a_step(tmp_path, facts):
    times = np.arange(361) / 30
    found = read(tmp_path, facts, times, 60 * (1 + signal(times)))
    record = found.trajectory
    assert found.interval_s == pytest.approx(1 / 30)
    (weighed,) = as_records([found.observation], 0.01)[1]
    # not 0.03 s, the first interval on the clock
    assert weighed.weights == pytest.approx(1 / 30, rel=1e-3)
    assert len(record.time_s) == len(times)
    assert np.abs(record.time_s - times).max() <= 0.005 + 1e-12
    assert (found.on_step, found.interpolated) == (2 * 121, 2 * 240)
    # What is interpolated is right to the second derivative's error; a sample moved without it
    # would be off by 3e-6.
    assert np.abs(record.omega - signal(record.time_s)).max() < 3e-7


def test_interpolation_stops_at_gaps(tmp_path, facts):
    times = np.arange(361) / 30
    values = 60 * (1 + signal(times))
    values[200] = np.nan
    there = np.ones(361, dtype=bool)
    there[100:130] = False
    found = read(tmp_path, facts, times[there], values[there])
    record = found.trajectory
    inside = (record.time_s > times[99] + 0.004) & (record.time_s < times[130] - 0.004)
    assert inside.any()
    assert np.isnan(record.omega[inside]).all()
    around = np.abs(record.time_s - times[200]) < 0.02
    assert np.isnan(record.omega[around]).all()
    assert found.left_out > 0
    assert np.nanmax(np.abs(record.omega - signal(record.time_s)[:, :])) < 3e-7


@pytest.mark.parametrize(
    ("interval", "count"), [(2.0, 60), (0.1, 300), (0.01, 1200), (0.001, 12000)]
)
def test_slow_and_fast_rates(tmp_path, facts, interval, count):
    times = np.arange(count + 1) * interval
    event_s = 10.0 if interval == 2.0 else 2.0
    found = read(
        tmp_path, facts, times, 60 * (1 + signal(times, event_s)), event=f"load:5=+0.1@{event_s}s"
    )
    assert found.interval_s == pytest.approx(interval)
    assert np.allclose(
        found.trajectory.time_s, times if interval >= 0.01 else times[::10], atol=1e-9
    )
    assert np.allclose(found.trajectory.omega, signal(found.trajectory.time_s, event_s), atol=1e-9)
    assert found.interpolated == 0


def test_the_clock_is_laid_through_the_event(tmp_path, facts):
    """An event between two samples of the fit's clock moves the clock, not the event."""
    found = read(
        tmp_path, facts, TIME, 60 * (1 + signal(TIME, 2.0037)), event="load:5=+0.1@2.0037s"
    )
    assert found.event_s / 0.01 == pytest.approx(round(found.event_s / 0.01))
    since = found.trajectory.time_s - found.event_s
    assert np.nanmax(np.abs(found.trajectory.omega - signal(since, 0.0))) < 1e-7
    # no line is drawn across the event
    assert np.isnan(found.trajectory.omega[np.abs(since) < 0.01]).all()
    assert found.interpolated > 1000


def test_times_rounded_to_a_millisecond_lie_on_the_clock(tmp_path, facts):
    jitter = np.round(TIME + np.random.default_rng(2).uniform(-4e-4, 4e-4, len(TIME)), 3)
    found = read(tmp_path, facts, jitter, 60 * (1 + signal(jitter)))
    assert (found.on_step > 0, found.left_out) == (True, 0)
    assert found.locations[0].gaps == 0


def test_a_record_may_begin_after_its_event(tmp_path, facts):
    found = read(tmp_path, facts, TIME + 3.0, 60 * (1 + signal(TIME + 3.0)), offset="none")
    assert found.event_s == 0
    assert found.trajectory.time_s[0] == pytest.approx(1.0)


# --- what is refused ------------------------------------------------------------------------------

GOOD = 60 * (1 + signal(TIME))


def with_cell(row, column, text):
    values = [list(map(in_words, one)) for one in GOOD]
    values[row][column] = text
    return values


def constant(column):
    values = GOOD.copy()
    values[:, column] = 60.0
    return values


def mostly_gaps():
    values = GOOD.copy()
    values[np.arange(len(values)) % 20 > 0, 1] = np.nan
    return values


SWAPPED = TIME.copy()
SWAPPED[[300, 301]] = SWAPPED[[301, 300]]
SAME = TIME.copy()
SAME[300] = SAME[299]


@pytest.mark.parametrize(
    ("given", "said", "line"),
    [
        ((TIME, with_cell(41, 1, "sixty")), "column 'south' is not a number", 43),
        ((TIME, with_cell(41, 1, "1_000")), "is not a number", 43),
        ((TIME, with_cell(41, 0, "inf")), "column 'north' is infinite", 43),
        ((TIME, with_cell(41, 0, "0")), "column 'north' is no frequency of a 60 Hz grid in Hz", 43),
        ((["soon", *TIME[1:]], GOOD), "column 'time' is no time", 2),
        ((["", *TIME[1:]], GOOD), "column 'time' is no time", 2),
        ((SWAPPED, GOOD), "the time goes back", 303),
        ((SAME, GOOD), "the time is that of line 301, the values are not", 302),
        ((TIME, constant(1)), "column 'south' is constant", None),
        ((TIME, mostly_gaps()), "95 % of column 'south' is missing", None),
        ((TIME, GOOD * np.nan), "100 % of column 'north' is missing", None),
        ((TIME[:150], GOOD[:150]), "ends 0.98 s after the event", None),
        ((TIME[:90], GOOD[:90]), "ends before the event", None),
        ((TIME[:1], GOOD[:1]), "one sample", None),
        ((TIME[:0], GOOD[:0]), "the record is empty", None),
        ((TIME[99:], GOOD[99:]), "1 samples before the event, too few", None),
        ((TIME * 1000, GOOD), "hours long|ends|before the event", None),
        ((np.arange(9) * 2.0, 60 * (1 + signal(np.arange(9) * 2.0))), "samples before the "
                                                                      "event|samples after the "
                                                                      "event", None),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_used_is_refused_by_line(tmp_path, facts, given, said, line):
    refused(tmp_path, facts, *given, match=said, line=line)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"unit": "mHz"}, "no frequency of a 60 Hz grid in mHz"),
        ({"unit": "p.u."}, "no frequency"),
        ({"unit": "rad/s"}, "no frequency"),
        ({"values": "deviation"}, "no deviation of the frequency"),
        ({"nominal_hz": 50}, "nominal_hz is 50 Hz, the grid's is 60 Hz"),
        ({"nominal_hz": 0}, "nominal_hz is not usable"),
        ({"nominal_hz": True}, "nominal_hz is not usable"),
        ({"nominal_hz": None}, "nominal_hz is not declared"),
        ({"unit": None}, "unit is not declared"),
        ({"unit": "kHz"}, "unit is unknown; expected one of Hz, mHz, p.u., rad/s"),
        ({"values": None}, "values is not declared"),
        ({"time_format": "minutes"}, "time_format is unknown"),
        ({"time_format": "iso", "event_time": "2016-01-05T12:33:18"}, "column 'time' is no time"),
        ({"time_format": "epoch"}, "event_time is not declared"),
        ({"event_time": "noon"}, "event_time is no time"),
        ({"time_column": "t"}, "column 't' is missing"),
        ({"offset": "some"}, "offset is unknown"),
        ({"rate": 50}, "the key 'rate' is unknown"),
        ({"record": "other.csv"}, "there is no such file"),
        ({"record": 7}, "record is not usable"),
        ({"event": None}, "event is not declared"),
        ({"event": "a storm"}, "cannot be read"),
        ({"event": "load:77=+0.1@2s"}, "bus '77' is unknown"),
        ({"event": "lost:77@2s"}, "bus '77' is unknown"),
        ({"event": "load:5=+0.1@2s; load:5=+0.1@2.0042s"}, "between two of the fit's"),
        ({"event": "load:5=+0.1@99s"}, "ends before the event"),
        ({"locations": {"north": "77"}}, "bus '77' is unknown"),
        ({"locations": {"east": "1"}}, "column 'east' is missing"),
        ({"locations": {"north": "1", "south": "1"}}, "two locations lie at bus '1'"),
        ({"locations": {"north": 1.5}}, "'north' of locations is not usable"),
        ({"locations": {}}, "locations is not usable|locations is not declared"),
        (
            {"provenance": {"origin": None}},
            "origin is not declared; expected measured or simulated",
        ),
        ({"provenance": {"origin": "found"}}, "the origin 'found' is unknown"),
        ({"provenance": {"date": None}}, "its date is missing"),
        ({"provenance": {"link": "my desk"}}, "its link is missing"),
        ({"provenance": {"event_source": None}}, "the source of its event's loads is not named"),
        ({"provenance": {"colour": "red"}}, "\\[provenance\\]: the key 'colour' is unknown"),
    ],
    ids=str,
)
def test_a_wrong_declaration_is_refused(tmp_path, facts, changes, said):
    toml = write_measured(tmp_path)
    write_toml(toml, **changes)
    with pytest.raises(InputError, match=said) as refusal:
        read_trajectory(toml, facts)
    assert "nothing was spent" in str(refusal.value)
    assert any(name in str(refusal.value) for name in ("record.toml", "record.csv", "other.csv"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (b"\xff\xfe\x00", "not in UTF-8"),
        (b"time,north,south\n0,60\n", "the row has 2 columns"),
        (b'time,north,south\n0,"60,60\n', "cannot be split"),
        (b"time,north,north,south\n0,60,60,60\n", "column 'north' occurs twice"),
        (b"time;north;south\n0;60;60\n", "column 'time' is missing"),
        (b",,\n,,\n", "column 'time' is missing"),
        (b"time,north,south\n0,60,5", "may be cut off"),
    ],
)
def test_a_file_that_is_no_record_is_refused(tmp_path, facts, data, said):
    toml = write_measured(tmp_path)
    (tmp_path / "record.csv").write_bytes(data)
    with pytest.raises(InputError, match=said) as refusal:
        read_trajectory(toml, facts)
    assert "nothing was spent" in str(refusal.value)


def test_a_toml_that_is_none_is_refused(tmp_path, facts):
    (tmp_path / "record.toml").write_text("unit = \n")
    with pytest.raises(InputError, match=r"record.toml, line 1.*nothing was spent"):
        read_trajectory(tmp_path / "record.toml", facts)
    with pytest.raises(InputError, match=r"cannot be read.*nothing was spent"):
        read_trajectory(tmp_path / "none.toml", facts)


def test_timestamps_with_and_without_zone_do_not_mix(tmp_path, facts):
    mixed = [*stamps(TIME[:300]), *stamps(TIME[300:], "")]
    iso = {"time_format": "iso", "event": "load:5=+0.1"}
    refused(
        tmp_path,
        facts,
        mixed,
        GOOD,
        match="some timestamps say their zone",
        event_time="2016-01-05T12:33:18Z",
        **iso,
    )
    refused(
        tmp_path,
        facts,
        stamps(TIME),
        GOOD,
        match="do not both say",
        event_time="2016-01-05T12:33:18",
        **iso,
    )
    days = ["2016-01-05"] * len(TIME)
    refused(
        tmp_path,
        facts,
        days,
        GOOD,
        match="is no time",
        line=2,
        event_time="2016-01-05T12:33:18",
        **iso,
    )


def test_milliseconds_are_no_epoch_seconds(tmp_path, facts):
    milliseconds = 1000 * (TIME + BEGIN.timestamp())
    given = {"time_format": "epoch", "event_time": BEGIN.timestamp()}
    refused(
        tmp_path, facts, milliseconds, GOOD, match="divide milliseconds by 1000", line=2, **given
    )


def test_a_mutated_file_is_used_whole_or_refused(tmp_path, facts):
    """Whatever happens to a file, there is one plain error, or numbers that make sense."""
    rng, toml = random.Random(4), write_measured(tmp_path, TIME[:250], GOOD[:250])
    sound = {path: path.read_bytes() for path in (toml, tmp_path / "record.csv")}
    outcomes = {"used": 0, "refused": 0}
    for number in range(400):
        for path, data in sound.items():
            path.write_bytes(data)
        path = list(sound)[number % 2]
        path.write_bytes(mutate(rng, sound[path]))
        try:
            found = read_trajectory(toml, facts)
            check_size(found, facts, Bounds())
        except InputError as error:
            assert "nothing was spent" in str(error)
            outcomes["refused"] += 1
            continue
        outcomes["used"] += 1
        assert np.nanmax(np.abs(found.trajectory.omega)) <= 0.3
        assert (np.diff(found.trajectory.time_s) > 0).all()
        assert np.isfinite(found.trajectory.omega).any()
    assert min(outcomes.values()) > 5


# --- sizes ----------------------------------------------------------------------------------------


def test_a_record_of_the_events_size_passes(tmp_path, facts):
    check_size(read(tmp_path, facts), facts, Bounds())


@pytest.mark.parametrize(
    ("unit", "wrong"),
    [
        ("Hz", "mHz"),
        ("Hz", "rad/s"),
        ("p.u.", "Hz"),
        ("p.u.", "rad/s"),
        ("p.u.", "mHz"),
        ("rad/s", "mHz"),
    ],
)
def test_deviations_in_a_wrong_unit_are_refused_by_their_size(tmp_path, facts, unit, wrong):
    values = UNITS[unit] * signal(TIME)
    found = read(tmp_path, facts, TIME, values, unit=wrong, values="deviation")
    narrow = Bounds({"d": Range(2, 8)})
    if (unit, wrong) == ("Hz", "rad/s"):  # 2π: no more than what bounds leave open
        check_size(found, facts, narrow)
        return
    with pytest.raises(InputError, match=r"the largest deviation is .* mHz.*Check unit"):
        check_size(found, facts, narrow)


def test_an_event_of_the_wrong_sign_is_refused(tmp_path, facts):
    found = read(tmp_path, facts, event="gen:5=+0.1@2s")
    with pytest.raises(InputError, match="the frequency falls after the event, which takes load"):
        check_size(found, facts, Bounds())


@pytest.mark.parametrize(
    "event", ["load:5=+0.1,4=-0.1@2s", "load:5=+0.1@2s; load:5=-0.1@4s", "uniform:+5%@2s"]
)
def test_where_sizes_cannot_be_told_nothing_is_refused(tmp_path, facts, event):
    check_size(read(tmp_path, facts, event=event), replace(facts, loads_are_public=False), Bounds())


# --- events that are not wholly known, and the records' own sigma ---------------------------------


def test_an_event_of_known_total_and_unknown_place_is_a_guess_on_all_machines(tmp_path, facts):
    for words in ("unknown:total=+0.3@2s", "unknown : total = +30MW @ 2 s"):
        found = read(tmp_path, facts, event=words)
        (step,) = found.event.steps
        assert step.change == pytest.approx(dict.fromkeys("1234", 0.075))
        assert (found.event_s, found.declared_s) == (pytest.approx(2.0), pytest.approx(2.0))
        assert (found.unknown.split, found.unknown.size, found.unknown.window_s) == (
            True,
            None,
            0.0,
        )
        assert found.observation.unknown is found.unknown
        assert "the place of the event was estimated from it" in found.observation.in_words()
    check_size(found, facts, Bounds())


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", ["0.05:2", "5:200MW", "5MW:200 MW", "0.05 pu:2 p.u."])
def test_an_event_of_unknown_size_has_public_bounds_and_the_sign_of_the_record(
    tmp_path, facts, sign, size
):
    values = 60 * (1 + sign * signal(TIME))
    unsourced = {"event_source": None}  # nobody published anything
    found = read(
        tmp_path, facts, TIME, values, event="unknown@2s", event_size=size, provenance=unsourced
    )
    assert found.unknown.size == pytest.approx((0.05, 2.0))
    assert sum(found.event.steps[0].change.values()) == pytest.approx(sign * np.sqrt(0.1))
    assert (
        "event data: none published; the size and the place of the event were estimated"
        in found.observation.in_words()
    )
    check_size(found, facts, Bounds())


def test_a_time_window_moves_what_counts_as_before_and_after(tmp_path, facts):
    values = 60 * (1 + signal(TIME, 3.2))
    values[:, 0] += np.where(TIME < 1.0, 0.01, 0.0)
    found = read(tmp_path, facts, TIME, values, event="load:5=+0.1@2s", event_time_window=1.5)
    assert found.unknown.window_s == 1.5
    assert not found.unknown.split
    assert found.locations[0].offset_hz == pytest.approx(0.01)  # the mean of what lies before 0.5 s
    assert "the time of the event was estimated from it" in found.observation.in_words()


def test_nothing_is_interpolated_where_the_event_may_have_fallen(tmp_path, facts):
    times = np.arange(361) / 30
    known = read(tmp_path, facts, times, 60 * (1 + signal(times)))
    open_time = read(tmp_path, facts, times, 60 * (1 + signal(times)), event_time_window=1.0)
    assert open_time.on_step == known.on_step
    assert known.interpolated - open_time.interpolated == pytest.approx(2 * 2 / 3 * 60, abs=4)


@pytest.mark.parametrize(
    ("unit", "sigma"), [("Hz", 0.006), ("mHz", 6.0), ("p.u.", 1e-4), ("rad/s", 2 * np.pi * 0.006)]
)
def test_sigma_is_in_the_records_unit(tmp_path, facts, unit, sigma):
    found = read(tmp_path, facts, TIME, UNITS[unit] * (1 + signal(TIME)), unit=unit, sigma=sigma)
    assert found.sigma == found.observation.sigma == pytest.approx(1e-4)
    assert read(tmp_path, facts).observation.sigma is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"event": "unknown@2s"}, "event_size is not declared; expected public bounds"),
        (
            {"event": "unknown:total=+0.3@2s", "event_size": "0.05:2"},
            "event_size stands beside an event of known size",
        ),
        ({"event_size": "0.05:2"}, "event_size stands beside an event of known size"),
        ({"event": "unknown:size=0.3@2s"}, "the event 'unknown:size=0.3@2s' cannot be read"),
        ({"event": "unknown:total=much@2s"}, "cannot be read"),
        ({"event": "unknown:total=+0.3@2s; load:5=+0.1@3s"}, "cannot be read"),
        ({"event": "unknown:total=0@2s"}, "the event's total is 0"),
        ({"event": "unknown@-2s", "event_size": "0.05:2"}, "time is negative"),
        ({"event": "unknown@2s", "event_size": "2:0.05"}, "event_size '2:0.05' cannot be used"),
        ({"event": "unknown@2s", "event_size": "0:2"}, "cannot be used"),
        (
            {"event": "unknown@2s", "event_size": "large"},
            "cannot be used; expected two sizes above 0",
        ),
        ({"event": "unknown@2s", "event_size": 0.3}, "event_size is not usable"),
        (
            {"event": "unknown:total=+0.3@2s", "provenance": {"event_source": None}},
            "source of its event's loads is not named",
        ),
        ({"event_time_window": -1}, "event_time_window is not usable"),
        ({"event_time_window": "2 s"}, "event_time_window is not usable"),
        (
            {"event_time_window": 3.0},
            "the event may have come before the record begins, 2 s before event_time",
        ),
        ({"event": "load:5=+0.1@7s", "event_time_window": 4.5}, "ends 0.5 s after the event"),
        ({"event_time_window": 1.99}, "too few for its offset"),
        ({"sigma": 0}, "sigma is not usable"),
        ({"sigma": True}, "sigma is not usable"),
        ({"sigma": "small"}, "sigma is not usable; expected the standard deviation"),
        ({"sigma": 5.0}, "sigma is 5 Hz, 8.33 % of the nominal frequency"),
    ],
    ids=str,
)
def test_a_wrong_declaration_of_what_is_unknown_is_refused(tmp_path, facts, changes, said):
    with pytest.raises(InputError, match=said) as refusal:
        read(tmp_path, facts, **changes)
    assert "nothing was spent" in str(refusal.value)


@pytest.mark.parametrize(
    ("size", "fits"), [("0.05:2", True), ("30:90", False), ("1e-6:1e-5", False)]
)
def test_bounds_of_a_size_that_the_record_cannot_have_are_refused(tmp_path, facts, size, fits):
    found = read(tmp_path, facts, event="unknown@2s", event_size=size)
    if fits:
        check_size(found, facts, Bounds())
        return
    with pytest.raises(InputError, match="the largest deviation is"):
        check_size(found, facts, Bounds())
