"""Implements `--resume`: it goes on with the release that an interrupted run left open, from what that run had finished.

A run that waited for a second person left nothing but its request, and begins once that is approved.
"""

from __future__ import annotations

import json

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Entry, Ledger, Release
from dp_synth_pipeline.orchestration.settings import AnySettings
from dp_synth_pipeline.synthesis.store import Store

OPEN = ("reserved", "started")

MADE = {
    **dict.fromkeys(("static columns", "row count", "types", "ordered dates", "formulas", "profile"), "profile"),
    **dict.fromkeys(("text", "words of notes", "notes", "votes"), "texts"),
    **dict.fromkeys(("marginals", "history counts"), "marginals"),
}
"""The asset that keeps what a mechanism saw. Training keeps checkpoints instead."""


def begun(ledger: Ledger, settings: AnySettings) -> Release | None:
    """Return the newest release of a table if it is still open, or is paid for; None if a request is all that began.

    Raises:
        InvalidInput: if there is neither.
    """
    account, _ = settings.charge
    releases = ledger.releases(account) if account in {a.name for a in ledger.accounts()} else []
    candidates = [r for r in releases if r.table == settings.name and (r.state in OPEN or r.released)]
    if candidates and candidates[-1].state in OPEN:
        return candidates[-1]
    if any(r.facts.get("table") == settings.name for r in ledger.requests(account)):
        return None
    if not candidates:
        raise _nothing_left(account, settings.name)
    return candidates[-1]


def unfinished(definitions: dg.Definitions, store: Store, release: Release) -> list[dg.AssetKey]:
    """Return the assets of a table that a release has not made yet, and its rows: no rows are published unchecked.

    Raises:
        InvalidInput: if it has made all of them, or none, so that there is nothing to go on from.
    """
    keys = definitions.resolve_job_def(f"{release.table}_refresh").asset_layer.selected_asset_keys
    remaining_keys = [key for key in keys if _made_by(store, key) != release.id]
    if not remaining_keys:
        raise _nothing_left(release.account, release.table)
    if len(remaining_keys) == len(keys):
        raise InvalidInput(
            f"--resume: the interrupted run had not finished reading, and nothing was learnt. Give its reservation back: "
            f"dp-synth ledger void {release.id[:12]} --why REASON. Then run again without --resume."
        )
    rows = [key for key in keys if key.path[-1] == "synthetic" and key not in remaining_keys]
    publishes = any(key.path[-1] == "published" for key in remaining_keys)
    return [*remaining_keys, *rows] if publishes else remaining_keys


def _nothing_left(account: str, table: str) -> InvalidInput:
    return InvalidInput(
        f"--resume: account {account} has no release of table {table} to go on with. Run without --resume."
    )


def left_open(ledger: Ledger, store: Store, run: str) -> list[str]:
    """Say for each release that a failed run left open what it holds, and how to go on with it or end it."""
    messages = []
    for release in ledger.releases():
        if release.run_id != run:
            continue
        if release.released:
            messages.append(
                f"Release {release.id[:12]} of account {release.account} is paid for, and what it learnt is kept: the same "
                f"command with --resume draws rows from it at no charge."
            )
        elif release.state in OPEN:
            messages.append(_how_to_go_on(ledger, store, release))
    return messages


def _how_to_go_on(ledger: Ledger, store: Store, release: Release) -> str:
    """Say what an open release holds, and the commands that go on with it or end it, and what is left after the latter."""
    started_entries = [e for e in ledger.entries(release_id=release.id) if e.state == "started"]
    lost_mechanisms = [e.mechanism for e in started_entries if _is_lost(store, release, e.mechanism)]
    step_entries = [] if lost_mechanisms else [e for e in started_entries if e.steps_paid]
    if step_entries:
        end = f"settle {step_entries[-1].id} --at-mark"
    else:
        end = f"settle {release.id[:12]}" if started_entries else f"void {release.id[:12]}"
    subject = f"Release {release.id[:12]} of account {release.account}"
    end = f"dp-synth ledger {end} --why REASON. {_balance_after(ledger, release, step_entries[-1:])}"
    if not started_entries and _made_by(store, dg.AssetKey([release.table, "ingested"])) != release.id:
        return f"{subject} had not finished reading, and nothing was learnt. End it: {end}"
    if lost_mechanisms:
        return (
            f"{subject} cannot be gone on with: it was interrupted while {lost_mechanisms[0]!r} looked at the data, and one "
            f"charge buys one look. What started stays charged. End it: {end}"
        )
    return (
        f"{subject} is still open: what started in it stays charged, the rest reserved. Go on with it by the command "
        f"that began it and --resume; or end it: {end}"
    )


def _balance_after(ledger: Ledger, release: Release, at_mark: list[Entry]) -> str:
    """Say what the account could still pay for once the release is ended so."""
    remaining_epsilon = ledger.left_after(release.id, at_mark[-1].id if at_mark else None)
    if remaining_epsilon >= release.epsilon * (1 - 1e-9):
        return "Then the account can pay for another such release: run again without --resume, which is a new charge."
    if remaining_epsilon > 0:
        return (
            f"Then the account can pay for one more release of epsilon {remaining_epsilon:.4g} at most: run again without "
            f"--resume and with --epsilon {remaining_epsilon:.4g} or less, which is a new charge."
        )
    return (
        f"Then the account can pay for no other release; a person may raise it: dp-synth ledger raise {release.account} "
        f"--epsilon E --delta D --why REASON."
    )


def _is_lost(store: Store, release: Release, mechanism: str) -> bool:
    """Whether a mechanism, of a table or of one of a database's, was started whose outcome was never kept."""
    what, of, table = mechanism.partition(" of ")
    asset = MADE.get(what)
    key = dg.AssetKey([release.table, *([table] if of else []), str(asset)])
    return asset is not None and _made_by(store, key) != release.id


def _made_by(store: Store, key: dg.AssetKey) -> str:
    """Return the release that made an asset's latest state."""
    path = store.restricted(key.path[0]) / f"{'.'.join(key.path[1:])}.json"
    return json.loads(path.read_text(encoding="utf-8")).get("release", "") if path.exists() else ""
