"""A pipeline's role on PostgreSQL reserves and settles; the server lets it raise, approve and edit nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from dp_synth_pipeline.errors import ApprovalNeeded, InvalidInput, LedgerUnavailable
from dp_synth_pipeline.ledger import Ledger, roles, tables
from tests.unit.ledger.stores import SERVER, SMALL, ask, new_store

WORD = {"why": "w", "who": "Ana"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ledger, Ledger]]:
    """One ledger as its owner opens it, and as the role of a pipeline does, in a home of its own."""
    role = f"Etl {uuid.uuid4().hex[:12]}"
    with (
        new_store("postgresql", tmp_path_factory.mktemp("ledger")) as url,
        psycopg.connect(SERVER, autocommit=True) as server,
    ):
        owner = Ledger.open(url)
        owner.open_account("f", epsilon=3.0, delta=1e-5, approve_above=0.5)
        owner.open_account("b", epsilon=3.0, delta=1e-5, rule="plan", blocks=["jan"], unit_in_one_block=True)
        owner.declare_plan("f", name="weekly", events=SMALL, times=9, **WORD)
        server.execute(f'CREATE ROLE "{role}" LOGIN')
        try:
            roles.grant(owner, role)
            roles.grant(owner, role)  # as after an upgrade
            pipeline = Ledger.open(str(sa.make_url(url).set(username=role)))
            with pytest.raises(ApprovalNeeded):
                ask(pipeline, "f", "first", epsilon=2.2, table="first")
            yield owner, pipeline
        finally:
            server.execute(f'DROP OWNED BY "{role}"')
            server.execute(f'DROP ROLE "{role}"')


def test_a_pipelines_role_reserves_starts_marks_settles_and_voids(both: tuple[Ledger, Ledger]) -> None:
    owner, pipeline = both
    release = ask(pipeline, "f", "k1")
    pipeline.note_source(release.id, "digest")
    entry = pipeline.start(release.id, "profile", SMALL)
    assert pipeline.settle(release.id).state == "settled"
    pipeline.void(ask(pipeline, "f", "k2").id, "not needed")
    use = pipeline.reserve("f", key="use", table="t", run_id="r", code_version="v", plan="weekly")
    assert (entry.state, use.state, owner.plans("f")[0].used) == ("started", "reserved", 1)
    assert pipeline.add_blocks("b", ["feb"], **WORD) == ["feb"]
    ask(pipeline, "b", "feb", blocks=["feb"])
    with pytest.raises(ApprovalNeeded):
        ask(pipeline, "f", "big", epsilon=2.2)
    owner.approve(owner.requests()[-1].id, **WORD)
    assert ask(pipeline, "f", "big", epsilon=2.2).state == "reserved"
    assert pipeline.verify().head == owner.verify().head


def test_a_pipelines_role_decides_nothing_that_a_person_does(both: tuple[Ledger, Ledger]) -> None:
    owner, pipeline = both
    with pytest.raises(ApprovalNeeded):
        owner.amend_account("f", approve_above=0.9, **WORD)
    asked = owner.requests()[-1]
    head = owner.head()
    for act in (
        lambda: pipeline.open_account("mine", epsilon=9.0, delta=1e-5),
        lambda: pipeline.raise_account("b", epsilon=30.0, **WORD),
        lambda: pipeline.amend_account("f", approve_above=0.1, **WORD),
        lambda: pipeline.approve(asked.id, why="w", who="Somebody"),
        lambda: pipeline.declare_plan("f", name="own", events=SMALL, times=1, **WORD),
        lambda: pipeline.charge_by_hand("f", SMALL, **WORD),
        lambda: pipeline.adopt(**WORD),
    ):
        with pytest.raises(LedgerUnavailable, match="refuses this user"):
            act()
    assert (owner.head(), owner.requests()[-1].state) == (head, "waiting")
    owner.verify()


J, A, R, P = tables.journal.c, tables.account, tables.request, tables.plan


@pytest.mark.parametrize(
    "edit",
    [
        sa.update(tables.journal).values(body="{}"),
        sa.delete(tables.journal),
        sa.update(A).values(cost_limit=10**15),
        sa.update(A).values(approve_above=1.0),
        sa.delete(tables.release),
        sa.update(P).values(times=10**6),
        sa.update(R).values(approved_by="Ana"),
        sa.update(tables.store).values(key="0"),
        sa.insert(tables.journal).from_select(
            [c.name for c in J], sa.select(J.seq + 10**6, J.at, J.who, sa.literal("raised"), J.account, J.release_id,
                                           J.entry_id, J.body, J.previous, sa.func.md5(J.hash)),
        ),
        sa.insert(R).from_select(
            [c.name for c in R.c], sa.select(*({"state": sa.literal("approved"), "id": sa.func.md5(c)}.get(c.name, c)
                                               for c in R.c)),
        ),
    ],
    ids=["journal", "cut", "limit", "share", "release", "plan", "approval", "key", "a raise", "approved"],
)  # fmt: skip
def test_the_server_lets_a_pipelines_role_edit_nothing(both: tuple[Ledger, Ledger], edit: sa.Executable) -> None:
    owner, pipeline = both
    before = owner.history(), owner.accounts(), owner.requests(used=True)
    assert before[2], "there is a request to edit"
    refused = pytest.raises(sa.exc.ProgrammingError, match=r"permission denied|row-level security")
    with refused, pipeline._store.engine.begin() as conn:
        conn.execute(edit)
    assert (owner.history(), owner.accounts(), owner.requests(used=True)) == before


def test_a_request_that_waits_is_not_even_shown_to_an_update_of_a_pipelines_role(both: tuple[Ledger, Ledger]) -> None:
    owner, pipeline = both
    assert owner.requests()[0].state == "waiting"
    with pipeline._store.engine.begin() as conn:
        assert conn.execute(sa.update(R).where(R.c.state == "waiting").values(state="used")).rowcount == 0
    assert owner.verify()


def test_roles_need_a_server_and_one_that_owns_nothing(both: tuple[Ledger, Ledger], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="PostgreSQL server"):
        roles.grant(Ledger.open(str(tmp_path / "ledger.db")), "etl")
    with pytest.raises(InvalidInput, match="no role 'nobody at all'"):
        roles.grant(both[0], "nobody at all")
    with pytest.raises(InvalidInput, match="is the owner's"):
        roles.grant(both[0], str(sa.make_url(SERVER).username))
