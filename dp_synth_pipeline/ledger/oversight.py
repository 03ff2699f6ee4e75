"""What a person decides, by name and with a reason: open, raise, divide into blocks, declare a plan, settle at a mark.

A pipeline calls none of these, but `add_blocks` for the next partition of a table whose account a person opened for blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Unpack

import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import decide, declared, journal, refusal, request, rows
from dp_synth_pipeline.ledger.entry import Account, Entry, Plan
from dp_synth_pipeline.ledger.open_ledger import OpenLedger
from dp_synth_pipeline.ledger.rows import Tally
from dp_synth_pipeline.ledger.terms import AccountKeywords, AccountTerms, PlanKeywords, PlanTerms


class Oversight(OpenLedger):
    """The half of a ledger that is in a person's hands."""

    def open_account(self, name: str, *, anew: bool = False, **terms: Unpack[AccountKeywords]) -> Account:
        """Open an account whose limit nothing but `raise_account` changes.

        Args:
            name: names one protected data set.
            anew: replace the terms of an account of that name, on record, if nothing was ever charged to it or is held.
            terms: `epsilon` and `delta`, and the other fields of `AccountTerms` where its defaults are not meant.

        Raises:
            InvalidInput: if the account exists and may not be opened anew, or a number cannot be used.

        Example:
            >>> import tempfile
            >>> from dp_synth_pipeline.ledger import Ledger
            >>> ledger = Ledger.open(f"{tempfile.mkdtemp()}/ledger.db")
            >>> ledger.open_account("patients", epsilon=6, delta=1e-5, unit="patient_id", max_rows=4).order
            5.0
        """
        wanted = AccountTerms(**terms)
        blocks = request.check_blocks(wanted.blocks)
        if blocks and not wanted.unit_in_one_block:
            raise InvalidInput(
                "blocks have budgets of their own only if every privacy unit lives in one of them. If that is so, "
                "confirm it with unit_in_one_block=True; if it is not, open the account without blocks."
            )
        opened = request.opened(name, wanted)
        with self._store.write() as conn:
            exists = any(a.name == name for a, _ in rows.accounts(conn))
            if exists and not (anew and rows.untouched(conn, name)):
                raise InvalidInput(
                    f"account {name!r} exists and its limit is fixed. Use it as it is (dp-synth ledger show {name}), "
                    f"or open one under another name for other data."
                )
            (rows.put_account if exists else rows.add_account)(conn, opened)
            if blocks:
                rows.add_blocks(conn, name, blocks)
            journal.append(conn, "opened", opened, blocks=blocks)
        return opened

    def raise_account(
        self, name: str, *, epsilon: float | None = None, delta: float | None = None, why: str, who: str
    ) -> Account:
        """Raise the limit of an account, on record with a reason and a name; never lower it, never touch its order.

        Raises:
            InvalidInput: if a limit would fall, nothing would change, or the reason or the name is missing.
            UnknownAccount: if there is no such account.
        """
        note = _note(why, who)
        with self._store.write() as conn:
            raised = request.raised(rows.account(conn, name)[0], epsilon, delta)
            rows.put_account(conn, raised)
            journal.append(conn, "raised", raised, note=note)
        return raised

    def add_blocks(self, account: str, blocks: Iterable[str], *, why: str, who: str) -> list[str]:
        """Add blocks to an account that was opened for blocks; return those that were new.

        Raises:
            InvalidInput: if the account was not opened with `unit_in_one_block`.
        """
        named, note = request.check_blocks(blocks), _note(why, who)
        with self._store.write() as conn:
            opened, _ = rows.account(conn, account)
            if not opened.unit_in_one_block:
                raise InvalidInput(
                    f"account {account!r} was not opened for blocks: nobody confirmed that a privacy unit lives in "
                    f"one of them. Open another account with unit_in_one_block=True for other data."
                )
            existing = rows.blocks(conn, account)
            fresh = [b for b in named if b not in existing]
            if fresh:
                rows.add_blocks(conn, account, fresh)
                journal.append(conn, "blocks added", account, blocks=fresh, note=note)
        return fresh

    def declare_plan(self, account: str, *, why: str, who: str, **terms: Unpack[PlanKeywords]) -> Plan:
        """Declare that releases of at most `events` will run at most `times`; charge them all, once, by one PLD.

        Args:
            terms: `name`, `events` and `times`, and `share` or `mechanisms`: the fields of `PlanTerms`.

        Raises:
            BudgetExceeded: if so many releases do not fit.
            InvalidInput: if the name is taken, the whole account is asked for and something of it is in use, or
                `mechanisms` does not name one beside each event.
        """
        note, wanted = _note(why, who), request.planned(PlanTerms(**terms))
        while True:
            with self._store.read() as conn:
                before = _in_use(conn, account)
            opened, tally, plans = before
            if any(p.name == wanted.name for p in plans):
                raise InvalidInput(
                    f"account {account!r} has a plan {wanted.name!r}, and it is fixed. Choose another name."
                )
            untouched = not plans and tally == Tally()
            made = declared.plan(opened, untouched, wanted, why=why, who=who)
            with self._store.write() as conn:
                if _in_use(conn, account) != before:
                    continue  # another process moved first: decide again on what is there now
                if not declared.fits(opened, tally, made):
                    raise refusal.over_budget_plan(opened, tally, made)
                own = rows.account(conn, account)[1]
                rows.put_plan(conn, made, new=True)
                rows.put_tally(conn, account, own.plus(Tally(made.cost, 0, made.cost_delta, 0)))
                journal.append(conn, "planned", account, plan=made, note=note)
            return made

    def adopt(self, *, why: str, who: str) -> None:
        """Accept the ledger as it is in place of the one that was left last.

        For whoever restored a backup on purpose. What was spent after it is not known to it, and must be charged again.

        Raises:
            LedgerCorrupted: if it does not verify; nothing makes that right.
            InvalidInput: if the reason or the name is missing.
        """
        note = _note(why, who)
        with self._store.adoption() as (conn, last):
            given_up = {"length": last.length, "head": last.head} if last else None
            journal.append(conn, "adopted", "", note={**note, "instead_of": given_up})

    def settle_at_mark(self, entry_id: str, *, why: str, who: str) -> Entry:
        """Charge a crashed mechanism only for its steps up to the high-water mark; `settle` then gives back the rest.

        Steps are marked before they run, so none past the mark did, and none at all without one. From here on the
        mechanism may mark and run no further; a resumed one is started under another name, and pays for what it replays.

        Raises:
            ReleaseStateError: if the entry is settled otherwise, or runs something besides its steps and has no mark.
            InvalidInput: if there is no such entry, or the reason or the name is missing.
        """
        note = _note(why, who)
        while True:
            with self._store.read() as conn:
                before = rows.entry(conn, entry_id)
                release = rows.release(conn, before.release_id)
            settled = decide.settled_at_mark(release, before)
            if settled == before:
                return before
            with self._store.write() as conn:
                if rows.entry(conn, entry_id) != before or rows.release(conn, release.id) != release:
                    continue  # it marked or ended in the meantime: look again
                rows.put_entry(conn, settled)
                paid = {"steps_paid": before.steps_paid, "steps_charged": settled.steps_paid}
                journal.append(conn, "settled at mark", settled.account, entries=[settled], note={**note, **paid})
            return settled


def _note(why: str, who: str) -> dict[str, object]:
    request.check_word("a reason (why)", why)
    request.check_word("a name (who)", who)
    return {"why": why, "who": who}


def _in_use(conn: sa.Connection, account: str) -> tuple[Account, Tally, list[Plan]]:
    opened, tally = rows.standing(conn, account)
    return opened, tally, [replace(p, used=0) for p in rows.plans(conn, account)]
