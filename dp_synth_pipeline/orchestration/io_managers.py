"""Hands small JSON facts from one asset to the next; tables and weights stay in the store and are named by path."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import dagster as dg

from dp_synth_pipeline.orchestration.dagster_internals import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    PARTITION_NAME_TAG,
)
from dp_synth_pipeline.orchestration.resources import StoreResource, of_project
from dp_synth_pipeline.synthesis.blocks import folded_label
from dp_synth_pipeline.synthesis.retention import private
from dp_synth_pipeline.synthesis.store import HANDLES_FOLDER

Context = dg.InputContext | dg.OutputContext

KEPT_RUNS = 20
"""Runs whose own states are kept beside the latest ones."""


class StateIOManager(dg.IOManager):
    """Keeps each asset's state, of every recent run and the latest, in files only their owner can read.

    A run reads its own states, so two runs of one table do not mix; a run that starts in mid-chain reads the latest.
    Handles may hold exact counts, so they lie with what is restricted.

    Args:
        store: where they lie; by default in the project's own.
    """

    def __init__(self, store: StoreResource | None = None) -> None:
        self._store = store

    def handle_output(self, context: dg.OutputContext, obj: dict[str, Any]) -> None:
        """Write the state atomically, for this run and as the latest."""
        text = json.dumps(obj, indent=1)
        latest = self._path(context, partition=_partition(context))
        for path in (self._path(context, context.run_id), latest):
            partial = path.with_name(f"{path.name}.{context.run_id}.partial")
            with private():
                partial.write_text(text, encoding="utf-8")
            os.replace(partial, path)
        runs = sorted(self._runs(context).iterdir(), key=lambda p: p.stat().st_mtime)
        for folder in runs[:-KEPT_RUNS]:
            shutil.rmtree(folder, ignore_errors=True)

    def load_input(self, context: dg.InputContext) -> dict[str, Any]:
        """Read the upstream state: this run's own if it has one, else the latest."""
        run_path = self._path(context, context.step_context.run_id)
        path = run_path if run_path.exists() else self._path(context, partition=_partition(context))
        if not path.exists():
            name = " ".join(filter(None, (context.asset_key.to_user_string(), _partition(context))))
            raise dg.Failure(f"{name} has not been materialized yet; materialize it first.", allow_retries=False)
        return json.loads(path.read_text(encoding="utf-8"))

    def _runs(self, context: Context) -> Path:
        folder = self._folder(context) / HANDLES_FOLDER
        folder.mkdir(exist_ok=True, mode=0o700)
        return folder

    def _path(self, context: Context, run_id: str | None = None, partition: str = "") -> Path:
        folder = self._folder(context)
        if run_id is not None:
            folder = self._runs(context) / run_id
            folder.mkdir(exist_ok=True, mode=0o700)
        return folder / ".".join(filter(None, (*context.asset_key.path[1:], partition, "json")))

    def _folder(self, context: Context) -> Path:
        store = self._store or of_project(StoreResource, context.step_context.job_def.resource_defs)
        return store.get().restricted(context.asset_key.path[0])


def _partition(context: Context) -> str:
    """Return which partitions of its table a run refreshes, so that one's latest state is never taken for another's."""
    if not context.has_asset_partitions:
        return ""
    tags = context.step_context.dagster_run.tags
    if PARTITION_NAME_TAG in tags:
        return folded_label([tags[PARTITION_NAME_TAG]])
    ends = dict.fromkeys(tags[end] for end in (ASSET_PARTITION_RANGE_START_TAG, ASSET_PARTITION_RANGE_END_TAG))
    return folded_label(list(ends))
