"""Lets only the first delivery of a step's attempt read rows and be charged.

A queue may deliver one attempt twice, at once or one after the other. A mechanism's name is used once in a release, so
the ledger never lets two deliveries look for one charge. Here the second delivery is told apart from a retry or a
re-execution, which pay for themselves and may take a dead attempt's training over.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.ledger import Entry
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.synthesis.protection import Record
from dp_synth_pipeline.synthesis.store import Store

READ = (
    "this attempt read its source before: its step was delivered twice. The first delivery goes on, with the one charge, "
    "and nothing was read for this one. If the first one's worker died, materialize the table again from `ingested`."
)
TRAINED = (
    "this attempt began its training before: its step was delivered twice. The first delivery goes on, and nothing was "
    "charged for this one. If the first one's worker died, re-execute the run from its failed steps: training resumes "
    "from its last checkpoint."
)


def claim(store: Store, table: str, release: Record) -> Path:
    """Make a release's restricted folder, which only one delivery of its first step can; return it.

    Raises:
        ReleaseStateError: if another delivery of the step has it, or had it; nothing was changed then.
    """
    if isinstance(release, LedgerRelease) and (release.state != "reserved" or release.fingerprint is not None):
        raise ReleaseStateError(READ)
    folder = store.restricted(table) / release.id
    try:
        folder.mkdir(mode=0o700)  # atomic, on shared volumes too
    except FileExistsError:
        raise ReleaseStateError(READ) from None
    return folder


def entry_key(attempt: str) -> str:
    """Return a new key for the ledger entry of a training: it names the attempt, and no second delivery can repeat it."""
    return f"{attempt}:{uuid.uuid4().hex}"


def check_first_training(attempt: str, earlier: Iterable[Entry]) -> None:
    """Refuse an attempt that began one of the trainings of its release before.

    Raises:
        ReleaseStateError: if it did; the first delivery keeps its training then, which a resumption would end.
    """
    if any((entry.key or "").startswith(f"{attempt}:") for entry in earlier):
        raise ReleaseStateError(TRAINED)
