"""`release_card` says on one page per published table what it is, what it cost and what was assumed."""

from typing import Any

import dagster as dg

from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.orchestration import accounts, metadata
from dp_synth_pipeline.orchestration.assets.stage import materialized, opened, stage
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.reporting import card_pages
from dp_synth_pipeline.reporting import release_card as cards
from dp_synth_pipeline.synthesis.release import Release


def release_card(settings: TableSettings) -> dg.AssetsDefinition:
    """Build the asset for one table."""

    @stage(
        settings,
        "release_card",
        visibility=metadata.RELEASABLE,
        description="What was released, at what cost, under which assumptions, with the entries that prove it.",
        kinds={"html", "json", "markdown"},
        after=("published",),
    )
    def _release_card(context: dg.AssetExecutionContext, published: dict, ledger: LedgerResource, store: StoreResource):
        with reported("release_card"):
            release = opened(context, settings, published, ledger, store)
            card = cards.write(release, ", ".join(settings.owners))
        return materialized(
            release,
            metadata.RELEASABLE,
            {
                **metadata.cost(release.record, release.protection.entries(release.id), release.lineage),
                "ledger_head": release.protection.head(),
                "seal": card.facts.seal,
                metadata.CARD: dg.MetadataValue.md(card_pages.render_markdown(card)),
                **_account(release),
                "page": dg.MetadataValue.path(str(release.state.path("card"))),
                "card": dg.MetadataValue.path(str(release.folder / "release_card.json")),
            },
        )

    return _release_card


def _account(release: Release) -> dict[str, Any]:
    """Return the asset that shows what is left of the account; nothing where no account paid."""
    record = release.record
    if not isinstance(record, LedgerRelease):
        return {}
    return {"account_page": dg.MetadataValue.asset(accounts.key(record.account))}
