"""Rows per privacy unit: at most so many, by chance, whatever the batches are."""

import math
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.units import Bound, bound_rows, key_of


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


def _taken(table: pa.Table, max_rows: int) -> tuple[int, list[int]]:
    """Return the units of a snapshot of `table` by its column k, and the rows that each has in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        pq.write_table(table, path)
        read = source.parse(str(path))
        taken = ingestion.snapshot(read, Path(folder) / "s" / "snap.parquet", unit=PrivacyUnit("k", max_rows))
        return taken.units, sorted(Counter(pq.read_table(taken.path)[ingestion.UNIT].to_pylist()).values())


odd_floats = st.sampled_from([float("nan"), -float("nan"), 0.0, -0.0, 1.0, float("inf"), -float("inf"), 5e-324, None])


@given(keys=st.lists(odd_floats, min_size=1, max_size=60), width=st.sampled_from([pa.float32(), pa.float64()]))
@settings(max_examples=40, deadline=None)
def test_an_odd_number_is_one_unit_and_what_is_not_finite_is_none(keys, width):
    keys = [*keys, 2.0, 3.0]  # a snapshot of one row only is refused
    key = pa.array(keys, width)
    held = Counter(k for k in key.to_pylist() if k is not None and math.isfinite(k))
    units, rows = _taken(pa.table({"k": key, "x": range(len(keys))}), 2)
    assert units == len(held)
    assert rows == sorted(min(n, 2) for n in held.values())


def test_rows_whose_id_is_nan_do_not_become_a_unit_each():
    key = pa.array([*[float("nan")] * 30, 1.0, 1.0, 1.0, 2.0])
    assert _taken(pa.table({"k": key, "x": range(34)}), 2) == (2, [1, 2])


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        (pa.array(np.array(["NaT", "2020-01-01"], dtype="datetime64[us]")), [None, b"2020-01-01 00:00:00"]),
        (pa.array([7, None], pa.int8()), [b"7", None]),
        (pa.array([7, None], pa.uint64()), [b"7", None]),
        (pa.array(["nan", "-0.0", "7"]), [b"nan", b"-0.0", b"7"]),
        (pa.array([float("nan"), -0.0], pa.float32()), [None, b"0"]),
        (pa.array([7.0, 7.5, 1e300]), [b"7", b"7.5", b"1e+300"]),
        (pa.array([Decimal("70.00"), Decimal("70.50")]), [b"70", b"70.50"]),
        (pa.array(["7.0", "7"]), [b"7.0", b"7"]),
    ],
)
def test_a_key_is_the_bytes_of_its_text_whatever_its_width(values, keys):
    with duckdb.connect() as con:
        con.register("t", pa.table({"k": values}))
        assert [row[0] for row in con.sql(f"SELECT {key_of('k')} FROM t").fetchall()] == keys


def test_names_that_a_collation_sorts_together_are_one_run_each(tmp_path):
    with duckdb.connect(str(tmp_path / "p.duckdb")) as con:
        con.execute("CREATE TABLE p (k VARCHAR COLLATE NOCASE, x INTEGER)")
        con.execute("INSERT INTO p SELECT CASE WHEN i % 2 = 0 THEN 'Ana' ELSE 'ana' END, i FROM range(200) t(i)")
    taken = ingestion.snapshot(
        source.parse(f"duckdb:///{tmp_path / 'p.duckdb'}?table=p"),
        tmp_path / "s" / "snap.parquet",
        unit=PrivacyUnit("k", 2),
    )
    assert taken.units == 2
    assert pq.ParquetFile(taken.path).metadata.num_rows == 4


@pytest.mark.parametrize(
    "keys", [[1.0, float("nan")], [float("nan")] * 2, ["a", None], [1, None], ["b", "a"], ["a", "b", "a"]]
)
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_keys_that_do_not_ascend_are_refused(keys, cut):
    bound, arrow = Bound(1), pa.array(keys)
    with pytest.raises(InvalidInput, match="could not be sorted"):
        _ = [bound(arrow[start : start + cut]) for start in range(0, len(arrow), cut)]
