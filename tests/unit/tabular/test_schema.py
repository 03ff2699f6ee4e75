from __future__ import annotations

from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest
from pydantic import TypeAdapter

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import schema
from dp_synth_pipeline.tabular.schema import Column, Kind, NullPolicy, TableSchema

STORAGE = {
    "id": pa.int64(),
    "age": pa.int16(),
    "price": pa.float64(),
    "name": pa.string(),
    "born": pa.date32(),
    "seen": pa.timestamp("us"),
    "ok": pa.bool_(),
    "took": pa.duration("s"),
    "logged": pa.timestamp("us", "UTC"),
}

TYPES = [
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal128(4, 2), pa.decimal128(18, 0), pa.decimal128(38, 10)),
    *(pa.date32(), pa.date64()),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ("UTC", "Europe/Berlin", "+02:00")),
    pa.string(),
]


@pytest.mark.parametrize("arrow_type", TYPES, ids=str)
def test_a_storage_type_survives_being_written_down(arrow_type: pa.DataType) -> None:
    kind = schema.kind_of("c", arrow_type)
    assert schema.parse_storage(kind.storage(arrow_type)) == arrow_type


@pytest.mark.parametrize("text", [pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.null()], ids=str)
@pytest.mark.parametrize("kind", [Kind.CATEGORY, Kind.IDENTIFIER])
def test_text_of_every_width_becomes_a_string(text: pa.DataType, kind: Kind) -> None:
    assert schema.parse_storage(kind.storage(text)) == pa.string()


def test_kinds_come_from_storage_types_and_declarations_win() -> None:
    built = schema.build(
        STORAGE, {"age": {"kind": "category"}, "id": {"kind": "identifier"}, "ok": {"kind": "excluded"}}
    )
    assert [c.kind.name for c in built] == [
        *("identifier", "category", "decimal", "category", "date", "datetime", "excluded", "duration", "datetime"),
    ]
    assert [c.name for c in built.learned] == ["age", "price", "name", "born", "seen", "took", "logged"]
    assert [c.name for c in built.published] == ["id", "age", "price", "name", "born", "seen", "took", "logged"]
    assert built.arrow_schema().field("age").type == pa.int16()


def test_the_unit_column_is_an_identifier_unless_declared_otherwise() -> None:
    assert schema.build(STORAGE, unit_column="id")["id"].kind is Kind.IDENTIFIER
    assert schema.build(STORAGE, {"id": {"kind": "excluded"}}, unit_column="id")["id"].kind is Kind.EXCLUDED


def test_a_narrow_identifier_is_widened_since_rows_are_numbered_without_end() -> None:
    assert schema.build({"id": pa.int8(), "x": pa.int8()}, unit_column="id")["id"].storage == "int64"
    assert schema.build({"id": pa.int8(), "x": pa.int8()}, unit_column="id")["x"].storage == "int8"


def test_the_table_policy_holds_for_columns_that_declare_none() -> None:
    built = schema.build(STORAGE, {"name": {"nulls": "keep"}}, nulls="drop")
    assert built["name"].nulls is NullPolicy.KEEP
    assert built["age"].nulls is NullPolicy.DROP


