"""What the Dagster UI shows of a release: few digits that still hold, and ten synthetic rows."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.orchestration import metadata

POSITIVE = st.floats(1e-300, 1e300)


@given(POSITIVE)
def test_a_cost_is_never_shown_smaller_than_it_is_and_what_is_left_never_larger(x):
    assert x <= metadata.rounded_up(x) <= x * 1.01
    assert x * 0.99 <= metadata.rounded_down(x) <= x
    assert len(f"{metadata.rounded_up(x):e}".partition("e")[0].rstrip("0").replace(".", "")) <= metadata.DIGITS


def test_only_numbers_are_shortened_and_costs_upwards():
    facts = {"epsilon": 2.999920999247302, "delta_added": 6.813527296626853e-06, "rate": 0.123456, "rows": 123456}
    shown = metadata.readable({**facts, "passed": True, "name": "2.99992", "loss": math.inf})
    assert shown == {
        "epsilon": 3.0, "delta_added": 6.82e-06, "rate": 0.123, "rows": 123456, "passed": True, "name": "2.99992",
        "loss": math.inf,
    }  # fmt: skip


def test_a_preview_is_ten_rows_and_no_cell_of_it_is_read_as_markdown(tmp_path):
    rows = {"a|b": ["<b>x</b> | y"] + ["z" * 100] * 49, "n": [None] * 50}
    pq.write_table(pa.table(rows, schema=pa.schema([("a|b", pa.string()), ("n", pa.int64())])), tmp_path / "t.parquet")
    head, rule, first, second, *others = metadata.preview(tmp_path / "t.parquet").value.splitlines()
    assert (head, rule) == ("| a\\|b | n |", "|---|---|")
    assert first == "| \\<b\\>x\\</b\\> \\| y |  |"
    assert len(second) < 60
    assert len(others) == 8


def test_a_preview_of_a_wide_table_says_how_many_columns_it_leaves_out(tmp_path):
    pq.write_table(pa.table({f"c{i}": [i] for i in range(25)}), tmp_path / "t.parquet")
    text = metadata.preview(tmp_path / "t.parquet").value
    assert text.endswith("and 5 more columns")
    assert "c19" in text
    assert "c20" not in text


def test_a_preview_of_a_table_without_rows_has_its_columns(tmp_path):
    pq.write_table(pa.table({"c": pa.array([], pa.int64())}), tmp_path / "t.parquet")
    assert metadata.preview(tmp_path / "t.parquet").value == "| c |\n|---|"


def test_the_losses_that_were_paid_for_are_lines_of_a_table():
    shown = metadata.convergence([{"step": 1400, "loss": 9.8765, "deviation": 0.25}])["convergence"].value
    assert shown.splitlines()[-1] == "| 1,400 | 9.877 | 0.25 |"
    assert metadata.convergence([]) == {}
