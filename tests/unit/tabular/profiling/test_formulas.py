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
from dp_synth_pipeline.tabular.constraints.parse import Formula, Sum
from dp_synth_pipeline.tabular.profiling import candidates, formulas, kept_formulas
from dp_synth_pipeline.tabular.profiling.candidates import Candidate
from dp_synth_pipeline.tabular.profiling.formulas import FormulasPlan
from dp_synth_pipeline.tabular.profiling.kept_formulas import Forms, half_step
from dp_synth_pipeline.tabular.schema import build

ROWS = 4_000


def found(columns: dict[str, Any], folder: Path, scale: float = 1e-6, rate: float = 1.0) -> tuple[str, ...]:
    """Return what is found of a table's columns at some noise."""
    table = pa.table({n: pa.array(v, from_pandas=True) for n, v in columns.items()})
    pq.write_table(table, folder / "rows.parquet")
    names = formulas.columns(build({n: table.schema.field(n).type for n in columns}))
    plan = FormulasPlan(names, scale, rate, spread=3 if len(names) >= formulas.MANY else 2)
    return formulas.measure(folder / "rows.parquet", plan, Odometer(plan.events))


def sales(rows: int = ROWS) -> dict[str, np.ndarray]:
    """A third of the orders is of one piece, whose net price is the price of a piece."""
    rng = np.random.default_rng()
    price, count = np.round(rng.lognormal(3, 0.8, rows), 2), rng.geometric(0.3, rows)
    net, fee = np.round(price * count, 2), np.round(rng.uniform(1, 9, rows), 2)
    return {"price": price, "count": count, "fee": fee, "net": net, "gross": np.round(net + fee, 2)}


def counts(columns: dict[str, Any], folder: Path, rate: float = 1.0) -> dict[str, int]:
    """Return how many rows are counted for each sum, product or quotient that any is counted for."""
    table = pa.table({n: pa.array(v, from_pandas=True) for n, v in columns.items()})
    pq.write_table(table, folder / "rows.parquet")
    forms = Forms(tuple(columns))
    told = formulas._counts(folder / "rows.parquet", FormulasPlan(tuple(columns), 1.0, rate), forms)
    return {f.text: int(n) for f, n in zip(forms.formulas, told, strict=False) if n}


TRIALS = [
    Candidate(parse(text), 0)  # type: ignore[arg-type]
    for text in ("a = b + c", "b = a * d", "c = a / b", "d = 0.2 * a", "a = b * c * (1 - d)")
]
"""Of columns a to d."""


def test_sums_and_products_of_other_columns_are_found(tmp_path: Path) -> None:
    assert set(found(sales(), tmp_path, ROWS * formulas.NOISE / 2)) == {"net = price * count", "gross = fee + net"}


def orders(rows: int = ROWS, discounted: float = 0.3) -> dict[str, np.ndarray]:
    """What most shops have: a discount that few orders have, a rate of tax, shipping, and what is still to be paid."""
    rng = np.random.default_rng()
    price, count = np.round(rng.lognormal(3, 0.8, rows), 2), rng.geometric(0.4, rows)
    discount = np.where(rng.random(rows) < discounted, rng.choice([0.05, 0.1, 0.2, 0.25], rows), 0)
    rate, shipping = rng.choice([0.07, 0.19], rows, p=[0.2, 0.8]), rng.choice([0, 4.95, 9.9], rows, p=[0.3, 0.5, 0.2])
    net = np.round(price * count * (1 - discount), 2)
    tax = np.round(net * rate, 2)
    total = np.round(net + tax + shipping, 2)
    paid = np.where(rng.random(rows) < 0.6, total, np.round(total * rng.random(rows), 2))
    return {
        "age": rng.integers(18, 90, rows),
        **{"price": price, "count": count, "discount": discount, "net": net, "rate": rate, "tax": tax},
        **{"shipping": shipping, "total": total, "paid": paid, "due": np.round(total - paid, 2)},
        "items": rng.integers(1, 9, rows),
    }


