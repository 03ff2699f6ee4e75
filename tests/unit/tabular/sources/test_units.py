"""Rows per privacy unit: at most so many, by chance, whatever the batches are."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.units import Bound, bound_rows


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=30),
    cut=st.integers(1, 40),
    max_rows=st.integers(1, 5),
    text=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_unit_keeps_its_first_rows_wherever_batches_are_cut(lengths, cut, max_rows, text):
    owner = np.repeat(np.arange(len(lengths)), lengths)
    keys = pa.array([f"p{o:03d}" for o in owner] if text else owner)
    bound, stays, units = Bound(max_rows), [], []
    for start in range(0, len(keys), cut):
        kept, unit = bound(keys[start : start + cut])
        stays.append(kept)
        units.append(unit)
    kept = np.concatenate(stays)
    assert np.bincount(owner[kept]).tolist() == [min(n, max_rows) for n in lengths]
    assert (np.concatenate(units) == owner).all()
    assert bound.units == len(lengths)


def test_the_units_names_are_not_in_the_bounded_file(tmp_path):
    pq.write_table(pa.table({"k": ["canary"] * 3 + ["z"], "x": [1, 2, 3, 4]}), tmp_path / "in.parquet")
    assert bound_rows(tmp_path / "in.parquet", tmp_path / "out.parquet", "k", max_rows=2, number="u") == 2
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {"x": [1, 2, 4], "u": [0, 0, 1]}
    assert b"canary" not in (tmp_path / "out.parquet").read_bytes()


def test_which_rows_of_a_unit_stay_is_uniform(tmp_path):
    """400 units of 10 rows keep 3 each: a row stays with probability 0.3, so each index is kept 120 times, sd 9.2."""
    n = 400
    pq.write_table(pa.table({"k": np.repeat(np.arange(n), 10), "x": np.tile(np.arange(10), n)}), tmp_path / "t.parquet")
    taken = ingestion.snapshot(
        source.parse(str(tmp_path / "t.parquet")), tmp_path / "s" / "snap.parquet", unit=PrivacyUnit("k", 3)
    )
    x = pq.read_table(taken.path).column("x").to_numpy()
    assert len(x) == 3 * n
    assert np.abs(np.bincount(x, minlength=10) - 120) == pytest.approx(0, abs=60)  # 6.5 sd: false alarm under 1e-9
