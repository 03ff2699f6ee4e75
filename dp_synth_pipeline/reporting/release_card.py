"""Collects what a release card says: what was released, at what cost, on which assumptions, and which entries prove it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dp_synth_pipeline import __version__
from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.ledger import Account, Entry, Ledger, Lineage
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.reporting.card import (
    INTENDED,
    OUT_OF_SCOPE,
    UNPROTECTED_SCOPE,
    CardFacts,
    ReleaseCard,
    to_json,
)
from dp_synth_pipeline.reporting.card_pages import render_card, render_markdown
from dp_synth_pipeline.synthesis import generator_files, no_protection, note_writer
from dp_synth_pipeline.synthesis.blocks import limits
from dp_synth_pipeline.synthesis.protection import Unprotected
from dp_synth_pipeline.synthesis.reading import (
    alike_sentence,
    dates_sentence,
    formulas_sentences,
    regenerated_sentence,
    together_sentence,
)
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.sampling import sha256
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.targets import sink
from dp_synth_pipeline.texts import survivors

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
    promise = _public_facts(release, record) if isinstance(record, Unprotected) else _cost_facts(release, record)
    card = ReleaseCard(
        CardFacts(
            table=settings.name,
            release=release.id,
            table_sha256=sha256(rows) if rows else "",
            rows=state.facts.synthetic_rows or 0,
            columns=len(schema.published),
            public=public_columns(schema, settings),
            declared_by=declared_by,
            checks=checks_in(release.folder),
            description=settings.description or "",
            accuracy=state.facts.accuracy or {},
            audit=generator_files.findings(release.folder / generator_files.FOLDER, release.id),
            one_run_audit=generator_files.last_attack(release.folder),
            looks=generator_files.looks(release.folder / generator_files.FOLDER, release.id),
            **purpose_of(settings, declared_by),
            **made(),
            **promise,
        )
    )
    return card.sealed(release.protection.seal)


def made() -> dict[str, str]:
    """Return which software makes a card, and when."""
    return {
        "software": f"dp-synth-pipeline {__version__}",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def public_columns(schema: TableSchema, settings: ReleaseSettings, table: str = "") -> list[dict[str, Any]]:
    """Return the published columns as a card lists them, under their table's name if there are several tables."""
    return [
        {
            "name": f"{table}.{c.name}" if table else c.name,
            "storage": c.storage,
            "kind": str(c.kind),
            "declared": declared_facts(settings, c.name),
        }
        for c in schema.published
    ]


def purpose_of(settings: ReleaseSettings, owners: str) -> dict[str, Any]:
    """Return what the table is for and not for, and whom to ask: what a person wrote, or what holds of every table."""
    unit = settings.privacy_unit.column
    several = (f"Questions about one {unit} over several rows: synthetic rows are drawn one by one.",)
    return {
        "contact": settings.contact or owners,
        "intended_use": [settings.intended_use] if settings.intended_use else list(INTENDED),
        "out_of_scope": [
            *(OUT_OF_SCOPE if settings.privacy == "dp" else UNPROTECTED_SCOPE),
            *(several if unit is not None else ()),
        ],
    }


def write(release: Release, declared_by: str = "") -> ReleaseCard:
    """Write the card of a release as JSON, Markdown and a page, beside its table; return it."""
    card = build(release, declared_by)
    release.state = release.state.with_(card=keep(card, release.folder))
    return card


def keep(card: ReleaseCard, folder: Path) -> Path:
    """Write a card into a releasable folder, in place of the last release's, which stays under `cards`; return its page."""
    for path in (folder / "release_card.json", folder / KEPT / f"{card.facts.release}.json"):
        sink.write_text(to_json(card), path)
    sink.write_text(render_markdown(card), folder / "release_card.md")
    return sink.write_text(render_card(card), folder / "release_card.html")