def test_formulas_of_four_columns_are_found_among_twelve_that_hang_together(tmp_path: Path) -> None:
    told = {
        "net = price * count * (1 - discount)",
        "tax = net * rate",
        "total = net + tax + shipping",
        "due = total - paid",
    }
    runs = [set(found(orders(), tmp_path, ROWS * formulas.NOISE)) for _ in range(5)]
    assert sum(run == told for run in runs) >= 4


def test_a_discount_that_too_few_rows_have_is_left_out_of_the_price(tmp_path: Path) -> None:
    told = found(orders(discounted=0.01), tmp_path, ROWS * formulas.NOISE)
    assert "net = price * count" in told


def test_of_two_formulas_that_nearly_all_rows_keep_the_one_of_more_columns_is_kept(tmp_path: Path) -> None:
    rows = {name: x for name, x in orders(discounted=0.04).items() if name in ("price", "count", "discount", "net")}
    assert found(rows, tmp_path, ROWS / 2000) == ("net = price * count * (1 - discount)",)
    undiscounted = {name: x for name, x in rows.items() if name != "discount"}
    assert found(undiscounted, tmp_path, ROWS / 2000) == ("net = price * count",)


def test_a_sum_with_a_sign_and_one_of_three_parts_are_found(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    gross, fee, tax = (np.round(rng.lognormal(mean, 0.5, ROWS), 2) for mean in (6, 3, 4))
    signed = {"gross": gross, "fee": fee, "tax": tax, "paid": np.round(gross + fee - tax, 2)}
    assert found(signed, tmp_path, ROWS * formulas.NOISE) == ("paid = gross + fee - tax",)
    less = {"gross": gross, "fee": fee, "tax": tax, "paid": np.round(gross - fee - tax, 2)}
    assert found(less, tmp_path, ROWS * formulas.NOISE) == ("gross = fee + tax + paid",)


def test_where_a_declared_rule_computes_a_total_another_sum_of_it_says_a_part(tmp_path: Path) -> None:
    rows = {name: x for name, x in orders().items() if name in ("net", "tax", "total", "paid", "due")}
    rows["total"] = np.round(rows["net"] + rows["tax"], 2)
    rows["due"] = np.round(rows["total"] - rows["paid"], 2)
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    plan = FormulasPlan(tuple(rows), ROWS * formulas.NOISE)
    told = formulas.measure(tmp_path / "rows.parquet", plan, Odometer(plan.events), {"total": ("net", "tax")})
    assert told == ("due = total - paid",)


def test_of_a_sum_whose_target_is_taken_the_last_part_is_what_the_others_leave() -> None:
    turned = formulas._turned(parse("gross = net + tax - off"))  # type: ignore[arg-type]
    assert [formula.target for formula in turned] == ["gross", "off", "tax", "net"]
    assert [formula.target for formula in formulas._turned(parse("net = price * count"))] == ["net"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("total = paid + due", "due", "due = total - paid"),
        ("paid = gross + fee - tax", "tax", "tax = gross + fee - paid"),
        ("a = -b - c", "b", "b = - a - c"),
        ('"a b" = c - d', "d", 'd = c - "a b"'),
    ],
)
def test_a_sum_says_what_its_other_columns_are(text: str, name: str, said: str) -> None:
    rule = parse(text)
    assert isinstance(rule, Sum)
    turned = rule.turned(name)
    assert turned.text == said
    assert parse(said) == turned
    values = {n: np.array([float(i)]) for i, n in enumerate("abc")} | {"d": np.array([7.0])}
    if set(rule.columns) <= set(values):
        assert turned.solved(name, values.__getitem__) == rule.solved(name, values.__getitem__)


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


def test_a_multiple_that_holds_in_half_of_the_rows_is_not_found(tmp_path: Path) -> None:
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
    halves = {name: half_step(x) for name, x in values.items()}
    placed = candidates.cells(parse("tax = 0.19 * net"), values, halves)  # type: ignore[arg-type]
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
    rows: dict[str, Any] = dict(zip(("unit price", "n", "fee", "net", "gross"), sales().values(), strict=True))
    assert 'net = "unit price" * n' in found(rows, tmp_path)


