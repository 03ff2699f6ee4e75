"""Numbers that others give in real rows, and not in synthetic ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from dp_synth_pipeline.tabular.constraints import holds, parse
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation import suggested_formulas as module
from dp_synth_pipeline.validation.suggested_formulas import SuggestedFormula, suggested_formulas


def orders(rows: int = 600, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "price": np.round(rng.gamma(3, 9, rows), 2),
            "count": rng.integers(1, 9, rows),
            "fee": np.round(rng.random(rows) * 5, 2),
            "hours": rng.integers(1, 60, rows),
            "age": rng.integers(18, 90, rows),
            "city": "x",
        }
    )
    total = np.round(frame["price"] * frame["count"], 2)
    return frame.assign(
        total=total,
        paid=np.round(total + frame["fee"], 2),
        gross=np.round(1.19 * frame["price"], 2),
        rate=np.round(total / frame["hours"], 2),
    )


def found(real: pd.DataFrame, synthetic: pd.DataFrame) -> list[SuggestedFormula]:
    schema = build(dict(zip(real.columns, pa.Table.from_pandas(real).schema.types, strict=True)))
    return suggested_formulas(real, synthetic, schema, np.random.default_rng(5))


def shuffled(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.apply(lambda column: column.sample(frac=1).to_numpy())


def test_a_multiple_a_sum_a_product_and_a_quotient_are_suggested_as_rules() -> None:
    rules = found(orders(), shuffled(orders(seed=1)))
    assert {rule.text for rule in rules} == {
        "total = price * count",
        "paid = fee + total",
        "gross = 1.19 * price",
        "rate = total / hours",
    }
    for rule in rules:
        assert rule.rows == 600
        assert rule.broken > 0.5
        assert rule.by_chance > 0.2
        assert parse(yaml.safe_load(rule.line)[0]) == parse(rule.text)


@pytest.mark.parametrize(("sign", "columns"), [("-", "price * count"), ("+", "price")])
def test_a_discount_and_a_tax_are_told_where_enough_rows_have_one(sign: str, columns: str) -> None:
    real = orders()[["price", "count"]]
    rate = np.random.default_rng(3).choice([0, 0.05, 0.19], len(real), p=[0.6, 0.2, 0.2])
    whole = real["price"] * (real["count"] if "count" in columns else 1)
    real = real.assign(rate=rate, paid=np.round(whole * (1 + rate if sign == "+" else 1 - rate), 2))
    assert [rule.text for rule in found(real, shuffled(real))] == [f"paid = {columns} * (1 {sign} rate)"]
    large = real.assign(rate=10 * rate, paid=np.round(whole * (1 + 10 * rate if sign == "+" else 1 - 10 * rate), 2))
    assert not any("(1" in rule.text for rule in found(large, shuffled(large))), "no discount, no tax"
    rarely = real.assign(rate=0.0, paid=np.round(whole, 2))
    rarely.loc[:3, ["rate", "paid"]] = [0.5, 0.0]
    assert not any("(1" in rule.text for rule in found(rarely, shuffled(rarely)))


def test_a_sum_of_three_parts_is_suggested_and_nothing_that_says_no_more() -> None:
    rng = np.random.default_rng(4)
    real = pd.DataFrame(
        {name: np.round(rng.gamma(3, mean, 600), 2) for name, mean in (("net", 90), ("tax", 9), ("post", 2))}
    )
    real["total"] = real["net"] + real["tax"] + real["post"]
    assert [rule.text for rule in found(real, shuffled(real))] == ["total = net + tax + post"]
    real["due"] = real["net"] + real["tax"]
    assert {rule.text for rule in found(real, shuffled(real))} == {"due = net + tax", "total = post + due"}


def test_nothing_is_suggested_where_both_tables_keep_it_or_a_real_row_breaks_it() -> None:
    assert found(orders(), orders(seed=1)) == []
    real = orders()
    real.loc[599, ["total", "gross"]] += 50.0
    texts = {rule.text for rule in found(real, shuffled(orders(seed=1)))}
    assert texts == set(), "the other formulas are of the total"


def test_names_of_other_characters_are_quoted_for_rules_and_for_yaml() -> None:
    real = pd.DataFrame({"net cost": np.arange(500) % 37, "tax": np.arange(500) % 11})
    real["what: is paid"] = real["net cost"] + real["tax"]
    (rule,) = found(real, shuffled(real))
    assert rule.text == '"what: is paid" = "net cost" + tax'
    assert parse(yaml.safe_load(rule.line)[0]) == parse(rule.text)
    assert holds(parse(rule.text), pa.Table.from_pandas(real)).all()


def test_what_chance_would_keep_too_is_no_formula() -> None:
    """A fee of 0 in nearly all rows, and numbers of 0 and 1 that are often equal."""
    real = orders().assign(fee=0.0)
    for every in (1000, 20):
        real.loc[::every, "fee"] = 2.5
        real["paid"] = real["total"] + real["fee"]
        assert "paid = fee + total" not in {rule.text for rule in found(real, shuffled(real))}
    few = pd.DataFrame({"a": np.arange(400) % 50 == 0, "b": np.arange(400) % 40 == 0}).astype(int)
    few["c"] = few["a"] * few["b"]
    assert found(few, shuffled(few)) == []


def test_equal_columns_and_those_that_hang_on_others_are_no_formulas() -> None:
    real = orders()[["price", "gross"]].assign(again=lambda f: f["price"])
    assert {rule.text for rule in found(real, shuffled(real))} == {"gross = 1.19 * price", "gross = 1.19 * again"}
    hanging = build({"price": pa.float64(), "gross": pa.float64()}, {"gross": {"after": "price"}})
    rng = np.random.default_rng(5)
    assert suggested_formulas(real[["price", "gross"]], shuffled(real[["price", "gross"]]), hanging, rng) == []


def test_few_rows_prove_no_formula_and_nulls_are_not_judged() -> None:
    real = orders()[["price", "count", "total"]].astype(float)
    real.loc[50:, "total"] = None
    assert found(real, shuffled(real)) == []
    real = orders()[["price", "count", "total"]].astype(float)
    real.loc[200:, "total"] = None
    assert [rule.rows for rule in found(real, shuffled(real))] == [200]


def test_there_are_at_most_so_many_and_of_so_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FORMULAS", 1)
    assert len(found(orders(), shuffled(orders(seed=1)))) == 1
    monkeypatch.setattr(module.formulas, "MOST_COLUMNS", 2)
    assert found(orders(), shuffled(orders(seed=1))) == []
