"""What one unit moves in the histograms that types are chosen from: each by at most its rows, whatever its cells hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.tabular.profiling import types
from dp_synth_pipeline.tabular.sources.csv import classes, identifying, spelling

SHAPED = st.one_of(
    st.none(),
    st.text(max_size=12),
    st.sampled_from(
        ["", "NA", "007", "12", "-3.5", "1.234", "1.234,5", "$1,200", "(5)", "12%", "true", "inf", "1e999"]
    ),
    st.from_regex(
        r"\A\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ]\d{1,2}:\d{2}(:\d{2}(\.\d{1,7})?)?( [AP]M)?(Z|[+-]\d{2}(:?\d{2})?)?)?\Z"
    ),
    st.from_regex(r"\A\d{1,2}:\d{2}(:\d{2})?( [AP]M)?\Z"),
    st.from_regex(r"\A[\d]{13,19}\Z"),
    *(st.from_regex(f"\\A({pattern})\\Z") for pattern in identifying.PATTERNS.values()),
    st.from_regex(f"\\A{identifying.SPACED_CARD}\\Z"),
)
QUESTIONS = {
    "classes": (classes.class_of("cell"), classes.CLASSES),
    "days": (spelling.day_spelling("cell"), spelling.DAYS),
    "clocks": (spelling.clock_spelling("cell"), spelling.CLOCK_SPELLINGS),
}


def histograms(cells: list[str | None]) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as con:
        pq.write_table(pa.table({"c": pa.array(cells, pa.string())}), Path(folder) / "t.parquet")
        con.execute(f"CREATE VIEW cells AS SELECT * FROM read_parquet('{folder}/t.parquet')")
        return {name: types._counts(con, key, "c", names) for name, (key, names) in QUESTIONS.items()}


@settings(max_examples=40, deadline=None)
@given(others=st.lists(SHAPED, max_size=20), own=st.lists(SHAPED, min_size=1, max_size=4))
@example(others=[], own=["0/0/0000"])
def test_a_units_rows_move_each_histogram_by_at_most_their_number(
    others: list[str | None], own: list[str | None]
) -> None:
    without, with_own = histograms(others), histograms([*others, *own])
    for name in QUESTIONS:
        moved = with_own[name] - without[name]
        assert moved.sum() == len(own), f"{name}: each cell lies in exactly one class of the public list"
        assert np.linalg.norm(moved) <= len(own)
