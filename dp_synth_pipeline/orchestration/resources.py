"""Finds the ledger, the store and the alerts of whatever project a table lies in.

A table brings no resource of these kinds, so none can collide with a project's own. A project sets one by a resource of its
kind, under any key: `dg.Definitions(resources={"ledger": LedgerResource(url=...)})`. Without one the defaults hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.synthesis.store import Store, default_store, ledger_url


class LedgerResource(dg.ConfigurableResource):
    """The privacy budget that refuses; `get()` hands out the plain `Ledger`."""

    url: str = ""

    def get(self) -> Ledger:
        """Open the ledger, creating its store if it is missing; accounts are never created here."""
        return Ledger.open(self.url or ledger_url())


class StoreResource(dg.ConfigurableResource):
    """Where snapshots, generators, synthetic tables and reports are kept."""

    root: str = ""

    def get(self) -> Store:
        """Return the store; `store/` at home unless configured."""
        return Store(Path(self.root).expanduser()) if self.root else default_store()


Kind = TypeVar("Kind", bound=dg.ConfigurableResource)

_READY: WeakKeyDictionary[dg.ResourceDefinition, dg.ConfigurableResource] = WeakKeyDictionary()


def of_project(kind: type[Kind], resources: Mapping[str, dg.ResourceDefinition]) -> Kind:
    """Return a project's own resource of a kind, ready to use, or the kind's default if it has none.

    Args:
        resources: those of a job or of a code location, by key; the others are not initialised.

    Raises:
        InvalidInput: if there are two that differ: a budget that is counted in two ledgers does not hold.
    """
    own = {key: resource for key, resource in resources.items() if _is(kind, resource)}
    if not own:
        return kind()
    found = [_ready(key, resource) for key, resource in own.items()]
    if any(type(other) is not type(found[0]) or other != found[0] for other in found[1:]):
        raise InvalidInput(
            f"this project has more than one {kind.__name__}: {', '.join(sorted(own))}. Its tables share one; remove the "
            f"others from `resources`."
        )
    return found[0]


def _ready(key: str, resource: dg.ResourceDefinition) -> Any:
    """Return a resource with its configuration read: once, since Dagster makes an instance of itself for it each time."""
    if resource not in _READY:
        with dg.build_resources({key: resource}) as ready:
            _READY[resource] = getattr(ready, key)
    return _READY[resource]


def of_location(kind: type[Kind], context: dg.SensorEvaluationContext | dg.ScheduleEvaluationContext) -> Kind:
    """Return the same at a tick of a sensor or a schedule, from the code location that it belongs to."""
    return of_project(kind, context.repository_def.get_top_level_resources() if context.repository_def else {})


def _is(kind: type, resource: dg.ResourceDefinition) -> bool:
    """Whether a resource is of a kind; those that are no `ConfigurableResource` say nothing of theirs."""
    made = getattr(resource, "configurable_resource_cls", None)
    return isinstance(made, type) and issubclass(made, kind)
