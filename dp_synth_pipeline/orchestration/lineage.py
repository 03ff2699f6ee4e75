"""Follows a project's asset graph downstream from a released table and upstream from any table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration import metadata

SOURCE, ACCOUNT, UNIT = "dp_synth/source", "dp_synth/account", "dp_synth/unit"
"""Metadata of the asset that stands for a source: where it is, without secrets, and who pays for reading it."""


@dataclass(frozen=True)
class Node:
    """One asset: its neighbours, and what the graph says about it."""

    parents: frozenset[str]
    children: frozenset[str]
    visibility: str
    facts: dict[str, Any]


@dataclass(frozen=True)
class Lineage:
    """The asset graph of some definitions, by names such as `people/published`; empty where none were given."""

    nodes: dict[str, Node]

    @property
    def tables(self) -> list[str]:
        """What is released, by name: a synthetic table, or related tables by that of their database."""
        return sorted({_release(name) for name, node in self.nodes.items() if SOURCE in node.facts})

    def source(self, table: str) -> dict[str, str]:
        """Return where a table's rows come from, its account and its privacy unit; empty if the graph lacks it.

        Related tables have as many sources, with commas between them.
        """
        told: dict[str, list[str]] = {}
        for name, node in sorted(self.nodes.items()):
            if SOURCE in node.facts and _release(name) == table:
                for key, value in node.facts.items():
                    told.setdefault(key.removeprefix("dp_synth/"), []).append(str(value))
        return {key: ", ".join(dict.fromkeys(values)) for key, values in told.items()}

    def downstream(self, table: str) -> list[str]:
        """Return the assets that are made from a table's release, and belong to no stage of its own chain."""
        descendants = self._closure(
            {n for n in self._chain(table) if self.nodes[n].visibility == metadata.RELEASABLE}, "children"
        )
        return sorted(descendants - self._chain(table))

    def reads_rows(self, table: str) -> list[str]:
        """Return the assets outside a table's chain that take its real rows, or an exact function of them, directly."""
        chain = self._chain(table)
        private = [self.nodes[n] for n in chain if self.nodes[n].visibility == metadata.RESTRICTED]
        return sorted({child for node in private for child in node.children} - chain)

    def sources_of(self, name: str) -> list[str]:
        """Return the person-level sources that a table or an asset is made from, by what is released of them.

        Raises:
            InvalidInput: if the graph holds no such table or asset.
        """
        start = self._chain(name) or {n for n in self.nodes if n == name or n.startswith(f"{name}/")}
        if not start:
            raise InvalidInput(
                f"no table or asset is called {name!r}; known tables: {', '.join(self.tables) or 'none'}."
            )
        above = start | self._closure(start, "parents")
        return sorted({_release(n) for n in above if SOURCE in self.nodes[n].facts})

    def _chain(self, table: str) -> set[str]:
        """Return the stages of one release's own chain; an asset that a person put beside them has no visibility."""
        if table not in self.tables:
            return set()
        return {n for n, node in self.nodes.items() if _release(n) == table and node.visibility}

    def _closure(self, start: set[str], side: str) -> set[str]:
        names: set[str] = set()
        queue = list(start)
        while queue:
            near = getattr(self.nodes[queue.pop()], side) - names
            names |= near
            queue += near
        return names


def _release(asset: str) -> str:
    """Return the table or the database that an asset's key begins with."""
    return asset.partition("/")[0]


def read(definitions: dg.Definitions | None) -> Lineage:
    """Return the lineage of some definitions."""
    return Lineage({} if definitions is None else dict(_nodes(definitions)))


def _nodes(definitions: dg.Definitions) -> Iterator[tuple[str, Node]]:
    graph = definitions.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        facts = {k: _plain_value(v) for k, v in node.metadata.items() if k in (SOURCE, ACCOUNT, UNIT)}
        visibility = node.tags.get(metadata.VISIBILITY, "")
        yield _name(key), Node(_names(node.parent_keys), _names(node.child_keys), visibility, facts)


def _plain_value(value: Any) -> Any:
    return value.value if isinstance(value, dg.MetadataValue) else value


def _names(keys: Any) -> frozenset[str]:
    return frozenset(map(_name, keys))


def _name(key: dg.AssetKey) -> str:
    return key.to_user_string()
