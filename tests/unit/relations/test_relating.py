"""Rows find their persons by keys alone, bounded; parents carry the shape of their children; one person moves one row."""

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations import relating
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular.policies import NullPolicy
from dp_synth_pipeline.tabular.profiling import ordered_dates
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.ingestion import UNIT

pytestmark = pytest.mark.slow

RELATIONS = Relations(
    [
        Related("patients", key="patient"),
        Related("visits", "visit", "patients", "patient", "seen", max_rows=3),
        Related("drugs", None, "visits", "visit", max_rows=2),
    ]
)


def tables() -> dict[str, pd.DataFrame]:
    visits = [
        (10, 1, "2024-01-01", 0.5),
        (11, 1, "2024-03-01", 0.1),
        (12, 2, "2023-05-05", 0.2),
        *[(20 + i, 3, f"2024-02-{10 + i}", 0.3) for i in range(6)],
        (30, None, "2024-01-01", 0.9),
        (31, 77, "2024-01-01", 0.9),
    ]
    return {
        "patients": pd.DataFrame({"patient": [1, 2, 3, 4, 4, None], "sex": ["F", "M", "F", "M", "F", "M"]}),
        "visits": pd.DataFrame(visits, columns=["visit", "patient", "seen", "score"]).assign(
            seen=lambda d: pd.to_datetime(d["seen"]).dt.date
        ),
        "drugs": pd.DataFrame({"visit": [10, 10, 10, 11, 31], "drug": list("abcab")}),
    }


def related(folder: Path, frames: dict[str, pd.DataFrame], relations: Relations = RELATIONS, columns=None):
    files, schemas = {}, {}
    folder.mkdir(exist_ok=True)
    for table in relations:
        path = folder / f"{table.name}.input.parquet"
        frames[table.name].to_parquet(path, index=False)
        declared = {key: {"kind": "identifier"} for key in table.keys} | (columns or {}).get(table.name, {})
        taken = ingestion.snapshot(
            source.parse(str(path)), folder / f"{table.name}.taken", declared=declared, keys=table.keys
        )
        files[table.name], schemas[table.name] = taken.path, taken.schema
    (folder / "out").mkdir()
    return relating.relate(relations, files, schemas, folder / "out")


def read(rows: relating.RelatedRows) -> pd.DataFrame:
    return pq.read_table(rows.path).to_pandas()


def test_rows_without_an_owner_are_left_out_and_a_repeated_key_is_one_person(tmp_path):
    found = related(tmp_path, tables())
    patients, visits, drugs = (read(found[name]) for name in ("patients", "visits", "drugs"))
    assert len(patients) == 4  # 1, 2, 3 and one of the two rows of 4; the row without a key has no owner
    assert sorted(patients["visits: rows"]) == [0, 1, 2, 3]
    assert len(visits) == 6
    assert (visits.groupby(UNIT).size() <= 3).all()
    assert len(drugs) == 3  # two of the three of visit 10, and the one of visit 11
    assert {found[name].units for name in ("visits", "drugs")} == {3, 1}


def test_a_parent_carries_how_many_rows_follow_it_and_when_they_begin(tmp_path):
    patients = read(related(tmp_path, tables())["patients"])
    two = patients[patients["visits: rows"] == 2].iloc[0]
    assert str(two["visits: first seen"]) == "2024-01-01"
    assert patients[patients["visits: rows"] == 0]["visits: first seen"].isna().all()


HOUR = 3_600 * 10**6
"""Microseconds, in which lengths of time are written."""


def timed(taken) -> tuple[Relations, dict[str, pd.DataFrame]]:
    """Return the clinic with the times at which blood was taken on a visit, and that clinic's tables."""
    labs = pd.DataFrame({"visit": [10, 10, 12, 20], "taken": taken, "value": [1, 2, 3, 4]})
    relations = Relations(
        [
            Related("patients", key="patient"),
            Related("visits", "visit", "patients", "patient", "seen", max_rows=6),
            Related("labs", None, "visits", "visit", "taken", max_rows=2),
        ]
    )
    return relations, {**tables(), "labs": labs}


