"""Verifies a release card: compares each fact with the record in the ledger that it claims to come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Account, JournalRow, Ledger, Release
from dp_synth_pipeline.ledger.journal import GENESIS
from dp_synth_pipeline.reporting.card import CardFacts, content, from_json
from dp_synth_pipeline.reporting.release_card import mechanisms_of, reused_of
from dp_synth_pipeline.synthesis import profile_cache
from dp_synth_pipeline.synthesis.sampling import sha256

CLOSE = 1e-9
"""How far an epsilon on a card may lie from the ledger's, as a share: JSON keeps every digit of a float."""

CLOSE_RATES = 1e-6
"""The same for the trade-off, whose smallest rates keep fewer digits of what they are computed from."""


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
    holds = ledger.seal(content(text)) == f.seal
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
    yield Finding("what it read is on the ledger's record", release.fingerprint is not None)
    past = _until(ledger.history(), f.ledger_head)
    for claim, card_value, ledger_value in _pairs(f, release, past):
        agrees = _agree(card_value, ledger_value)
        yield Finding(claim, agrees, "" if agrees else f"card {_short(card_value)}, ledger {_short(ledger_value)}")
    entries = ledger.entries(release_id=release.id)
    yield Finding("every mechanism, with its parameters and entry", mechanisms_of(entries) == f.mechanisms)
    if f.added_epsilon is not None:
        yield from _lineage(f, ledger, release)
    elif f.reused_from:
        reused_entries = profile_cache.paid_by(ledger.entries(release_id=f.reused_from))
        yield Finding(
            "every reused mechanism, with its parameters and entry", mechanisms_of(reused_entries) == f.reused
        )


def _lineage(f: CardFacts, ledger: Ledger, release: Release) -> Iterator[Finding]:
    """Compare what the table promises with all that the ledger says it is a function of, computed again.

    An entry of an older version does not say what it builds upon, so that the card's own list is taken for it: the seal
    vouches for the list, and the ledger for what is on it.
    """
    recorded = ledger.lineage(release.id)
    listed = () if recorded.recorded else [m["entry"] for m in f.reused]
    lineage = ledger.lineage(release.id, listed)
    is_listed = reused_of(lineage) == f.reused
    yield Finding("every mechanism of earlier releases that the table is a function of", is_listed)
    for claim, card_value, ledger_value, close in (
        ("epsilon of the table", f.epsilon, lineage.epsilon, CLOSE),
        ("delta of the table", f.delta, lineage.delta, CLOSE),
        ("the trade-off", _flat(f.trade_off), _flat(lineage.trade_off), CLOSE_RATES),
    ):
        agrees = _agree(card_value, ledger_value, close)
        yield Finding(claim, agrees, "" if agrees else f"card {_short(card_value)}, ledger {_short(ledger_value)}")


def _flat(figures: Any) -> tuple[Any, ...]:
    """Return the leaves of nested figures with their names, in their order."""
    if isinstance(figures, dict):
        return tuple(leaf for name in sorted(figures) for leaf in (name, *_flat(figures[name])))
    if isinstance(figures, list):
        return tuple(leaf for figure in figures for leaf in _flat(figure))
    return (figures,)


def _pairs(f: CardFacts, release: Release, past: list[JournalRow]) -> Iterable[tuple[str, Any, Any]]:
    account = _account(release.account, past)
    yield from (
        ("the table", f.table, release.table),
        ("the account", f.account, release.account),
        ("epsilon of the release", _added(f.added_epsilon, f.epsilon), release.final_epsilon or 0.0),
        ("delta of the release", _added(f.added_delta, f.delta), release.final_delta or 0.0),
        ("the neighbouring relation", f.relation, release.relation),
        ("the run", f.run_id, release.run_id),
        ("the code version", f.code_version, release.code_version),
    )
    if account is not None:
        yield "the privacy unit", (f.unit, f.unit_max_rows), (account.unit, account.max_rows)
        yield "the account's limit", (f.account_epsilon, f.account_delta), (account.epsilon, account.delta)
        yield "the umbrella", f.umbrella, account.under or ""
        if account.under is not None and (umbrella := _account(account.under, past)) is not None:
            limit = (umbrella.epsilon, umbrella.delta)
            yield "the umbrella's limit", (f.umbrella_epsilon, f.umbrella_delta), limit


def _added(added: float | None, whole: float | None) -> float | None:
    return whole if added is None else added


def _account(name: str, past: list[JournalRow]) -> Account | None:
    """Return an account as it stood when the card was written; it may have been raised since."""
    records = [row.facts["account"] for row in past if row.account == name and row.facts["account"]]
    return Account.from_record({**Account.defaults(), **records[-1]}) if records else None


def _until(chain: list[JournalRow], head: str) -> list[JournalRow]:
    """Return the chain up to a head, or all of it if it lacks that head."""
    places = [i for i, row in enumerate(chain) if row.hash == head]
    return chain[: places[0] + 1] if places else chain


def _agree(card_value: Any, ledger_value: Any, close: float = CLOSE) -> bool:
    if isinstance(card_value, tuple):
        agree = (_agree(c, v, close) for c, v in zip(card_value, ledger_value, strict=False))
        return len(card_value) == len(ledger_value) and all(agree)
    if isinstance(card_value, float) and isinstance(ledger_value, float):
        return abs(card_value - ledger_value) <= close * abs(ledger_value)
    return card_value == ledger_value


def _short(value: Any) -> str:
    return str(value) if len(str(value)) <= 40 else f"{str(value)[:16]}…"
