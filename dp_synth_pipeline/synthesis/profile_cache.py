"""Caches the profile of a table. It consists of released facts, so a later refresh may use them again at no charge.

A refresh reuses a profile while the public facts that shaped it still hold and the ledger knows the release that paid
for it. Only a person renews it.
"""

from __future__ import annotations

import getpass
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Entry, Release
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.synthesis.blocks import part
from dp_synth_pipeline.synthesis.run_state import LATER
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.sources.csv.values import CellType
from dp_synth_pipeline.targets import sink

PROFILE, FACTS = "profile.json", "profile.facts.json"
"""The cached profile, and where it comes from, in a table's releasable folder."""

RENEW = "dp_synth/renew_profile"
"""Run tag: "true" measures the profile anew in this run."""

MECHANISMS = ("static columns", "row count", "types", "ordered dates", "formulas", "profile")
"""The entries of a release that pay for its profile."""


@dataclass(frozen=True)
class Origin:
    """Where a cached profile comes from; public, like the profile itself.

    Attributes:
        account: who paid for it.
        release: in which release.
        facts: what must still hold for it to be reused: unit, relation, population and a digest of the schema.
        profile: SHA-256 of the profile's text, since the two files are not replaced in one step.
        epsilon, delta: what its row count and histograms cost together.
        measured_at: ISO date and time.
        renew: who asked for a new one, why and when; None while nobody did.
        types: for each column of a CSV whose type was measured: the SQL type of its cells, and their format.
        kinds: what released figures told of columns that identify somebody: a CSV's classes of those that the profile
            does not have, the profile itself of those that it has.
        dates: what was found of dates that hang on others, as a person would declare it.
        formulas: what was found of numbers that others give, as rules.
    """

    account: str
    release: str
    facts: dict[str, Any]
    profile: str
    epsilon: float
    delta: float
    measured_at: str
    renew: dict[str, str] | None = None
    types: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    dates: dict[str, dict[str, str]] = field(default_factory=dict)
    formulas: list[str] = field(default_factory=list)

    def cells(self) -> dict[str, CellType]:
        """Return what the cells of the columns are whose types were measured with the profile."""
        return {name: CellType(*cell_type) for name, cell_type in self.types.items()}


@dataclass(frozen=True)
class Cached:
    """A profile that may be reused, and where it comes from."""

    profile: TableProfile
    origin: Origin

    @property
    def kinds_by_classes(self) -> dict[str, str]:
        """The kinds that a CSV's classes told before the profile was measured."""
        measured = {c.name for c in self.profile.columns}
        return {name: kind for name, kind in self.origin.kinds.items() if name not in measured}

    @property
    def modelled(self) -> frozenset[str]:
        """The columns that a release with this profile models."""
        return frozenset(c.name for c in self.profile.columns if c.name not in self.origin.kinds)


