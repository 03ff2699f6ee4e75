"""Categories are read from a table that a person declares public, and from no table that holds rows to be protected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.reporting.release_card import declared_facts
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.reading import reading
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular import schema
from dp_synth_pipeline.tabular.declarable import mistakes
from dp_synth_pipeline.tabular.sources import ingestion, public_list, source


@pytest.fixture
def codes(tmp_path: Path) -> Path:
    frame = pd.DataFrame({"code": ["I10", "E11", None, "I10", "J06"], "title": "t"})
    frame.to_parquet(tmp_path / "codes.parquet")
    frame.to_csv(tmp_path / "codes.csv", index=False)
    pd.DataFrame({"id": [3, 1, 2]}).to_parquet(tmp_path / "ids.parquet")
    pd.DataFrame({"code": ["I10", "X99", "E11"], "ward": [1, 2, 9]}).to_parquet(tmp_path / "visits.parquet")
    return tmp_path


def settings(folder: Path, of: Any, **more: Any) -> ReleaseSettings:
    asked = {"table": "t", "source": str(folder / "visits.parquet"), "account": "a", "epsilon": 1.0, **more}
    return ReleaseSettings(**{"columns": {"code": {"categories": of}}, **asked})


@pytest.mark.parametrize("name", ["codes.csv", "codes.parquet"])
def test_the_values_of_a_list_are_distinct_sorted_and_without_nulls(codes: Path, name: str) -> None:
    assert public_list.values(str(codes / name), "code") == ["E11", "I10", "J06"]


def test_a_table_of_one_column_needs_no_name_and_numbers_are_text(codes: Path) -> None:
    assert public_list.values(str(codes / "ids.parquet")) == ["1", "2", "3"]


@pytest.mark.parametrize(("name", "where"), [("visits.parquet", "ward < 9"), ("codes.csv", "code <> 'J06'")])
def test_of_a_list_the_rows_that_satisfy_a_filter_are_read_whatever_column_it_is_about(
    codes: Path, name: str, where: str
) -> None:
    found = public_list.values(str(codes / name), "code", where)
    assert found == (["I10", "X99"] if name == "visits.parquet" else ["E11", "I10"])
    assert not mistakes({"code": {"categories": {"from": name, "column": "code", "filter": where}}})
    assert mistakes({"code": {"categories": {"from": name, "filter": 3}}})


def test_a_source_is_read_with_the_lists_values_and_what_is_not_listed_is_no_category(codes: Path) -> None:
    asked = settings(codes, {"from": str(codes / "codes.csv"), "column": "code"})
    found = source.parse(asked.source)
    with ingestion.opened(found, codes / "spill", **reading(asked)) as opened:
        assert opened.schema["code"].categories == ("E11", "I10", "J06")
        assert opened.schema["ward"].categories is None


def test_a_list_is_public_by_declaration_and_the_card_names_it(codes: Path) -> None:
    asked = settings(codes, {"from": "codes.csv", "column": "code"})
    assert declared_facts(asked, "code") == {"categories": "all of codes.csv (code)"}
    assert asked.read["categories of code"] == "codes.csv"


def test_no_target_may_replace_a_list(codes: Path) -> None:
    place = str(codes / "codes.csv")
    with pytest.raises(ValueError, match="it is the categories of code itself"):
        settings(codes, {"from": place, "column": "code"}, target=place)


def test_a_table_that_holds_rows_to_be_protected_is_no_public_list(codes: Path) -> None:
    visits = str(codes / "visits.parquet")
    with pytest.raises(ValueError, match="rows that are to be protected"):
        settings(codes, {"from": str(codes / "." / "visits.parquet"), "column": "code"})
    with pytest.raises(ValueError, match="rows that are to be protected"):
        settings(codes, {"from": "h.csv"}, validation={"holdout": "h.csv"})
    tables = {
        "patients": {"source": "patients.parquet", "key": "id"},
        "visits": {
            "source": visits,
            "parent": {"id": "patients"},
            "columns": {"ward": {"kind": "category", "categories": {"from": "patients.parquet", "column": "ward"}}},
        },
    }
    with pytest.raises(ValueError, match=r"ward\.categories: from: it holds the rows that are to be protected"):
        DatabaseSettings(account="a", epsilon=1, tables=tables)


def test_an_address_with_a_password_is_refused_without_showing_it(codes: Path) -> None:
    with pytest.raises(ValueError, match="names a user or a password") as refused:
        settings(codes, {"from": "postgresql://ann:hunter2@db.example/x?table=t"})
    assert "hunter2" not in refused.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    ("of", "words"),
    [
        ({"from": "none.csv"}, "no such file"),
        ({"from": "codes.csv"}, "has several columns: code, title. Name one"),
        ({"from": "codes.csv", "column": "cod"}, "has no column 'cod'"),
        ({"from": "empty.csv"}, "holds 0 values"),
    ],
)
def test_a_list_that_cannot_be_read_is_told_with_its_column(codes: Path, of: Any, words: str) -> None:
    (codes / "empty.csv").write_text("code\n")
    asked = settings(codes, {**of, "from": str(codes / of["from"])})
    with pytest.raises(InvalidInput, match=r"^columns\.code\.categories: ") as refused:
        reading(asked)
    assert words in str(refused.value)


@pytest.mark.parametrize("of", [{"file": "a.csv"}, {"from": 3}, {"from": "a.csv", "column": 3}, {"column": "code"}])
def test_a_list_without_its_table_is_a_mistake_that_definitions_show(of: Any) -> None:
    assert "public table as {from: codes.parquet" in mistakes({"code": {"categories": of}})["code"]


def test_an_order_is_listed_and_numbers_take_no_list(codes: Path) -> None:
    of = {"from": "codes.csv"}
    assert "no order" in mistakes({"code": {"kind": "ordinal", "categories": of}})["code"]
    assert "takes no categories" in mistakes({"code": {"kind": "decimal", "categories": of}})["code"]
    assert mistakes({"code": {"categories": of}, "ward": {"kind": "category", "categories": of}}) == {}
    with pytest.raises(InvalidInput, match="list its values"):
        schema.build({"code": pa.string()}, {"code": {"categories": of}})
