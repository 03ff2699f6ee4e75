"""How far the release of a database is: what one stage hands to the next, as a frozen value with a JSON-ready form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.relations.relating import RelatedRows
from dp_synth_pipeline.relations.static_columns import Found
from dp_synth_pipeline.synthesis.run_state import RunState, dump_schema, load_schema
from dp_synth_pipeline.tabular.schema import TableSchema


@dataclass(frozen=True)
class DatabaseState:
    """One release of a database on its way through the stages.

    Attributes:
        release: id of the reservation that pays for it.
        terms: the settings that it was reserved under.
        sources: the columns of each source, keys included; of public tables as well.
        rows: the rows of each table with their persons; restricted.
        tables: how far each table is.
        found: by table and column, what counts told of columns, as a person would declare it: `{"static": True}`.
        public: where the copies of public tables are.
        rules: the rules across tables that drawn rows keep.
        published: where the tables were written.
        card: the release card's page.
    """

    release: str
    terms: dict[str, Any] | None = None
    sources: Mapping[str, TableSchema] = field(default_factory=dict)
    rows: Mapping[str, RelatedRows] = field(default_factory=dict)
    tables: Mapping[str, RunState] = field(default_factory=dict)
    found: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    public: Mapping[str, Path] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    published: tuple[str, ...] | None = None
    card: Path | None = None

    def table(self, name: str) -> RunState:
        """Return how far a table is.

        Raises:
            ReleaseStateError: if its rows were not read yet.
        """
        if name not in self.tables:
            raise ReleaseStateError(f"table {name} of this release was not read yet; run the stage `ingested` first.")
        return self.tables[name]

    def with_table(self, name: str, state: RunState) -> DatabaseState:
        """Return the state after a stage changed one table's."""
        return replace(self, tables={**self.tables, name: state})

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form that `from_dict` reads back unchanged."""
        return {
            "release": self.release,
            "terms": self.terms,
            "sources": {name: dump_schema(schema) for name, schema in self.sources.items()},
            "rows": {
                name: {"path": str(rows.path), "schema": dump_schema(rows.schema), "units": rows.units}
                for name, rows in self.rows.items()
            },
            "tables": {name: state.to_dict() for name, state in self.tables.items()},
            "found": {name: {c: dict(facts) for c, facts in columns.items()} for name, columns in self.found.items()},
            "public": {name: str(path) for name, path in self.public.items()},
            "rules": list(self.rules),
            "published": None if self.published is None else list(self.published),
            "card": None if self.card is None else str(self.card),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read back what `to_dict` wrote."""
        return cls(
            state["release"],
            state["terms"],
            {name: load_schema(text) for name, text in state["sources"].items()},
            {
                name: RelatedRows(Path(rows["path"]), load_schema(rows["schema"]), rows["units"])
                for name, rows in state["rows"].items()
            },
            {name: RunState.from_dict(table) for name, table in state["tables"].items()},
            state.get("found", _found_by_an_earlier_version(state)),
            {name: Path(path) for name, path in state.get("public", {}).items()},
            tuple(state.get("rules", ())),
            None if state["published"] is None else tuple(state["published"]),
            None if state["card"] is None else Path(state["card"]),
        )


def _found_by_an_earlier_version(state: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what an earlier version kept apart: static columns, and numbers that never fall."""
    static, increasing = (state.get(name, {}) for name in ("static", "increasing"))
    told = {
        name: Found(tuple(static.get(name, ())), tuple(increasing.get(name, ()))) for name in {*static, *increasing}
    }
    return {name: found.facts for name, found in told.items()}
