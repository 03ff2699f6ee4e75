"""What one asset hands to the next: a release, and where its files are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.tabular.schema import TableSchema

_SCHEMA: TypeAdapter[TableSchema] = TypeAdapter(TableSchema)


@dataclass(frozen=True)
class Refresh:
    """One refresh of one table on its way through the graph.

    Attributes:
        release: the ledger's id of the reservation that pays for this refresh.
        schema: the table's schema, as JSON text.
        digest: private content digest of the source.
        units: exact number of privacy units; private.
        files: name to path of what earlier links wrote.
        facts: released numbers that later links report.
        partitions: the partitions that it covers; none for a table without.
        terms: the settings that it was reserved under; a handle of an older version has none.
        ran: the privacy events of what ran so far: of counts, as they were planned; of trainings, the steps that ran.
    """

    release: str
    schema: str
    digest: str = ""
    units: int = 0
    files: dict[str, str] | None = None
    facts: dict[str, Any] | None = None
    partitions: Sequence[str] = ()
    terms: dict[str, Any] | None = None
    ran: Sequence[dict[str, Any]] = ()

    def path(self, name: str) -> Path:
        """Return the path of a file that an earlier link wrote."""
        return Path((self.files or {})[name])

    def with_(self, files: dict[str, Path] | None = None, **facts: Any) -> dict[str, Any]:
        """Return the handle with more files and facts, as the JSON-ready dict that is stored."""
        paths = (self.files or {}) | {k: str(v) for k, v in (files or {}).items()}
        return asdict(replace(self, files=paths, facts=(self.facts or {}) | facts))

    def having_run(self, events: Iterable[Event]) -> Refresh:
        """Return the handle after a mechanism with these events ran."""
        return replace(self, ran=[*self.ran, *(e.to_dict() for e in events)])

    def table_schema(self) -> TableSchema:
        """Read the schema back."""
        return load_schema(self.schema)


def dump_schema(schema: TableSchema) -> str:
    """Write a schema as JSON text; a format stands there only if there is one, so it is no change where there is none."""
    none = {i: {"format"} for i, c in enumerate(schema.columns) if c.format is None}
    return _SCHEMA.dump_json(schema, exclude={"columns": none}).decode()


def load_schema(text: str) -> TableSchema:
    """Read back what `dump_schema` wrote."""
    return _SCHEMA.validate_json(text)


def load(handle: dict[str, Any]) -> Refresh:
    """Read a handle that an upstream asset returned."""
    return Refresh(**handle)


def declared_events(ledger: Ledger, release: Release) -> tuple[Event, ...] | None:
    """Return what the plan that a release is a use of declared; None if it is no use of a plan."""
    if release.plan is None:
        return None
    return next(p.events for p in ledger.plans(release.account) if p.id == release.plan)


def started_events(ledger: Ledger, release: Release) -> tuple[Event, ...]:
    """Return the events of every mechanism of a release that has started."""
    return tuple(event for entry in ledger.entries(release_id=release.id) for event in entry.events)
