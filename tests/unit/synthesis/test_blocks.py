"""Partitions as privacy blocks: which rows, which blocks, which names; and what is refused."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.preflight import asked_of, asking, chosen, preflight, runs
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis import blocks, profile_cache
from dp_synth_pipeline.synthesis.settings import PartitionSettings
from dp_synth_pipeline.tabular.schema import NullPolicy, build
from dp_synth_pipeline.tabular.sources.warehouse import predicate as rules

DAYS = {"column": "seen", "cadence": "daily", "start": "2026-01-01"}
CITIES = {"column": "city", "values": ["Rome", "New York", "O'Fallon"]}


def table(cut=None, **changes) -> TableSettings:
    facts = {"table": "visits", "source": "visits.parquet", "account": "clinic", "epsilon": 0.5, "delta": 1e-5}
    return TableSettings(**{**facts, "partitions": DAYS if cut is None else cut, **changes})


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    """Two accounts under declared plans, of blocks and without; each admits two releases of epsilon 0.5 on any row."""
    found = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    found.open_account("clinic", epsilon=1.0, delta=1e-4, rule="plan", unit_in_one_block=True, why="test")
    found.open_account("whole", epsilon=1.0, delta=1e-4, rule="plan", why="test")
    return found


def rows_of(settings: TableSettings, keys: list[str], rows: str) -> int:
    where = blocks.part(settings, keys).where
    return duckdb.sql(f"SELECT count(*) FROM (VALUES {rows}) t(seen, city) WHERE {rules.check(where)}").fetchall()[0][0]


def test_windows_are_half_open_and_no_row_is_in_two_of_them_or_in_none():
    rows = ", ".join(
        f"(TIMESTAMP '2026-01-{d:02} {t}', 'Rome')" for d in (1, 2, 3) for t in ("00:00:00", "23:59:59.999999")
    )
    days = [["2026-01-01"], ["2026-01-02"], ["2026-01-03"]]
    assert [rows_of(table(), d, rows) for d in days] == [2, 2, 2]
    assert rows_of(table(), [d[0] for d in days], rows) == 6
    assert rows_of(table(), ["2026-01-01", "2026-01-03"], rows) == 4


def test_rows_without_a_date_are_in_no_partition():
    assert rows_of(table(), ["2026-01-01"], "(NULL::DATE, 'Rome')") == 0


def test_adjoining_windows_become_one_and_the_declared_filter_still_holds():
    found = blocks.part(table(filter="age > 3 OR age < 1 -- neither"), ["2026-01-30", "2026-01-31"])
    runs = "(((age > 3) OR (age < 1)) AND (seen >= '2026-01-30') AND (seen < '2026-02-01'))"
    assert found.where is not None
    assert rules.check(found.where) == runs
    assert found.label == "2026-01-30--2026-01-31"


def test_a_week_begins_on_monday_and_a_key_inside_a_window_is_refused():
    weekly = table({**DAYS, "cadence": "weekly"})
    assert "2026-01-05" in blocks.part(weekly, ["2026-01-05"]).where
    for key in ("2026-01-06", "2026-1-5", "tomorrow"):
        with pytest.raises(InvalidInput, match="first days of weekly windows"):
            blocks.part(weekly, [key])


def test_values_and_column_names_are_quoted_so_that_neither_ends_the_predicate():
    settings = table({"column": 'a"b', "values": ["x' OR '1'='1", "y"]})
    where = blocks.part(settings, ["x' OR '1'='1"]).where
    assert duckdb.sql(f"SELECT count(*) FROM (VALUES ('y'), ('x')) t(\"a\"\"b\") WHERE {where}").fetchall() == [(0,)]


def test_a_value_is_compared_as_text_so_that_no_two_partitions_share_a_cell():
    settings = table({"column": "clinic", "values": ["1", "01"]})
    counts = [
        duckdb.sql(f"SELECT count(*) FROM (VALUES (1)) t(clinic) WHERE {blocks.part(settings, [k]).where}").fetchall()
        for k in ("1", "01")
    ]
    assert counts == [[(1,)], [(0,)]]


def test_on_bigquery_a_column_stands_in_backticks_since_quotes_would_make_it_a_text_true_of_every_row():
    day = blocks.part(table(source="bigquery://p/d?table=t"), ["2026-01-01"]).where
    city = blocks.part(table(CITIES, source="bigquery://p/d?table=t"), ["Rome"]).where
    assert (day, city) == ("(`seen` >= '2026-01-01' AND `seen` < '2026-01-02')", "CAST(`city` AS STRING) IN ('Rome')")


def test_blocks_are_named_by_column_cut_and_partition_so_that_other_cuts_are_other_names():
    named = [
        blocks.part(table(), ["2026-01-05"]).blocks,
        blocks.part(table({**DAYS, "cadence": "weekly"}), ["2026-01-05"]).blocks,
        blocks.part(table(CITIES), ["New York"]).blocks,
    ]
    assert named == [("seen:daily:2026-01-05",), ("seen:weekly:2026-01-05",), ("city:value:new_york",)]


def test_a_run_that_names_no_partition_or_a_foreign_one_reads_nothing():
    for keys in ([], ["Paris"]):
        with pytest.raises(InvalidInput, match="choose a partition"):
            blocks.part(table(CITIES), keys)


@pytest.mark.parametrize(
    "cut",
    [
        {"column": "seen"},
        {"column": "seen", "cadence": "daily"},
        {**DAYS, "values": ["x"]},
        {**DAYS, "start": "January"},
        {"column": "city", "values": []},
        {"column": "city", "values": ["Rome", "rome "]},
        {"column": "city", "values": ["Rome", "--"]},
    ],
)
def test_a_section_that_cuts_in_no_way_or_in_two_is_refused(cut):
    with pytest.raises(Exception, match="partitions: "):
        table(cut)


def test_targets_name_their_partition_or_are_refused_and_never_become_the_source():
    with pytest.raises(Exception, match="overwrite one another"):
        table(target="out.parquet")
    with pytest.raises(Exception, match="needs `partitions`"):
        table(partitions=None, target="{partition}.parquet")
    places = blocks.part(
        table(target=["d/{partition}.csv", "duckdb:///w.duckdb?table=s.v_{partition}"]), ["2026-01-05"]
    )
    assert places.targets == ["d/2026-01-05.csv", "duckdb:///w.duckdb?table=s.v_2026_01_05"]
    with pytest.raises(InvalidInput, match="source itself"):
        blocks.part(table(CITIES, source="Rome.parquet", target="{partition}.parquet"), ["Rome"])


def test_a_person_as_unit_needs_a_word_on_whether_persons_span_blocks():
    with pytest.raises(Exception, match="units_span: true"):
        table(unit="patient")
    spanning = blocks.part(table({**DAYS, "units_span": True}, unit="patient"), ["2026-01-01"])
    living = blocks.part(table({**DAYS, "units_span": False}, unit="patient"), ["2026-01-01"])
    assert (spanning.blocks, living.blocks) == ((), ("seen:daily:2026-01-01",))


def test_the_card_says_what_was_declared_and_who_paid():
    living = blocks.limits(table({**DAYS, "units_span": False}, unit="patient"), ["2026-01-01"])
    assert "declared; it was not checked" in living[1]
    spanning = blocks.limits(table({**DAYS, "units_span": True}, unit="patient"), ["2026-01-01"])
    assert "account as a whole was charged" in spanning[1]
    assert blocks.limits(table(partitions=None), []) == []


def test_blocks_are_added_for_new_partitions_but_a_refusal_adds_none(ledger):
    asked = {"epsilon": 0.5, "delta": 1e-5, "own_delta": 0.0}
    wanted = blocks.part(table(), ["2026-01-01"])
    blocks.open_blocks(ledger, table(), wanted, "run", **asked)
    assert ledger.blocks("clinic") == ["seen:daily:2026-01-01"]
    head = ledger.head()
    with pytest.raises(BudgetExceeded):
        blocks.open_blocks(ledger, table(), blocks.part(table(), ["2026-01-02"]), "run", **{**asked, "epsilon": 2.0})
    assert ledger.head() == head


def test_a_cached_profile_of_a_day_is_not_that_of_the_week_which_begins_with_it(ledger):
    facts = {"unit": "row", "table": "visits", "run_id": "r", "code_version": "1", "delta": 1e-5}
    release = ledger.reserve("clinic", key="k", epsilon=0.1, **facts)
    day, week = (
        profile_cache.facts(table({**DAYS, "cadence": c}), release, "{}", ["2026-01-05"]) for c in ("daily", "weekly")
    )
    assert [k for k in day if day[k] != week[k]] == ["filter"]


def test_an_account_that_was_not_opened_for_blocks_or_is_cut_in_another_way_is_refused(ledger):
    with pytest.raises(InvalidInput, match="--unit-in-one-block"):
        preflight(table(account="whole"), ledger, ["2026-01-01"])
    ledger.add_blocks("clinic", ["seen:weekly:2026-01-05"], why="test", who="test")
    with pytest.raises(InvalidInput, match="may share rows"):
        preflight(table(), ledger, ["2026-01-01"])


def test_a_preflight_tells_how_many_partitions_fit_and_changes_nothing(ledger):
    keys = [f"2026-01-{d:02}" for d in (1, 2, 3)]
    assert preflight(table(), ledger, keys).told == "3 partitions, all fit"
    ledger.add_blocks("clinic", ["seen:daily:2026-01-02"], why="test", who="test")
    facts = {"unit": "row", "table": "visits", "run_id": "r", "code_version": "1", "delta": 1e-5}
    ledger.reserve("clinic", key="k", epsilon=0.7, blocks=["seen:daily:2026-01-02"], **facts)
    head = ledger.head()
    for policy in ("multi_run", "single_run"):
        answer = preflight(table({**DAYS, "backfill": policy}), ledger, keys)
        assert answer.told == "3 partitions, 2 fit; the first that does not: 2026-01-02"
        assert answer.fitting == ["2026-01-01", "2026-01-03"]
    assert ledger.head() == head


def test_where_units_span_blocks_every_partition_draws_on_the_account_as_a_whole(ledger):
    keys = [f"2026-01-{d:02}" for d in (1, 2, 3)]
    spanning = {**DAYS, "units_span": True}
    told = preflight(table(spanning, account="whole"), ledger, keys).told
    assert told == "3 partitions, 2 fit; the first that does not: 2026-01-03"
    assert all(preflight(table({**spanning, "backfill": "single_run"}, account="whole"), ledger, keys).fits)


def test_what_a_job_says_about_its_table_is_enough_to_ask_the_ledger_and_holds_no_source():
    settings = table({**DAYS, "units_span": True}, unit="patient", source="postgresql://ann:secret@db/x?table=t")
    told = asking(settings)
    assert "secret" not in str(told)
    again = asked_of(told, "visits")
    assert (again.charge, again.partitions, again.privacy_unit) == (
        settings.charge,
        settings.partitions,
        settings.privacy_unit,
    )
    with pytest.raises(InvalidInput, match="no partitions"):
        asked_of(asking(table(partitions=None)), "visits")


def test_partitions_are_named_by_range_or_list_and_grouped_into_runs():
    single = table({**DAYS, "backfill": "single_run"})
    assert chosen(table(), "2026-01-30..2026-02-01") == ["2026-01-30", "2026-01-31", "2026-02-01"]
    assert chosen(table(CITIES), "O'Fallon,Rome") == ["Rome", "O'Fallon"]
    assert runs(table(), ["2026-01-01", "2026-01-02"]) == [["2026-01-01"], ["2026-01-02"]]
    assert runs(single, ["2026-01-01", "2026-01-02", "2026-01-04"]) == [["2026-01-01", "2026-01-02"], ["2026-01-04"]]
    with pytest.raises(InvalidInput, match="has no partition '1999-01-01'"):
        chosen(table(), "1999-01-01..2026-01-01")


CADENCES = st.sampled_from(["daily", "weekly", "monthly"])


@given(st.dates(date(2026, 1, 1), date(2027, 12, 31)), CADENCES, CADENCES, st.integers(1, 9), st.integers(0, 8))
def test_a_row_is_paid_for_by_the_block_of_its_own_date_whatever_windows_it_is_released_in(
    day, cadence, cut, windows, later
):
    firsts = [blocks._containing(cadence, day)[0]]
    while len(firsts) <= later % windows:  # the partition of the row's own window, or one after it that covers it too
        firsts.append(blocks._containing(cadence, firsts[-1])[1])
    own = PartitionSettings(column="seen", cadence=cut, start="2024-01-01")
    own_block = blocks.charged_blocks(own, [f"{blocks._containing(cut, day)[0]}"])[0]
    facts = {"column": "seen", "cadence": cadence, "start": "2024-01-01", "blocks": cut}
    read = PartitionSettings(**facts, windows=windows if windows > 1 else None)
    charged = blocks.charged_blocks(read, [f"{firsts[-1]}"])
    assert own_block in charged
    ((first, end),) = blocks._windows(read, [f"{firsts[-1]}"])
    assert first <= day < end == blocks._containing(cadence, firsts[-1])[1]
    covered = [first + timedelta(n) for n in range((end - first).days)]
    assert len({blocks._containing(cadence, each)[0] for each in covered}) == windows
    assert len(charged) == len({blocks._containing(cut, each)[0] for each in covered})


def test_a_partition_covers_its_window_and_those_before_it_but_none_before_the_first(ledger):
    rolling = table({**DAYS, "windows": 3})
    rows = ", ".join(f"(DATE '2025-12-31' + {n}, 'Rome')" for n in range(8))
    counts = {key: rows_of(rolling, [key], rows) for key in ("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04")}
    assert list(counts.values()) == [1, 2, 3, 3]
    assert blocks.part(rolling, ["2026-01-04"]).blocks == tuple(f"seen:daily:2026-01-0{d}" for d in (2, 3, 4))
    assert blocks.part(rolling, ["2026-01-01"]).blocks == ("seen:daily:2026-01-01",)
    together = blocks.part(rolling, ["2026-01-04", "2026-01-05", "2026-01-20"])
    assert rules.check(str(together.where)).count(" OR ") == 1, "what overlaps is read once"
    assert together.blocks == tuple(f"seen:daily:2026-01-{d:02}" for d in (2, 3, 4, 5, 18, 19, 20))
    midweek = table({**DAYS, "cadence": "weekly", "windows": 4, "blocks": "daily"})  # the year begins on a Thursday
    assert blocks.part(midweek, ["2026-01-12"]).blocks[0] == "seen:daily:2026-01-05"


@pytest.mark.parametrize("policy", ["multi_run", "single_run"])
def test_a_preflight_says_which_of_the_blocks_that_a_refresh_covers_has_no_room(ledger, policy):
    rolling = table({**DAYS, "windows": 3, "backfill": policy})
    ledger.add_blocks("clinic", ["seen:daily:2026-01-02"], why="test", who="test")
    facts = {"unit": "row", "table": "visits", "run_id": "r", "code_version": "1", "delta": 1e-5}
    ledger.reserve("clinic", key="k", epsilon=0.7, blocks=["seen:daily:2026-01-02"], **facts)
    answer = preflight(rolling, ledger, ["2026-01-04", "2026-01-05"])
    told = "2026-01-04 for want of room in block seen:daily:2026-01-02"
    assert answer.told == f"2 partitions, 1 fit; the first that does not: {told}"
    assert preflight(rolling, ledger, ["2026-01-02"]).full == ("seen:daily:2026-01-02",)
    assert preflight(table({**rolling.partitions.model_dump(), "windows": None}), ledger, ["2026-01-02"]).full == ()


def test_a_backfill_of_what_overlaps_charges_a_day_each_time_it_is_covered(ledger):
    keys = [f"2026-01-{d:02}" for d in (5, 6, 7, 8)]
    answer = preflight(table({**DAYS, "windows": 3}), ledger, keys)
    assert answer.fits == (True, True, False, True), (
        "each day has room for two; the fourth covers the sixth, as two did"
    )
    assert answer.full == ("seen:daily:2026-01-05",)
    assert all(preflight(table({**DAYS, "windows": 3, "backfill": "single_run"}), ledger, keys).fits)


def test_windows_may_be_cut_anew_and_still_pay_the_blocks_of_their_days(ledger):
    asked = {"epsilon": 0.5, "delta": 1e-5, "own_delta": 0.0}
    for day in ("2026-02-01", "2026-02-02"):
        part = blocks.part(table(), [day])
        blocks.open_blocks(ledger, table(), part, "run", **asked)
        facts = {"unit": "row", "table": "visits", "run_id": day, "code_version": "1", "delta": 1e-5}
        ledger.reserve("clinic", key=day, epsilon=0.7, blocks=list(part.blocks), **facts)
    months = {**DAYS, "cadence": "monthly"}
    with pytest.raises(InvalidInput, match="Write `blocks: daily` under partitions"):
        preflight(table(months), ledger, ["2026-02-01"])
    by_day = table({**months, "blocks": "daily"})
    assert len(blocks.part(by_day, ["2026-02-01"]).blocks) == 28
    assert preflight(by_day, ledger, ["2026-02-01", "2026-03-01"]).fits == (False, True)
    with pytest.raises(BudgetExceeded):
        blocks.open_blocks(ledger, by_day, blocks.part(by_day, ["2026-02-01"]), "run", **asked)


def test_days_in_blocks_of_a_month_pay_the_same_block_each_and_one_release_of_them_pays_it_once(ledger):
    keys = [f"2026-01-{d:02}" for d in (1, 2, 3)]
    by_month = {**DAYS, "blocks": "monthly"}
    assert blocks.part(table(by_month), keys).blocks == ("seen:monthly:2026-01-01",)
    assert preflight(table(by_month), ledger, keys).fits == (True, True, False)
    assert all(preflight(table({**by_month, "backfill": "single_run"}), ledger, keys).fits)


def test_the_card_says_that_each_block_of_the_rows_was_charged():
    by_day = table({**DAYS, "cadence": "monthly", "blocks": "daily"})
    assert "Each daily block of its rows was charged" in blocks.limits(by_day, ["2026-02-01"])[1]
    rolling = blocks.limits(table({**DAYS, "windows": 30}), ["2026-02-01"])
    assert "in the daily window 2026-01-03 to 2026-02-01." in rolling[0]
    assert "Each daily block of its rows was charged" in rolling[1]
    living = table({**DAYS, "blocks": "weekly", "units_span": False}, unit="patient")
    assert "has rows in one weekly block only was declared" in blocks.limits(living, ["2026-01-01"])[1]


def test_blocks_of_values_are_the_values():
    with pytest.raises(Exception, match="needs a cadence"):
        table({**CITIES, "blocks": "daily"})
    with pytest.raises(Exception, match="needs a cadence"):
        table({**CITIES, "windows": 3})
    with pytest.raises(Exception, match="windows"):
        table({**DAYS, "windows": 1})


def narrowed(cut, keys: list[str], declared=None, **storage) -> dict:
    """Return what is public of the partitions' column, of a table that has another one."""
    schema = build({**storage, "age": pa.int64()}, declared)
    found = blocks.narrowed(schema, table(cut), keys)
    assert found["age"] == schema["age"]
    column = found[cut["column"]]
    return {fact: getattr(column, fact) for fact in ("nulls", "categories", "lower", "upper")}


