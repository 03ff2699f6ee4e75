"""Small tables as snapshots and profiles, with the noise of the product, with none, or with a replayed one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.profiling import measure, types
from dp_synth_pipeline.tabular.profiling.counting import Counts
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.profiling.types import TypesPlan
from dp_synth_pipeline.tabular.schema import Column
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.csv.declared import Untyped

Declared = Mapping[str, Mapping[str, Any] | None]


def take(
    table: pa.Table,
    folder: Path,
    declared: Declared | None = None,
    *,
    nulls: str = "keep",
    unit: PrivacyUnit = PrivacyUnit(),
) -> ingestion.Snapshot:
    """Snapshot an Arrow table, by way of a Parquet file."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "source.parquet")
    found = source.parse(str(folder / "source.parquet"))
    path = folder / "restricted" / "snapshot.parquet"
    return ingestion.snapshot(found, path, declared=declared, nulls=nulls, unit=unit)


def read(uri: str, path: Path, *, scale: float = 1e-3, **reading: Any) -> ingestion.Snapshot:
    """Snapshot a source; of a CSV, measure the types of its columns with noise of `scale` rows: by default with none."""
    taken = ingestion.snapshot(source.parse(uri), path, **reading)
    if not taken.untyped:
        return taken
    cells = ingestion.cells_of(taken.schema.names, ingestion.Reading(**reading))
    columns = [c for n in taken.untyped if isinstance(c := cells[n], Untyped)]
    unit = reading.get("unit", PrivacyUnit())
    plan = TypesPlan(scale, len(columns), unit)
    found = types.measure(taken.path, columns, plan, Odometer(plan.events), taken.set_aside)
    schema = ingestion.typed_schema({**cells, **found.cells}, ingestion.Reading(**reading))
    typed = path.with_name(f"{path.stem}-typed.parquet")
    ingestion.typed(taken.path, schema, found.cells, typed)
    return replace(taken, schema=schema, path=typed)


def profile(snapshot: ingestion.Snapshot, plan: ProfilePlan) -> TableProfile:
    """Measure a snapshot as the profile link does."""
    population = measure.measure_population(snapshot.units, plan, Odometer(plan.count_events()))
    schema = offsets.modelled(snapshot.schema)
    return measure.measure(snapshot.path, schema, plan, population, Odometer(plan.histogram_events(schema)))


class Remembering(Counts):
    """Exact counts that are read once, since reading takes longer than noise does."""

    def __init__(self, snapshot: Path) -> None:
        super().__init__(snapshot)
        self._known: dict[Any, Any] = {}

    def _axis(self, column: Column) -> Iterator[tuple[np.ndarray, int]]:
        if column.name not in self._known:
            self._known[column.name] = list(super()._axis(column))
        yield from self._known[column.name]

    def _sql(self, query: str) -> list[tuple]:
        if ("sql", query) not in self._known:
            self._known["sql", query] = super()._sql(query)
        return self._known["sql", query]


def profiles(snapshot: ingestion.Snapshot, plan: ProfilePlan, times: int) -> list[TableProfile]:
    """Measure a snapshot several times, with fresh noise each time."""
    counts, true = Remembering(snapshot.path), measure.Counts
    measure.Counts = lambda path: counts  # type: ignore[assignment,misc]
    try:
        return [profile(snapshot, plan) for _ in range(times)]
    finally:
        measure.Counts = true  # type: ignore[misc]


def quiet(rows: int, scale: float = 0.18) -> ProfilePlan:
    """A plan with next to no noise, that protects nobody, and a public population."""
    return ProfilePlan(None, scale, 1e-6, population=rows)


@contextmanager
def no_noise() -> Iterator[None]:
    """Release histograms as they are, so that what happens to them can be checked exactly."""

    def exact(histograms: Any, *, scale: float, sensitivity: float, odometer: Odometer) -> Any:
        return [np.asarray(h, dtype=np.int64) for h in histograms], Gaussian(scale / sensitivity, len(histograms))

    true = mechanisms.noisy_histograms
    mechanisms.noisy_histograms = exact
    try:
        yield
    finally:
        mechanisms.noisy_histograms = true
