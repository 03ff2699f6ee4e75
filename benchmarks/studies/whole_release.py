"""Releases a public table as a user would, in a folder that goes away: with a ledger, marginals, training and raking."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import pipeline
from dp_synth_pipeline.synthesis.settings import ReleaseSettings


def released(rows: pd.DataFrame, epsilon: float, training: Mapping[str, Any]) -> pd.DataFrame:
    """Return the synthetic table of a whole release, columns in the order of `rows`.

    Args:
        epsilon: of the whole release; infinite for one without privacy, of a table that is declared public.
        training: settings of `training` that are not the default ones.
    """
    terms: dict[str, Any] = {"account": "survey", "epsilon": epsilon, "delta": pipeline.DELTA}
    if math.isinf(epsilon):
        terms = {"privacy": "none", "public": {"why": "the package ships it", "by": "a benchmark"}}
    with TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / "rows.parquet")
        terms |= {"source": str(folder / "rows.parquet"), "training": dict(training)}
        settings = ReleaseSettings(table="survey", **terms)
        made = pipeline.run(settings, folder, folder / "drawn.parquet")
        return pq.read_table(made.path).to_pandas()[list(rows.columns)]