def test_declared_facts_are_kept_and_named() -> None:
    built = schema.build(
        STORAGE,
        {
            "age": {"lower": 0, "upper": 120},
            "name": {"categories": ["x", 7]},
            "born": {"lower": "1900-01-31"},
            "seen": {"upper": "2024-05-06T07:08:09"},
            "price": {"nulls": "constant", "constant": 0},
            "id": None,
            "ok": {"kind": "category", "categories": [True, False]},
        },
    )
    assert built["age"].declared == ("lower", "upper")
    assert built["name"].categories == ("x", "7")
    assert built["born"].lower == date(1900, 1, 31)
    assert built["seen"].upper == datetime(2024, 5, 6, 7, 8, 9)
    assert built["price"].declared == ("constant",)
    assert built["ok"].categories == ("true", "false"), "as the snapshot spells them"
    assert built["id"].declared == ()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"nme": {}}, r"'nme' is not in the source, which has: id, age"),
        (
            {"age": {"categories": [1, 2]}},
            r"'age': kind integer takes no categories; write kind: category or kind: ordinal",
        ),
        ({"age": {"bins": 3}}, r"column 'age': unknown fact 'bins'; known: .*categories"),
        ({"age": {"kind": "number"}}, r"column 'age': kind: expected one of category, .*, got 'number'"),
        ({"age": {"nulls": "least"}}, r"nulls: expected one of keep, mean, median, mode, drop, constant, got 'least'"),
        ({"name": {"kind": "ordinal"}}, r"column 'name': ordinal text needs its order, as in 'categories:"),
        ({"price": {"kind": "ordinal"}}, r"storage type double, which is not read as ordinal"),
        ({"age": {"kind": "duration"}}, r"not read as duration"),
        (
            {"took": {"lower": "soon"}},
            r"column 'took': lower: expected a duration, as in '2 days 03:00:00', got 'soon'",
        ),
        ({"took": {"nulls": "constant", "constant": "soon"}}, r"'soon' is not a value of storage type duration"),
        ({"age": {"kind": "constant"}}, r"column 'age': kind: constant needs its value"),
        ({"age": {"kind": "constant", "constant": "x"}}, r"constant 'x' is not a value of storage type int16"),
        ({"seen": {"zone": "Europe/Paris"}}, r"zone needs datetimes with a zone; storage type timestamp.us. has none"),
        ({"logged": {"zone": "Mars/Olympus"}}, r"zone: expected a name such as Europe/Paris, got 'Mars/Olympus'"),
        (
            {"seen": {"format": "dd.mm.yyyy"}},
            r"column 'seen': format: expected the directives of a day, .* got 'dd.mm.yyyy'",
        ),
        ({"name": {"format": "%d.%m.%Y"}}, r"column 'name': format needs dates, datetimes or times of day; storage"),
        (
            {"logged": {"format": "%d.%m.%Y %H:%M"}},
            r"column 'logged': format: .* are written in UTC, so it should end in Z",
        ),
        ({"name": {"other": "keep"}}, r"column 'name': other: expected one of drop, draw, got 'keep'"),
        ({"age": {"other": "draw"}}, r"column 'age': other: draw writes a label .* is integer stored as int16"),
        ({"age": {"kind": "category", "other": "draw"}}, r"this column is category stored as int16"),
        ({"name": {"other": "draw", "other_label": 3}}, r"other_label must be text, got 3"),
        ({"age": {"nulls": "constant"}}, r"column 'age': nulls: constant needs a value"),
        (
            {"age": {"nulls": "constant", "constant": "unknown"}},
            r"column 'age': constant 'unknown' is not a value of .*int16",
        ),
        ({"age": {"nulls": "constant", "constant": 40_000}}, r"constant 40000 is not a value of storage type int16"),
        (
            {"born": {"nulls": "constant", "constant": "never"}},
            r"constant 'never' is not a value of storage type date32",
        ),
        ({"age": {"lower": 9, "upper": 3}}, r"column 'age': lower is above upper"),
        ({"age": {"lower": "nine"}}, r"column 'age': lower: .* takes a finite number, got 'nine'"),
        ({"age": {"upper": float("nan")}}, r"column 'age': upper: .* takes a finite number"),
        ({"age": {"upper": True}}, r"takes a finite number"),
        ({"born": {"lower": "31.1.1900"}}, r"column 'born': lower: .* takes a date, as in 2024-01-31"),
        ({"born": {"lower": 1900}}, r"takes a date"),
        ({"seen": {"lower": date(2024, 1, 1), "upper": datetime(2023, 1, 1)}}, r"lower is above upper"),
        ({"name": {"lower": 3}}, r"column 'name': lower: a column of kind category takes no bound"),
        ({"name": {"categories": ["x", "y", "x"]}}, r"column 'name': a category is declared twice"),
        ({"name": {"kind": "integer"}}, r"column 'name' has storage type string, which is not read as integer"),
        ({"age": {"kind": "date"}}, r"storage type int16, which is not read as date"),
        ({"age": {"kind": "boolean"}}, r"not read as boolean"),
        ({"born": {"kind": "datetime"}}, r"not read as datetime"),
        ({"born": {"kind": "identifier"}}, r"not read as identifier"),
    ],
)
def test_a_declaration_that_cannot_hold_is_refused_with_what_was_expected(declared: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        schema.build(STORAGE, declared)


def test_a_duration_is_written_in_microseconds_whatever_it_was_stored_in() -> None:
    for stored in (pa.duration("s"), pa.duration("ns"), pa.month_day_nano_interval()):
        facts = {"lower": "-1 days", "upper": 90, "nulls": "constant", "constant": "PT1H"}
        built = schema.build({"d": stored}, {"d": facts})
        assert built["d"].arrow_type == pa.duration("us")
        assert (built["d"].lower, built["d"].upper) == (timedelta(days=-1), timedelta(seconds=90))


def test_a_declared_zone_wins_and_is_named_as_declared() -> None:
    column = schema.build(STORAGE, {"logged": {"zone": "Europe/Paris"}})["logged"]
    assert column.storage == "timestamp[us, tz=Europe/Paris]"
    assert column.declared == ("zone",)


def test_a_constant_column_is_published_but_never_learned() -> None:
    built = schema.build(
        STORAGE, {"age": {"kind": "constant", "constant": 7}, "ok": {"kind": "constant", "constant": None}}
    )
    assert not {"age", "ok"} & {c.name for c in built.learned}
    assert {"age", "ok"} <= {c.name for c in built.published}


def test_the_policy_for_unnamed_values_holds_where_a_label_can_be_written() -> None:
    built = schema.build(STORAGE, {"age": {"kind": "category"}}, other="draw")
    assert {c.name: c.label for c in built if c.label} == {"name": "other"}
    own = schema.build(STORAGE, {"name": {"other": "drop"}}, other="draw")
    assert own["name"].label is None
    named = schema.build(STORAGE, {"name": {"other": "draw", "other_label": "sonst"}})
    assert named["name"].label == "sonst"


def test_every_declaration_survives_json() -> None:
    built = schema.build(
        STORAGE,
        {
            "took": {"lower": "-1 days", "upper": "2 days"},
            "born": {"lower": "1900-01-31"},
            "name": {"kind": "ordinal", "categories": ["a", "b"], "other": "draw"},
            "seen": {"format": "%d.%m.%Y %H:%M"},
        },
        formats={"born": "%m/%d/%Y"},
    )
    assert (built["born"].format, built["seen"].format, built["logged"].format) == ("%m/%d/%Y", "%d.%m.%Y %H:%M", None)
    adapter = TypeAdapter(TableSchema)
    assert adapter.validate_json(adapter.dump_json(built)) == built


def test_a_complete_declaration_must_name_every_column() -> None:
    with pytest.raises(InvalidInput, match="'born' that is not declared, though columns_complete"):
        schema.build(STORAGE, {n: {} for n in STORAGE if n != "born"}, complete=True)
    assert schema.build(STORAGE, {n: {} for n in STORAGE}, complete=True).names == tuple(STORAGE)


def test_an_unknown_unit_column_is_refused() -> None:
    with pytest.raises(InvalidInput, match="unit column 'person' is not in the source"):
        schema.build(STORAGE, unit_column="person")


@pytest.mark.parametrize("odd", [pa.binary(), pa.list_(pa.int8()), pa.struct([("a", pa.int8())])], ids=str)
def test_a_type_without_a_kind_is_refused_with_the_way_out(odd: pa.DataType) -> None:
    for facts in ({}, {"kind": "category"}, {"kind": "identifier"}):
        with pytest.raises(InvalidInput, match=r"cannot be synthesized; .*kind: excluded"):
            schema.build({"blob": odd, "x": pa.int8()}, {"blob": facts})
    assert len(schema.build({"blob": odd, "x": pa.int8()}, {"blob": {"kind": "excluded"}}).published) == 1


def test_a_table_with_nothing_left_to_learn_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no column is left to learn"):
        schema.build({"id": pa.int64()}, unit_column="id")


def test_duplicate_names_and_unknown_names_are_refused() -> None:
    column = Column("a", Kind.INTEGER, "int64")
    with pytest.raises(InvalidInput, match="duplicate column name 'a'"):
        TableSchema((column, column))
    with pytest.raises(InvalidInput, match="no column 'b'; the table has: a"):
        TableSchema((column,))["b"]


def test_the_row_index_of_pandas_is_left_out_unless_declared() -> None:
    storage = {"a": pa.int64(), "__index_level_0__": pa.int64()}
    assert schema.build(storage)["__index_level_0__"].kind is Kind.EXCLUDED
    assert schema.build(storage, {"__index_level_0__": {"kind": "integer"}})["__index_level_0__"].kind is Kind.INTEGER
    assert schema.build(storage, unit_column="__index_level_0__")["__index_level_0__"].kind is Kind.IDENTIFIER
