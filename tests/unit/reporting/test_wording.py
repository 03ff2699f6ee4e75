"""Numbers have the noun that they need, and what is poor is said with what would help."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.synthesis.expected_quality import Quality
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation.fidelity import compare

FAR = Quality(0.1, 0.2)
LETTERS = build(dict.fromkeys("abc", pa.string()))


def test_one_thing_is_no_plural() -> None:
    assert [wording.counted(n, "account") for n in (0, 1, 2, 1000)] == [
        "0 accounts", "1 account", "2 accounts", "1,000 accounts",
    ]  # fmt: skip


def test_what_is_poor_is_said_with_each_way_that_would_help() -> None:
    assert "0.2, so that pairs of columns will be far off; 4 times the rows or ε 2 would bring" in wording.poor(
        FAR, 4, 2.0
    )
    assert "far off; 4 times the rows would bring" in wording.poor(FAR, 4, None)
    assert "far off; ε 0.5 would bring" in wording.poor(FAR, None, 0.5)
    assert "neither 100 times the rows nor any ε worth naming" in wording.poor(FAR, None, None)


def drawn_without(names: list[str]) -> str:
    real = pd.DataFrame({"a": ["p", "q"] * 200, "b": ["r", "s", "t", "u"] * 100, "c": ["v"] * 400})
    return wording.without_empty(compare(real, real.assign(**dict.fromkeys(names)), LETTERS))


def test_a_verdict_says_what_it_would_be_without_the_columns_of_which_no_value_was_released() -> None:
    assert drawn_without(["b"]) == (
        "No value of b is frequent enough to be released. It holds nulls alone here; without, the verdict is excellent."
    )
    assert drawn_without(["a", "b"]).startswith(
        "No value of a, b is frequent enough to be released. They hold nulls alone"
    )


@pytest.mark.parametrize("names", [[], ["a", "b", "c"]], ids=["none is empty", "all are"])
def test_a_verdict_of_no_or_only_empty_columns_stands_alone(names: list[str]) -> None:
    assert drawn_without(names) == ""
