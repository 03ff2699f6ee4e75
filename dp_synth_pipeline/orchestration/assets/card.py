"""`release_card`: one page per published table that says what it is, what it cost and what was assumed."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.assets.handles import Refresh, load
from dp_synth_pipeline.orchestration.assets.link import link
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.tabular import sink
from dp_synth_pipeline.validation import card as cards

RULES = {"filter": "Renyi filter at a fixed order (Rule F)", "plan": "declared plan (Rule P)"}


def release_card(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @link(
        settings,
        "release_card",
        visibility=metadata.RELEASABLE,
        description="What was released, at what cost, under which assumptions, with the entries that prove it.",
        kinds={"html", "json"},
        after=("published",),
    )
    def _release_card(published: dict, ledger: LedgerResource, store: StoreResource):
        with reported("release_card"):
            refresh, book, folder = load(published), ledger.get(), store.get().releasable(settings.name)
            card = cards.ReleaseCard(_facts(settings, refresh, book, folder))
            sink.write_text(cards.to_json(card), folder / "release_card.json")
            page = sink.write_text(cards.render_card(card), folder / "release_card.html")
            release = book.release(refresh.release)
        return dg.MaterializeResult(
            value=refresh.with_({"card": page}),
            metadata={
                **metadata.cost(release, book.entries(release_id=release.id)),
                "visibility": metadata.RELEASABLE,
                "ledger_head": book.head(),
                "epsilon_left_for_one_release": book.balance(release.account).epsilon_left,
                "page": dg.MetadataValue.path(str(page)),
            },
        )

    return _release_card


def _facts(settings: TableSettings, refresh: Refresh, ledger: Ledger, folder: Path) -> cards.CardFacts:
    release = ledger.release(refresh.release)
    account, balance = ledger.account(release.account), ledger.balance(release.account)
    schema = refresh.table_schema()
    results = json.loads((folder / "checks.json").read_text())
    return cards.CardFacts(
        table=settings.name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        rows=int((refresh.facts or {})["synthetic_rows"]),
        columns=len(schema.published),
        epsilon=release.final_epsilon or 0.0,
        delta=release.final_delta or 0.0,
        unit=account.unit,
        unit_max_rows=account.max_rows,
        account=account.name,
        account_epsilon=account.epsilon,
        account_delta=account.delta,
        account_spent_epsilon=balance.epsilon_spent,
        account_left=f"one more release of up to epsilon {balance.epsilon_left:.3f}",
        account_rule=RULES[account.rule],
        mechanisms=[
            {"stage": entry.mechanism, "entry": entry.id, "event": event.to_dict()}
            for entry in ledger.entries(release_id=release.id)
            for event in entry.events
        ],
        public=[
            {"name": c.name, "storage": c.storage, "kind": str(c.kind), "declared": _declared(settings, c.name)}
            for c in schema.published
        ],
        declared_by=", ".join(settings.owners),
        checks=[{k: r[k] for k in ("name", "passed", "blocking", "description")} for r in results],
        description=settings.description or "",
        code_version=release.code_version,
        run_id=release.run_id,
        source_fingerprint=release.fingerprint or "",
        ledger_head=ledger.head(),
        limits=_limits(settings),
    )


def _declared(settings: TableSettings, column: str) -> dict[str, Any]:
    facts = settings.columns.get(column) or {}
    return {k: str(v) if not isinstance(v, (int, float, list)) else v for k, v in facts.items() if k != "kind"}


def _limits(settings: TableSettings) -> list[str]:
    said = []
    if settings.population is not None:
        said.append(f"The number of privacy units, {settings.population:,}, was declared public.")
    if settings.privacy_unit.column is not None:
        said.append(
            f"Rows of a {settings.privacy_unit.column} beyond {settings.privacy_unit.max_rows} were left out at random; "
            f"synthetic rows are drawn one by one, so several rows of one synthetic person do not hang together."
        )
    return said