def facts(settings: ReleaseSettings, release: Release, schema: str, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Return the public facts that shape a profile: with others, it would be another one.

    Args:
        schema: the table's schema as `dump_schema` writes it: columns, types and all that a person declared.
        keys: the partitions that it covers.
    """
    unit = settings.privacy_unit
    return {
        "unit": str(unit),
        "max_rows": unit.max_rows,
        "relation": release.relation,
        "population": settings.population,
        "filter": part(settings, keys).where,
        "schema": _digest(_shaping_schema(settings, schema)),
    }


def _shaping_schema(settings: ReleaseSettings, schema: str) -> str:
    """Return the schema without what shapes what is written, not what is measured.

    These are the formats that a CSV was found to have, and the patterns and locales of columns that nobody reads. A
    declared format stays, since it says how the cells are read.
    """
    if not any(f'"{fact}"' in schema for fact in LATER):
        return schema
    schema_facts = json.loads(schema)
    for column in schema_facts["columns"]:
        column.pop("pattern", None)
        column.pop("locale", None)
        if (settings.columns.get(column["name"]) or {}).get("format") is None:
            column.pop("format", None)
    return json.dumps(schema_facts, separators=(",", ":"), ensure_ascii=False)  # as `dump_schema` writes it


def keep(
    folder: Path,
    profile: TableProfile,
    release: Release,
    shaped_by: dict[str, Any],
    found: Mapping[str, Any] = MappingProxyType({}),
) -> Origin:
    """Write a profile that was just measured, and where it comes from, for later refreshes.

    Args:
        found: what was measured with it: `types`, `kinds`, `dates` and `formulas`, as an `Origin` has them.
    """
    text = profile.to_json()
    origin = Origin(
        account=release.account,
        release=release.id,
        facts=shaped_by,
        profile=_digest(text),
        epsilon=accountant.epsilon(profile.events, release.delta, release.relation),
        delta=release.delta,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        **found,
    )
    sink.write_text(text, folder / PROFILE)
    _write(folder, origin)
    return origin


def find(
    folder: Path, account: str, shaping_facts: dict[str, Any], charged: Callable[[str], Sequence[Entry]]
) -> tuple[Cached | None, str]:
    """Return the cached profile if a refresh may reuse it, else None; and why not, in public facts only.

    Nothing is reused that was not charged to this very account.

    Args:
        charged: returns the ledger's entries of a release of the table.
    """
    try:
        cached = read(folder)
    except InvalidInput as error:
        return None, str(error)
    origin = cached.origin
    if origin.renew is not None:
        return None, f"{origin.renew['who']} asked for a new profile"
    if origin.account != account:
        return None, f"the cached profile was charged to account {origin.account}"
    changed_names = [k for k, v in shaping_facts.items() if origin.facts.get(k) != v]
    if changed_names:
        return None, f"another {' and '.join(changed_names)} than the cached profile's"
    if not _is_charged(charged(origin.release), origin, cached.profile.events):
        return None, "the ledger knows of no charge for the cached profile"
    return cached, ""


def modelled(folder: Path, account: str) -> frozenset[str]:
    """Return the columns that the cached profile has as modelled, where a refresh may well reuse it; public facts decide.

    What one refresh modelled, the next one models too while that profile is good: another schema would be a new charge.
    """
    try:
        cached = read(folder)
    except InvalidInput:
        return frozenset()
    return cached.modelled if cached.origin.account == account and cached.origin.renew is None else frozenset()


def columns(folder: Path) -> frozenset[str]:
    """Return the columns that the cached profile tells of, those made anew included; none if there is none."""
    try:
        cached = read(folder)
    except InvalidInput:
        return frozenset()
    return frozenset([*(c.name for c in cached.profile.columns), *cached.origin.kinds])


def read(folder: Path) -> Cached:
    """Read the cached profile of a table.

    Raises:
        InvalidInput: if there is none, or it is not the one that its facts describe.
    """
    try:
        text = (folder / PROFILE).read_text(encoding="utf-8")
        origin = Origin(**json.loads((folder / FACTS).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise InvalidInput("there is no cached profile") from None
    if origin.profile != _digest(text):
        raise InvalidInput("the cached profile is not the one that was released")
    try:
        return Cached(TableProfile.from_json(text), origin)
    except (ValueError, KeyError, TypeError):
        raise InvalidInput("the cached profile was written by another version") from None


def renew(folder: Path, why: str) -> Origin:
    """Let the next refresh measure the profile anew; return where the present one comes from.

    Raises:
        InvalidInput: if there is none.
    """
    origin = read(folder).origin
    request = {"who": getpass.getuser(), "why": why, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    _write(folder, replace(origin, renew=request))
    return origin


def paid_by(entries: Iterable[Entry]) -> list[Entry]:
    """Return those of a release's entries that paid for its profile."""
    return [e for e in entries if e.mechanism in MECHANISMS]


def _is_charged(entries: Sequence[Entry], origin: Origin, events: tuple[Event, ...]) -> bool:
    charged_events = tuple(event for entry in paid_by(entries) for event in entry.events)
    return bool(events) and charged_events == events and {e.account for e in entries} == {origin.account}


def _write(folder: Path, origin: Origin) -> None:
    sink.write_text(json.dumps(asdict(origin), indent=1), folder / FACTS)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
