"""Distances and attacks from files of rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.tabular.encoding.axis import AxisCodec
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.kinds import Kind
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.tabular.sources.ingestion import UNIT
from dp_synth_pipeline.validation import evidence
from dp_synth_pipeline.validation.evidence import gather

CITIES = tuple("ABCDEFGH")
COLUMNS = build({"income": pa.float64(), "age": pa.int64(), "city": pa.string()})
BINS = tuple((float(i), float(i + 10)) for i in range(0, 100, 10))
PROFILE = TableProfile(
    500,
    500,
    "row",
    (
        ColumnProfile("income", Kind.DECIMAL, (90.0, 20.0), (0.2, 0.2), BINS, (0.06,) * 10, decimals=0),
        ColumnProfile("age", Kind.INTEGER, (), (), BINS, (0.1,) * 10),
        ColumnProfile("city", Kind.CATEGORY, CITIES, (0.125,) * 8),
    ),
)
CODEC = TableCodec(COLUMNS, PROFILE)


def table(rows: int = 600, *, seed: int = 1) -> pa.Table:
    """Draw rows; from a seed, since what is tested here has no chance in it, and draws that mislead are no news."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "income": rng.integers(0, 100, rows).astype(float),
            "age": rng.integers(0, 100, rows),
            "city": rng.choice(CITIES, rows),
        }
    )


@pytest.fixture
def write(tmp_path):
    def written(**tables: pa.Table) -> list[Path]:
        for name, rows in tables.items():
            pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=100)
        return [tmp_path / f"{name}.parquet" for name in tables]

    return written


def test_a_synthetic_table_that_copies_is_found_out_by_every_measure(write) -> None:
    learnt = table()
    found = gather(*write(learnt=learnt, holdout=table(seed=2), synthetic=learnt), CODEC, sensitive=["city"])
    assert found.warned == ["distance to the closest record", "membership", "attribute: city"]
    assert found.closeness is not None
    assert found.closeness.identical_training == 1


def test_a_synthetic_table_of_fresh_rows_is_not(write) -> None:
    warned = [
        gather(
            *write(**dict(zip(("learnt", "holdout", "synthetic"), three, strict=True))), CODEC, sensitive=["city"]
        ).warned
        for three in ([table(seed=3 * i + part) for part in range(3)] for i in range(4))
    ]
    assert sum(map(len, warned)) <= 1  # twelve intervals, of which each misses with probability 1 in 200 on this side


def test_without_sensitive_columns_only_membership_is_attacked(write) -> None:
    found = gather(*write(learnt=table(200), holdout=table(200, seed=2), synthetic=table(200, seed=3)), CODEC)
    assert [a.name for a in found.attacks] == ["membership"]


def test_one_row_of_each_unit_is_compared(write) -> None:
    numbered = table().append_column(UNIT, pa.array(np.arange(600) // 3))
    learnt, holdout, synthetic = write(learnt=numbered, holdout=numbered, synthetic=table(seed=2))
    found = gather(learnt, holdout, synthetic, CODEC, unit="person")
    assert found.closeness is not None
    assert found.closeness.compared == (200, 200, 600)


def test_large_tables_are_sampled_and_rows_keep_together(write) -> None:
    rows = table(350)
    (path,) = write(rows=rows)
    some = evidence.codes(path, CODEC, 120)
    everything = {tuple(r) for r in evidence.codes(path, CODEC, 10_000)}
    assert len(some) == 120
    assert {tuple(r) for r in some} <= everything


def test_near_codes_are_near_values_though_heavy_values_come_first(write) -> None:
    (path,) = write(rows=table(500))
    codes = evidence.codes(path, CODEC, 500)
    values = pq.read_table(path)["income"].to_numpy()
    order = np.argsort(values, kind="stable")
    assert isinstance(CODEC.columns[0], AxisCodec)
    assert list(CODEC.columns[0].heavy) == [20.0, 90.0]
    assert (np.diff(codes[order, 0]) >= 0).all()
    assert len(np.unique(codes[:, 0])) > 10


def test_a_null_has_a_place_of_its_own_beyond_the_highest_value(write) -> None:
    age = replace(PROFILE["age"], null_rate=0.1)
    codec = TableCodec(COLUMNS, replace(PROFILE, columns=(PROFILE["income"], age, PROFILE["city"])))
    (path,) = write(rows=pa.table({"income": [1.0, 2.0], "age": pa.array([99, None]), "city": ["A", "B"]}))
    codes = evidence.codes(path, codec, 2)
    assert codes[1, 1] == codes[0, 1] + 1


def test_too_few_rows_are_no_evidence(write) -> None:
    found = gather(*write(learnt=table(), holdout=table(evidence.FEWEST - 1, seed=2), synthetic=table(seed=3)), CODEC)
    assert found.missing == evidence.TOO_FEW
    assert found.attacks == ()


def test_an_empty_holdout_is_no_evidence_either(write) -> None:
    assert gather(*write(learnt=table(), holdout=table(0), synthetic=table(seed=3)), CODEC).missing


def test_a_table_of_one_column_has_nothing_to_guess_from(write) -> None:
    columns = build({"city": pa.string()})
    codec = TableCodec(columns, TableProfile(500, 500, "row", (PROFILE["city"],)))
    tables = {n: table(150, seed=i).select(["city"]) for i, n in enumerate(("learnt", "holdout", "synthetic"))}
    found = gather(*write(**tables), codec, sensitive=["city"])
    assert [a.name for a in found.attacks] == ["membership"]
