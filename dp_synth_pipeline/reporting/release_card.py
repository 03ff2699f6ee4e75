"""Collects what a release card says: what was released, at what cost, on which assumptions, and which entries prove it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dp_synth_pipeline import __version__
from dp_synth_pipeline.ledger import Entry
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.reporting.card import CardFacts, ReleaseCard, to_json
from dp_synth_pipeline.reporting.card_pages import render_card, render_markdown
from dp_synth_pipeline.synthesis import generator_files, no_protection, profile_cache
from dp_synth_pipeline.synthesis.blocks import limits
from dp_synth_pipeline.synthesis.generator import FOLDER
from dp_synth_pipeline.synthesis.protection import Unprotected
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.sampling import sha256
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.targets import sink

KEPT = "cards"
"""Where the card of every release stays, beside the newest one."""

RULES = {"filter": "Rényi filter at a fixed order", "plan": "declared plan"}

LET_OUT = "Whether distances and attacks on real rows warned is in the run's event log: a bit each, without noise."
"""What the card says of `validation: evidence_checks`."""


def build(release: Release, declared_by: str = "") -> ReleaseCard:
    """Return the card of a settled release, sealed by its ledger's key.

    Args:
        declared_by: who answers for the declared facts; empty if nobody is named.
    """
    state, settings = release.state, release.settings
    rows = state.files.synthetic
    schema, record = release.schema, release.record
    promise = _public_facts(record) if isinstance(record, Unprotected) else _cost_facts(release, record)
    card = ReleaseCard(
        CardFacts(
            table=settings.name,
            release=release.id,
            software=f"dp-synth-pipeline {__version__}",
            table_sha256=sha256(rows) if rows else "",
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            rows=state.facts.synthetic_rows or 0,
            columns=len(schema.published),
            public=[
                {
                    "name": c.name,
                    "storage": c.storage,
                    "kind": str(c.kind),
                    "declared": _declared_facts(settings, c.name),
                }
                for c in schema.published
            ],
            declared_by=declared_by,
            checks=_checks(release.folder),
            description=settings.description or "",
            accuracy=state.facts.accuracy or {},
            audit=generator_files.findings(release.folder / FOLDER, release.id),
            **promise,
        )
    )
    return card.sealed(release.protection.fingerprint)


def write(release: Release, declared_by: str = "") -> ReleaseCard:
    """Write the card of a release as JSON, Markdown and a page, beside its table; return it."""
    card, folder = build(release, declared_by), release.folder
    for path in (folder / "release_card.json", folder / KEPT / f"{release.id}.json"):
        sink.write_text(to_json(card), path)
    sink.write_text(render_markdown(card), folder / "release_card.md")
    page = sink.write_text(render_card(card), folder / "release_card.html")
    release.state = release.state.with_(card=page)
    return card


def _checks(folder: Path) -> list[dict[str, Any]]:
    """Return the results of the checks of the drawn table; none if nobody ran them."""
    try:
        results = json.loads((folder / "checks.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [{k: r[k] for k in ("name", "passed", "blocking", "description")} for r in results]


def _cost_facts(release: Release, record: LedgerRelease) -> dict[str, Any]:
    """Return what a card says about a release that an account paid for."""
    ledger, settings, store = release.protection.ledger, release.settings, release.store
    account, balance = ledger.account(record.account), ledger.balance(record.account)
    origin = release.state.facts.profile_release or record.id
    return {
        "epsilon": record.final_epsilon or 0.0,
        "delta": record.final_delta or 0.0,
        "unit": account.unit,
        "unit_max_rows": account.max_rows,
        "account": account.name,
        "account_epsilon": account.epsilon,
        "account_delta": account.delta,
        "account_spent_epsilon": balance.epsilon_spent,
        "account_left": f"one more release of up to epsilon {balance.epsilon_left:.3f}",
        "account_rule": RULES[account.rule],
        "mechanisms": _mechanisms(ledger.entries(release_id=record.id)),
        "reused": _mechanisms(profile_cache.paid_by(ledger, origin)) if origin != record.id else [],
        "reused_from": origin if origin != record.id else "",
        "code_version": record.code_version,
        "run_id": record.run_id,
        "source_fingerprint": record.fingerprint or "",
        "ledger_head": ledger.head(),
        "limits": _limits(settings, release.state.partitions)
        + exact.limits_of(release.schema)
        + _undone(no_protection.same_source(store, record.fingerprint)),
    }


def _public_facts(release: Unprotected) -> dict[str, Any]:
    """Return what a card says about a release of a source that was declared public."""
    return {
        "guarantee": "none",
        "epsilon": None,
        "delta": None,
        "public_by": release.by,
        "public_why": release.why,
        "code_version": release.code_version,
        "run_id": release.run_id,
        "source_fingerprint": release.fingerprint or "",
        "ledger_head": release.ledger_head,
    }


def _undone(tables: list[str]) -> list[str]:
    if not tables:
        return []
    return [f"This very content was also released without a privacy guarantee, as {', '.join(tables)}."]


def _mechanisms(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [
        {"stage": entry.mechanism, "entry": entry.id, "event": event.to_dict()}
        for entry in entries
        for event in entry.events
    ]


def _declared_facts(settings: ReleaseSettings, column: str) -> dict[str, Any]:
    facts = settings.columns.get(column) or {}
    return {k: str(v) if not isinstance(v, (int, float, list)) else v for k, v in facts.items() if k != "kind"}


def _limits(settings: ReleaseSettings, keys: Sequence[str] = ()) -> list[str]:
    sentences = limits(settings, keys)
    if settings.validation.evidence_checks:
        sentences.append(LET_OUT)
    if settings.filter is not None:
        sentences.append(f"Only rows that satisfy a public predicate were read: {settings.filter}")
    if settings.population is not None:
        sentences.append(f"The number of privacy units, {settings.population:,}, was declared public.")
    if settings.privacy_unit.column is not None:
        sentences.append(
            f"Rows of a {settings.privacy_unit.column} beyond {settings.privacy_unit.max_rows} were left out at random; "
            f"synthetic rows are drawn one by one, so several rows of one synthetic person are not correlated."
        )
    return sentences
