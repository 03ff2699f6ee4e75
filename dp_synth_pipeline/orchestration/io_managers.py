"""Hands small JSON facts from one asset to the next; tables and weights stay in the store and are named by path."""

import json
import os
from pathlib import Path
from typing import Any

import dagster as dg

from dp_synth_pipeline.orchestration.resources import StoreResource


class HandleIOManager(dg.ConfigurableIOManager):
    """Keeps each asset's latest handle as a file only its owner can read: handles may hold exact counts."""

    store: dg.ResourceDependency[StoreResource]

    def handle_output(self, context: dg.OutputContext, obj: dict[str, Any]) -> None:
        """Write the handle atomically."""
        path = self._path(context.asset_key)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(obj, indent=1), encoding="utf-8")
        partial.chmod(0o600)
        os.replace(partial, path)

    def load_input(self, context: dg.InputContext) -> dict[str, Any]:
        """Read the upstream handle."""
        path = self._path(context.asset_key)
        if not path.exists():
            name = context.asset_key.to_user_string()
            raise dg.Failure(f"{name} has not been materialized yet; materialize it first.", allow_retries=False)
        return json.loads(path.read_text(encoding="utf-8"))

    def _path(self, key: dg.AssetKey) -> Path:
        return self.store.get().restricted(key.path[0]) / f"{'.'.join(key.path[1:])}.json"