def test_a_partition_says_which_values_its_column_has_and_that_none_is_null():
    assert narrowed(CITIES, ["Rome"], city=pa.string()) == {
        "nulls": NullPolicy.MODE,
        "categories": ("Rome",),
        "lower": None,
        "upper": None,
    }
    assert narrowed(CITIES, ["Rome", "New York"], city=pa.string())["categories"] == ("Rome", "New York")
    day = narrowed(DAYS, ["2026-01-30"], seen=pa.date32())
    assert (day["nulls"], day["lower"], day["upper"]) == (NullPolicy.MODE, date(2026, 1, 30), date(2026, 1, 30))
    for kind in (pa.timestamp("us"), pa.timestamp("ns", "Europe/Paris")):
        days = narrowed(DAYS, ["2026-01-30", "2026-02-02"], seen=kind)
        assert (days["lower"], days["upper"]) == (datetime(2026, 1, 30), datetime(2026, 2, 2, 23, 59, 59, 999999))


def test_what_was_declared_of_the_partitions_column_stays():
    said = {"seen": {"lower": "2020-01-01", "nulls": "drop"}}
    kept = narrowed(DAYS, ["2026-01-30"], said, seen=pa.date32())
    assert (kept["nulls"], kept["lower"], kept["upper"]) == (NullPolicy.DROP, date(2020, 1, 1), None)
    hanging = build({"at": pa.timestamp("us"), "seen": pa.date32()}, {"seen": {"same_as": "at"}})
    assert blocks.narrowed(hanging, table(DAYS), ["2026-01-30"]) == hanging
    numbers = narrowed({"column": "ward", "values": ["1", "2"]}, ["1"], ward=pa.int64())
    assert numbers == {"nulls": NullPolicy.MODE, "categories": None, "lower": None, "upper": None}


def test_a_table_without_partitions_and_a_column_that_is_not_learnt_stay_as_they_are():
    schema = build({"city": pa.string(), "age": pa.int64()}, {"city": {"kind": "excluded"}})
    assert blocks.narrowed(schema, table(CITIES), ["Rome"]) == schema
    assert blocks.narrowed(schema, table(partitions=None), []) == schema
