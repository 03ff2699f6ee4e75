"""What a ledger was at one head: the chain's length and hash, every balance, every account and plan, under a seal.

It is carried on from the journal alone, never from the tables, so that a balance which was edited differs from it. The
next decision then costs the rows since the checkpoint, however long the ledger is.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from typing import Any, NoReturn

import sqlalchemy as sa

from dp_synth_pipeline.errors import LedgerCorrupted
from dp_synth_pipeline.ledger import journal, rows, tables
from dp_synth_pipeline.ledger.entry import RESERVED, SETTLED, VOIDED, Account, JournalRow, Plan, Request
from dp_synth_pipeline.ledger.rows import Tally

FORMAT = "dp-synth/ledger-head/1"

_DEFAULTS = {"account": Account.defaults(), "plan": Plan.defaults(), "request": Request.defaults()}
"""What a record means by a field that it leaves out, or that is younger than the record."""


@dataclass(frozen=True)
class Checkpoint:
    """A state of the ledger as its journal tells it.

    Attributes:
        balances: by account and block; the block of an account's own row is ''.
        records: accounts by "account NAME", plans by "plan ID", requests by "request ID", as the journal last told them.
    """

    length: int = 0
    head: str = journal.GENESIS
    balances: dict[tuple[str, str], Tally] = field(default_factory=dict)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)

    def sealed(self, key: bytes) -> str:
        """Return the checkpoint as text that only whoever has the ledger's key can write."""
        balances = [[*place, *astuple(tally)] for place, tally in sorted(self.balances.items())]
        content = {"format": FORMAT, "length": self.length, "head": self.head}
        content |= {"balances": balances, "records": self.records}
        return json.dumps({**content, "seal": _seal(content, key)}, allow_nan=False)

    @classmethod
    def unsealed(cls, text: str, key: bytes) -> Checkpoint:
        """Read back what `sealed` wrote.

        Raises:
            ValueError: if it was written without the key, or changed since.
        """
        try:
            content = json.loads(text)
            seal = content.pop("seal")
            if not hmac.compare_digest(seal, _seal(content, key)) or content["format"] != FORMAT:
                raise ValueError
            balances = {(account, block): Tally(*units) for account, block, *units in content["balances"]}
            return cls(content["length"], content["head"], balances, content["records"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError("this is no checkpoint that this ledger wrote") from None

    def carried_on(self, chain: Iterable[JournalRow]) -> Checkpoint:
        """Return the checkpoint after the rows that follow it; each must hold the hash of its content and of the last.

        Raises:
            LedgerCorrupted: if a row is missing, out of place or edited.
        """
        length, head, balances, records = self.length, self.head, dict(self.balances), dict(self.records)
        for row in chain:
            if (row.seq, row.previous) != (length + 1, head) or journal.link(row) != row.hash:
                differs(f"journal row {length + 1} does not follow from the rows before it")
            try:
                _apply(row, balances, records)
            except (KeyError, TypeError, ValueError):
                differs(f"journal row {row.seq} holds what no ledger writes")
            length, head = row.seq, row.hash
        return Checkpoint(length, head, balances, records)

    def check(self, conn: sa.Connection) -> None:
        """Compare the tables with this checkpoint, carried on to the ledger's head.

        Raises:
            LedgerCorrupted: if the journal does not hold this head, or the tables say anything else than the journal.
        """
        chain = journal.rows(conn, after=self.length - 1)
        if self.length:
            self._check_own(chain[0] if chain else None)
        now = self.carried_on(chain[1 if self.length else 0 :])
        state = conn.execute(sa.select(tables.store.c.length, tables.store.c.head)).one()
        if (now.length, now.head) != tuple(state):
            differs(f"its journal has {now.length} rows, and its head is that of {state.length}")
        balances, records = _stored(conn)
        for place in sorted(now.balances.keys() | balances.keys()):
            if now.balances.get(place) != balances.get(place):
                block = f", block {place[1]}," if place[1] else ""
                differs(f"the balance of account {place[0]}{block} is not what its journal adds up to")
        for name in sorted(now.records.keys() | records.keys()):
            written, stored = now.records.get(name, {}), records.get(name, {})
            meant = {**_DEFAULTS[name.partition(" ")[0]], **written}
            differing = [f for f, value in meant.items() if stored.get(f) != value]
            if differing or not (written and stored):
                differs(f"{name} is not what its journal says: another {', '.join(differing) or 'set of them'}")

    def check_held(self, conn: sa.Connection) -> None:
        """Raise LedgerCorrupted if the journal does not hold this head at this length."""
        self._check_own(next(iter(journal.rows(conn, after=self.length - 1, most=1)), None) if self.length else None)

    def _check_own(self, row: JournalRow | None) -> None:
        if self.length and (
            row is None or (row.seq, row.hash) != (self.length, self.head) or journal.link(row) != row.hash
        ):
            differs(f"it does not hold its own head after {self.length} decisions, {self.head[:12]}…")


def differs(what: str) -> NoReturn:
    """Stop: this ledger is not the one, grown, that was seen last."""
    raise LedgerCorrupted(
        f"the ledger was rolled back, edited or replaced: {what}. Nothing was read and nothing was changed. Stop all runs "
        f"and see dp-synth ledger verify; restore the ledger as it was, since what was spent after a backup must be "
        f"charged again. A person who restored it on purpose puts that on record: dp-synth ledger adopt --why REASON."
    )


def _seal(content: dict[str, Any], key: bytes) -> str:
    own = hmac.new(key, b"dp-synth ledger head", hashlib.sha256).digest()  # so that no fingerprint is ever a seal
    return hmac.new(own, json.dumps(content, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _apply(row: JournalRow, balances: dict[tuple[str, str], Tally], records: dict[str, dict[str, Any]]) -> None:
    facts, own = row.facts, (row.account, "")
    if account := facts["account"]:
        records[f"account {account['name']}"] = account
        balances.setdefault(own, Tally())
    for block in facts.get("blocks", ()):
        balances.setdefault((row.account, block), Tally())
    if plan := facts.get("plan"):
        records[f"plan {plan['id']}"] = plan
        if row.action == journal.PLANNED:
            balances[own] = balances[own].plus(Tally(cost_spent=plan["cost"], delta_spent=plan["cost_delta"]))
    if request := facts.get("request"):
        records[f"request {request['id']}"] = request
    release = facts["release"]
    if release is None or release.get("plan") or row.action not in (RESERVED, SETTLED, VOIDED, journal.BY_HAND):
        return
    change = Tally(0, release["reserved_cost"], 0, release["reserved_delta"])
    if row.action == journal.BY_HAND:
        change = Tally(release["charged_cost"], 0, release["charged_delta"], 0)
    elif row.action != RESERVED:
        change = Tally(
            release["charged_cost"], -release["reserved_cost"], release["charged_delta"], -release["reserved_delta"]
        )
    for block in json.loads(release.get("blocks", "[]")) or [""]:
        balances[row.account, block] = balances[row.account, block].plus(change)


def _stored(conn: sa.Connection) -> tuple[dict[tuple[str, str], Tally], dict[str, dict[str, Any]]]:
    accounts = rows.accounts(conn)
    balances = {(a.name, ""): tally for a, tally in accounts} | rows.all_blocks(conn)
    records: dict[str, dict[str, Any]] = {f"account {a.name}": a.to_record() for a, _ in accounts}
    for kind, table in (("plan", tables.plan), ("request", tables.request)):
        records |= {f"{kind} {r['id']}": dict(r) for r in conn.execute(sa.select(table)).mappings()}
    return balances, records
