"""Which numbers others give is told by noisy counts of the rows that keep a sum or a product, and by nothing else."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.errors import NotCharged
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular.constraints import holds, parse
from dp_synth_pipeline.tabular.profiling import candidates, formulas, multiples
from dp_synth_pipeline.tabular.profiling.candidates import Candidate
from dp_synth_pipeline.tabular.profiling.formulas import CELLS, NONE, SEVERAL, FormulasPlan
from dp_synth_pipeline.tabular.schema import build

ROWS = 4_000


def found(columns: dict[str, Any], folder: Path, scale: float = 1e-6, rate: float = 1.0) -> tuple[str, ...]:
    """Return what is found of a table's columns at some noise."""
    table = pa.table({n: pa.array(v, from_pandas=True) for n, v in columns.items()})
    pq.write_table(table, folder / "rows.parquet")
    names = formulas.columns(build({n: table.schema.field(n).type for n in columns}))
    plan = FormulasPlan(names, scale, rate)
    return formulas.measure(folder / "rows.parquet", plan, Odometer(plan.events))


def sales(rows: int = ROWS) -> dict[str, np.ndarray]:
    """A third of the orders is of one piece, whose net price is the price of a piece."""
    rng = np.random.default_rng()
    price, count = np.round(rng.lognormal(3, 0.8, rows), 2), rng.geometric(0.3, rows)
    net, fee = np.round(price * count, 2), np.round(rng.uniform(1, 9, rows), 2)
    return {"price": price, "count": count, "fee": fee, "net": net, "gross": np.round(net + fee, 2)}


def counts(columns: dict[str, Any], folder: Path) -> list[np.ndarray]:
    table = pa.table({n: pa.array(v, from_pandas=True) for n, v in columns.items()})
    pq.write_table(table, folder / "rows.parquet")
    return formulas._counts(folder / "rows.parquet", FormulasPlan(tuple(columns), 1.0))


TRIALS = [
    Candidate("a", "+", ("b", "c"), 0),
    Candidate("b", "*", ("a", "d"), 0),
    Candidate("c", "/", ("a", "b"), 0),
    Candidate("d", "*", ("a",), 0, 0.2),
]
"""Of columns a to d."""


def test_sums_and_products_of_other_columns_are_found(tmp_path: Path) -> None:
    assert set(found(sales(), tmp_path, ROWS * formulas.NOISE / 2)) == {"net = price * count", "gross = fee + net"}


@pytest.mark.parametrize("digits", [0, 2])
def test_a_quotient_is_told_from_a_product_by_what_was_rounded(tmp_path: Path, digits: int) -> None:
    rng = np.random.default_rng()
    hours, paid = rng.integers(1, 60, ROWS), np.round(rng.lognormal(9, 0.5, ROWS), 2)
    rows = {"rate": np.round(paid / hours, digits), "paid": paid, "hours": hours}
    assert found(rows, tmp_path) == ("rate = paid / hours",)
    for order in (("hours", "rate", "paid"), ("paid", "hours", "rate")):
        assert found({name: rows[name] for name in order}, tmp_path) == ("rate = paid / hours",)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_numbers_of_full_precision_agree_but_for_their_last_bits(tmp_path: Path, kind: pa.DataType) -> None:
    a, b = np.random.default_rng().normal(50, 9, (2, ROWS))
    rows = {"a": a, "product": a * b, "b": b, "sum": a + b}
    told = found({n: pa.array(v.astype(kind.to_pandas_dtype())) for n, v in rows.items()}, tmp_path)
    assert set(told) == {"product = a * b", "sum = a + b"}


@pytest.mark.parametrize("by", [0.2, 0.19, 0.0825, 2.54, 1.2, 60.0, 1000.0])
def test_a_multiple_is_found_whatever_was_rounded(tmp_path: Path, by: float) -> None:
    net = np.round(np.random.default_rng().lognormal(5, 0.5, ROWS), 2)
    rows = {"net": net, "other": np.random.default_rng().normal(0, 1, ROWS), "more": np.round(by * net, 2)}
    scale = ROWS * formulas.NOISE / 2
    for order in (rows, dict(reversed(rows.items()))):
        assert found(order, tmp_path, scale) == (f"more = {by:g} * net",)


