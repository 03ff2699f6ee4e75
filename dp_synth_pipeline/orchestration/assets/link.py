"""What every link of a table's chain has in common as a Dagster asset."""

from collections.abc import Callable
from typing import Any

import dagster as dg

from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.config import TableSettings

HANDLES = "dp_synth_handles"
"""Key of the IO manager, so that it can live beside a project's own."""


def key(settings: TableSettings, name: str) -> dg.AssetKey:
    """Name one link of one table."""
    return dg.AssetKey([settings.name, name])


def link(
    settings: TableSettings,
    name: str,
    *,
    visibility: str,
    description: str,
    kinds: set[str],
    after: tuple[str, ...] = (),
    deps: tuple[str, ...] = (),
    pool: str | None = None,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Return a decorator that makes an asset of one link; `after` names the links whose handles it takes.

    Args:
        visibility: `metadata.RESTRICTED` or `metadata.RELEASABLE`.
        deps: links it follows without taking their handles.
    """
    return dg.asset(  # type: ignore[return-value]
        key=key(settings, name),
        ins={other: dg.AssetIn(key=key(settings, other)) for other in after},
        deps=[key(settings, other) for other in deps],
        description=description,
        kinds=kinds,
        tags=metadata.tags(visibility, settings.tags),
        group_name=settings.group or settings.name,
        owners=settings.owners or None,
        code_version=settings.code_version(),
        io_manager_key=HANDLES,
        pool=pool,
    )
