"""`release_card`: one page per published table that says what it is, what it cost and what was assumed."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from dp_synth_pipeline import __version__
from dp_synth_pipeline.ledger import Entry, Ledger
from dp_synth_pipeline.orchestration import audits, evidence_checks, metadata, reuse, statements, unprotected
from dp_synth_pipeline.orchestration.assets.handles import Refresh
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.begun import begun
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.partitions import limits, part
from dp_synth_pipeline.orchestration.resources import LedgerResource, Store, StoreResource
from dp_synth_pipeline.orchestration.unprotected import Book, Unprotected
from dp_synth_pipeline.orchestration.verification import sha256
from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.targets import sink
from dp_synth_pipeline.validation import card as cards

KEPT = "cards"
"""Where the card of every release stays, beside the newest one."""

RULES = {"filter": "Renyi filter at a fixed order (Rule F)", "plan": "declared plan (Rule P)"}


def release_card(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @link(
        settings,
        "release_card",
        visibility=metadata.RELEASABLE,
        description="What was released, at what cost, under which assumptions, with the entries that prove it.",
        kinds={"html", "json", "markdown"},
        after=("published",),
    )
    def _release_card(published: dict, ledger: LedgerResource, store: StoreResource):
        with reported("release_card"):
            here = begun(settings, published, ledger, store)
            refresh, book = here.refresh, here.book
            folder = here.store.releasable(part(here.settings, refresh.partitions).folder)
            if isinstance(book, Book):
                promise = _public_facts(book.release(refresh.release))
            else:
                promise = _cost_facts(here.settings, refresh, book, here.store)
            card = cards.ReleaseCard(_facts(here.settings, refresh, folder, promise))
            card = card.sealed(book.fingerprint)
            for kept in (folder / "release_card.json", folder / KEPT / f"{refresh.release}.json"):
                sink.write_text(cards.to_json(card), kept)
            sink.write_text(cards.render_markdown(card), folder / "release_card.md")
            page = sink.write_text(cards.render_card(card), folder / "release_card.html")
            told = metadata.cost(book.release(refresh.release), book.entries(release_id=refresh.release))
        return dg.MaterializeResult(
            value=refresh.with_({"card": page}),
            metadata={
                **told,
                "visibility": metadata.RELEASABLE,
                "ledger_head": book.head(),
                "seal": card.facts.seal,
                **_left(book, refresh.release),
                "page": dg.MetadataValue.path(str(page)),
                "card": dg.MetadataValue.path(str(folder / "release_card.json")),
            },
        )

    return _release_card


def _left(book: Ledger | Book, release: str) -> dict[str, Any]:
    """Return what is left of the account, as a number and as a picture; nothing where no account paid."""
    if isinstance(book, Book):
        return {}
    account = book.release(release).account
    facts = {"epsilon_left_for_one_release": book.balance(account).epsilon_left}
    return facts | metadata.burn_down(statements.page(book, account)["accounts"][0])


def _facts(settings: TableSettings, refresh: Refresh, folder: Path, promise: dict[str, Any]) -> cards.CardFacts:
    schema = refresh.table_schema()
    results = json.loads((folder / "checks.json").read_text())
    return cards.CardFacts(
        table=settings.name,
        release=refresh.release,
        software=f"dp-synth-pipeline {__version__}",
        table_sha256=sha256(refresh.path("synthetic")),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        rows=int((refresh.facts or {})["synthetic_rows"]),
        columns=len(schema.published),
        public=[
            {"name": c.name, "storage": c.storage, "kind": str(c.kind), "declared": _declared(settings, c.name)}
            for c in schema.published
        ],
        declared_by=", ".join(settings.owners),
        checks=[{k: r[k] for k in ("name", "passed", "blocking", "description")} for r in results],
        description=settings.description or "",
        accuracy=(refresh.facts or {}).get("accuracy") or {},
        audit=audits.kept(folder / "generator", refresh.release),
        **promise,
    )


def _cost_facts(settings: TableSettings, refresh: Refresh, ledger: Ledger, store: Store) -> dict[str, Any]:
    """Return what a card says about a release that an account paid for."""
    release = ledger.release(refresh.release)
    account, balance = ledger.account(release.account), ledger.balance(release.account)
    origin = str((refresh.facts or {}).get("profile_release", release.id))
    return {
        "epsilon": release.final_epsilon or 0.0,
        "delta": release.final_delta or 0.0,
        "unit": account.unit,
        "unit_max_rows": account.max_rows,
        "account": account.name,
        "account_epsilon": account.epsilon,
        "account_delta": account.delta,
        "account_spent_epsilon": balance.epsilon_spent,
        "account_left": f"one more release of up to epsilon {balance.epsilon_left:.3f}",
        "account_rule": RULES[account.rule],
        "mechanisms": _mechanisms(ledger.entries(release_id=release.id)),
        "reused": _mechanisms(reuse.paid_by(ledger, origin)) if origin != release.id else [],
        "reused_from": origin if origin != release.id else "",
        "code_version": release.code_version,
        "run_id": release.run_id,
        "source_fingerprint": release.fingerprint or "",
        "ledger_head": ledger.head(),
        "limits": _limits(settings, refresh.partitions)
        + exact.limits_of(refresh.table_schema())
        + _undone(unprotected.same_source(store, release.fingerprint)),
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


def _declared(settings: TableSettings, column: str) -> dict[str, Any]:
    facts = settings.columns.get(column) or {}
    return {k: str(v) if not isinstance(v, (int, float, list)) else v for k, v in facts.items() if k != "kind"}


def _limits(settings: TableSettings, keys: Sequence[str] = ()) -> list[str]:
    said = limits(settings, keys)
    if settings.validation.evidence_checks:
        said.append(evidence_checks.LET_OUT)
    if settings.filter is not None:
        said.append(f"Only rows that satisfy a public predicate were read: {settings.filter}")
    if settings.population is not None:
        said.append(f"The number of privacy units, {settings.population:,}, was declared public.")
    if settings.privacy_unit.column is not None:
        said.append(
            f"Rows of a {settings.privacy_unit.column} beyond {settings.privacy_unit.max_rows} were left out at random; "
            f"synthetic rows are drawn one by one, so several rows of one synthetic person do not hang together."
        )
    return said
