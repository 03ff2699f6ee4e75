"""A ledger that was edited, cut short, rolled back, deleted or recreated: noticed, and named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from dp_synth_pipeline.errors import LedgerCorrupted
from dp_synth_pipeline.ledger import JournalRow, Ledger, journal, tables
from dp_synth_pipeline.ledger.verify import verify
from dp_synth_pipeline.privacy.events import Gaussian, SubsampledGaussian
from tests.unit.ledger.stores import SMALL, ask, new_store, sealed

A, R, E, J, S = tables.account, tables.release, tables.entry, tables.journal, tables.store
P, B = tables.plan, tables.block
STEPS = (SubsampledGaussian(20.0, 0.01, 10),)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def pristine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """A ledger with releases that are settled, started, reserved and voided."""
    with new_store(request.param, tmp_path_factory.mktemp("ledger")) as place:
        yield in_use(Ledger.open(place))


def in_use(ledger: Ledger) -> Ledger:
    ledger.open_account("f", epsilon=3.0, delta=1e-5)
    ledger.open_account("p", epsilon=3.0, delta=1e-5, rule="plan")
    for account in ("f", "p"):
        done = ask(ledger, account, f"{account}-settled", own_delta=1e-7)
        ledger.start(done.id, "profile", SMALL)
        ledger.start(done.id, "training", [Gaussian(50.0)])
        ledger.settle(done.id)
    ledger.start(ask(ledger, "f", "started").id, "profile", SMALL)
    ask(ledger, "f", "reserved")
    ledger.void(ask(ledger, "f", "voided").id, "not needed")
    word = {"why": "why", "who": "A. Officer"}
    cut = ledger.start(ask(ledger, "f", "cut", epsilon=0.2).id, "training", STEPS)
    ledger.mark(cut.id, 4)
    ledger.settle_at_mark(cut.id, **word)
    ledger.raise_account("f", epsilon=3.5, **word)
    ledger.declare_plan("f", name="weekly", events=STEPS, times=3, **word)
    ledger.reserve("f", key="use", table="t", run_id="r", code_version="v", plan="weekly")
    ledger.open_account("b", epsilon=1.0, delta=1e-5, rule="plan", blocks=["jan", "feb"], unit_in_one_block=True)
    ask(ledger, "b", "block", blocks=["jan"])
    return ledger


@pytest.fixture
def used(pristine: Ledger) -> Iterator[Ledger]:
    """The same ledger, put back as it was after the test."""
    pristine.verify()
    with pristine._store.read() as conn:
        kept = {table: [dict(r) for r in conn.execute(sa.select(table)).mappings()] for table in (S, J, A, B, P, R, E)}
    yield pristine
    with pristine._store.locked() as conn:
        for table in reversed(kept):
            conn.execute(sa.delete(table))
        for table, content in kept.items():
            if content:
                conn.execute(sa.insert(table), content)


def edit(ledger: Ledger, statement: sa.Executable) -> None:
    with ledger._store.locked() as conn:
        if ledger._store.place.path is not None:
            conn.exec_driver_sql("PRAGMA defer_foreign_keys=ON")
        assert conn.execute(statement).rowcount != 0  # type: ignore[attr-defined]


EDITS = {
    "a smaller charge": sa.update(R).where(R.c.key == "f-settled").values(charged_cost=1),
    "a smaller reservation": sa.update(R).where(R.c.key == "reserved").values(reserved_cost=1),
    "a release made void": sa.update(R).where(R.c.key == "started").values(state="voided"),
    "a smaller epsilon on the record": sa.update(R).where(R.c.key == "p-settled").values(final_epsilon=0.001),
    "another fingerprint": sa.update(R).where(R.c.key == "p-settled").values(fingerprint="0" * 64),
    "more noise than there was": sa.update(E).values(
        events='[{"kind": "gaussian", "noise_multiplier": 900.0, "count": 1}]'
    ),
    "fewer steps planned than were": sa.update(E).where(E.c.planned != "[]").values(planned="[]"),
    "an entry that builds upon nothing any more": sa.update(E).values(upon=None),
    "an event that cannot be read": sa.update(E).values(events='[{"kind": "trust me"}]'),
    "a cheaper entry": sa.update(E).values(cost=1),
    "an entry that is gone": sa.delete(E).where(E.c.mechanism == "training"),
    "a larger limit": sa.update(A).where(A.c.name == "f").values(cost_limit=10**12),
    "a larger epsilon": sa.update(A).where(A.c.name == "p").values(epsilon=30.0),
    "another order": sa.update(A).where(A.c.name == "f").values(order=5.0),
    "another unit": sa.update(A).where(A.c.name == "f").values(unit="id"),
    "a balance set back": sa.update(A).where(A.c.name == "f").values(cost_spent=0),
    "a reservation let go": sa.update(A).where(A.c.name == "f").values(cost_held=0),
    "a delta set back": sa.update(A).where(A.c.name == "p").values(delta_spent=0),
    "a journal row edited": sa.update(J).where(J.c.seq == 3).values(who="somebody"),
    "a journal row deleted": sa.delete(J).where(J.c.seq == 4),
    "the last journal row deleted": sa.delete(J).where(J.c.seq == sa.select(sa.func.max(J.c.seq)).scalar_subquery()),
    "a use given back to a plan": sa.update(P).values(used=0),
    "more uses for a plan": sa.update(P).values(times=50),
    "another event in a plan": sa.update(P).values(
        events='[{"kind": "gaussian", "noise_multiplier": 0.9, "count": 9}]'
    ),
    "a plan made cheap": sa.update(P).values(cost=1),
    "a release moved out of its plan": sa.update(R).where(R.c.key == "use").values(plan=None),
    "a block set back": sa.update(B).where(B.c.name == "jan").values(cost_held=0),
    "a block renamed": sa.update(B).where(B.c.name == "feb").values(name="mar"),
    "a release moved to another block": sa.update(R).where(R.c.key == "block").values(blocks='["feb"]'),
    "another relation": sa.update(R).where(R.c.key == "started").values(relation="replace-one"),
    "a mark set back": sa.update(E).where(E.c.steps_started == 4).values(steps_started=1),
    "another head": sa.update(S).values(head="0" * 64),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_by_hand_is_noticed(used: Ledger, what: str) -> None:
    edit(used, EDITS[what])
    with pytest.raises(LedgerCorrupted, match="Stop all runs"):
        used.verify()


STOPS = {
    "a larger limit", "a larger epsilon", "another order", "another unit", "a balance set back", "a reservation let go",
    "a delta set back", "the last journal row deleted", "a use given back to a plan", "more uses for a plan",
    "another event in a plan", "a plan made cheap", "a block set back", "a block renamed", "another head",
}  # fmt: skip
"""What a decision counts on. The other edits are found by `verify`, which recomputes everything."""


@pytest.mark.parametrize("what", sorted(STOPS))
def test_an_edit_of_what_a_decision_counts_on_stops_the_next_one_whatever_it_is(used: Ledger, what: str) -> None:
    held = next(r for r in used.releases("f") if r.key == "reserved")
    edit(used, EDITS[what])
    before, word = sealed(used), {"why": "why", "who": "A. Officer"}
    for decide in (
        lambda: ask(used, "p", "next", epsilon=0.1),
        lambda: used.declare_plan("f", name="more", events=STEPS, times=1, **word),
        lambda: used.add_blocks("b", ["apr"], **word),
        lambda: used.raise_account("p", epsilon=50.0, **word),
        lambda: used.open_account("new", epsilon=1.0, delta=1e-6),
        lambda: used.start(held.id, "profile", SMALL),
        lambda: used.void(held.id, "why"),
    ):
        with pytest.raises(LedgerCorrupted):
            decide()
    assert sealed(used) == before


@pytest.mark.parametrize("what", sorted(STOPS))
def test_an_edited_ledger_answers_no_question_about_what_fits(used: Ledger, what: str) -> None:
    edit(used, EDITS[what])
    for asked in (
        lambda: used.preview("p", epsilon=0.1, delta=1e-6),
        lambda: used.capacity("p", epsilon=0.1, delta=1e-6),
        lambda: used.admitted("p", epsilon=0.1, delta=1e-6, each=[()]),
        lambda: used.affordable("p", times=1),
    ):
        with pytest.raises(LedgerCorrupted):
            asked()


def test_the_first_bad_record_is_named(used: Ledger) -> None:
    edit(used, EDITS["a journal row edited"])
    with pytest.raises(LedgerCorrupted, match="journal row 3"):
        used.verify()


def test_a_release_smuggled_in_beside_the_journal_is_noticed(used: Ledger) -> None:
    record = {**used.releases("f")[0].to_record(), "id": "f" * 32, "key": "smuggled"}
    edit(used, sa.insert(R).values(record))
    with pytest.raises(LedgerCorrupted, match=f"release {'f' * 32}"):
        used.verify()


def forge(ledger: Ledger, change) -> None:
    """Rewrite the journal and the tables alike, with all hashes in order, as one who has all rights can."""
    previous, chain = journal.GENESIS, []
    for row in ledger.history():
        facts = row.facts
        change(facts)
        draft = JournalRow(**{**row.to_record(), "body": json.dumps(facts, sort_keys=True), "previous": previous})
        previous = journal.link(draft)
        chain.append({**draft.to_record(), "hash": previous})
    told = journal.latest(JournalRow(**r) for r in chain)
    with ledger._store.locked() as conn:
        conn.execute(sa.delete(J))
        conn.execute(sa.insert(J), chain)
        conn.execute(sa.update(S).values(head=previous))
        for table, records, name in (
            (A, told.accounts, "name"),
            (R, told.releases, "id"),
            (E, told.entries, "id"),
            (P, told.plans, "id"),
        ):
            for identity, record in records.items():
                conn.execute(sa.update(table).where(table.c[name] == identity).values(record))


FORGERIES = {
    "entries made cheap": lambda f: [e.update(cost=1) for e in f["entries"]],
    "reservations made cheap": lambda f: f["release"] and f["release"].update(reserved_cost=1),
    "charges made cheap": lambda f: (
        f["release"] and f["release"]["charged_cost"] and f["release"].update(charged_cost=1)
    ),
    "delta made cheap": lambda f: (
        f["release"] and f["release"]["charged_delta"] and f["release"].update(charged_delta=1)
    ),
    "epsilon made small": lambda f: (
        f["release"] and f["release"]["final_epsilon"] and f["release"].update(final_epsilon=0.01)
    ),
    "plans made cheap": lambda f: f.get("plan") and f["plan"].update(cost=1),
    "a raise without a name": lambda f: f.get("note") and f["account"] and f["note"].update(who=""),
    "a cut below the mark": lambda f: (
        f.get("note") and "steps_paid" in f["note"] and f["entries"][0].update(steps_started=3)
    ),
    "a cut to more noise": lambda f: (
        f.get("note")
        and "steps_paid" in f["note"]
        and f["entries"][0].update(events=f["entries"][0]["events"].replace("20.0", "40.0"))
    ),
    "an order that moved": lambda f: f["account"] and f["account"]["order"] and f["account"].update(order=5.0),
    "limits made large": lambda f: f["account"] and f["account"].update(cost_limit=10**15),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_costs_that_do_not_follow_from_the_events_are_noticed_even_with_a_forged_chain(used: Ledger, what: str) -> None:
    seen = used.head()
    forge(used, FORGERIES[what])
    with pytest.raises(LedgerCorrupted, match=r"(entry|release|account|balance|plan|journal)"):
        used.verify()
    with pytest.raises(LedgerCorrupted):
        used.verify(since=seen)


def test_a_consistent_forgery_is_noticed_by_the_checkpoint_and_by_whoever_kept_the_head(used: Ledger) -> None:
    seen = used.head()
    forge(used, lambda f: f["release"] and f["release"].update(table="another"))
    with used._store.read() as conn:
        verify(conn)  # it agrees with itself
        with pytest.raises(LedgerCorrupted, match="rolled back, or another ledger"):
            verify(conn, seen)
    with pytest.raises(LedgerCorrupted, match="does not hold its own head"):
        used.verify()


def test_a_head_that_was_seen_stays_in_the_chain(used: Ledger) -> None:
    for seen in (journal.GENESIS, used.history()[2].hash, used.head()):
        assert used.verify(since=seen).head == used.head()


def test_a_ledger_rolled_back_to_a_copy_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(str(path))
    ledger.open_account("p", epsilon=1.0, delta=1e-5, rule="plan")
    shutil.copy(path, tmp_path / "copy")
    ask(ledger, "p", "k")
    seen = ledger.head()
    shutil.copy(tmp_path / "copy", path)
    again = Ledger.open(str(path))
    assert again.balance("p").cost_held == 0
    with pytest.raises(LedgerCorrupted, match="rolled back"):
        again.verify(since=seen)


def test_a_deleted_ledger_is_not_silently_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger.open(str(path))
    path.unlink()
    for _ in range(2):
        with pytest.raises(LedgerCorrupted, match="deleted, moved"):
            Ledger.open(str(path))
    assert not path.exists()


def test_a_recreated_ledger_makes_other_seals_and_has_another_head(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    first = Ledger.open(str(path))
    first.open_account("p", epsilon=1.0, delta=1e-5)
    seen, seal = first.head(), first.seal("text")
    for kept in tmp_path.iterdir():
        kept.unlink()
    second = Ledger.open(str(path))
    second.open_account("p", epsilon=1.0, delta=1e-5)
    assert second.seal("text") != seal
    with pytest.raises(LedgerCorrupted):
        second.verify(since=seen)
