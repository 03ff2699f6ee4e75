"""What has been spent: durable, append-only, and refused before anything is read.

    reserve ──► start ──► mark ──► settle          one release, one charge
        │         one entry a mechanism,  └─ charges what ran, refunds the rest
        └──► void   durable before it runs

`ledger` is the front door: `questions` read, `oversight` is what a person decides, `ledger` what a pipeline does.
`terms` says what is asked for, `entry` what is kept, `costs` what it costs, `lineage` what it builds upon, `decide` and
`declared` what is admitted, `approval` what a second person must approve, `quota` what one requester or purpose may take,
`refusal` and `advice` why not and what would be,
`store` how one decision is one durable write, `migrations` how an old store becomes a new one, `journal` how the chain is
forged, `verify` and `replay` how it is tested, `anchors` how it is signed and kept elsewhere, `roles` what a pipeline may do
on a server, `export` what an auditor gets.
It sees events, never data.
"""

from __future__ import annotations

from dp_synth_pipeline.ledger.balance import Balance, Share, Verification
from dp_synth_pipeline.ledger.entry import Account, Entry, JournalRow, Plan, Release
from dp_synth_pipeline.ledger.ledger import Ledger
from dp_synth_pipeline.ledger.lineage import Lineage
from dp_synth_pipeline.ledger.preflight import Ask

__all__ = [
    "Account",
    "Ask",
    "Balance",
    "Entry",
    "JournalRow",
    "Ledger",
    "Lineage",
    "Plan",
    "Release",
    "Share",
    "Verification",
]
