"""Conditions: what they allow, what they leave out, and what they refuse."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.condition import Condition, written
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.encoding.support import log_within, support
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Kind, build

BINS = tuple((float(a), float(a + 5)) for a in range(20, 90, 5))
WIDE = ((0.0, 100.0), (100.0, 10_000.0))
TYPES = pa.schema(
    [
        ("y", pa.string()),
        ("age", pa.int64()),
        ("price", pa.float64()),
        ("flag", pa.bool_()),
        ("seen", pa.date32()),
        ("id", pa.int64()),
    ]
)


def table_codec() -> TableCodec:
    schema = build({f.name: f.type for f in TYPES}, {"id": {"kind": "identifier"}})
    facts = (
        ColumnProfile("y", Kind.CATEGORY, ("yes", "no", "later"), (0.2, 0.5, 0.1), other=0.05, null_rate=0.15),
        ColumnProfile("age", Kind.INTEGER, (40,), (0.2,), BINS, tuple([0.8 / len(BINS)] * len(BINS))),
        ColumnProfile("price", Kind.DECIMAL, (), (), WIDE, (0.6, 0.4), decimals=2),
        ColumnProfile("flag", Kind.BOOLEAN, (False, True), (0.7, 0.3)),
        ColumnProfile("seen", Kind.DATE, (), (), ((19_000.0, 19_010.0), (19_010.0, 19_400.0)), (0.5, 0.5)),
    )
    return TableCodec(schema, TableProfile(1000, 1000, "row", facts, ()))


CODEC = table_codec()
RANDOM = np.random.default_rng()


def rows(count: int = 20_000) -> tuple[np.ndarray, pa.Table]:
    codes = np.stack([RANDOM.integers(0, c, count) for c in CODEC.cardinalities], 1)
    codes = codes[~np.isin(codes[:, 0], CODEC.columns[0].forbidden)]
    return codes, pa.Table.from_batches([CODEC.decode(codes)])


@pytest.mark.parametrize(
    "where",
    [
        "y = 'yes'",
        "y <> 'yes' AND age BETWEEN 33 AND 41",
        "NOT (y = 'yes' OR age > 30)",
        "y IS NULL OR price < 3.5",
        "NOT (y IS NULL) AND NOT flag",
        "(y = 'yes' AND age > 60) OR (y = 'no' AND age < 30 AND flag)",
        "age % 7 = 3 AND lower(y) IN ('no', 'later')",
        "price = 12.34 OR price BETWEEN 55.001 AND 55.02",
        "age > price",
        "seen >= DATE '2022-01-12' AND extract(month FROM seen) = 1",
        "y NOT IN ('yes', 'no')",
        "coalesce(y, 'none') = 'none'",
        "NOT (age = 40)",
        "\"Age\" = 40 AND Y = 'no'",
        "y IS DISTINCT FROM 'yes' AND (flag OR 1 = 1)",
        {"y": ["yes", None], "age": [40, 41], "flag": True},
    ],
)
def test_no_row_that_satisfies_a_condition_is_ruled_out_by_its_codes(where) -> None:
    """Whatever is drawn of the other columns: a code that is ruled out given those before can be in no satisfying row."""
    condition = Condition(where, CODEC)
    codes, drawn = rows()
    held = condition.holds(drawn)
    assert held.any() or "12.34" in str(where)
    fine = np.ones(len(codes), dtype=bool)
    for column in range(codes.shape[1]):
        allowed = condition.allowed(column, codes[:, :column])
        if allowed is not None:
            fine &= np.broadcast_to(allowed, (len(codes), allowed.shape[1]))[np.arange(len(codes)), codes[:, column]]
    assert fine[held].all()


def test_a_conjunction_allows_exactly_the_codes_of_each_column() -> None:
    condition = Condition("y = 'no' AND age = 40 AND flag", CODEC)
    nothing = np.zeros((1, 0), np.int64)
    no, forbidden = CODEC.columns[0].values.index("no"), list(CODEC.columns[0].forbidden)
    assert np.flatnonzero(condition.allowed(0, nothing)[0]).tolist() == [no, *forbidden]
    assert np.flatnonzero(condition.allowed(1, np.array([[no]]))[0]).tolist() == [0]
    assert not condition.allowed(1, np.array([[no + 1]])).any()
    assert condition.allowed(1, np.array([forbidden])).any()  # another code will stand for it
    assert condition.allowed(2, np.zeros((1, 2), np.int64)) is None


def test_what_a_column_may_be_depends_on_the_columns_before() -> None:
    condition = Condition("(y = 'yes' AND flag) OR (y = 'no' AND NOT flag)", CODEC)
    y = [CODEC.columns[0].values.index(v) for v in ("yes", "no")]
    before = np.array([[y[0], 0, 0], [y[1], 0, 0]])
    flags = condition.allowed(3, before)
    assert flags.sum(1).tolist() == [1, 1]
    assert (flags[0] != flags[1]).all()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("y = 'maybe'", "nothing fits: .* released values yes, no, later"),
        ("age > 500", "'age' lies from 20 to"),
        ("flag IS NULL", "nothing fits"),
        ("y = 'yes' AND y = 'no'", "no row can satisfy"),
        ("years > 3", "no column 'years'; the table has: y, age"),
        ('y = "yes"', "no column 'yes'.*single quotes"),
        ("y =", "no SQL condition"),
        ("x = 1 AND order < 9", 'order is a word of SQL: as a column, it is written "order".'),
        ("1=1); DROP TABLE x; --", "no SQL condition"),
        ("age + 1", "is no condition"),
        ("age > (SELECT max(age) FROM judged)", "'subquery' is no function of one row"),
        ("random() < 0.5", "'random' is no function of one row"),
        ("row_number() OVER () = 1", "no function of one row"),
        ("nosuch(age) = 1", "nosuch"),
        ("id = 3", "column 'id' is made anew"),
        ("", "it is empty"),
        ({}, "it is empty"),
        ({"y": []}, "empty list"),
        ({"y": object()}, "got object"),
        (3, "it is empty"),
    ],
)
def test_a_condition_that_cannot_be_is_refused_with_what_to_do(where, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        Condition(where, CODEC)


def test_a_condition_can_read_nothing_but_the_rows(tmp_path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for where in (f"age > (SELECT a FROM '{secret}')", f"EXISTS (FROM read_csv('{secret}'))", "getenv('HOME') = 'x'"):
        with pytest.raises(InvalidInput):
            Condition(where, CODEC)


def test_values_by_column_are_written_as_sql() -> None:
    assert written({"y": "it's", "age": [1, None], "flag": False}, CODEC) == (
        '"y" = \'it\'\'s\' AND ("age" IN (1) OR "age" IS NULL) AND "flag" = false'
    )
    assert written({"y": True}, CODEC) == "\"y\" = 'yes'"  # as YAML reads yes


def test_every_value_of_a_support_comes_from_its_code_and_its_likelihoods_add_up() -> None:
    for codec in CODEC.columns:
        found = support(codec)
        assert set(found.codes) >= set(range(codec.cardinality)) - set(getattr(codec, "forbidden", ()))
        valued = ~np.asarray(found.values.is_null())
        assert (codec.encode(found.values)[valued] == found.codes[valued]).all()
        logs = log_within(codec, found.values, found.codes)
        assert np.isfinite(logs).all()
        for code in np.flatnonzero(found.whole):
            values = found.values.filter(pa.array(found.codes == code)).unique()
            if len(values):
                total = np.exp(log_within(codec, values, np.full(len(values), code))).sum()
                assert total == pytest.approx(1, abs=1e-6)


def test_what_is_never_drawn_has_no_likelihood() -> None:
    codec = CODEC.columns[1]
    far = pa.array([1_000, None])
    assert np.isneginf(log_within(codec, far, codec.encode(far))).all()
    names = pa.array(["maybe"])
    assert np.isneginf(log_within(CODEC.columns[0], names, CODEC.columns[0].encode(names))).all()


@pytest.mark.parametrize("facts", [{}, {"nulls": "drop"}, {"other": "draw"}], ids=str)
@pytest.mark.parametrize("null_rate", [0.0, 0.2])
def test_of_a_category_without_released_names_what_is_drawn_is_possible_and_nothing_else(
    facts: dict[str, str], null_rate: float
) -> None:
    schema = build({"x": pa.string()}, {"x": facts})
    column = ColumnProfile("x", Kind.CATEGORY, (), (), other=1 - null_rate, null_rate=null_rate)
    codec = TableCodec(schema, TableProfile(1000, 1000, "row", (column,), ())).columns[0]
    drawn = codec.decode(np.arange(codec.cardinality), RANDOM).to_pylist()
    values = pa.array([None, "other", "a"])
    logs = log_within(codec, values, codec.encode(values))
    assert logs.tolist() == [0.0 if value in drawn else -np.inf for value in values.to_pylist()]