def test_equal_columns_and_nearly_constant_ratios_are_no_multiples(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    a = np.round(rng.lognormal(5, 0.5, ROWS), 2)
    rows = {"a": a, "same": a, "like": np.round(a * rng.uniform(1.9, 2.1, ROWS), 2)}
    assert found(rows, tmp_path) == ()


def test_a_multiple_of_which_nulls_elsewhere_hide_whether_it_holds_is_not_found(tmp_path: Path) -> None:
    """It holds in a half of the rows, and the third column is there in a tenth of them."""
    rng = np.random.default_rng()
    a = np.round(rng.lognormal(5, 0.5, ROWS), 2)
    rows = {"a": a, "b": np.where(rng.random(ROWS) < 0.5, np.round(0.2 * a, 2), rng.uniform(1, 99, ROWS))}
    other = np.where(rng.random(ROWS) < 0.1, rng.normal(0, 1, ROWS), np.nan)
    assert found({**rows, "other": other}, tmp_path) == ()


def test_what_a_declared_rule_computes_is_a_part_and_never_a_target(tmp_path: Path) -> None:
    rows = {name: sales()[name] for name in ("price", "count")}
    rows["net"] = np.round(rows["price"] * rows["count"], 2)
    pq.write_table(pa.table(rows | {"gross": np.round(1.2 * rows["net"], 2)}), tmp_path / "rows.parquet")
    plan = FormulasPlan(("price", "count", "net", "gross"), 1e-6)

    def told(computed: dict[str, tuple[str, ...]]) -> set[str]:
        return set(formulas.measure(tmp_path / "rows.parquet", plan, Odometer(plan.events), computed))

    assert told({}) == {"net = price * count", "gross = 1.2 * net"}
    assert told({"net": ("price", "count")}) == {"gross = 1.2 * net"}
    assert len(told({"price": ("gross",)})) == 1, "with both, the price would be computed from itself"


def flags(rows: int = ROWS) -> np.ndarray:
    return (np.random.default_rng().random(rows) < 0.5).astype(int)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (flags(), np.full(ROWS, 45.0)),
        (np.full(ROWS, 1), 0.25 * flags()),
        (np.where(np.arange(ROWS) % 50, 1, 0), np.full(ROWS, 45)),
        (np.where(flags(), 1, 3), np.full(ROWS, 10)),
        (1 + np.arange(ROWS) % 2, 0.25 * (1 + np.arange(ROWS) % 2) * flags()),
    ],
    ids=[
        "a flag and a constant",
        "a constant and a rate",
        "two columns of nearly one value",
        "10 and 10 / 3",
        "or none",
    ],
)
def test_what_holds_since_a_column_is_nearly_always_one_value_is_not_found(
    tmp_path: Path, first: np.ndarray, second: np.ndarray
) -> None:
    """Of a column that is 45, rows in which a flag is set have 45 times the flag; the others do not."""
    rows = {"first": first, "second": second, "third": np.random.default_rng().normal(0, 1, ROWS)}
    for scale in (1e-6, ROWS * formulas.NOISE):
        assert found(rows, tmp_path, scale) == ()
        assert found(dict(reversed(rows.items())), tmp_path, scale) == ()


def test_a_row_keeps_a_formula_to_the_digits_of_its_target_and_a_target_of_0_is_0() -> None:
    values = {"tax": np.array([3.8, 3.79, 0.0, 0.0, np.nan, 4.0]), "net": np.array([20.0, 20.0, 1.5, 0.0, 5.0, 20.0])}
    halves = {name: formulas._half_step(x) for name, x in values.items()}
    placed = candidates.cells(Candidate("tax", "*", ("net",), 0, 0.19), values, halves)
    assert list(placed >= candidates.BUCKETS) == [False, True, True, False, False], (
        "4 is 3.8 rounded; a null says nothing"
    )
    assert len(set(placed[[0, 1, 4]] % candidates.BUCKETS)) == 1, "rows of one net price are one group"


