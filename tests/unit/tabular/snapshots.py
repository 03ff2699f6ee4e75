"""Small tables as snapshots and profiles, with the noise of the product, with none, or with a replayed one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import DiscreteGaussian
from dp_synth_pipeline.tabular import measure, source
from dp_synth_pipeline.tabular.measure import ProfilePlan
from dp_synth_pipeline.tabular.profile import TableProfile

Declared = Mapping[str, Mapping[str, Any] | None]


def take(
    table: pa.Table,
    folder: Path,
    declared: Declared | None = None,
    *,
    nulls: str = "keep",
    unit: PrivacyUnit = PrivacyUnit(),
) -> source.Snapshot:
    """Snapshot an Arrow table, by way of a Parquet file."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "source.parquet")
    found = source.parse(str(folder / "source.parquet"), declared)
    path = folder / "restricted" / "snapshot.parquet"
    return source.snapshot(found, path, declared=declared, nulls=nulls, unit=unit)


def profile(snapshot: source.Snapshot, plan: ProfilePlan) -> TableProfile:
    """Measure a snapshot as the profile link does."""
    population = measure.measure_population(snapshot.units, plan)
    return measure.measure(snapshot.path, snapshot.schema, plan, population)


def quiet(rows: int, scale: float = 0.3) -> ProfilePlan:
    """A plan with next to no noise, that protects nobody, and a public population."""
    return ProfilePlan(None, scale, 1e-6, population=rows)


@contextmanager
def no_noise() -> Iterator[None]:
    """Release histograms as they are, so that what happens to them can be checked exactly."""

    def exact(histograms: Any, *, scale: float, sensitivity: int = 1) -> tuple[list[np.ndarray], DiscreteGaussian]:
        return [np.asarray(h, dtype=np.int64) for h in histograms], DiscreteGaussian(
            scale, sensitivity, len(histograms)
        )

    true = mechanisms.noisy_histograms
    mechanisms.noisy_histograms = exact
    try:
        yield
    finally:
        mechanisms.noisy_histograms = true
