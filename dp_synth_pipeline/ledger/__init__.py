"""What has been spent: durable, append-only, and refused before anything is read.

    reserve ──► start ──► mark ──► settle          one release, one charge
        │         one entry a mechanism,  └─ charges what ran, refunds the rest
        └──► void   durable before it runs

`ledger` is the front door; `entry` says what is kept, `costs` what it costs, `store` how one decision is one durable
write, `journal` how the chain is forged, `verify` how it is tested. It sees events, never data.
"""

from __future__ import annotations

from dp_synth_pipeline.ledger.entry import Account, Balance, Entry, JournalRow, Release, Verification
from dp_synth_pipeline.ledger.ledger import Ledger

__all__ = ["Account", "Balance", "Entry", "JournalRow", "Ledger", "Release", "Verification"]
