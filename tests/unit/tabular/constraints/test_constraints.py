"""Rules across columns: what is understood, what is refused, which rows break one, and what enforcement does."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.constraints import (
    Comparison,
    Dependency,
    Literal,
    Product,
    Sum,
    check,
    check_names,
    digits,
    enforced,
    holds,
    limits,
    parse,
)
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Kind, build

STORAGE = {
    "id": pa.int64(),
    "age": pa.int32(),
    "fee": pa.float64(),
    "price": pa.decimal128(10, 2),
    "city": pa.string(),
    "zip": pa.string(),
    "day": pa.date32(),
    "start": pa.timestamp("us"),
    "end": pa.timestamp("ms", tz="Europe/Madrid"),
    "stay": pa.duration("us"),
    "member": pa.bool_(),
    "fixed": pa.int64(),
}
SCHEMA = build(STORAGE, {"id": {"kind": "identifier"}, "fixed": {"kind": "constant", "constant": 1}})


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("start <= end", Comparison("start <= end", "start", "<=", "end")),
        (" a==b ", Comparison("a==b", "a", "==", "b")),
        ("a = b", Comparison("a = b", "a", "==", "b")),
        ("age >= 18", Comparison("age >= 18", "age", ">=", Literal(18))),
        ("-1.5 < fee", Comparison("-1.5 < fee", "fee", ">", Literal(-1.5))),
        ("day < 2030-01-31", Comparison("day < 2030-01-31", "day", "<", Literal("2030-01-31"))),
        ("stay <= '2 days'", Comparison("stay <= '2 days'", "stay", "<=", Literal("2 days"))),
        ("total = a + b - c", Sum("total = a + b - c", "total", ((1, "a"), (1, "b"), (-1, "c")))),
        ("net = -a + b", Sum("net = -a + b", "net", ((-1, "a"), (1, "b")))),
        ("total = a * b", Product("total = a * b", "total", ((1, "a"), (1, "b")))),
        ("rate == paid/hours", Product("rate == paid/hours", "rate", ((1, "paid"), (-1, "hours")))),
        ("gross = 1.25 * net", Product("gross = 1.25 * net", "gross", ((1, "net"),), 1.25)),
        ("net = gross / 1.25 * 2", Product("net = gross / 1.25 * 2", "net", ((1, "gross"),), 1.6)),
        ("pace = 60 / speed", Product("pace = 60 / speed", "pace", ((-1, "speed"),), 60.0)),
        (
            "paid = price * (1 - off)",
            Product("paid = price * (1 - off)", "paid", ((1, "price"),), 1.0, ((1, -1, "off"),)),
        ),
        (
            'net = gross/(1+"vat rate")',
            Product('net = gross/(1+"vat rate")', "net", ((1, "gross"),), 1.0, ((-1, 1, "vat rate"),)),
        ),
        ("orders.n = count( items )", Comparison("orders.n = count( items )", "orders.n", "==", "count(items)")),
        ("a.b <= max(c.d)", Comparison("a.b <= max(c.d)", "a.b", "<=", "max(c.d)")),
        ("country -> currency", Dependency("country -> currency", ("country",), "currency")),
        ("zip, street->city", Dependency("zip, street->city", ("zip", "street"), "city")),
        (
            '"marital status" -> `tax class`',
            Dependency('"marital status" -> `tax class`', ("marital status",), "tax class"),
        ),
    ],
)
def test_a_rule_is_read_as_it_is_meant(text, rule) -> None:
    assert parse(text) == rule


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a <=",
        "<= b",
        "a => b",
        "a < b < c",
        "a <= a",
        "a + b = c",
        "a <= b + c",
        "a = a + b",
        "a = b + 3",
        "-> b",
        "a b -> c",
        "a -> b, c",
        "a, -> b",
        "1 < 2",
        "a ; b",
        "a = b +",
        "a = + - b",
        "a = - '2 days'",
        "a < 1e999",
        "a * b = c",
        "a <= b * c",
        "a = a * b",
        "a = 2 * 3",
        "a = 0 * b",
        "a = b / 0",
        "a = b / 1e-320",
        "a = b * 1e999",
        "a = b *",
        "a = * b",
        "a = b * c + d",
        "a = b * -2",
        "a = (1 - b)",
        "a = b + (1 - c)",
        "a = b * (1 - b)",
        "a = b * (1 - c) * (1 - c)",
        "a = (1 - a) * b",
        "a = b * (2 - c)",
        "a = mean(b.c)",
        "a = sum(b",
        "a = b * '2 days'",
        "a b = c * d",
    ],
)
def test_what_is_no_rule_is_refused_by_its_own_words_with_the_forms_that_are(text) -> None:
    with pytest.raises(InvalidInput, match=r"start <= end.*country -> currency") as told:
        parse(text)
    assert repr(text) in str(told.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("age <= height", "no column 'height'"),
        ("id -> city", "id is identifier"),
        ("city <= zip", "city is category"),
        ("city == age", "columns with an order: .*; others may be equal"),
        ("city == member", "on both sides, but city is category"),
        ("age <= start", "a number on both sides, but start is datetime"),
        ("age >= 2020-01-01", "expected a number"),
        ("day >= 18", "expected a date"),
        ("day >= 2020-01-01T10:00", "expected a date"),
        ("stay >= 'long'", "expected a duration"),
        ("age = fee + city", "city is category"),
        ("age = start - day", "numbers alone"),
        ("end = start + day", "come out as a date"),
        ("stay = start + stay", "on the right"),
        ("age = fee * city", "numbers to multiply, but city is category"),
        ("stay = age * stay", "on the right"),
        ("stay = 2 * age", "numbers to multiply, but stay is duration"),
        ("fixed = 2 * age", "fixed is constant"),
        ("city -> fixed", "fixed is constant"),
        ("fixed <= age", "fixed is constant"),
    ],
)
def test_a_rule_that_the_columns_cannot_keep_is_refused(text, why) -> None:
    with pytest.raises(InvalidInput, match=why) as told:
        check([parse(text)], SCHEMA)
    assert text in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        "age <= fee",
        "price >= 2.5",
        "day <= start",
        "start < end",
        "end = start + stay",
        "stay = end - start",
        "price = age * fee",
        "fee = 1.2 * price / age",
        "zip -> city",
        "stay <= 3600",
        "start >= 2020-01-01T10:00",
        "city -> age",
        "city == zip",
    ],
)
def test_rules_of_one_family_of_kinds_are_accepted(text) -> None:
    check([parse(text)], SCHEMA)


def test_names_are_checked_against_what_is_declared_as_soon_as_definitions_load() -> None:
    rules = [parse("a <= b")]
    check_names(rules, {"a": None}, complete=False)
    with pytest.raises(InvalidInput, match="no column 'b'"):
        check_names(rules, {"a": None}, complete=True)
    with pytest.raises(InvalidInput, match="no column 'b'"):
        check_names(rules, {"b": {"kind": "excluded"}}, complete=False)


def table(**columns) -> pa.Table:
    return pa.table({n: pa.array(v, STORAGE.get(n)) for n, v in columns.items()})


def broken(text: str, **columns) -> list[int]:
    return np.flatnonzero(~holds(parse(text), table(**columns))).tolist()


def test_comparisons_hold_row_by_row_and_nulls_are_not_judged() -> None:
    assert broken("age <= fee", age=[1, 2, 3, None, 5], fee=[1.0, 1.0, float("nan"), 0.0, None]) == [1]
    assert broken("age < fee", age=[1, 2], fee=[1.0, 2.5]) == [0]
    assert broken("price >= 2.5", price=[Decimal("2.49"), Decimal("2.50")]) == [0]


def test_times_compare_across_storage_types() -> None:
    day, noon = date(2020, 1, 2), datetime(2020, 1, 2, 12)
    assert broken("day <= start", day=[day, day], start=[noon, datetime(2020, 1, 1)]) == [1]
    assert broken(
        "start < end", start=[noon, noon], end=[noon.replace(tzinfo=UTC), datetime(2020, 1, 3, tzinfo=UTC)]
    ) == [0]
    assert broken("stay <= '2 days'", stay=[timedelta(2), timedelta(2, 1)]) == [1]


def test_a_sum_may_be_off_by_half_of_its_last_digit_and_no_more() -> None:
    columns = pa.table({"t": [0.3, 0.31, 0.35], "a": [0.1, 0.1, 0.1], "b": [0.2, 0.214, 0.26]})
    assert holds(parse("t = a + b"), columns, {"t": 2}).tolist() == [True, True, False]
    assert holds(parse("t = a + b"), columns).tolist() == [True, False, False]


def test_times_add_up() -> None:
    start, end = datetime(2020, 1, 2, 12), datetime(2020, 1, 3, 13, tzinfo=UTC)
    assert broken("end = start + stay", start=[start] * 2, end=[end] * 2, stay=[timedelta(hours=25), timedelta(1)]) == [
        1
    ]


def test_a_dependency_breaks_where_the_usual_value_is_missing() -> None:
    assert broken("zip -> city", zip=["1", "1", "1", "2", None], city=["a", "b", "a", "c", "z"]) == [1]
    assert broken("zip, age -> city", zip=["1", "1", "1"], age=[1, 1, 2], city=["a", "a", "b"]) == []


def stream(*columns: pa.Table):
    """Return a source of rows that gives the same ones again and again."""
    (whole,) = columns

    def draw(rows: int) -> pa.Table:
        return whole.take(pa.array(np.arange(rows) % whole.num_rows))

    return draw


def kept(texts, whole: pa.Table, rows: int, **facts) -> pa.Table:
    return pa.concat_tables(enforced(stream(whole), rows, [parse(t) for t in texts], **facts))


@pytest.mark.parametrize("rows", [1, 7, 40_000])
def test_as_many_rows_come_out_as_were_asked_for(rows) -> None:
    whole = table(age=[1, 5, 9], fee=[4.0, 4.0, 4.0])
    found = kept(["age <= fee"], whole, rows)
    assert found.num_rows == rows
    assert found["age"].to_pylist() == [1] * rows  # the rows that break it were drawn again, not mended


def test_what_drawing_again_cannot_mend_is_swapped() -> None:
    whole = pa.table({"a": [9, 8], "b": [1, 2]})
    assert set(map(tuple, zip(*kept(["a <= b"], whole, 4).to_pydict().values(), strict=True))) == {(1, 9), (2, 8)}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("a >= 18", pa.int32(), 18),
        ("a > 18", pa.int32(), 19),
        ("a < 18.5", pa.int8(), 18),
        ("a >= 18.2", pa.int8(), 19),
        ("a > 2", pa.decimal128(6, 2), Decimal("2.01")),
        ("a < 2020-01-31", pa.date32(), date(2020, 1, 30)),
    ],
)
def test_a_value_moves_to_the_literal_if_no_drawn_row_keeps_the_rule(text, kind, value) -> None:
    wrong = {pa.date32(): date(2021, 1, 1), pa.int8(): 100 if "<" in text else 3}.get(kind, 1)
    found = kept([text], pa.table({"a": pa.array([wrong], kind)}), 2)
    assert found["a"].to_pylist() == [value] * 2


def test_a_sum_is_computed_anew_in_its_own_storage_and_digits() -> None:
    whole = table(price=[Decimal("1.00"), None], fee=[1.005, 2.0], age=[3, 4])
    found = kept(["price = fee + age"], whole, 2)
    assert found["price"].to_pylist() == [Decimal("4.00"), None]
    floats = pa.table({"t": [9.0], "a": [0.1], "b": [0.2]})
    assert kept(["t = a + b"], floats, 1, digits={"t": 1})["t"].to_pylist() == [0.3]


def test_a_sum_beyond_the_released_ends_is_drawn_again() -> None:
    whole = pa.table({"t": [1, 1], "a": [1, 90], "b": [2, 90]})
    assert set(kept(["t = a + b"], whole, 50, limits={"t": (0.0, 100.0)})["t"].to_pylist()) == {3}
    narrow = pa.table({"t": pa.array([1, 1], pa.int8()), "a": [1, 90], "b": [2, 90]})
    assert set(kept(["t = a + b"], narrow, 50)["t"].to_pylist()) == {3}


def test_a_product_may_be_off_by_half_of_its_last_digit_and_is_not_judged_beside_a_null_or_a_divisor_of_0() -> None:
    cells = {"fee": [3.0, 2.99, 0.3, None, 5.0], "price": [Decimal("6.00")] * 5, "age": [2, 2, 20, 2, 0]}
    assert broken("fee = price / age", **cells) == [1]
    assert broken("price = fee * age", **cells) == [1, 4]
    assert broken("fee = 0.5 * price", **cells) == [1, 2, 4]
    third = pa.table({"rate": [0.33, 0.34], "paid": [1.0, 1.0], "hours": [3, 3]})
    assert holds(parse("rate = paid / hours"), third, {"rate": 2}).tolist() == [True, False]
    assert holds(parse("rate = paid / hours"), third).tolist() == [False, False]


@pytest.mark.parametrize(
    ("text", "paid"),
    [
        ("paid = 2 * price * (1 - off)", 12),
        ("paid = price / (1 + off)", 6.4),
        ("paid = price * (1 + off) / (1 - tax)", 20),
    ],
)
def test_each_column_of_a_product_follows_from_the_others_a_discount_too(text, paid) -> None:
    rule, known = parse(text), {"price": np.array([8.0]), "off": np.array([0.25]), "tax": np.array([0.5])}
    known["paid"] = rule.solved("paid", known.__getitem__)
    assert known["paid"] == pytest.approx(paid)
    for name in rule.columns:
        assert rule.solved(name, known.__getitem__) == pytest.approx(known[name]), name


def test_a_product_is_computed_anew_in_its_own_storage_and_digits_and_within_its_ends() -> None:
    whole = table(price=[Decimal("1.00"), None], fee=[0.334, 2.0], age=[3, 4])
    found = kept(["price = fee * age"], whole, 2)
    assert found["price"].to_pylist() == [Decimal("1.00"), None]
    rates = pa.table({"t": [9.0, 7.0], "a": [1.0, 1.0], "b": [3.0, 0.0]})
    assert set(kept(["t = a / b"], rates, 40, digits={"t": 2})["t"].to_pylist()) == {0.33, 7.0}, "as drawn beside a 0"
    far = pa.table({"t": [1, 1], "a": [1, 90], "b": [2, 90]})
    assert set(kept(["t = a * b"], far, 50, limits={"t": (0.0, 100.0)})["t"].to_pylist()) == {2}
    squares = pa.table({"area": [0.0, 0.0], "side": [3.0, 1.5]})
    assert sorted(kept(["area = side * side"], squares, 2)["area"].to_pylist()) == [2.25, 9.0]


def test_each_rule_has_a_name_of_its_own() -> None:
    names = {"t = a * b": "t_eq_a_times_b", "t = 1.2 * a / b": "t_eq_1.2_times_a_over_b", "t = 2 / a": "t_eq_2_over_a"}
    assert {text: parse(text).slug for text in names} == names


def test_a_dependency_takes_what_drawn_rows_have_most_often() -> None:
    whole = pa.table({"country": ["ES", "ES", "ES", "PE", None], "currency": ["EUR", "EUR", "PEN", None, "PEN"]})
    found = kept(["country -> currency"], whole, 5)
    assert found["currency"].to_pylist() == ["EUR", "EUR", "EUR", None, "PEN"]


def test_one_left_hand_side_gives_one_value_in_every_batch() -> None:
    turn = iter(range(100))

    def draw(rows: int) -> pa.Table:
        return pa.table({"a": ["x"] * rows, "b": [f"v{next(turn)}"] * rows})

    found = pa.concat_tables(enforced(draw, 100_000, [parse("a -> b")]))
    assert found.num_rows == 100_000
    assert set(found["b"].to_pylist()) == {"v0"}


def test_rules_that_contradict_each_other_end_and_leave_their_checks_to_fail() -> None:
    found = kept(["a < b", "b < a"], pa.table({"a": [1], "b": [2]}), 3)
    assert found.num_rows == 3
    assert not (holds(parse("a < b"), found) & holds(parse("b < a"), found)).any()


def test_limits_and_digits_are_what_was_released() -> None:
    schema = build({"day": pa.date32(), "fee": pa.float64(), "price": pa.decimal128(9, 3), "city": pa.string()})
    profile = TableProfile(
        10,
        10,
        "row",
        (
            ColumnProfile("day", Kind.DATE, (), (), ((10.0, 20.0),), (1.0,)),
            ColumnProfile("fee", Kind.DECIMAL, (), (), ((0.0, 9.5),), (1.0,), decimals=1),
            ColumnProfile("price", Kind.DECIMAL, (), ()),
            ColumnProfile("city", Kind.CATEGORY, ("a",), (1.0,)),
        ),
    )
    assert limits(schema, profile) == {"day": (10 * 86_400e6, 20 * 86_400e6), "fee": (0.0, 9.5)}
    assert digits(schema, profile) == {"fee": 1, "price": 3}
