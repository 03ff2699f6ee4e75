"""What a person decides, by name and with a reason: open, raise, amend, approve, declare a plan, settle at a mark.

A pipeline calls none of these, but `add_blocks` for the next partition of a table whose account a person opened for blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Unpack

import sqlalchemy as sa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import approval, by_hand, decide, declared, journal, quota, refusal, request, rows
from dp_synth_pipeline.ledger.entry import APPROVED, Account, Claim, Entry, Plan, Release, Request
from dp_synth_pipeline.ledger.journal import AMENDED, RAISED
from dp_synth_pipeline.ledger.open_ledger import OpenLedger
from dp_synth_pipeline.ledger.rows import Tally
from dp_synth_pipeline.ledger.terms import AccountKeywords, AccountTerms, PlanKeywords, PlanTerms
from dp_synth_pipeline.privacy.events import Event


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
        with self._store.write() as conn:
            umbrella = None if wanted.under is None else rows.account(conn, wanted.under)[0]
            opened = request.opened(name, wanted, umbrella)
            exists = any(a.name == name for a, _ in rows.accounts(conn))
            if exists:
                present = rows.account(conn, name)[0]
                free = not approval.is_guarded(present) and rows.untouched(conn, name)
                if not (anew and free):
                    raise refusal.exists(present, opened.unit, wanted.under, untouched=free)
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
            ApprovalNeeded: if its terms want a second person for large charges, and none approved the raise yet.
            InvalidInput: if a limit would fall, nothing would change, or the reason or the name is missing.
            UnknownAccount: if there is no such account.
        """
        return self._change(name, RAISED, _note(why, who), lambda a, above: request.raised(a, epsilon, delta, above))

    def amend_account(
        self, name: str, *, why: str, who: str, approve_above: float | None = None, quotas: Iterable[str] = ()
    ) -> Account:
        """Set the share of an account that one person decides alone, or what one requester or purpose may take of it.

        Where a share needs a second person, to loosen either needs one too.

        Args:
            approve_above: the share above which a charge needs a second person; 1 for none.
            quotas: 'requester=NAME:SHARE' or 'purpose=TEXT:SHARE', each in place of one by that name; a share of 1 bounds
                nothing. What was taken before counts, and stays admitted if it is more.

        Raises:
            ApprovalNeeded: if it lets one person decide or take more, and no second one approved that yet.
            InvalidInput: if it is no share, nothing would change, or the reason or the name is missing.
        """
        return self._change(name, AMENDED, _note(why, who), lambda a, _: request.amended(a, approve_above, quotas))

    def approve(self, request_id: str, *, why: str, who: str) -> Request:
        """Approve what somebody else asks for, with exactly the terms of the request, to be done once.

        Raises:
            InvalidInput: if there is no such request, it does not wait, it is one's own, or the reason or name is missing.
        """
        note = _note(why, who)
        with self._store.write() as conn:
            approved = approval.approved(rows.request(conn, request_id), **note)
            rows.put_request(conn, approved)
            journal.append(conn, APPROVED, approved.account, request=approved, note=note)
        return approved

    def _change(
        self, name: str, act: str, note: dict[str, str], changed: Callable[[Account, Account | None], Account]
    ) -> Account:
        """Put new terms of an account on record, once a second person approved them if they let one decide more."""
        with self._store.write() as conn:
            before = rows.account(conn, name)[0]
            umbrella = None if before.under is None else rows.account(conn, before.under)[0]
            after, second = changed(before, umbrella), None
            if approval.loosens(before, after):
                draft = approval.request(before, act, approval.terms(after, before), **note)
                second = approval.taken(conn, approval.Second(draft, before))
            if second is None or not second.waits:
                rows.put_account(conn, after)
                journal.append(conn, act, after, note=note, request=second and second.request)
        if second and second.waits:
            raise second.refusal()
        return after

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
            ApprovalNeeded: if they fit, and take so much of the account that they wait for a second person.
            InvalidInput: if the name is taken, the whole account is asked for and something of it is in use, or
                `mechanisms` does not name one beside each event.
        """
        note, wanted = _note(why, who), request.planned(PlanTerms(**terms))
        while True:
            with self._store.read() as conn:
                payers, plans = before = rows.payers(conn, account), rows.plans(conn, account)
            opened, tally = payers[0]
            request.check_payer(opened)
            if any(p.name == wanted.name for p in plans):
                raise InvalidInput(
                    f"account {account!r} has a plan {wanted.name!r}, and it is fixed. Choose another name."
                )
            untouched = not plans and tally == Tally()
            made = declared.plan(opened, untouched, wanted, why=why, who=who)
            every = [made, *(declared.mirrored(umbrella, made) for umbrella, _ in payers[1:])]
            with self._store.write() as conn:
                payers = rows.payers(conn, account)
                if (payers[0], _unused(rows.plans(conn, account))) != (before[0][0], _unused(plans)):
                    continue  # another process moved first: decide again on what is there now
                costs = _admitted_plan(conn, payers, every)
                draft = approval.request(opened, journal.PLANNED, approval.terms(made, opened), **note)
                second = approval.taken(conn, approval.guarded(payers, costs, draft))
                for one in every if second is None or not second.waits else ():
                    _put_plan(conn, one, note, second.request if second and one is made else None)
            if second and second.waits:
                raise second.refusal()
            return made

    def charge_by_hand(
        self, account: str, events: Iterable[Event], *, why: str, who: str, delta: float | None = None
    ) -> Release:
        """Charge an account, and its umbrella, for what another tool releases; refuse what does not fit.

        Enter it before it runs: what was released cannot be undone. All rows are charged, also where there are blocks.

        Args:
            events: what runs, with noise against what all rows of one privacy unit move.
            delta: the delta of its epsilon: by default the account's under a Rényi filter; under declared plans the part
                of the account's delta that it takes.

        Raises:
            BudgetExceeded: if it does not fit.
            ApprovalNeeded: if it fits, and takes so much of the account that it waits for a second person.
            InvalidInput: if the events cannot be priced, or the reason or the name is missing.

        Example:
            >>> import tempfile
            >>> from dp_synth_pipeline.ledger import Ledger
            >>> from dp_synth_pipeline.privacy.events import Gaussian
            >>> ledger = Ledger.open(f"{tempfile.mkdtemp()}/ledger.db")
            >>> _ = ledger.open_account("patients", epsilon=6, delta=1e-5)
            >>> charge = ledger.charge_by_hand("patients", [Gaussian(4.0)], why="OpenDP query, 3 May", who="Ana")
            >>> round(charge.final_epsilon, 2), charge.state
            (0.93, 'settled')
        """
        note, facts = _note(why, who), request.check_events(by_hand.MECHANISM, events)
        with self._store.read() as conn:
            priced = rows.payers(conn, account)
        charges = by_hand.charges(priced, facts, delta, note)
        with self._store.write() as conn:
            payers = rows.payers(conn, account)
            if payers[0][0].opened_at != priced[0][0].opened_at:
                raise refusal.opened_anew(payers[0][0])
            second = _put_by_hand(conn, payers, charges, note)
        if second and second.waits:
            raise second.refusal()
        return charges[0][0]

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
                before = _at_mark(conn, entry_id)
            cut = [decide.settled_at_mark(release, entry) for release, entry in before]
            if cut == [entry for _, entry in before]:
                return cut[0]
            with self._store.write() as conn:
                if _at_mark(conn, entry_id) != before:
                    continue  # it marked or ended in the meantime: look again
                for (_, entry), settled in zip(before, cut, strict=True):
                    rows.put_entry(conn, settled)
                    paid = {"steps_paid": entry.steps_paid, "steps_charged": settled.steps_paid}
                    journal.append(conn, "settled at mark", settled.account, entries=[settled], note={**note, **paid})
            return cut[0]


def _note(why: str, who: str) -> dict[str, str]:
    request.check_word("a reason (why)", why)
    request.check_word("a name (who)", who)
    return {"why": why, "who": who}


def _put_plan(conn: sa.Connection, plan: Plan, note: dict[str, str], approved: Request | None) -> None:
    own = rows.account(conn, plan.account)[1]
    rows.put_plan(conn, plan, new=True)
    rows.put_tally(conn, plan.account, own.plus(Tally(plan.cost, 0, plan.cost_delta, 0)))
    journal.append(conn, journal.PLANNED, plan.account, plan=plan, note=note, request=approved)


def _admitted_plan(conn: sa.Connection, payers: rows.Payers, every: Sequence[Plan]) -> list[tuple[int, int]]:
    """Return what a plan, and its mirror, would be charged; raise the refusal of one that does not fit."""
    costs = [(p.cost, p.cost_delta) for p in every]
    at = decide.refusing(payers, costs)
    if at is not None:
        raise refusal.over_budget_plan(*payers[at], every[at], every[0].name)
    _check_quotas(conn, payers, costs, Claim.of(every[0]))
    return costs


def _put_by_hand(
    conn: sa.Connection, payers: rows.Payers, charges: list[tuple[Release, Entry]], note: dict[str, str]
) -> approval.Second | None:
    """Write charges that fit, unless they wait for a second person; return that person's part in it."""
    costs = [(release.reserved_cost, release.reserved_delta) for release, _ in charges]
    at = decide.refusing(payers, costs)
    if at is not None:
        raise refusal.over_budget_by_hand(*payers[at], charges[at][0])
    _check_quotas(conn, payers, costs, Claim.of(charges[0][0]))
    (own, entry), opened = charges[0], payers[0][0]
    draft = approval.request(opened, journal.BY_HAND, approval.terms(own, opened, [entry]), **note)
    second = approval.taken(conn, approval.guarded(payers, costs, draft))
    for release, entry in charges if second is None or not second.waits else ():
        by_hand.put(conn, release, entry, note, second.request if second and release is own else None)
    return second


def _check_quotas(conn: sa.Connection, payers: rows.Payers, asks: Sequence[tuple[int, int]], claim: Claim) -> None:
    """Raise the refusal of what a person decides that would exceed a quota."""
    over = quota.exceeded(quota.bounding(conn, payers, claim), asks)
    if over is not None:
        raise over.refusal(asks[[a for a, _ in payers].index(over.account)], claim)


def _unused(plans: Iterable[Plan]) -> list[Plan]:
    return [replace(p, used=0) for p in plans]


def _at_mark(conn: sa.Connection, entry_id: str) -> list[tuple[Release, Entry]]:
    return [(rows.release(conn, entry.release_id), entry) for entry in rows.entry_charges(conn, entry_id)]