def test_a_formula_that_a_few_rows_break_is_found_and_one_that_a_fifth_break_is_not(tmp_path: Path) -> None:
    for broken, told in ((0.02, True), (0.3, False)):
        rows = sales()
        wrong = np.random.default_rng().random(ROWS) < broken
        rows["gross"] = np.where(wrong, rows["gross"] + 3, rows["gross"])
        assert ("gross = fee + net" in found(rows, tmp_path)) is told


@pytest.mark.parametrize(
    "fee",
    [np.zeros(ROWS), np.where(np.arange(ROWS) % 50 == 0, 3.5, 0.0), np.ones(ROWS)],
    ids=["none", "of a fiftieth", "of one"],
)
def test_what_holds_since_a_part_says_nothing_is_not_found(tmp_path: Path, fee: np.ndarray) -> None:
    """With no fee a total is the price, which is no sum; and with a factor of 1 it is the price, which is no product."""
    price = sales()["price"]
    factor = np.where(fee == 1, 1.0, 2.0)
    total = price + np.where(fee == 1, 0, fee)
    rows = {"price": price, "fee": fee, "factor": factor, "total": total, "same": price * np.minimum(factor, 1)}
    assert not [
        rule for rule in found(rows, tmp_path, ROWS * formulas.NOISE) if rule.startswith(("total", "price", "same"))
    ]