@pytest.mark.parametrize(
    ("taken", "distances"),
    [
        (pd.to_datetime(["2024-01-03", "2024-01-02", "2023-05-05", "2024-02-09"]).date, {0.5: 1, 0.2: 0, 0.3: -1}),
        (
            pd.to_datetime(["2024-01-01 08:00", "2024-01-02 00:00", "2023-05-05 00:01", "2024-02-10 00:00"]),
            {0.5: 8 * HOUR, 0.2: HOUR // 60, 0.3: 0},
        ),
    ],
)
def test_rows_below_begin_so_far_from_the_time_of_the_row_that_they_hang_on(tmp_path, taken, distances):
    relations, frames = timed(taken)
    found = related(tmp_path, frames, relations)["visits"]
    visits = read(found).drop_duplicates("score").set_index("score")["labs: to the first taken"]
    assert [c.name for c in found.schema if "labs" in c.name] == ["labs: rows", "labs: to the first taken"]
    assert found.schema["labs: to the first taken"].lower is None, "what was taken before the visit stays before it"
    several = read(found)[lambda d: d["score"] == 0.3]["labs: to the first taken"]
    assert several.dropna().tolist() == [distances[0.3]], "a visit without labs has none"
    assert {score: visits[score] for score in (0.5, 0.2)} == {score: distances[score] for score in (0.5, 0.2)}


def test_a_day_below_a_moment_and_rows_below_the_root_say_when_they_begin(tmp_path):
    relations, frames = timed(pd.to_datetime(["2024-01-03"] * 4).date)
    frames["visits"]["seen"] = pd.to_datetime(frames["visits"]["seen"])
    found = related(tmp_path, frames, relations)
    assert "labs: first taken" in [c.name for c in found["visits"].schema], "its day would depend on a zone"
    assert "visits: first seen" in [c.name for c in found["patients"].schema]


def days(*written: str):
    return pd.to_datetime(list(written), format="mixed").date


def moments(*written: str):
    return pd.to_datetime(list(written), format="mixed")


def siblings(folder: Path, name: str = "t", **times) -> tuple[relating.RelatedRows, list[list[Any]]]:
    """Return what persons 1 to 4 carry of when their rows begin in tables a, b and c: the rows, and each one's cells.

    Persons 1, 1 and 2 have a row of a, persons 1, 2 and 3 one of b, and 1, 3 and 4 one of c; nobody is 0.
    """
    owners = {"a": [1, 1, 2], "b": [1, 2, 3], "c": [1, 3, 4]}
    orders = {table: name if table == "b" else "t" for table in times}
    children = [Related(table, None, "p", "k", orders[table], max_rows=2) for table in times]
    frames = {"p": pd.DataFrame({"k": range(5), "x": range(5)})}
    frames |= {t: pd.DataFrame({"k": owners[t], orders[t]: at, "y": 0}) for t, at in times.items()}
    found = related(folder, frames, Relations([Related("p", "k"), *children]))["p"]
    cells = pq.read_table(found.path).sort_by("x")
    return found, [cells[c.name].to_pylist() for c in found.schema if c.name != "x" and "rows" not in c.name]


def test_tables_beside_each_other_begin_so_far_from_the_first_row_of_the_first_one_that_has_any(tmp_path):
    first, second = days("2020-01-05", "2020-01-01", "2021-01-01"), days("2020-01-01", "2020-12-30", "2022-02-02")
    third = days("2020-02-01", "2022-02-01", "2023-03-03")
    found, (begun, to_b, to_c) = siblings(tmp_path, a=first, b=second, c=third)
    names = ["a, else b, else c: first t", "b: to the first t from a", "c: to the first t from a"]
    assert [c.name for c in found.schema if "first" in c.name] == names
    assert [str(day) for day in begun] == ["None", "2020-01-01", "2021-01-01", "2022-02-02", "2023-03-03"]
    assert to_b == [None, 0, -2, 0, None], "who has no row of the first table begins at the second's"
    assert to_c == [None, 31, None, -1, 0]
    assert all(found.schema[name].lower is None for name in names), "what came before stays before"


def test_moments_are_measured_from_days_beside_them_and_days_from_no_moment(tmp_path):
    at = moments("2020-01-01 10:00", "2020-12-30", "2022-02-02 12:00")
    _, (begun, to_b) = siblings(tmp_path / "days", a=days("2020-01-05", "2020-01-01", "2021-01-01"), b=at)
    assert [str(day) for day in begun[1:4]] == ["2020-01-01", "2021-01-01", "2022-02-02"]
    assert to_b[1:4] == [10 * HOUR, -48 * HOUR, 12 * HOUR]
    found, _ = siblings(tmp_path / "moments", a=at, b=days("2020-01-01", "2020-12-30", "2022-02-02"), c=at)
    names = ["a, else c: first t", "b: first t", "c: to the first t from a"]
    assert [c.name for c in found.schema if "first" in c.name] == names, "its day would depend on a zone"


def test_numbers_beside_each_other_are_compared_if_they_have_one_name_and_never_with_days(tmp_path):
    found, _ = siblings(tmp_path / "year", "year", a=[3, 2, 7], b=[1990, 1991, 1992], c=[2.5, 3.5, 4.5])
    names = ["a, else c: first t", "b: first year", "c: to the first t from a"]
    assert [c.name for c in found.schema if "first" in c.name] == names
    found, _ = siblings(tmp_path / "day", a=[3, 2, 7], b=days("2020-01-01", "2020-12-30", "2022-02-02"))
    assert [c.name for c in found.schema if "first" in c.name] == ["a: first t", "b: first t"]
    found, _ = siblings(tmp_path / "decimal", a=[Decimal("1.5"), Decimal("2.5"), Decimal("3.5")], b=[10**6] * 3)
    assert [c.name for c in found.schema if "first" in c.name] == ["a: first t", "b: first t"], "of too few digits"


@pytest.mark.parametrize(
    "times",
    [
        {"a": pd.array([3, 2, 7], "Int8"), "b": pd.array([2, -(2**63), 2**63 - 1], "Int64")},
        {"a": [3, 2, 7], "b": [math.inf, -1e300, 1e300]},
        {"a": [math.inf, math.nan, 1e300], "b": pd.array([0, 2**63, 2**64 - 1], "UInt64")},
        {"a": [Decimal("1.50"), Decimal("2.50"), Decimal("3.50")], "b": pd.array([2, 3, 2**62], "Int64")},
        {"a": days("1700-01-01", "1700-01-01", "2020-01-01"), "b": moments("1700-01-01", "2200-01-01", "1750-01-01")},
    ],
)
def test_whether_a_first_time_is_too_large_for_another_table_s_refuses_nothing(tmp_path, times):
    found, columns = siblings(tmp_path, **times)
    assert all(len(column) == 5 for column in columns)
    distances = [c for column in columns[1:] for c in column if c is not None]
    assert found.schema["a: rows"].upper == 2
    assert all(math.isfinite(float(distance)) for distance in distances if not hasattr(distance, "year"))


@pytest.mark.parametrize(
    ("ends", "kept"), [(({"lower": 0, "upper": 9}, {"lower": 0}), (0, None)), (({}, {}), (None, None))]
)
def test_a_time_that_speaks_of_two_tables_has_the_declared_ends_that_both_have(tmp_path, ends, kept):
    relations = Relations([Related("p", "k"), *(Related(t, None, "p", "k", "t", max_rows=2) for t in "ab")])
    frames = {
        "p": pd.DataFrame({"k": [1], "x": [1]}),
        **{t: pd.DataFrame({"k": [1], "t": [5], "y": [1]}) for t in "ab"},
    }
    found = related(tmp_path, frames, relations, columns={t: {"t": e} for t, e in zip("ab", ends, strict=True)})
    column = found["p"].schema["a, else b: first t"]
    assert (column.lower, column.upper) == kept


def test_tables_below_a_row_with_a_time_begin_so_far_from_that_time_and_others_from_each_other(tmp_path):
    """Visits are numbered, so what is dated below them begins on days; what is numbered, at a distance from the visit."""
    frames = {name: tables()[name] for name in ("patients", "visits")}
    frames["visits"]["seen"] = range(len(frames["visits"]))
    below = {"bills": days("2024-01-05", "2024-01-09"), "calls": days("2024-01-02", "2024-02-09"), "steps": [3, 4]}
    frames |= {name: pd.DataFrame({"visit": [10, 12], "at": at, "y": 0}) for name, at in below.items()}
    visits = Related("visits", "visit", "patients", "patient", "seen", max_rows=9)
    children = [Related(name, None, "visits", "visit", "at", max_rows=2) for name in below]
    found = related(tmp_path, frames, Relations([RELATIONS["patients"], visits, *children]))["visits"]
    names = ["bills, else calls: first at", "calls: to the first at from bills", "steps: to the first at"]
    assert [c.name for c in found.schema if "first" in c.name] == names
    rows = read(found).set_index("score")
    assert rows["calls: to the first at from bills"].dropna().to_dict() == {0.5: -3, 0.2: 31}


def test_texts_are_kept_with_their_lengths_and_one_row_of_each_person_is_chosen_by_chance(tmp_path):
    frames = tables()
    frames["visits"]["note"] = [f"note{'x' * i}" for i in range(len(frames["visits"]))]
    found = related(tmp_path, frames, columns={"visits": {"note": {"kind": "text", "max_length": 9}}})["visits"]
    visits = read(found)
    assert "note" in [c.name for c in found.schema]
    assert (visits["note: length"] == visits["note"].str.len().clip(upper=9)).all()
    one = pq.read_table(relating.one_row_each(found, tmp_path / "one.parquet")).column_names
    assert {"note", "note: length"} <= set(one)
    drawn = [relating.one_number_each(found) for _ in range(60)]
    assert all(visits[UNIT].iloc[numbers].is_unique and len(numbers) == found.units for numbers in drawn)
    assert {n for numbers in drawn for n in numbers.tolist()} == set(range(len(visits))), "each row has its chance"


def test_rows_are_ordered_within_their_parent_and_say_how_far_the_next_one_is(tmp_path):
    visits = read(related(tmp_path, tables())["visits"])
    first, second = (visits[visits["score"] == score].iloc[0] for score in (0.5, 0.1))
    assert (first[relating.PLACE], first[relating.LEFT], first["seen: to the next"]) == (0, 1, 60)
    assert (second[relating.PLACE], second[relating.LEFT]) == (1, 0)
    assert math.isnan(second["seen: to the next"])
    assert visits[relating.ROW].tolist() == list(range(len(visits)))
    assert visits[UNIT].is_monotonic_increasing
    assert visits.groupby(relating.PARENT)[relating.TIME].apply(lambda s: s.is_monotonic_increasing).all()


def test_the_first_rows_in_the_order_stay_if_that_is_asked(tmp_path):
    visits = Related("visits", "visit", "patients", "patient", "seen", max_rows=3, keep_first=True)
    kept = read(related(tmp_path, tables(), Relations([RELATIONS["patients"], visits, RELATIONS["drugs"]]))["visits"])
    assert [str(d) for d in kept[kept["score"] == 0.3][relating.TIME]] == ["2024-02-10", "2024-02-11", "2024-02-12"]


def test_one_person_more_adds_one_row_to_what_is_profiled_and_changes_nobody_elses_rows(tmp_path):
    """The new person has the most rows, repeats everybody's visit keys, and still moves each histogram by one."""
    small = Relations([RELATIONS["patients"], Related("visits", "visit", "patients", "patient", "seen", max_rows=9)])
    frames = {name: tables()[name] for name in ("patients", "visits")}
    more = {
        "patients": pd.concat([frames["patients"], pd.DataFrame({"patient": [50], "sex": ["X"]})]),
        "visits": pd.concat([frames["visits"], frames["visits"].assign(patient=50, score=7.0)]),
    }
    before, after = related(tmp_path / "a", frames, small), related(tmp_path / "b", more, small)
    for name in ("patients", "visits"):
        sizes = [
            pq.ParquetFile(relating.one_row_each(found[name], tmp_path / f"{label}{name}.one")).metadata.num_rows
            for label, found in (("a", before), ("b", after))
        ]
        assert sizes[1] == sizes[0] + 1
    assert (read(after["visits"])["score"] == 7.0).sum() == 9
    others = read(after["visits"])
    assert sorted(others[others["score"] != 7.0]["score"]) == sorted(read(before["visits"])["score"])


def test_a_grandchild_of_a_visit_key_that_two_persons_share_belongs_to_each_of_them(tmp_path):
    """Whose row it is may not depend on who else is there: so each has it, whether or not the other is in the table."""
    frames = {
        "patients": pd.DataFrame({"patient": [1, 2], "sex": ["F", "M"]}),
        "visits": pd.DataFrame({"visit": [10, 10], "patient": [1, 2], "seen": [1, 2], "score": [0.1, 0.2]}),
        "drugs": pd.DataFrame({"visit": [10], "drug": ["a"]}),
    }
    assert sorted(read(related(tmp_path, frames)["drugs"])[UNIT]) == [0, 1]


def test_nobody_but_the_owner_can_open_the_rows(tmp_path):
    for rows in related(tmp_path, tables()).values():
        assert rows.path.stat().st_mode & 0o077 == 0


def test_an_order_of_text_is_refused_with_what_to_declare(tmp_path):
    frames = tables()
    frames["visits"]["seen"] = "soon"
    with pytest.raises(InvalidInput, match="an order needs a number, a date or a datetime") as told:
        related(tmp_path, frames)
    assert "{seen: {kind: date}}, or kind: datetime" in str(told.value)


@pytest.mark.parametrize(
    ("times", "gap"),
    [
        (pd.to_datetime(["2024-01-01 10:00", "2024-01-01 12:30"]), pd.Timedelta(hours=2.5)),
        ([1.25, 2.0], 0.75),
        ([3, 10], 7),
    ],
)
def test_gaps_are_lengths_of_time_or_numbers(tmp_path, times, gap):
    relations = Relations([Related("a", "k"), Related("b", None, "a", "k", "t", max_rows=5)])
    frames = {"a": pd.DataFrame({"k": [1], "x": [1.0]}), "b": pd.DataFrame({"k": [1, 1], "t": times, "y": [0, 1]})}
    value = read(related(tmp_path, frames, relations)["b"])["t: to the next"].iloc[0]
    assert value == (gap.value // 1000 if isinstance(gap, pd.Timedelta) else gap)


SMALL = Relations([Related("a", "k"), Related("b", None, "a", "k", "t", max_rows=2)])


@pytest.mark.parametrize(
    "times",
    [
        pd.array([-100, 100], "Int8"),
        pd.array([-(2**63), 2**63 - 1], "Int64"),
        pd.array([0, 2**64 - 1], "UInt64"),
        [-1.7e308, 1.7e308],
        pd.to_datetime(["1700-01-01", "2200-01-01"]),
    ],
)
def test_whether_a_distance_is_too_large_refuses_nothing(tmp_path, times):
    """One person with such rows would otherwise end the run: a free and exact query."""
    frames = {"a": pd.DataFrame({"k": [1], "x": [1.0]}), "b": pd.DataFrame({"k": [1, 1], "t": times, "y": [0, 1]})}
    gaps = pq.read_table(related(tmp_path, frames, SMALL)["b"].path)["t: to the next"]
    held = isinstance(times, pd.DatetimeIndex) or times[1] == 100
    assert gaps.null_count == (1 if held else 2)
    assert all(math.isfinite(float(gap)) for gap in gaps.drop_null().to_pylist())


@pytest.mark.parametrize("column", ["sex", "score", "seen"])
def test_rows_with_a_null_that_is_not_wanted_are_left_out_before_they_are_related(tmp_path, column):
    """Left out afterwards, one row would shift all rows after it to somebody else's parent."""
    frames = tables()
    table, child = ("patients", "visits") if column == "sex" else ("visits", "drugs")
    gone = 0 if table == "patients" else 1
    frames[table].loc[gone, column] = None
    found = related(tmp_path, frames, columns={table: {column: {"nulls": "drop"}}})
    rows = {name: read(found[name]) for name in found}
    assert all(c.nulls is NullPolicy.KEEP for name in found for c in found[name].schema), "completion leaves no row out"
    if table == "patients":
        assert len(rows["patients"]) == 3
        assert not set(rows["visits"]["score"]) & {0.5, 0.1}
    else:
        assert 0.1 not in set(rows["visits"]["score"])
        assert len(rows["drugs"]) == 2
    assert rows[child][relating.PARENT].isin(rows[table][relating.ROW]).all()
    assert rows[child][UNIT].isin(rows["patients"][UNIT]).all()


def test_a_key_is_the_same_as_a_whole_number_of_any_type(tmp_path):
    """pandas makes floats of whole keys as soon as one is missing."""
    frames = tables()
    assert frames["visits"]["patient"].dtype == float
    frames["patients"]["patient"] = [1, 2, 3, 4, 4, 6]
    assert frames["patients"]["patient"].dtype == int
    assert len(read(related(tmp_path, frames)["visits"])) == 6


def test_rows_whose_keys_name_nobody_belong_to_nobody_and_repeated_keys_are_bounded_each(tmp_path):
    nan = float("nan")
    frames = {
        "patients": pd.DataFrame({"patient": [1.0, 1.0, nan, nan, None], "sex": list("FMFMF")}),
        "visits": pd.DataFrame(
            {"visit": [9.0] * 6 + [nan] * 4, "patient": [1.0] * 6 + [nan] * 4, "seen": range(10), "score": range(10)}
        ),
        "drugs": pd.DataFrame({"visit": [9.0] * 20 + [nan] * 30, "drug": ["a"] * 50}),
    }
    found = {name: read(rows) for name, rows in related(tmp_path, frames).items()}
    assert [len(rows) for rows in found.values()] == [1, 3, 6]
    assert found["visits"]["score"].max() <= 5
    assert found["drugs"].groupby(relating.PARENT).size().tolist() == [2, 2, 2]


@pytest.mark.parametrize("kind", ["category", "integer", "excluded"])
def test_a_key_that_is_not_made_anew_each_value_once_is_refused(tmp_path, kind):
    with pytest.raises(InvalidInput, match="is a key, which is made anew, each value once"):
        related(tmp_path, tables(), columns={"patients": {"patient": {"kind": kind}}})


def test_an_order_that_is_a_time_of_day_is_refused(tmp_path):
    frames = tables()
    frames["visits"]["seen"] = pd.to_datetime(frames["visits"]["seen"]).dt.time
    with pytest.raises(InvalidInput, match="name a number, a date or a datetime"):
        related(tmp_path, frames)


def test_the_row_that_is_profiled_is_any_of_a_persons_alike_and_chosen_by_itself(tmp_path):
    """2,000 persons of two rows: each row is chosen in half of them, whatever was chosen of the person before."""
    n = 2000
    relations = Relations([Related("a", "k"), Related("b", None, "a", "k", max_rows=2)])
    frames = {
        "a": pd.DataFrame({"k": range(n), "x": range(n)}),
        "b": pd.DataFrame({"k": [i // 2 for i in range(2 * n)], "y": [i % 2 for i in range(2 * n)], "x": range(2 * n)}),
    }
    rows = related(tmp_path, frames, relations)["b"]
    chosen = pq.read_table(relating.one_row_each(rows, tmp_path / "one.parquet")).to_pandas().sort_values("x")["y"]
    assert len(chosen) == n
    assert abs(chosen.mean() - 0.5) < 5 * 0.5 / math.sqrt(n)
    assert abs(chosen.autocorr()) < 5 / math.sqrt(n)


@pytest.mark.parametrize("keep_first", [False, True])
def test_the_rows_beyond_the_bound_are_left_out_by_chance_of_their_own(tmp_path, keep_first):
    relations = Relations([Related("a", "k"), Related("b", None, "a", "k", "t", max_rows=1, keep_first=keep_first)])
    n = 2000
    frames = {
        "a": pd.DataFrame({"k": range(n), "x": range(n)}),
        "b": pd.DataFrame({"k": [i // 2 for i in range(2 * n)], "t": [i % 2 for i in range(2 * n)], "y": 0}),
    }
    kept = read(related(tmp_path, frames, relations)["b"])[relating.TIME]
    assert len(kept) == n
    assert kept.mean() == 0 if keep_first else abs(kept.mean() - 0.5) < 5 * 0.5 / math.sqrt(n)


def test_what_hangs_on_an_order_is_an_offset_and_an_order_hangs_on_nothing(tmp_path):
    frames = tables()
    frames["visits"]["left"] = (pd.to_datetime(frames["visits"]["seen"]) + pd.Timedelta(days=2)).dt.date
    rows = related(tmp_path / "one", frames, columns={"visits": {"left": {"after": "seen"}}})
    assert set(read(rows["visits"])["left: after seen"]) == {2}
    assert not {"left", "seen"} & set(rows["visits"].schema.names)
    with pytest.raises(InvalidInput, match=r"tables.visits: order: 'seen' hangs on 'left'.*\{left: \{after: seen\}\}"):
        related(tmp_path / "two", frames, columns={"visits": {"seen": {"same_as": "left"}}})


def test_what_is_found_to_hang_on_an_order_is_an_offset_from_then_on_and_what_equals_it_is_gone(tmp_path):
    frames = tables()
    seen = pd.to_datetime(frames["visits"]["seen"])
    frames["visits"]["left"] = (seen + pd.to_timedelta(range(len(seen)), unit="D")).dt.date
    frames["visits"]["billed"] = frames["visits"]["seen"]
    rows = related(tmp_path, frames)["visits"]
    before = read(rows)
    dated = build({name: pa.date32() for name in ("seen", "left", "billed")})
    dated = ordered_dates.hung(dated, {"left": {"after": "seen"}, "billed": {"same_as": "seen"}})
    hung = relating.hang(rows, dated, "seen", tmp_path / "hung.parquet")
    after = read(hung)
    assert hung.schema.names == tuple(
        {"left": "left: after seen"}.get(name, name) for name in rows.schema.names if name != "billed"
    )
    days = (pd.to_datetime(before["left"]) - pd.to_datetime(before[relating.TIME])).dt.days
    assert after["left: after seen"].tolist() == days.tolist()
    assert not {"left", "billed", "seen"} & set(after)
    same = [c for c in before if c in after]
    pd.testing.assert_frame_equal(after[same], before[same])
    assert hung.path.stat().st_mode & 0o077 == 0
    pd.testing.assert_frame_equal(read(rows), before)


def test_one_row_of_each_person_may_have_what_it_is_ordered_by(tmp_path):
    rows = related(tmp_path, tables())["visits"]
    order = build({"seen": pa.date32()})["seen"]
    one = pq.read_table(relating.one_row_each(rows, tmp_path / "one.parquet", order)).to_pandas()
    assert len(one) == rows.units
    assert set(one["seen"]) <= set(read(rows)[relating.TIME])
    last = read(rows).groupby(rows.unit)[relating.TIME].max()
    assert sorted(one["seen: the last"]) == sorted(last)
    assert (one["seen: the last"] >= one["seen"]).all()


def of_one_time(rows: int, persons: int = 5) -> dict[str, pd.DataFrame]:
    """Return persons whose visits are all on one day, dealt to them in turn, each with its place in the file."""
    turn = np.arange(rows)
    visits = pd.DataFrame({"visit": turn, "patient": turn % persons, "seen": pd.Timestamp("2024-01-01").date()})
    return {
        "patients": pd.DataFrame({"patient": np.arange(persons), "sex": "F"}),
        "visits": visits.assign(score=turn.astype(float)),
        "drugs": pd.DataFrame({"visit": turn, "drug": turn.astype(float)}),
    }


@pytest.mark.parametrize("keep_first", [False, True])
def test_rows_of_one_time_or_of_none_stay_in_the_order_of_their_file(tmp_path, keep_first):
    visits = Related("visits", "visit", "patients", "patient", "seen", max_rows=60, keep_first=keep_first)
    relations = Relations([RELATIONS["patients"], visits, Related("drugs", None, "visits", "visit", max_rows=2)])
    found = related(tmp_path, of_one_time(500), relations)
    kept = read(found["visits"])
    assert len(kept) == 300
    for _, own in kept.groupby(UNIT):
        assert own.sort_values(relating.PLACE)["score"].is_monotonic_increasing
        assert keep_first == (own["score"].max() < 300), "which rows of one time are kept"


@pytest.mark.parametrize("form", ["csv", "parquet", "frame"])
def test_a_snapshot_with_keys_keeps_the_order_of_a_large_file(tmp_path, form):
    """Two threads swap two row groups of a CSV in one copy of four, which is why it is taken several times."""
    rows = pa.table({"key": pa.array(range(400_000)).cast(pa.string()), "at": pa.array(range(400_000))})
    pacsv.write_csv(rows, tmp_path / "rows.csv")
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=1 << 14)
    given = source.Source("frame", "frame", table=rows) if form == "frame" else source.parse(f"{tmp_path}/rows.{form}")
    assert given.ordered
    columns = {"key": {"kind": "identifier"}, "at": {"kind": "integer"}}
    for turn in range(4):
        taken = ingestion.snapshot(given, tmp_path / f"{turn}.parquet", declared=columns, keys=("key",))
        assert pq.read_table(taken.path)["at"].to_pylist() == list(range(400_000))


def test_a_snapshot_of_a_database_is_in_an_order_of_its_own(tmp_path):
    """What a query answers first may hang on all of its rows, as a hash table does."""
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute("CREATE TABLE visits AS SELECT range AS visit, range AS at FROM range(1000)")
    given = source.parse(f"duckdb:///{tmp_path}/d.duckdb?table=visits")
    assert not given.ordered
    taken = ingestion.snapshot(
        given, tmp_path / "taken.parquet", declared={"visit": {"kind": "identifier"}}, keys=("visit",)
    )
    found = pq.read_table(taken.path)["at"].to_pylist()
    assert sorted(found) == list(range(1000)) != found
