"""Words that stand for nulls in a CSV: nulls in columns of numbers, dates and truth values, names in columns of names."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.tabular.sources.csv.words import NULLS
from tests.unit.tabular.snapshots import read

pytestmark = pytest.mark.slow


def column(folder: Path, cells: list[str], facts: dict[str, Any] | None = None) -> tuple[str, list[Any]]:
    """Return the storage type and the snapshot's values of a column, whose rows come in their own order."""
    text = "".join(f"{i},{cell}\n" for i, cell in enumerate(cells))
    (folder / "t.csv").write_text("i,x\n" + text)
    declared = {"x": facts} if facts else None
    taken = read(str(folder / "t.csv"), folder / "s.parquet", declared=declared)
    rows = sorted(pq.read_table(taken.path).to_pylist(), key=lambda r: r["i"])
    return taken.schema["x"].storage, [r["x"] for r in rows]


@pytest.mark.parametrize("word", [*NULLS, "NA", "NaN", " Null "])
def test_a_word_for_null_among_numbers_is_a_null(tmp_path: Path, word: str) -> None:
    assert column(tmp_path, ["1", "-7", word, "3"]) == ("int64", [1, -7, None, 3])
    assert column(tmp_path, ["1.5", word, "3"]) == ("double", [1.5, None, 3.0])


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["true", "NA", "False"], ("bool", [True, None, False])),
        (["2020-01-31", "?", "2021-02-01"], ("date32[day]", [date(2020, 1, 31), None, date(2021, 2, 1)])),
        (["31.01.2020", "n/a", "01.02.2021"], ("date32[day]", [date(2020, 1, 31), None, date(2021, 2, 1)])),
        (["2020-01-31 10:00", "null"] * 2, ("timestamp[us]", [datetime(2020, 1, 31, 10), None] * 2)),
    ],
)
def test_so_it_is_among_truth_values_and_dates(tmp_path: Path, cells: list[str], wanted: tuple) -> None:
    assert column(tmp_path, cells) == wanted


def test_among_names_it_is_a_name(tmp_path: Path) -> None:
    cells = ["NA", "DE", "NA", "FR"] * 9
    assert column(tmp_path, cells) == ("string", cells)
    assert column(tmp_path, ["NA", "?", "NA"]) == ("string", ["NA", "?", "NA"]), "no number shows that they are nulls"
    coded = ["1", "2", "NA"] * 9
    assert column(tmp_path, coded, {"kind": "category"}) == ("string", coded)
    assert column(tmp_path, coded, {"categories": ["1", "2", "NA"]}) == ("string", coded)


def test_one_word_beyond_all_samples_is_found(tmp_path: Path) -> None:
    storage, values = column(tmp_path, [*map(str, range(30_000)), "NA"])
    assert storage == "int64"
    assert values[-2:] == [29_999, None]


def test_a_declared_number_may_have_them(tmp_path: Path) -> None:
    assert column(tmp_path, ["1", "?", "2"], {"kind": "decimal"})[1] == [1, None, 2]
    assert column(tmp_path, ["1", "?", "2"], {"kind": "integer", "lower": 0})[1] == [1, None, 2]


def test_digits_that_no_integer_holds_are_a_decimal_and_infinity_is_no_number(tmp_path: Path) -> None:
    assert column(tmp_path, ["NA", "1", "99999999999999999999"])[0] == "double"
    assert column(tmp_path, ["NA", "1", "1e3"])[0] == "double"
    assert column(tmp_path, ["inf", "1", "NA", "x", "y"] * 5)[0] == "string"


@pytest.mark.parametrize("cell", ["02139", "007", "00"])
def test_digits_that_begin_with_0_are_codes_and_keep_their_zeros(tmp_path: Path, cell: str) -> None:
    many = [*map(str, range(10, 40)), *map(str, range(10, 40))] * 500 + [cell]
    storage, values = column(tmp_path, many)
    assert (storage, values[-1]) == ("string", cell), "one code beyond all samples is found"
    assert column(tmp_path, ["10", cell, "NA"] * 9) == ("string", ["10", cell, "NA"] * 9)
    assert column(tmp_path, ["10", cell] * 20 + ["136A"])[0] == "string", "it mixes nothing"


def test_many_codes_are_no_numbers_with_currency_signs(tmp_path: Path) -> None:
    cells = [f"{i:05}" for i in range(3000)]
    assert column(tmp_path, [*cells, *cells[:1500]]) == ("string", [*cells, *cells[:1500]])


def test_a_zero_alone_or_before_a_point_is_a_number(tmp_path: Path) -> None:
    assert column(tmp_path, ["0", "-0", "10"]) == ("int64", [0, 0, 10])
    assert column(tmp_path, ["0.5", "-0.25", "10"]) == ("double", [0.5, -0.25, 10.0])
    assert column(tmp_path, ["0", "NA", "10"]) == ("int64", [0, None, 10])
    assert column(tmp_path, ["0012.50", "0100.25"] * 9) == ("double", [12.5, 100.25] * 9)


@pytest.mark.parametrize("facts", [{"kind": "integer"}, {"kind": "decimal"}, {"lower": 0}])
@pytest.mark.parametrize("cells", [["7", "010", "8"], ["007", "010", "008"]])
def test_codes_that_a_person_declares_numbers_are_numbers(
    tmp_path: Path, facts: dict[str, Any], cells: list[str]
) -> None:
    storage, values = column(tmp_path, cells * 9, facts)
    assert [int(v) for v in values[:3]] == [7, 10, 8]
    assert storage in ("int64", "double")


def test_a_time_of_day_is_no_code(tmp_path: Path) -> None:
    assert column(tmp_path, ["01:30:00", "NA", "00:15:00"] * 9)[0] == "time64[us]"
