"""The questions a ledger answers without changing: what there is, what is left, what would fit, what can be believed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import sqlalchemy as sa

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput
from dp_synth_pipeline.ledger import (
    approval,
    costs,
    decide,
    journal,
    lineage,
    preflight,
    quota,
    refusal,
    request,
    rows,
    tables,
)
from dp_synth_pipeline.ledger import key as keys
from dp_synth_pipeline.ledger.balance import Balance, Share, Verification, share
from dp_synth_pipeline.ledger.entry import (
    PURPOSE,
    REQUESTER,
    RESERVED,
    USED,
    VOIDED,
    Account,
    Claim,
    Entry,
    JournalRow,
    Plan,
    Release,
    Request,
    folded,
)
from dp_synth_pipeline.ledger.lineage import Lineage
from dp_synth_pipeline.ledger.open_ledger import OpenLedger
from dp_synth_pipeline.ledger.preflight import Ask
from dp_synth_pipeline.ledger.quota import Bound, Use
from dp_synth_pipeline.ledger.refusal import Asked


class Questions(OpenLedger):
    """The half of a ledger that reads."""

    def account(self, name: str) -> Account:
        """Return an account as it stands; raise UnknownAccount if it was never opened."""
        with self._store.read() as conn:
            return rows.account(conn, name)[0]

    def accounts(self) -> list[Account]:
        """Return all accounts, by name."""
        with self._store.read() as conn:
            return [a for a, _ in rows.accounts(conn)]

    def check(self) -> None:
        """Compare the ledger with what its last decision left; `verify` recomputes all of it.

        Raises:
            LedgerCorrupted: if it was rolled back, edited or replaced.
        """
        with self._store.checked():
            pass

    def untouched(self, name: str) -> bool:
        """Say whether nothing was ever charged to an account or is held, so that it may be opened anew."""
        with self._store.read() as conn:
            return rows.untouched(conn, name)

    def balance(self, name: str, block: str | None = None) -> Balance:
        """Return what an account has spent, holds and has left: for a release over one block, or over all rows.

        The balance of an account with blocks counts its own row and the fullest of the blocks that are touched. What a
        member of an umbrella can still release, `epsilon_left`, is at most what the umbrella has left.
        """
        with self._store.read() as conn:
            return _balance(rows.payers(conn, name, () if block is None else (block,)))

    def share(self, name: str, block: str | None = None) -> Share:
        """Return how much of an account is used, over one block or all rows, and how often its last release fits again."""
        with self._store.read() as conn:
            return standing(conn, name, block)[1]

    def if_raised(self, name: str, epsilon: float | None, delta: float | None) -> tuple[Balance, Share]:
        """Return what an account would have left, and how much of it would be used, at another limit; change nothing.

        Raises:
            InvalidInput, UnknownAccount: what `raise_account` would raise.
        """
        before = self.share(name)
        with self._store.read() as conn:
            (account, tally), *above = rows.payers(conn, name)
            plans = rows.plans(conn, name)
            raised = request.raised(account, epsilon, delta, *(umbrella for umbrella, _ in above))
            payers = [(raised, tally), *above]
            bounded = payers if before.last is None else quota.bounded(conn, payers, Claim.of(before.last))
        balance = _balance(payers)
        more = None if before.last is None else _more(bounded, plans, before.last)
        return balance, share(balance, plans, before.last, more)

    def waiting(self, account: str) -> list[Release]:
        """Return the releases that hold a reservation of an account of which nothing has started, oldest first.

        Those of an umbrella are its members' releases.
        """
        held = [r for r in self.releases(account) if r.state == RESERVED]
        return [r if r.mirrors is None else self.release(r.mirrors) for r in held]

    def is_guarded(self, name: str) -> bool:
        """Say whether an account, or the umbrella above it, wants a second person for large charges."""
        with self._store.read() as conn:
            return any(approval.is_guarded(account) for account, _ in rows.payers(conn, name))

    def quotas(self, name: str) -> list[Use]:
        """Return what one requester or one purpose may take of an account, and took of it."""
        with self._store.read() as conn:
            return quota.uses(rows.account(conn, name)[0], rows.taken(conn, name))

    def has_quotas(self, name: str) -> bool:
        """Say whether an account, or the umbrella above it, bounds what one requester or one purpose may take."""
        with self._store.read() as conn:
            return any(account.quotas for account, _ in rows.payers(conn, name))

    def requests(self, account: str | None = None, *, used: bool = False) -> list[Request]:
        """Return what a second person is asked for, of one account or of all, oldest first: what waits or is approved.

        Args:
            used: also return what was approved and done.
        """
        with self._store.read() as conn:
            return [r for r in rows.requests(conn, account) if used or r.state != USED]

    def fresh_balance(self, name: str) -> Balance:
        """Return what a block that is still to be added has left: what all rows were charged counts in it, and no more."""
        with self._store.read() as conn:
            own, above = rows.account(conn, name), rows.payers(conn, name)[1:]
        return _balance([own, *above])

    def members(self, umbrella: str) -> list[Account]:
        """Return the accounts under an umbrella, by name; none under any other account."""
        with self._store.read() as conn:
            return [a for a, _ in rows.members(conn, rows.account(conn, umbrella)[0].name)]

    def taken(self, umbrella: str) -> dict[str, float]:
        """Return how much of an umbrella each of its members has taken, as shares of its cost limit that add up.

        What a person entered by hand for the umbrella itself is not among them.
        """
        with self._store.read() as conn:
            return taken(conn, umbrella)

    def blocks(self, name: str) -> list[str]:
        """Return the blocks of an account, by name."""
        with self._store.read() as conn:
            return list(rows.blocks(conn, rows.account(conn, name)[0].name))

    def plans(self, account: str | None = None) -> list[Plan]:
        """Return the declared plans, of one account or of all, oldest first.

        Of an umbrella those are the mirrors of its members' plans, which are not among those of all accounts.
        """
        with self._store.read() as conn:
            return [p for p in rows.plans(conn, account) if account is not None or p.mirrors is None]

    def preview(
        self,
        account: str,
        *,
        epsilon: float,
        delta: float,
        own_delta: float = 0.0,
        blocks: Iterable[str] = (),
        purpose: str = "",
    ) -> None:
        """Raise what `reserve` would raise now if whoever runs this asked, and change nothing."""
        claim = Claim(journal.who(), purpose, request.check_blocks(blocks))
        with self._store.checked() as conn:
            payers = rows.payers(conn, account, claim.blocks)
            bounds = quota.bounding(conn, payers, claim)
        asks = [request.priced(a, epsilon, delta, own_delta, a.unit, a.max_rows) for a, _ in payers]
        if decide.refusing(payers, asks) is not None or quota.exceeded(bounds, asks):
            asked = Asked(epsilon, delta, own_delta, claim.blocks)
            raise self._refused(payers, asks, asked, bounds, claim)

    def _refused(
        self,
        payers: rows.Payers,
        asks: Sequence[tuple[int, int]],
        asked: Asked,
        bounds: Sequence[Sequence[Bound]],
        claim: Claim,
    ) -> BudgetExceeded:
        """Return the refusal of a release that does not fit, with whatever else of the account a person may act on."""
        at = decide.refusing(payers, asks)
        if at is None:
            over = quota.exceeded(bounds, asks)
            assert over is not None
            every = [*payers, *(bound.standing for found in bounds for bound in found)]
            most = min(costs.epsilon_left(a, *t.left(a), asked.delta, asked.own_delta) for a, t in every)
            fits = f"What fits now: epsilon <= {most:g} at delta={asked.delta:g}. " if most else ""
            return over.refusal(asks[[a for a, _ in payers].index(over.account)], claim, fits)
        if not at and asked.blocks:
            asked = replace(asked, full=self._without_room(payers[0][0], asks[0], asked.blocks))
        account, tally = payers[at]
        used = share(decide.balance(account, tally), self.plans(account.name))
        return refusal.over_budget(payers, at, asked, used, self.waiting(account.name))

    def _without_room(self, account: Account, ask: tuple[int, int], blocks: Sequence[str]) -> tuple[str, ...]:
        """Return those of some blocks that refuse a release over them."""
        with self._store.read() as conn:
            each = {block: rows.standing(conn, account.name, (block,)) for block in blocks}
        return tuple(block for block, standing in each.items() if not decide.admits(*standing, *ask))

    def capacity(
        self,
        account: str,
        *,
        epsilon: float,
        delta: float | None = None,
        own_delta: float = 0.0,
        blocks: Iterable[str] = (),
        purpose: str = "",
    ) -> int:
        """Return how many more such releases would be admitted now, one after the other; change nothing.

        Args:
            delta: the delta of each; the account's if it is not given.
            purpose: what they are for; whoever runs this would ask for them.
        """
        with self._store.checked() as conn:
            payers = self._bounded(conn, account, request.check_blocks(blocks), purpose)
        return _fitting(payers, epsilon, payers[0][0].delta if delta is None else delta, own_delta)

    def admitted(
        self,
        account: str,
        *,
        epsilon: float,
        delta: float,
        own_delta: float = 0.0,
        each: Sequence[Sequence[str]],
        purpose: str = "",
    ) -> list[bool]:
        """Return, for each of several such releases, whether it would be admitted after those before it; change nothing.

        Args:
            each: the blocks that each of them reads. A block that is still to be added has spent nothing; a release
                that names no block is charged to the account's own row.
            purpose: what they are for; whoever runs this would ask for them.
        """
        asks = [Ask(epsilon, delta, own_delta, tuple(blocks), purpose=purpose) for blocks in each]
        return self.foretold(account, asks)

    def foretold(self, account: str, asks: Sequence[Ask]) -> list[bool]:
        """Return, for each of several releases, whether it would be admitted after those before it; change nothing.

        Args:
            account: the account, or an umbrella, that is asked; each ask may name a member of it, or of the same umbrella.
                Whoever runs this would ask.
        """
        with self._store.checked() as conn:
            named = {account, *(a.account for a in asks if a.account)}
            every = {a.name: a for name in named for a, _ in rows.payers(conn, name)}
            payers = {n: preflight.Payer(*rows.account(conn, n), rows.blocks(conn, n)) for n in every}
            taken, me = {n: rows.taken(conn, n) if a.quotas else {} for n, a in every.items()}, journal.who()

        @cache
        def bound(name: str, by: str, whose: str) -> list[preflight.Payer]:
            found = quota.bound(every[name], taken[name], by, whose)
            return [found.payer] if found else []

        @cache
        def priced(name: str, epsilon: float, delta: float, own_delta: float) -> tuple[int, int]:
            opened = every[name]
            return request.priced(opened, epsilon, delta, own_delta, opened.unit, opened.max_rows)

        def charges(ask: Ask) -> list[tuple[preflight.Payer, int, int, tuple[str, ...]]]:
            own, blocks = ask.account or account, request.check_blocks(ask.blocks)
            whose = ((REQUESTER, me), (PURPOSE, folded(ask.purpose)))
            above = every[own].under
            charged = [(own, blocks)] if above is None else [(own, blocks), (above, ())]
            return [
                (payer, *priced(n, ask.epsilon, ask.delta, ask.own_delta), names)
                for n, names in charged
                for payer in (payers[n], *(b for one in whose for b in bound(n, *one)))
            ]

        return preflight.admitted([charges(ask) for ask in asks])

    def affordable(
        self,
        account: str,
        *,
        times: int,
        delta: float | None = None,
        own_delta: float = 0.0,
        blocks: Iterable[str] = (),
        purpose: str = "",
    ) -> float:
        """Return the largest epsilon, to four digits, such that `times` more releases of it fit now; 0.0 for none.

        Args:
            delta: the delta of each; by default the account's under a Rényi filter, and an equal part of what is left
                under declared plans.
            purpose: what they are for; whoever runs this would ask for them.
        """
        if not isinstance(times, int) or times < 1:
            raise InvalidInput(f"times must be a whole number of at least 1, got {times}.")
        with self._store.checked() as conn:
            payers = self._bounded(conn, account, request.check_blocks(blocks), purpose)
        opened, tally = payers[0]
        each = costs.equal_delta(opened, tally.left(opened)[1], times) if delta is None else delta
        if each <= 0 and delta is None:
            return 0.0
        return min(costs.affordable(a, *t.left(a), times, each, own_delta) for a, t in payers)

    @staticmethod
    def _bounded(conn: sa.Connection, account: str, blocks: tuple[str, ...], purpose: str) -> rows.Payers:
        """Return what bounds a release that whoever runs this would ask for."""
        return quota.bounded(conn, rows.payers(conn, account, blocks), Claim(journal.who(), purpose, blocks))

    def left_after(self, release_id: str, at_mark: str | None = None) -> float:
        """Return the largest epsilon of one more release with the delta of this open one, once it is ended; 0.0 for none.

        Args:
            at_mark: an entry of it that would be settled at its high-water mark first.
        """
        with self._store.read() as conn:
            charges = rows.charges(conn, release_id)
            payers = rows.payers(conn, charges[0][0].account, charges[0][0].blocks)
            cut = {e.id for e in rows.entry_charges(conn, at_mark)} if at_mark else set()
        at = [[decide.settled_at_mark(r, e) if e.id in cut else e for e in entries] for r, entries in charges]
        release, closed = charges[0][0], decide.ended(charges[0][0], at[0])
        every = [closed, *(decide.followed(m, e, closed)[0] for (m, _), e in zip(charges[1:], at[1:], strict=True))]
        lefts = []
        for (account, tally), (held, _), over in zip(payers, charges, every, strict=False):
            freed = tally if held.plan is not None else tally.free(held, over)
            lefts.append(costs.epsilon_left(account, *freed.left(account), release.delta, release.own_delta))
        return min(lefts)

    def lineage(self, release_id: str, also: Iterable[str] = ()) -> Lineage:
        """Return all that a release is a function of, with what it promises together.

        Args:
            also: ids of entries that it builds upon beyond those on record: an older version recorded none.

        Raises:
            InvalidInput: if there is no such release.
        """
        with self._store.read() as conn:
            release, own = rows.release_and_entries(conn, release_id)
            earlier = lineage.upwards(own, also, lambda ids: rows.entries(conn, ids=ids))
            others = [rows.release(conn, i) for i in {e.release_id for e in earlier}]
        is_declared = all(r.plan is not None for r in (release, *others))
        return lineage.Lineage(release, tuple(own), earlier, is_declared)

    def release(self, release_id: str) -> Release:
        """Return a release as it stands."""
        with self._store.read() as conn:
            return rows.release(conn, release_id)

    def releases(self, account: str | None = None) -> list[Release]:
        """Return the releases, of one account or of all, oldest first.

        Of an umbrella those are the mirrors of its members' releases, which are not among those of all accounts.
        """
        with self._store.read() as conn:
            return [r for r in rows.releases(conn, account) if account is not None or r.mirrors is None]

    def entries(self, account: str | None = None, release_id: str | None = None) -> list[Entry]:
        """Return the entries, of one account or release or of all, oldest first; mirrored ones if an umbrella is named."""
        with self._store.read() as conn:
            found = rows.entries(conn, account=account, release_id=release_id)
            if account is not None or release_id is not None:
                return found
            mirrors = {r.id for r in rows.releases(conn) if r.mirrors is not None}
        return [e for e in found if e.release_id not in mirrors]

    def history(self, account: str | None = None) -> list[JournalRow]:
        """Return the journal, of one account or of all, oldest first."""
        with self._store.read() as conn:
            return journal.rows(conn, account)

    def head(self) -> str:
        """Return the hash of the last journal row, which stands for everything before it."""
        with self._store.read() as conn:
            return conn.execute(sa.select(tables.store.c.head)).scalar_one()

    def verify(self, *, since: str | None = None) -> Verification:
        """Recompute the chain, every cost and every balance, or raise LedgerCorrupted naming the first bad record.

        The ledger must also be the one, grown, that its last checkpoint tells of.

        Args:
            since: a head that was seen earlier; a ledger that does not hold it was rolled back or replaced.
        """
        return self._store.verify(since)

    def seal(self, text: str) -> str:
        """Return the keyed hash of something that may leave, by which this ledger knows it again as its own."""
        return keys.fingerprint(self._key, text)

    def encrypted_fingerprint(self, digest: str | bytes) -> str:
        """Return the keyed fingerprint of private content as a random token, which only `same_content` reads."""
        return keys.encrypted(self._key, keys.fingerprint(self._key, digest))

    def same_content(self, tokens: Mapping[str, str | None]) -> list[list[str]]:
        """Group records by the content of their sources: for whoever answers for the ledger, and never for a run.

        The same content under two names is one data set with two budgets, so its privacy loss is the sum of both. But
        whoever is told that two contents are equal is told so exactly. A run that asked could test a guess of a table.

        Args:
            tokens: the `fingerprint` of each record, by the record's id; None where no source is on record.

        Returns:
            The ids, in the order given: a group for each content, and one for each record without a source.
        """
        groups: dict[tuple[str, str], list[str]] = {}
        for record, token in tokens.items():
            content = ("", record) if token is None else (keys.decrypted(self._key, token), "")
            groups.setdefault(content, []).append(record)
        return list(groups.values())


def standing(conn: sa.Connection, name: str, block: str | None = None) -> tuple[Balance, Share]:
    """Return what an account has left over one block or all rows, and how much of it is used."""
    payers = rows.payers(conn, name, () if block is None else (block,))
    plans = rows.plans(conn, name)
    admitted = [r for r in rows.releases(conn, name) if r.state != VOIDED and not r.by_hand]
    last, more, balance = (admitted[-1] if admitted else None), None, _balance(payers)
    if last is not None:
        same = payers if block is not None or not last.blocks else rows.payers(conn, name, last.blocks)
        more = _more(quota.bounded(conn, same, Claim.of(last)), plans, last)
    return balance, share(balance, plans, last, more)


def taken(conn: sa.Connection, umbrella: str) -> dict[str, float]:
    """Return how much of an umbrella each of its members has taken, as shares of its cost limit."""
    opened = rows.account(conn, umbrella)[0]
    units = {member.name: 0 for member, _ in rows.members(conn, umbrella)}
    member_of = {r.id: r.account for r in rows.releases(conn)} | {p.id: p.account for p in rows.plans(conn)}
    costs_of = [
        (r.mirrors, r.reserved_cost if r.charged_cost is None else r.charged_cost)
        for r in rows.releases(conn, umbrella)
    ]
    for mirrors, cost in (*costs_of, *((p.mirrors, p.cost) for p in rows.plans(conn, umbrella))):
        if mirrors is not None:
            units[member_of[mirrors]] += cost
    return {name: cost / opened.cost_limit for name, cost in units.items()}


def _balance(payers: rows.Payers) -> Balance:
    own, *above = payers
    return decide.balance(*own, *above)


def _more(payers: rows.Payers, plans: Sequence[Plan], last: Release) -> int:
    """Return how many more releases of the same terms would be admitted: uses of its plan, or what cost and delta allow."""
    if last.plan is not None:
        return sum(p.times - p.used for p in plans if p.id == last.plan)
    return _fitting(payers, last.epsilon, last.delta, last.own_delta)


def _fitting(payers: rows.Payers, epsilon: float, delta: float, own_delta: float) -> int:
    """Return how many such releases fit, one after the other, into each of what they are charged to."""
    counts = []
    for account, tally in payers:
        cost, delta_units = request.priced(account, epsilon, delta, own_delta, account.unit, account.max_rows)
        cost_left, delta_left = tally.left(account)
        counts.append(max(0, min(cost_left // cost, delta_left // delta_units if delta_units else cost_left)))
    return min(counts)
