"""A clinic of three tables as the report reads it, real and synthetic, whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from dp_synth_pipeline.relations import carrying, relating
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.validation.related_frames import RealFiles, RelatedFrame, real_frames, synthetic_frames

RELATIONS = Relations(
    [
        Related("patients", key="patient_id"),
        Related("visits", "visit_id", "patients", "patient_id", "visited", max_rows=6),
        Related("drugs", None, "visits", "visit_id", max_rows=3),
    ]
)

Frames = dict[str, RelatedFrame]


Facts = Mapping[str, Any]
"""Declared facts of columns, by name."""


def schemas(tables: dict[str, pd.DataFrame], folder: Path) -> dict[str, TableSchema]:
    """Return the columns of each table, whose keys are made anew."""
    return {name: _taken(folder, name, table)[1] for name, table in tables.items()}


def as_real(
    tables: dict[str, pd.DataFrame],
    folder: Path,
    of_visits: Facts = MappingProxyType({}),
    static: tuple[str, ...] = (),
) -> Frames:
    """Return tables as a release reads them: copied, related, bounded, static columns of visits moved to patients."""
    files, sources = {}, {}
    for name, table in tables.items():
        files[name], sources[name] = _taken(folder, name, table, of_visits if name == "visits" else {})
    (folder / "related").mkdir()
    rows = relating.relate(RELATIONS, files, sources, folder / "related")
    visits = replace(RELATIONS["visits"], static=static)
    rows["patients"], rows["visits"] = carrying.carry(rows["patients"], rows["visits"], visits)
    places = {name: RealFiles(found.path, found.path) for name, found in rows.items()}
    relations = Relations([visits if table.name == "visits" else table for table in RELATIONS])
    return real_frames(relations, sources, places)


def as_synthetic(tables: dict[str, pd.DataFrame], folder: Path) -> Frames:
    """Return tables as a release draws them."""
    folder.mkdir(exist_ok=True)
    files = {name: folder / f"{name}.synthetic.parquet" for name in tables}
    for name, table in tables.items():
        table.to_parquet(files[name], index=False)
    return synthetic_frames(RELATIONS, schemas(tables, folder), files)


def _taken(
    folder: Path, name: str, table: pd.DataFrame, facts: Facts = MappingProxyType({})
) -> tuple[Path, TableSchema]:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.parquet"
    table.to_parquet(path, index=False)
    keys = RELATIONS[name].keys
    declared = {**facts, **{key: {"kind": "identifier"} for key in keys}}
    (folder / f"{name}.taken").unlink(missing_ok=True)
    taken = ingestion.snapshot(source.parse(str(path)), folder / f"{name}.taken", declared=declared, keys=keys)
    return taken.path, taken.schema
