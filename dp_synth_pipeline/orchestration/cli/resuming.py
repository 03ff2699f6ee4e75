"""`--resume`: goes on with the release that an interrupted run left open, from what that run had finished."""

from __future__ import annotations

import json

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.orchestration.config import TableSettings
from dp_synth_pipeline.orchestration.resources import Store

OPEN = ("reserved", "started")

MADE = {"row count": "profile", "profile": "profile", "marginals": "marginals"}
"""The asset that keeps what a mechanism saw. Training keeps checkpoints instead."""


def begun(ledger: Ledger, store: Store, settings: TableSettings) -> Release:
    """Return the newest release of a table if it is still open, or is paid for and was not published yet.

    Raises:
        InvalidInput: if there is none.
    """
    account, _ = settings.charge
    known = ledger.releases(account) if account in {a.name for a in ledger.accounts()} else []
    found = [r for r in known if r.table == settings.name and (r.state in OPEN or r.released)]
    if not found or _made_by(store, dg.AssetKey([settings.name, "published"])) == found[-1].id:
        raise InvalidInput(
            f"--resume: account {account} has no release of table {settings.name} to go on with. Run without --resume."
        )
    return found[-1]


def unfinished(definitions: dg.Definitions, store: Store, release: Release) -> list[dg.AssetKey]:
    """Return the assets of a table that a release has not made yet, and its rows: no rows are published unchecked.

    Raises:
        InvalidInput: if it has made none, so that there is nothing to go on from.
    """
    keys = definitions.resolve_job_def(f"{release.table}_refresh").asset_layer.selected_asset_keys
    left = [key for key in keys if _made_by(store, key) != release.id]
    if len(left) == len(keys):
        raise InvalidInput(
            f"--resume: the interrupted run had read nothing yet. Give its reservation back: dp-synth ledger void "
            f"{release.id[:12]} --why REASON, and run again without --resume."
        )
    rows, published = (dg.AssetKey([release.table, name]) for name in ("synthetic", "published"))
    return [*left, rows] if published in left and rows not in left else left


def left_open(ledger: Ledger, store: Store, run: str) -> list[str]:
    """Say for each release that a failed run left open what it holds, and how to go on with it or end it."""
    told = []
    for release in ledger.releases():
        if release.run_id != run:
            continue
        if release.released:
            told.append(
                f"Release {release.id[:12]} of account {release.account} is paid for, and what it learnt is kept: the same "
                f"command with --resume draws rows from it at no charge."
            )
        if release.state not in OPEN:
            continue
        started = [e for e in ledger.entries(release_id=release.id) if e.state == "started"]
        lost = [e.mechanism for e in started if _is_lost(store, release, e.mechanism)]
        if lost:
            told.append(
                f"Release {release.id[:12]} of account {release.account} cannot be gone on with: it was interrupted while "
                f"{lost[0]!r} looked at the data, and one charge buys one look. What started stays charged. End it, and get "
                f"back the rest: dp-synth ledger settle {release.id[:12]} --why REASON. Then run again without --resume, "
                f"which is a new charge."
            )
            continue
        marked = [e.id for e in started if e.steps_started > 0]
        if marked:
            end = f"settle {marked[-1]} --at-mark"
        else:
            end = f"settle {release.id[:12]}" if started else f"void {release.id[:12]}"
        told.append(
            f"Release {release.id[:12]} of account {release.account} is still open: what started in it stays charged, the "
            f"rest reserved. Go on with it by the same command and --resume; or end it, and get back what did not start: "
            f"dp-synth ledger {end} --why REASON."
        )
    return told


def _is_lost(store: Store, release: Release, mechanism: str) -> bool:
    """Whether a mechanism was started whose outcome was never kept."""
    asset = MADE.get(mechanism)
    return asset is not None and _made_by(store, dg.AssetKey([release.table, asset])) != release.id


def _made_by(store: Store, key: dg.AssetKey) -> str:
    """Return the release that made an asset's latest handle."""
    path = store.restricted(key.path[0]) / f"{key.path[-1]}.json"
    return json.loads(path.read_text(encoding="utf-8")).get("release", "") if path.exists() else ""
