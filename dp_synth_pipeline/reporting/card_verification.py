"""Verifies a release card: compares each fact with the record in the ledger that it claims to come from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Account, Entry, JournalRow, Ledger, Release
from dp_synth_pipeline.ledger.journal import GENESIS
from dp_synth_pipeline.reporting.card import CardFacts, content, from_json
from dp_synth_pipeline.synthesis import profile_cache
from dp_synth_pipeline.synthesis.sampling import sha256

CLOSE = 1e-9
"""How far an epsilon on a card may lie from the ledger's, as a share: JSON keeps every digit of a float."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        what: the claim, in words.
        holds: whether it is so.
        note: what was found instead, or why nothing can be said; never a value of a source.
    """

    what: str
    holds: bool
    note: str = ""


def read(path: Path) -> str:
    """Return the text of a card's file.

    Raises:
        InvalidInput: if it cannot be read as text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(f"{path} cannot be read as a card; name the release_card.json of a table.") from None


def verify(text: str, ledger: Ledger, table: Path | None = None) -> list[Finding]:
    """Return every claim of a card, and whether the ledger bears it out.

    Args:
        text: a card's JSON.
        table: the published Parquet file, to compare with the digest on the card.

    Raises:
        InvalidInput: if `text` is no release card, or the file cannot be read.
    """
    findings = [*claims(text, ledger), _chain(ledger)]
    if table is not None:
        is_same = sha256(table) == from_json(text).facts.table_sha256
        findings.append(
            Finding("the file is the published table", is_same, "" if is_same else "its SHA-256 is another")
        )
    return findings


def claims(text: str, ledger: Ledger) -> list[Finding]:
    """Return what `verify` does, but for the slow recomputation of the ledger itself, and for the file."""
    card = from_json(text)
    f = card.facts
    if not f.release or not f.seal:
        raise InvalidInput(
            "this card was written by an earlier version, without a seal; materialize release_card again."
        )
    findings = [_seal(text, f, ledger), _head(f, ledger)]
    if card.protected:
        findings += _release(f, ledger)
    else:
        is_unpaid = all(r.id != f.release for r in ledger.releases())
        findings.append(Finding("no account paid for this release, as the card says", is_unpaid))
    return findings


def _seal(text: str, f: CardFacts, ledger: Ledger) -> Finding:
    holds = ledger.fingerprint(content(text)) == f.seal
    note = "" if holds else "edited since it was written, or the card of another ledger"
    return Finding("nothing on the card was changed: its seal is this ledger's", holds, note)


def _chain(ledger: Ledger) -> Finding:
    try:
        ledger.verify()
    except LedgerCorrupted as error:
        return Finding("the ledger's chain verifies", False, str(error))
    return Finding("the ledger's chain verifies", True)


def _head(f: CardFacts, ledger: Ledger) -> Finding:
    is_held = any(row.hash == f.ledger_head for row in ledger.history())
    is_held = is_held or (f.guarantee == "none" and f.ledger_head == GENESIS)  # nothing had been charged yet
    note = "" if is_held else "it was rolled back to before this release, or is another ledger"
    return Finding("the ledger still holds the head on the card", is_held, note)


def _release(f: CardFacts, ledger: Ledger) -> Iterator[Finding]:
    release = next((r for r in ledger.releases() if r.id == f.release), None)
    yield Finding("the ledger knows the release", release is not None)
    if release is None:
        return
    is_settled = release.state == "settled"
    yield Finding("the release is settled", is_settled, "" if is_settled else f"it is {release.state}")
    past = _until(ledger.history(), f.ledger_head)
    for claim, card_value, ledger_value in _pairs(f, release, _account(ledger, release, past)):
        agrees = _agree(card_value, ledger_value)
        yield Finding(claim, agrees, "" if agrees else f"card {_short(card_value)}, ledger {_short(ledger_value)}")
    entries = ledger.entries(release_id=release.id)
    yield Finding("every mechanism, with its parameters and entry", _events(entries) == _events(f.mechanisms))
    if f.reused_from:
        reused_entries = profile_cache.paid_by(ledger, f.reused_from)
        yield Finding(
            "every reused mechanism, with its parameters and entry", _events(reused_entries) == _events(f.reused)
        )


def _pairs(f: CardFacts, release: Release, account: Account | None) -> Iterable[tuple[str, Any, Any]]:
    yield from (
        ("the table", f.table, release.table),
        ("the account", f.account, release.account),
        ("epsilon of the release", f.epsilon, release.final_epsilon or 0.0),
        ("delta of the release", f.delta, release.final_delta or 0.0),
        ("the neighbouring relation", f.relation, release.relation),
        ("the run", f.run_id, release.run_id),
        ("the code version", f.code_version, release.code_version),
        ("the source's keyed fingerprint", f.source_fingerprint, release.fingerprint or ""),
    )
    if account is not None:
        yield "the privacy unit", (f.unit, f.unit_max_rows), (account.unit, account.max_rows)
        yield "the account's limit", (f.account_epsilon, f.account_delta), (account.epsilon, account.delta)


def _account(ledger: Ledger, release: Release, past: list[JournalRow]) -> Account | None:
    """Return the account as it stood when the card was written; it may have been raised since."""
    records = [row.facts["account"] for row in past if row.account == release.account and row.facts["account"]]
    return Account.from_record({"unit_in_one_block": False, **records[-1]}) if records else None


def _until(chain: list[JournalRow], head: str) -> list[JournalRow]:
    """Return the chain up to a head, or all of it if it lacks that head."""
    places = [i for i, row in enumerate(chain) if row.hash == head]
    return chain[: places[0] + 1] if places else chain


def _events(records: Iterable[Entry | dict[str, Any]]) -> list[tuple[str, str, str]]:
    descriptions = []
    for record in records:
        if isinstance(record, Entry):
            descriptions += [(record.mechanism, record.id, _text(event.to_dict())) for event in record.events]
        else:
            descriptions.append((record["stage"], record["entry"], _text(record["event"])))
    return descriptions


def _text(event: dict[str, Any]) -> str:
    return json.dumps(event, sort_keys=True)


def _agree(card_value: Any, ledger_value: Any) -> bool:
    if isinstance(card_value, tuple):
        return all(map(_agree, card_value, ledger_value))
    if isinstance(card_value, float) and isinstance(ledger_value, float):
        return abs(card_value - ledger_value) <= CLOSE * abs(ledger_value)
    return card_value == ledger_value


def _short(value: Any) -> str:
    return str(value) if len(str(value)) <= 40 else f"{str(value)[:16]}…"