def test_a_formula_is_found_of_a_part_that_has_few_values(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    nights, rate = rng.integers(1, 6, ROWS), np.round(rng.lognormal(4, 0.4, ROWS), 2)
    rows = {"nights": nights, "rate": rate, "due": np.round(nights * rate, 2), "tax": 1.5 * nights}
    assert set(found(rows, tmp_path, ROWS * formulas.NOISE / 2)) == {"due = nights * rate", "tax = 1.5 * nights"}


def test_names_that_are_no_words_are_quoted(tmp_path: Path) -> None:
    rows = dict(zip(("unit price", "n", "fee", "net", "gross"), sales().values(), strict=True))
    assert 'net = "unit price" * n' in found(rows, tmp_path)


def test_a_formula_that_a_few_rows_break_is_found_and_one_that_a_fifth_break_is_not(tmp_path: Path) -> None:
    for broken, told in ((0.02, True), (0.3, False)):
        rows = sales()
        wrong = np.random.default_rng().random(ROWS) < broken
        rows["gross"] = np.where(wrong, rows["gross"] + 3, rows["gross"])
        assert ("gross = fee + net" in found(rows, tmp_path)) is told


@pytest.mark.parametrize(
    "fee",
    [np.zeros(ROWS), np.where(np.arange(ROWS) % 10 == 0, 3.5, 0.0), np.ones(ROWS)],
    ids=["none", "of a tenth", "of one"],
)
def test_what_holds_since_a_part_says_nothing_is_not_found(tmp_path: Path, fee: np.ndarray) -> None:
    """With no fee a total is the price, which is no sum; and with a factor of 1 it is the price, which is no product."""
    price = sales()["price"]
    factor = np.where(fee == 1, 1.0, 2.0)
    rows = {"price": price, "fee": fee, "factor": factor, "total": price + fee, "same": price * np.minimum(factor, 1)}
    assert not [rule for rule in found(rows, tmp_path) if rule.startswith(("total", "price", "same"))]


def test_small_whole_numbers_that_often_add_up_by_chance_are_no_formula(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    few = {name: rng.integers(0, 3, ROWS) for name in "abcdef"}
    flags = {f"flag {i}": (rng.random(ROWS) < 0.05).astype(int) for i in range(4)}
    assert found({**few, **flags}, tmp_path) == ()


def test_no_column_has_two_formulas_or_is_computed_from_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    a, b = rng.integers(10, 99, (2, ROWS))
    told = found({"a": a, "b": b, "s": a + b, "d": a - b, "p": a * b, "t": 2 * a}, tmp_path)
    rules = [parse(text) for text in told]
    assert len(told) >= 4
    assert len({rule.target for rule in rules}) == len(rules)
    below = {rule.target: set(rule.columns) - {rule.target} for rule in rules}
    for _ in below:
        below = {name: parts.union(*(below.get(p, set()) for p in parts)) for name, parts in below.items()}
    assert all(name not in parts for name, parts in below.items())


def test_of_formulas_that_hold_noise_hides_few(tmp_path: Path) -> None:
    rows = sales()
    told = [found(rows, tmp_path, ROWS * formulas.MOST_NOISY) for _ in range(40)]
    assert sum(len(t) for t in told) >= 2 * 40 - 12, "one in 70 is missed at the highest noise"


def test_noise_alone_finds_nothing(tmp_path: Path) -> None:
    rows = {name: np.random.default_rng().normal(0, 1, ROWS) for name in "abcdefgh"}
    scale = ROWS * formulas.MOST_NOISY
    assert formulas.finds_any(scale, ROWS)
    assert [found(rows, tmp_path, scale) for _ in range(20)] == [()] * 20
    assert found({name: x[:0] for name, x in rows.items()}, tmp_path, scale) == ()


def test_rows_with_a_null_say_nothing(tmp_path: Path) -> None:
    rows = sales()
    rows["fee"] = np.where(np.arange(ROWS) % 2, np.nan, rows["fee"])
    assert "gross = fee + net" in found(rows, tmp_path)
    without = counts({**rows, "fee": np.full(ROWS, np.nan)}, tmp_path)
    of_fee = ["fee" in names for names in FormulasPlan(tuple(rows), 1).counted]
    assert [found.sum() for found, its in zip(without, of_fee, strict=True) if its] == [0] * sum(of_fee)


def test_what_is_found_is_kept_by_the_rows_as_a_rule(tmp_path: Path) -> None:
    rows = sales()
    table = pa.table(rows)
    for text in found(rows, tmp_path):
        assert holds(parse(text), table, {"net": 2, "gross": 2}).mean() > 0.99


number = st.one_of(st.integers(-40, 40), st.floats(allow_nan=True, width=32), st.just(2**53), st.just(1e308))


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(number, number, number, number), max_size=6), more=st.tuples(number, number, number, number)
)
def test_one_row_more_moves_each_histogram_by_one_cell_at_most_and_warns_of_nothing(
    rows: list[tuple[float, ...]], more: tuple[float, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before, after = (
            [
                *counts({n: np.array([r[i] for r in table], dtype=float) for i, n in enumerate("abcd")}, folder),
                *formulas._trials(folder / "rows.parquet", FormulasPlan(tuple("abcd"), 1.0), TRIALS),
            ]
            for table in (rows, [*rows, more])
        )
    moved = [more - fewer for fewer, more in zip(before, after, strict=True)]
    assert [len(m) for m in moved] == [CELLS] * 4 + [multiples.CELLS] * 6 + [candidates.CELLS] * len(TRIALS)
    assert min(m.min() for m in moved) >= 0
    assert max(m.sum() for m in moved) <= 1


def test_a_row_lies_in_a_cell_that_says_what_it_keeps_alone() -> None:
    def cell(*row: float) -> int:
        x = [np.array([v], dtype=float) for v in row]
        return int(formulas.cells(x, [formulas._half_step(v) for v in x])[0])

    assert cell(5, 7, 12) == 2
    assert cell(12, 7, 5) == 0
    assert cell(5, 7, 35) == formulas.SUMS + 2 * formulas.FORMS
    assert cell(2, 2, 4) == SEVERAL
    assert cell(0, 7, 7) == SEVERAL
    assert cell(5, 7, 13) == NONE
    assert cell(2, 5.25, 12.1) == SEVERAL, "2 is 12.1 / 5.25 to its digits, which says little"


def test_what_a_plan_costs_is_one_gaussian_of_each_histogram_and_each_formula_tried() -> None:
    plan = FormulasPlan(tuple("abcde"), 30.0, unit=PrivacyUnit("who", 3))
    assert plan.events == (Gaussian(10.0, 20 + 5),)
    assert formulas.histograms(5) == len(plan.counted) + plan.tried


def test_no_more_formulas_are_tried_than_were_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.round(np.random.default_rng().lognormal(5, 0.5, ROWS), 2)
    rows = {name: np.round(by * a, 2) for by, name in zip((1, 2, 3, 5, 7, 11), "abcdef", strict=True)}
    counted, honest = [], mechanisms.noisy_histograms

    def noisy(counts: Any, **how: Any) -> Any:
        counted.append(len(counts))
        return honest(counts, **how)

    monkeypatch.setattr(mechanisms, "noisy_histograms", noisy)
    told = found(rows, tmp_path)
    assert counted == [20 + 15, 6], "each two are multiples, 15 times"
    assert len(told) == 5, "those are tried first that may all be rules"


def test_noise_is_for_all_rows_of_a_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table(sales()), tmp_path / "rows.parquet")
    asked, honest = [], mechanisms.noisy_histograms

    def noisy(counts: Any, *, sensitivity: float, **how: Any) -> Any:
        asked.append(sensitivity)
        return honest(counts, sensitivity=sensitivity, **how)

    monkeypatch.setattr(mechanisms, "noisy_histograms", noisy)
    plan = FormulasPlan(("price", "count", "net"), 30.0, unit=PrivacyUnit("who", 3))
    formulas.measure(tmp_path / "rows.parquet", plan, Odometer(plan.events))
    assert asked == [3, 3]


def test_nothing_is_counted_that_was_not_charged(tmp_path: Path) -> None:
    pq.write_table(pa.table(sales()), tmp_path / "rows.parquet")
    plan = FormulasPlan(("price", "count", "net"), 5.0)
    with pytest.raises(NotCharged):
        formulas.measure(tmp_path / "rows.parquet", plan, Odometer((Gaussian(6.0, 4),)))


def test_of_many_rows_a_part_is_looked_at_each_by_its_own_coin(tmp_path: Path) -> None:
    rows = sales(20_000)
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    plan = FormulasPlan(("price", "count", "net"), 1.0, 0.25)
    seen = [formulas._counts(tmp_path / "rows.parquet", plan)[0].sum() for _ in range(3)]
    assert all(abs(s - 5_000) < 400 for s in seen)
    assert len(set(seen)) > 1
    assert formulas.rate(10**6) == 0.05
    assert formulas.rate(1_000) == 1.0
    assert found(rows, tmp_path, 5_000 * formulas.NOISE / 2, 0.25)[0] in ("net = price * count", "gross = fee + net")


def test_numbers_alone_are_looked_at_that_a_rule_can_name() -> None:
    types = {"a": pa.int64(), "b": pa.float32(), "c": pa.string(), "d": pa.bool_(), "e": pa.date32(), 'f`"': pa.int8()}
    schema = build({**types, "g": pa.decimal128(9, 2), "h": pa.int64()}, {"h": {"after": "a"}})
    assert formulas.columns(schema) == ("a", "b", "g")
