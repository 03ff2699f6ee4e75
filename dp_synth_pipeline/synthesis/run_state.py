"""A run state is what one stage of a release hands to the next: a frozen value with a JSON-ready form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.privacy.events import Event, from_dict
from dp_synth_pipeline.privacy.tagged import TaggedEvent
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import TableSchema

LATER = ("format", "pattern", "locale", "after", "same_as", "part", "max_length", "model", "prompt")
"""Facts of columns that earlier versions did not have."""

_SCHEMA: TypeAdapter[TableSchema] = TypeAdapter(TableSchema)


@dataclass(frozen=True)
class Files:
    """Where the files of a release lie; None for what no stage has written yet.

    Attributes:
        snapshot, completed: real rows, restricted.
        profile, texts, notes, marginals, generator, synthetic: what is released; `generator` is a folder.
        report: the restricted quality report.
        card: the release card's page.
    """

    snapshot: Path | None = None
    profile: Path | None = None
    completed: Path | None = None
    texts: Path | None = None
    notes: Path | None = None
    marginals: Path | None = None
    generator: Path | None = None
    synthetic: Path | None = None
    report: Path | None = None
    card: Path | None = None


@dataclass(frozen=True)
class Facts:
    """Released numbers that later stages report; None for what is not known yet.

    Attributes:
        profile_release: the release that paid for the profile.
        formulas: numbers that others give, as noisy counts told with the profile, as rules; None if none was found.
        start_release: the release at whose weights training starts, or from which a refresh goes on that remembers; None if
            it starts anew.
        remembered: the releases whose noisy counts are combined with its own, oldest first; none if those told that the
            table is another one by now; None if it does not go on from any.
        anew: why it does not use the releases before it, though it was to remember them; None without.
        drift: how far the table moved since the releases that this one goes on from: `mean`, and `columns` by name, each a
            total variation distance of noisy counts; None if it goes on from none.
        rows: noisy number of the source's rows.
        accuracy: DP metrics of the generator, by name.
        asked_rows, synthetic_rows: rows to draw, and rows drawn.
        seal: the ledger's keyed seal of the drawn file.
        published: where the drawn rows were written.
        outputs: further tables that were drawn, by name: each its path, rows, effective sample size and seal.
        effective: the effective sample size of the drawn rows; None unless they were drawn on a condition or by shares.
    """

    profile_release: str | None = None
    formulas: list[str] | None = None
    start_release: str | None = None
    remembered: list[str] | None = None
    anew: str | None = None
    drift: dict[str, Any] | None = None
    rows: int | None = None
    accuracy: dict[str, float] | None = None
    asked_rows: int | None = None
    synthetic_rows: int | None = None
    seal: str | None = None
    published: list[str] | None = None
    outputs: dict[str, dict[str, Any]] | None = None
    effective: int | None = None


@dataclass(frozen=True)
class RunState:
    """One release on its way through the stages.

    Attributes:
        release: id of the reservation that pays for it.
        schema: the table's schema, as JSON text.
        digest: content digest of the source; private, and compared in the restricted report alone.
        units: exact number of privacy units; private.
        partitions: the partitions that it covers; none for a table without.
        terms: the settings that it was reserved under; None if an older version reserved it.
        ran: what ran so far: of counts, as planned; of trainings, the steps that ran.
        untyped: the columns of a CSV whose types are measured; until then they are text in the schema.
        set_aside: exact number of a CSV's lines that were set aside; private. None where it may not be counted.
    """

    release: str
    schema: str = ""
    digest: str = ""
    units: int = 0
    files: Files = field(default_factory=Files)
    facts: Facts = field(default_factory=Facts)
    partitions: tuple[str, ...] = ()
    terms: dict[str, Any] | None = None
    ran: tuple[TaggedEvent, ...] = ()
    untyped: tuple[str, ...] = ()
    set_aside: int | None = None

    def path(self, name: str) -> Path:
        """Return the path of a file that an earlier stage wrote.

        Raises:
            ReleaseStateError: if none has.
        """
        path = getattr(self.files, name)
        if path is None:
            raise ReleaseStateError(f"this release has no {name} yet; run the stage that makes it first.")
        return path

    def with_(self, **changes: Any) -> RunState:
        """Return the state with more files and facts, each given by its name."""
        files = {f.name: changes.pop(f.name) for f in fields(Files) if f.name in changes}
        return replace(self, files=replace(self.files, **files), facts=replace(self.facts, **changes))

    def reading(self, schema: str, digest: str, units: int, **of_csv: Any) -> RunState:
        """Return the state after the source was read."""
        return replace(self, schema=schema, digest=digest, units=units, **of_csv)

    def typed(self, schema: str, snapshot: Path) -> RunState:
        """Return the state after the types of a CSV's columns were measured, or taken from the profile that is reused."""
        return replace(self, schema=schema).with_(snapshot=snapshot)

    def having_run(self, mechanism: str, events: Iterable[Event]) -> RunState:
        """Return the state after a mechanism with these events ran."""
        return replace(self, ran=(*self.ran, *(TaggedEvent(mechanism, event) for event in events)))

    def table_profile(self) -> TableProfile:
        """Return the released profile.

        Raises:
            ReleaseStateError: if it was not measured yet.
        """
        return TableProfile.from_json(self.path("profile").read_text(encoding="utf-8"))

    def table_schema(self) -> TableSchema:
        """Read the schema back."""
        return load_schema(self.schema)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form that `from_dict` reads back unchanged."""
        return {
            **asdict(self),
            "files": {name: str(path) for name, path in asdict(self.files).items() if path is not None},
            "facts": {name: value for name, value in asdict(self.facts).items() if value is not None},
            "partitions": list(self.partitions),
            "untyped": list(self.untyped),
            "ran": dump_ran(self.ran),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read back what `to_dict` wrote, also that of an earlier version."""
        return cls(
            **{
                **{f.name: state[f.name] for f in fields(cls) if f.name in state},
                "files": Files(**{name: Path(path) for name, path in (state.get("files") or {}).items()}),
                "facts": Facts(**(state.get("facts") or {})),
                "partitions": tuple(state.get("partitions", ())),
                "untyped": tuple(state.get("untyped", ())),
                "ran": load_ran(state.get("ran", ())),
            }
        )


def dump_ran(ran: Iterable[TaggedEvent]) -> list[dict[str, Any]]:
    """Return what ran, JSON-ready; the mechanism stands beside the event, never in it."""
    return [{"mechanism": r.mechanism, "event": r.event.to_dict()} for r in ran]


def load_ran(ran: Iterable[Mapping[str, Any]]) -> tuple[TaggedEvent, ...]:
    """Read back what `dump_ran` wrote; an earlier version wrote bare events."""
    return tuple(
        TaggedEvent(r["mechanism"], from_dict(r["event"])) if "event" in r else TaggedEvent("", from_dict(dict(r)))
        for r in ran
    )


def dump_schema(schema: TableSchema) -> str:
    """Write the columns of a schema as JSON text; what later versions added stands there only if there is some.

    So digests of earlier versions stay. What rows are ordered by is a fact of how tables are related, and not written.
    """
    none = {i: {fact for fact in LATER if getattr(c, fact) is None} for i, c in enumerate(schema.columns)}
    return _SCHEMA.dump_json(schema, exclude={"order": True, "columns": none}).decode()


def load_schema(text: str) -> TableSchema:
    """Read back what `dump_schema` wrote."""
    return _SCHEMA.validate_json(text)
