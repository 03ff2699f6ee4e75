"""Times of day: lengths of time since midnight from the snapshot to the codes, and times again in what is written."""

from __future__ import annotations

from datetime import time, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.constraints import enforced, holds, parse
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.suggest import suggest
from dp_synth_pipeline.tabular.schema import Kind, TableSchema
from dp_synth_pipeline.tabular.sources import ingestion
from dp_synth_pipeline.targets import sink
from dp_synth_pipeline.validation import binning, frames
from dp_synth_pipeline.validation.expectations import suite_for
from dp_synth_pipeline.validation.run import validate
from tests.unit.tabular.snapshots import ProfilePlan, profile, quiet, read

ROWS = 2000
MINUTE = 60_000_000
MINUTES = np.sort(np.random.default_rng().normal(13 * 60, 120, ROWS).clip(0, 1439).astype(int))
TIMES = [time(int(m) // 60, int(m) % 60) if i % 10 else None for i, m in enumerate(MINUTES)]


def written(folder: Path, form: str) -> str:
    """Write the times in one form of source and return its URI."""
    if form == "csv":
        (folder / "t.csv").write_text("at\n" + "".join(f"{t or 'NA'}\n" for t in TIMES))
        return str(folder / "t.csv")
    table = pa.table({"at": pa.array(TIMES, pa.time32("s") if form == "seconds" else pa.time64(form[-2:]))})
    pq.write_table(table, folder / "t.parquet")
    if form != "duckdb us":
        return str(folder / "t.parquet")
    with duckdb.connect(str(folder / "t.duckdb")) as con:
        con.execute(f"CREATE TABLE t AS SELECT * FROM '{folder}/t.parquet'")
    return f"duckdb:///{folder}/t.duckdb?table=t"


def taken(folder: Path, form: str = "parquet us", facts: dict[str, Any] | None = None) -> ingestion.Snapshot:
    declared = {"at": facts} if facts else None
    return read(written(folder, form), folder / "s" / "s.parquet", declared=declared)


def drawn(snapshot: ingestion.Snapshot, plan: ProfilePlan) -> tuple[pa.Table, TableProfile, TableSchema]:
    facts = profile(snapshot, plan)
    codec = TableCodec(snapshot.schema, facts)
    batch = codec.decode(codec.encode(pq.read_table(snapshot.path)))
    return pa.Table.from_batches([batch]), facts, snapshot.schema


@pytest.mark.parametrize("form", ["seconds", "parquet us", "parquet ns", "duckdb us", "csv"])
def test_times_of_every_source_come_back_as_times_within_their_cells(tmp_path: Path, form: str) -> None:
    snapshot = taken(tmp_path, form)
    column = snapshot.schema["at"]
    assert (column.kind, column.storage) == (Kind.DURATION, "time64[us]")
    back = drawn(snapshot, quiet(ROWS))[0]["at"].combine_chunks()
    assert back.type == pa.time64("us")
    assert back.null_count == ROWS // 10
    micros = np.sort(back.drop_null().cast(pa.int64()).to_numpy())
    true = np.sort([(t.hour * 60 + t.minute) * MINUTE for t in TIMES if t is not None])
    assert (micros % MINUTE == 0).all(), "full minutes stay full minutes"
    assert np.abs(micros - true).mean() < 10 * MINUTE


def test_times_that_noise_hides_are_spread_over_the_day_and_bounds_hold(tmp_path: Path) -> None:
    table, facts, schema = drawn(taken(tmp_path), ProfilePlan(None, 1e6, 1e-6, population=ROWS))
    assert facts["at"].bins == ((0.0, 86_400_000_000.0),)
    assert all(r.passed for r in validate(table, suite_for(schema, facts, ROWS)) if r.name.startswith("at__"))
    (tmp_path / "b").mkdir()
    table, facts, schema = drawn(taken(tmp_path / "b", facts={"lower": "12:00:00", "upper": "14:00:00"}), quiet(ROWS))
    values = [v for v in table["at"].to_pylist() if v is not None]
    assert time(12) <= min(values) <= max(values) <= time(14)
    late = pa.table({"at": pa.array([time(15)] * ROWS, pa.time64("us"))})
    failed = {r.name for r in validate(late, suite_for(schema, facts, ROWS)) if not r.passed}
    assert failed == {"at__domain", "at__nulls"}


@pytest.mark.parametrize(
    ("constant", "good"), [("08:30:00", True), ("8:30", True), ("25:00:00", False), ("noon", False)]
)
def test_a_constant_is_a_time_of_the_day(tmp_path: Path, constant: Any, good: bool) -> None:
    facts = {"nulls": "constant", "constant": constant}
    if not good:
        with pytest.raises(InvalidInput, match="is not a value of storage type time64"):
            taken(tmp_path, facts=facts)
        return
    table, found, schema = drawn(taken(tmp_path, facts=facts), quiet(ROWS))
    assert all(r.passed for r in validate(table, suite_for(schema, found, table.num_rows)))


@pytest.mark.parametrize("fact", ["lower", "upper", "constant"])
def test_a_bare_number_is_refused_since_yaml_makes_one_of_a_time_without_quotes(tmp_path: Path, fact: str) -> None:
    with pytest.raises(
        InvalidInput, match=f"{fact}: a time of day goes in quotes, as in {fact}: '18:30'; .* found 1110"
    ):
        taken(tmp_path, facts={fact: yaml.safe_load("18:30")})


@pytest.mark.parametrize("cells", [["10:30", "10:30:15"], ["10:30 ", "9:05"], ["9:05", "10:30", "08:00:00.5"]], ids=str)
def test_times_beside_a_word_for_null_are_times_in_whatever_formats(tmp_path: Path, cells: list[str]) -> None:
    (tmp_path / "t.csv").write_text("at\n" + "\n".join([*cells * 40, "NA"]))
    found = read(str(tmp_path / "t.csv"), tmp_path / "s" / "s.parquet")
    assert found.schema["at"].storage == "time64[us]"


@pytest.mark.parametrize("cells", [["9:05 AM", "11:20 PM"], ["10:30", "NA"], ["10:30", "9:05:10"]], ids=str)
def test_what_is_suggested_of_times_reads_them_as_before(tmp_path: Path, cells: list[str]) -> None:
    (tmp_path / "t.csv").write_text("at,n\n" + "".join(f"{c},{i}\n" for i, c in enumerate(cells * 400)))
    uri = str(tmp_path / "t.csv")
    before = read(uri, tmp_path / "s" / "s.parquet")
    facts = suggest(before.schema["at"], profile(before, quiet(before.units))["at"], before.units).facts
    declared = yaml.safe_load(yaml.safe_dump({"at": facts}))
    again = read(uri, tmp_path / "s" / "again.parquet", declared=declared)
    assert facts.keys() >= {"lower", "upper"}
    assert (again.schema["at"].storage, again.schema["at"].format) == ("time64[us]", before.schema["at"].format)


def test_a_csv_target_holds_times_as_a_csv_source_does(tmp_path: Path) -> None:
    table = drawn(taken(tmp_path, "csv"), quiet(ROWS))[0]
    pq.write_table(table, tmp_path / "d.parquet")
    sink.publish(tmp_path / "d.parquet", str(tmp_path / "o.csv"))
    cells = (tmp_path / "o.csv").read_text().split()[1:]
    assert len(next(c for c in cells if ":" in c)) == len("08:30:00")


def test_rules_compare_times(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    micros = rng.integers(0, 1440, (3, 400)) * MINUTE
    names = dict(zip(("opens", "closes", "late"), micros, strict=True))
    table = pa.table({n: pa.array(m).cast(pa.time64("us")) for n, m in names.items()})
    rules = [parse("opens <= closes"), parse("late >= '18:00'")]
    found = pa.concat_tables(enforced(lambda rows: table.take(rng.integers(0, 400, rows)), 300, rules, digits={}))
    assert all(holds(rule, found, {}).all() for rule in rules)
    assert found.schema == table.schema
    assert min(found["late"].to_pylist()) >= time(18)


@pytest.mark.parametrize("storage", [pa.time64("us"), pa.duration("us")])
def test_the_report_compares_a_snapshots_microseconds_with_what_was_written(
    tmp_path: Path, storage: pa.DataType
) -> None:
    micros = pa.array([8 * 3_600_000_000, None, 90_000_000])
    pq.write_table(pa.table({"at": micros}), tmp_path / "real.parquet")
    pq.write_table(pa.table({"at": micros.cast(storage)}), tmp_path / "drawn.parquet")
    for name in ("real", "drawn"):
        seconds = binning.axis(frames.read_frame(tmp_path / f"{name}.parquet", ["at"])["at"], Kind.DURATION)
        assert np.array_equal(seconds, [8 * 3600, np.nan, 90], equal_nan=True), name
    assert timedelta(seconds=90) / timedelta(microseconds=1) == 90_000_000


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [
        (8 * 3600 + 1e-9, "08:00:00"),
        (59.9999999, "00:01:00"),
        (0.25, "00:00:00.250000"),
        (-2 * 86400 - 3723, "-2 d 01:02:03"),
    ],
)
def test_lengths_are_written_as_a_clock(seconds: float, wanted: str) -> None:
    assert binning.place(seconds, Kind.DURATION) == wanted