def checks_in(folder: Path) -> list[dict[str, Any]]:
    """Return the results of the checks of the drawn table; none if nobody ran them."""
    try:
        results = json.loads((folder / "checks.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [{k: r[k] for k in ("name", "passed", "blocking", "description")} for r in results]


def _cost_facts(release: Release, record: LedgerRelease) -> dict[str, Any]:
    """Return what a card says about a release that an account paid for."""
    settings, ledger = release.settings, release.protection.ledger
    origin = release.state.facts.profile_release or record.id
    return {
        **paid_facts(ledger, record, ledger.lineage(record.id, release.upon)),
        "population": _population(release),
        "reused_from": origin if origin != record.id else "",
        "limits": _limits(settings, release.state.partitions)
        + exact.limits_of(release.schema, release.profile.ends)
        + _recognised(release)
        + kept_together(release)
        + texts_of(release)
        + left_out(release)
        + _studied(release)
        + remembering(release)
        + _undone(record.table, release.store),
    }


def paid_facts(ledger: Ledger, record: LedgerRelease, lineage: Lineage) -> dict[str, Any]:
    """Return what the ledger says about a release: what it promises and cost, its account, and the entries that prove it."""
    account, balance = ledger.account(record.account), ledger.balance(record.account)
    return {
        "epsilon": lineage.epsilon,
        "delta": lineage.delta,
        "added_epsilon": record.final_epsilon or 0.0,
        "added_delta": record.final_delta or 0.0,
        "trade_off": lineage.trade_off,
        "unit": account.unit,
        "unit_max_rows": account.max_rows,
        "account": account.name,
        "account_epsilon": account.epsilon,
        "account_delta": account.delta,
        "account_spent_epsilon": balance.epsilon_spent,
        "account_used": ledger.share(account.name).used,
        "account_left": f"one more release of up to epsilon {balance.epsilon_left:.3f}",
        "account_rule": RULES[account.rule],
        **_umbrella_facts(ledger, account),
        "mechanisms": mechanisms_of(lineage.own),
        "reused": reused_of(lineage),
        "code_version": record.code_version,
        "run_id": record.run_id,
        "ledger_head": ledger.head(),
    }


def _umbrella_facts(ledger: Ledger, account: Account) -> dict[str, Any]:
    if account.under is None:
        return {}
    umbrella = ledger.account(account.under)
    return {"umbrella": umbrella.name, "umbrella_epsilon": umbrella.epsilon, "umbrella_delta": umbrella.delta}


def _public_facts(of: Release, release: Unprotected) -> dict[str, Any]:
    """Return what a card says about a release of a source that was declared public."""
    return {
        "guarantee": "none",
        "epsilon": None,
        "delta": None,
        "public_by": release.by,
        "public_why": release.why,
        "limits": _recognised(of) + kept_together(of) + texts_of(of),
        "code_version": release.code_version,
        "run_id": release.run_id,
        "ledger_head": release.ledger_head,
    }


def _recognised(release: Release) -> list[str]:
    """Say which columns are made anew, and which dates and numbers hang on others, as released figures told."""
    told = (said(release.settings, release.schema) for said in (regenerated_sentence, dates_sentence))
    return [*(sentence for sentence in told if sentence), *formulas_sentences(release.found_formulas)]


def kept_together(release: Release) -> list[str]:
    """Say which columns' codes were found to give others, if any."""
    pairs = generator_files.facts(release.state.path("generator")).get("together")
    return [together_sentence(pairs)] if pairs else []


def alike_elsewhere(release: Release) -> list[str]:
    """Say which columns may have the very values of other tables' rows, if any."""
    pairs = generator_files.facts(release.state.path("generator")).get("alike")
    return [alike_sentence(pairs)] if pairs else []


def texts_of(release: Release) -> list[str]:
    """Say of text columns how long their texts are at most, and what writes them.

    A public model that does is named by its hash; what taught that is outside of the guarantee.
    """
    counted = [
        f"Texts of {c.name} were cut at {c.max_length:,} characters, and are written word by word from noisy counts: they "
        f"have the words of real texts, and not their meaning."
        for c in release.schema
        if c.kind.composed and c.model is None
    ]
    folder = release.state.path("generator")
    tuned = [(w, "fine-tuned to real ones") for w in note_writer.written_by(folder)]
    voted = [
        (w, f"of whose texts {len(w.texts):,} were chosen by the votes of real ones; a row gets one of these")
        for w in survivors.beside(folder)
    ]
    return counted + [
        f"Texts of {w.name} were cut at {w.most:,} characters, and are written by a pretrained language model with SHA-256 "
        f"{w.sha256}, {how}. What that model was taught before is outside of any guarantee of this release: "
        f"it may repeat its own training data, and whoever is in that is not protected."
        for w, how in (*tuned, *voted)
    ]


def left_out(release: Release) -> list[str]:
    """Say, from released figures alone, which cells and lines of the source the table is not made of."""
    profile, learned = release.profile, [c.name for c in release.modelled.learned]
    sentences = [
        f"About {c.misfits:.1%} of the cells of {c.name} are no value of the type that was measured; they count as nulls."
        for c in profile.columns
        if c.misfits
    ]
    hidden = [c.name for c in profile.columns if c.hidden and c.name in learned]
    if hidden:
        sentences.append(f"No value may be released of {', '.join(hidden)}; there are only nulls in it.")
    if profile.set_aside:
        sentences.append(f"About {profile.set_aside:,} lines of the source are no rows of it, and were set aside.")
    return sentences


def _asked(settings: ReleaseSettings) -> list[str]:
    """Say that drawn rows are not those of the whole population, if a person asked for others; that changes no guarantee."""
    generation, sentences = settings.generation, []
    if generation.where is not None:
        sentences.append(f"The table is conditional: only rows were drawn that satisfy {generation.where}.")
    if generation.share is not None:
        sentences.append(f"The table is rebalanced: values have the parts that were asked for, {generation.share}.")
    if generation.outputs:
        sentences.append(
            f"Further tables were drawn from the same generator, at no cost: {', '.join(generation.outputs)}."
        )
    return sentences


def _studied(release: Release) -> list[str]:
    """Say among which trainings the released one was selected, and which settings it had."""
    tune, facts = release.settings.training.tune, generator_files.facts(release.folder / generator_files.FOLDER)
    if tune is None:
        return []
    ranges = ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in tune.space.items())
    found = ", ".join(f"{name} {facts[name]:.4g}" for name in tune.space if name in facts)
    released = (
        f"The one that is released had {found}" if found else "None of them is released: the network is untrained"
    )
    return [
        f"Training is the best, by a noisy loss, of a secret number of trainings, {tune.trials:g} on average. Each drew its "
        f"settings at random: {ranges}. {released}. All of them are charged, as one mechanism."
    ]


def remembering(release: Release) -> list[str]:
    """Say which earlier releases' noisy counts the table also shows, or why none, if it was to remember them."""
    facts = release.state.facts
    if facts.anew is not None:
        return [f"This release begins anew and uses no noisy counts of the releases before it, since {facts.anew}."]
    if not facts.remembered:
        return []
    names = ", ".join(r[:12] for r in facts.remembered)
    return [
        f"Noisy counts of earlier releases of this account are combined with this one's, weighted by their noise and by "
        f"how far the released numbers drifted: {names}. All of them count in the epsilon above."
    ]


def _undone(table: str, store: Store) -> list[str]:
    """Say that a table of this name was released without a guarantee; whether of this content, no card may say."""
    given_away = any(r.table == table and r.state == "settled" for r in no_protection.releases(store))
    return ["A table of this name was also released without a privacy guarantee."] if given_away else []


def _population(release: Release) -> int | None:
    """Return the number of privacy units, declared or released with noise; None if no profile lies with the release."""
    try:
        return release.profile.population
    except (ReleaseStateError, OSError):
        return None


def mechanisms_of(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return entries as a card lists them: a dict for each event, and what was planned beside what was stopped early."""
    return [
        {"stage": entry.mechanism, "entry": entry.id, "event": ran.to_dict(), **_planned(ran, planned)}
        for entry in entries
        for ran, planned in zip(entry.events, entry.planned or entry.events, strict=False)
    ]


def reused_of(lineage: Lineage) -> list[dict[str, Any]]:
    """Return what a release builds upon as a card lists it: each with the release that was charged for it."""
    return [{**m, "release": e.release_id} for e in lineage.earlier for m in mechanisms_of([e])]


def _planned(ran: Event, planned: Event) -> dict[str, Any]:
    return {} if ran == planned else {"planned": planned.to_dict()}


def declared_facts(settings: ReleaseSettings, column: str) -> dict[str, Any]:
    facts = dict(settings.columns.get(column) or {})
    if isinstance(of := facts.get("categories"), Mapping):
        facts["categories"] = " ".join(["all of", of["from"], *([f"({of['column']})"] if "column" in of else [])])
    return {k: str(v) if not isinstance(v, (int, float, list)) else v for k, v in facts.items() if k != "kind"}


def _limits(settings: ReleaseSettings, keys: Sequence[str] = ()) -> list[str]:
    sentences = limits(settings, keys)
    if settings.validation.evidence_checks:
        sentences.append(LET_OUT)
    if settings.filter is not None:
        sentences.append(f"Only rows that satisfy a public predicate were read: {settings.filter}")
    sentences += _asked(settings)
    if settings.population is not None:
        sentences.append(f"The number of privacy units, {settings.population:,}, was declared public.")
    if settings.privacy_unit.column is not None:
        sentences.append(
            f"Rows of a {settings.privacy_unit.column} beyond {settings.privacy_unit.max_rows} were left out at random; "
            f"synthetic rows are drawn one by one, so several rows of one synthetic person are not correlated."
        )
    return sentences