def test_small_whole_numbers_that_often_add_up_by_chance_are_no_formula(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    few = {name: rng.integers(0, 3, ROWS) for name in "abcdef"}
    flags = {f"flag {i}": (rng.random(ROWS) < 0.05).astype(int) for i in range(4)}
    assert found({**few, **flags}, tmp_path) == ()


def test_no_column_has_two_formulas_or_is_computed_from_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    a, b = rng.integers(10, 99, (2, ROWS))
    told = found({"a": a, "b": b, "s": a + b, "d": a - b, "p": a * b, "t": 2 * a}, tmp_path)
    rules = [rule for rule in map(parse, told) if isinstance(rule, Formula)]
    assert len(rules) == len(told) >= 4
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
    assert [found(rows, tmp_path, scale) for _ in range(8)] == [()] * 8
    assert found({name: x[:0] for name, x in rows.items()}, tmp_path, scale) == ()


def test_rows_with_a_null_say_nothing(tmp_path: Path) -> None:
    rows = sales()
    rows["fee"] = np.where(np.arange(ROWS) % 2, np.nan, rows["fee"])
    assert "gross = fee + net" in found(rows, tmp_path)
    assert not [text for text in counts({**rows, "fee": np.full(ROWS, np.nan)}, tmp_path) if "fee" in text]


def test_what_divides_by_nothing_is_kept_by_no_row(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    rows = {"a": rng.integers(20, 90, ROWS), "b": rng.integers(1000, 9999, ROWS), "nothing": np.zeros(ROWS)}
    assert found(rows, tmp_path) == ()
    assert not [text for text in counts(rows, tmp_path) if text.endswith("/ nothing")]
    values = {name: x.astype(float) for name, x in rows.items()}
    halves = {name: half_step(x) for name, x in values.items()}
    assert len(candidates.cells(parse("a = b / nothing"), values, halves)) == 0  # type: ignore[arg-type]


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
def test_one_row_more_moves_few_counts_by_one_and_warns_of_nothing(
    rows: list[tuple[float, ...]], more: tuple[float, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, plan = tmp_path_factory.mktemp("rows") / "rows.parquet", FormulasPlan(tuple("abcd"), 1.0)

    def told(table: list[tuple[float, ...]]) -> list[np.ndarray]:
        pq.write_table(pa.table({n: np.array([r[i] for r in table], dtype=float) for i, n in enumerate("abcd")}), path)
        return [formulas._counts(path, plan, Forms(plan.columns)), *formulas._trials(path, plan, TRIALS)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moved = [more - fewer for fewer, more in zip(told(rows), told([*rows, more]), strict=True)]
    assert [len(m) for m in moved] == [Forms(plan.columns).size] + [candidates.CELLS] * len(TRIALS)
    assert min(m.min() for m in moved) >= 0
    assert moved[0].max() <= 1
    assert moved[0].sum() <= plan.spread**2 == 4
    assert max(m.sum() for m in moved[1:]) <= 1


@pytest.mark.parametrize(
    ("columns", "most"), [(3, 4), (5, 4), (6, 4), (6, 9), pytest.param(12, 9, marks=pytest.mark.nightly)]
)
def test_a_row_that_keeps_very_many_formulas_is_counted_for_few_and_not_always_the_same(
    columns: int, most: int
) -> None:
    rows = 200 if columns < 12 else 25  # of which each keeps tens of thousands
    values = {
        name: (1 + np.arange(rows)) * by for by, name in zip(2.0 ** np.arange(1, 13), "abcdefghijkl", strict=True)
    }
    forms = Forms(tuple(values)[:columns])
    exact = {name: np.zeros(rows) for name in values}
    rows_of = [[{n: x[[i]] for n, x in of.items()} for of in (values, exact)] for i in range(rows)]
    each = [forms.counts(row, halves, most) for row, halves in rows_of]
    assert max(told.sum() for told in each) <= most
    together = forms.counts(values, exact, most)
    assert (together == sum(each)).all(), "what a row is counted for, no other row says"
    if columns > 3:
        assert np.count_nonzero(together) > most


def test_of_what_a_row_keeps_that_counts_more_often_which_chance_explains_less() -> None:
    rows, rng = np.repeat(np.arange(4000), 9), np.random.default_rng()
    chance = np.where(np.arange(len(rows)) % 9 == 0, 1e-4, 1e-2)
    bits = rng.integers(0, 2**63, 4000).astype(np.uint64)
    chosen = kept_formulas._likeliest(rows, np.tile(np.arange(9), 4000), chance, bits, 4)
    drawn = np.bincount(np.tile(np.arange(9), 4000)[chosen], minlength=9) / 4000
    assert drawn.sum() == pytest.approx(4)
    assert drawn[0] > 0.95
    assert drawn[1:] == pytest.approx(np.full(8, (4 - drawn[0]) / 8), abs=0.04)


def test_a_row_counts_for_what_it_keeps_if_that_says_something(tmp_path: Path) -> None:
    def kept(*row: float) -> set[str]:
        return set(counts({name: np.array([x], dtype=float) for name, x in zip("abcd", row, strict=False)}, tmp_path))

    assert kept(5, 7, 12) == {"c = a + b"}
    assert kept(12, 7, 5) == {"a = b + c"}
    assert kept(5, 7, 35) == {"c = a * b"}, "and neither a nor b is a quotient, whose product holds"
    assert kept(20.01, 7, 140.07) == {"c = a * b"}
    assert kept(20.01, 7, 2.86) == {"c = a / b"}
    assert kept(5, 0, 5) == set(), "a part that is 0 says nothing"
    assert kept(35, 1, 35) == set(), "nor does a factor of 1"
    assert kept(3, 4, 7, 100) == {"c = a + b"}
    assert kept(43, 11, 11, 43) == set(), "what is added and taken off again says nothing"
    assert kept(2, 2, 4) == set(), "rounded, 4 may be any number from 3.5 to 4.5"
    assert kept(5, 7, 13) == set()
    assert kept(21.5, 0.25, 16.13) == {"c = a * (1 - b)"}
    assert kept(21.5, 0.25, 26.88) == {"c = a * (1 + b)"}
    assert kept(21.5, 2.5, 75.25) == set(), "nobody is charged 250 % more"
    assert kept(21.5, 3, 0.25, 48.38) == {"d = a * b * (1 - c)"}
    assert kept(21.5, 3.7, 4.1, 326.16) == {"d = a * b * c"}
    assert kept(21.52, 3.71, 4.13, 29.36) == {"d = a + b + c"}
    assert kept(21.52, 3.71, 4.13, 21.1) == {"d = a + b - c"}


def test_what_a_plan_costs_is_one_gaussian_of_what_rows_keep_and_one_of_each_formula_tried() -> None:
    plan = FormulasPlan(tuple("abcde"), 30.0, unit=PrivacyUnit("who", 3))
    assert plan.events == (Gaussian(5.0, 1), Gaussian(10.0, 5))
    more = FormulasPlan(tuple("abcdef"), 30.0, spread=3)
    assert more.events == (Gaussian(10.0, 1), Gaussian(30.0, 12))
    assert (plan.weight, more.weight) == (4 + 5, 9 + 12)


def test_of_many_columns_rows_are_counted_for_more_formulas_as_long_as_that_can_be_paid() -> None:
    assert list(formulas.looked_for("abcdefg")) == [
        *[(tuple("abcdefg"), 3), (tuple("abcdefg"), 2), (tuple("abcdef"), 3), (tuple("abcdef"), 2)],
        *[(tuple("abcde"), 2), (tuple("abcd"), 2), (tuple("abc"), 2)],
    ]


def test_no_more_formulas_are_tried_than_were_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.round(np.random.default_rng().lognormal(5, 0.5, ROWS), 2)
    rows = {name: np.round(by * a, 2) for by, name in zip((1, 2.1, 3.4, 5.9, 13.7), "abcde", strict=True)}
    counted, honest = [], mechanisms.noisy_histograms

    def noisy(counts: Any, **how: Any) -> Any:
        counted.append(len(counts))
        return honest(counts, **how)

    monkeypatch.setattr(mechanisms, "noisy_histograms", noisy)
    told = found(rows, tmp_path)
    assert counted == [1, 5], "each two are multiples, ten times"
    assert len(told) == 4, "those are tried first that may all be rules"


def test_noise_is_for_all_rows_of_a_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table(sales()), tmp_path / "rows.parquet")
    asked, honest = [], mechanisms.noisy_histograms

    def noisy(counts: Any, *, sensitivity: float, **how: Any) -> Any:
        asked.append(sensitivity)
        return honest(counts, sensitivity=sensitivity, **how)

    monkeypatch.setattr(mechanisms, "noisy_histograms", noisy)
    plan = FormulasPlan(("price", "count", "net"), 30.0, unit=PrivacyUnit("who", 3))
    formulas.measure(tmp_path / "rows.parquet", plan, Odometer(plan.events))
    assert asked == [6, 3]


def test_nothing_is_counted_that_was_not_charged(tmp_path: Path) -> None:
    pq.write_table(pa.table(sales()), tmp_path / "rows.parquet")
    plan = FormulasPlan(("price", "count", "net"), 5.0)
    with pytest.raises(NotCharged):
        formulas.measure(tmp_path / "rows.parquet", plan, Odometer((Gaussian(6.0, 4),)))


def test_of_many_rows_a_part_is_looked_at_each_by_its_own_coin(tmp_path: Path) -> None:
    rows = sales(20_000)
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    all_of_them = counts(rows, tmp_path)["gross = fee + net"]
    seen = [counts(rows, tmp_path, 0.25)["gross = fee + net"] for _ in range(3)]
    assert all(abs(s - all_of_them / 4) < 400 for s in seen)
    assert len(set(seen)) > 1
    assert formulas.rate(10**6) == 0.025
    assert formulas.rate(1_000) == 1.0
    assert found(rows, tmp_path, 5_000 * formulas.NOISE / 2, 0.25)[0] in ("net = price * count", "gross = fee + net")


def test_numbers_alone_are_looked_at_that_a_rule_can_name() -> None:
    types = {"a": pa.int64(), "b": pa.float32(), "c": pa.string(), "d": pa.bool_(), "e": pa.date32(), 'f`"': pa.int8()}
    schema = build({**types, "g": pa.decimal128(9, 2), "h": pa.int64()}, {"h": {"after": "a"}})
    assert formulas.columns(schema) == ("a", "b", "g")
