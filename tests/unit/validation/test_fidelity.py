"""Distances of real and synthetic tables."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation import fidelity as module
from dp_synth_pipeline.validation.fidelity import compare
from tests.unit.validation.tables import good, schema

LETTERS = build({"a": pa.string(), "b": pa.string(), "x": pa.float64()})


def letters(seed: int, rows: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a = rng.choice(["p", "q", "r"], rows)
    return pd.DataFrame({"a": a, "b": np.where(rng.random(rows) < 0.9, a, "p"), "x": rng.normal(size=rows)})


def test_a_table_is_at_distance_zero_from_itself() -> None:
    found = compare(good().to_pandas(), good().to_pandas(), schema())
    assert found.distance1 == found.distance2 == found.null_rate_difference == 0
    assert found.accuracy1 == found.accuracy2 == 1
    assert found.verdict == "excellent"


def test_tables_with_nothing_in_common_are_at_distance_one() -> None:
    real = pd.DataFrame({"a": ["p"] * 50, "b": ["q"] * 50, "x": np.linspace(0, 1, 50)})
    other = pd.DataFrame({"a": ["s"] * 50, "b": [None] * 50, "x": [np.nan] * 50})
    found = compare(real, other, LETTERS)
    assert found.distance1 == found.distance2 == 1
    assert found.verdict == "poor"


def test_storage_in_memory_does_not_matter() -> None:
    arrow = good().to_pandas(types_mapper=pd.ArrowDtype)
    assert compare(good().to_pandas(), arrow, schema()).distance2 == 0


def test_the_distance_is_half_the_sum_of_differences_of_shares() -> None:
    schema_a = build({"a": pa.string()})
    real = pd.DataFrame({"a": ["p"] * 6 + ["q"] * 4})
    synthetic = pd.DataFrame({"a": ["p"] * 3 + ["q"] * 6 + [None]})
    found = compare(real, synthetic, schema_a)
    assert found.distance1 == pytest.approx(0.3)
    assert found.columns[0].widest == "p"
    assert (found.columns[0].share_real, found.columns[0].share_synthetic) == (0.6, 0.3)
    assert found.columns[0].null_rate_synthetic == pytest.approx(0.1)
    assert found.pairs == ()
    assert found.distance2 == found.distance1


def test_a_fresh_sample_is_about_at_the_baseline_and_excellent() -> None:
    found = compare(letters(1), letters(2), LETTERS)
    assert found.distance2 == pytest.approx(found.baseline2, rel=0.6)
    assert found.verdict == "excellent"


def test_a_lost_relation_is_seen_in_the_pair_and_not_in_the_columns() -> None:
    real, synthetic = letters(1), letters(2)
    synthetic["b"] = synthetic["b"].sample(frac=1, random_state=0).to_numpy()
    found = compare(real, synthetic, LETTERS)
    worst = found.worst_pairs[0]
    assert {worst.left, worst.right} == {"a", "b"}
    assert worst.distance > 0.3
    assert found.distance1 < 0.05
    assert found.verdict in ("fair", "poor")


def test_a_spoiled_column_ranks_first() -> None:
    synthetic = letters(2)
    synthetic["x"] += 1
    assert compare(letters(1), synthetic, LETTERS).ranked[0].name == "x"


def test_counting_occupied_cells_alone_gives_the_same_figures(monkeypatch) -> None:
    dense = compare(letters(1), letters(2), LETTERS)
    monkeypatch.setattr(module, "DENSE_CELLS", 0)
    sparse = compare(letters(1), letters(2), LETTERS)
    for a, b in zip(dense.pairs, sparse.pairs, strict=True):
        assert a.distance == pytest.approx(b.distance)
        assert a.baseline == pytest.approx(b.baseline)


def test_many_rows_and_many_pairs_are_sampled(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 500)
    monkeypatch.setattr(module, "MOST_PAIRS", 2)
    found = compare(letters(1), letters(2), LETTERS)
    assert (found.rows_real, found.rows_compared, len(found.pairs)) == (2000, 1000, 2)
    assert len(list(combinations("abx", 2))) == 3


def test_identifiers_are_not_compared() -> None:
    assert "id" not in [c.name for c in compare(good().to_pandas(), good(1).to_pandas(), schema()).columns]


def test_a_missing_column_or_an_empty_table_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'x'"):
        compare(letters(1), letters(2).drop(columns="x"), LETTERS)
    with pytest.raises(InvalidInput, match="no rows"):
        compare(letters(1), letters(2).iloc[:0], LETTERS)


def test_the_figures_are_json_and_marked_restricted() -> None:
    facts = compare(letters(1), letters(2), LETTERS).to_dict()
    assert json.loads(json.dumps(facts))["restricted"] is True


@pytest.mark.parametrize("column", ["age", "sector", "joined", "seen"])
def test_a_column_of_nulls_alone_is_compared_without_an_exception(column: str) -> None:
    real = good().to_pandas()
    real[column] = None
    assert compare(real, good().to_pandas(), schema()).distance1 > 0


def wide(columns: int, wrong: int, rows: int = 60) -> module.Fidelity:
    """Compare two tables of so many columns, of which the last few are wrong in every row."""
    rng = np.random.default_rng(3)
    held = {f"c{i:03d}": rng.choice(["p", "q"], rows) for i in range(columns)}
    drawn = {n: np.full(rows, "s") if i >= columns - wrong else v for i, (n, v) in enumerate(held.items())}
    return compare(pd.DataFrame(held), pd.DataFrame(drawn), build(dict.fromkeys(held, pa.string())))


def test_all_columns_of_an_ordinary_table_are_telling_in_their_order() -> None:
    found = wide(module.MOST_COLUMNS, 3)
    assert found.telling(["c050"]) == tuple(c.name for c in found.columns)


def test_of_very_many_columns_those_declared_and_the_worst_are_telling() -> None:
    found = wide(3 * module.MOST_COLUMNS, 5)
    names = found.telling(["c007"])
    assert len(names) == module.MOST_COLUMNS
    assert list(names) == sorted(names), "in table order"
    paired = {n for p in found.worst_pairs[:5] for n in (p.left, p.right)}
    wrong = {f"c{i}" for i in range(295, 300)}
    assert {"c007"} | wrong | paired <= set(names)


def test_no_column_is_in_more_than_two_of_the_varied_pairs() -> None:
    found = wide(8, 1)
    assert all("c007" in (p.left, p.right) for p in found.worst_pairs[:4])
    chosen = found.varied_pairs(4)
    assert chosen[0] == (found.worst_pairs[0].left, found.worst_pairs[0].right)
    assert sum("c007" in pair for pair in chosen) == 2
    assert len(chosen) == 4


def test_distances_stand_in_a_square() -> None:
    found = compare(letters(1), letters(2), LETTERS)
    square = found.distances(["a", "x"])
    pair = next(p for p in found.pairs if {p.left, p.right} == {"a", "x"})
    assert square == [[None, round(pair.distance, 4)], [round(pair.distance, 4), None]]


def test_a_column_that_was_drawn_as_nulls_alone_is_empty_and_can_be_left_aside() -> None:
    real = letters(1)
    found = compare(real, real.assign(b=None), LETTERS)
    assert found.empty == ("b",)
    others = found.without(found.empty)
    assert [c.name for c in others.columns] == ["a", "x"]
    assert [(p.left, p.right) for p in others.pairs] == [("a", "x")]
    assert (found.verdict, others.verdict) == ("poor", "excellent")


def test_a_column_of_which_the_real_table_holds_no_value_either_is_not_empty() -> None:
    real, drawn = letters(1), letters(2)
    real["b"] = drawn["b"] = None
    assert compare(real, drawn, LETTERS).empty == ()
