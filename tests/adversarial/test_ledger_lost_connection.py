"""A connection that PostgreSQL loses in mid-transaction neither loses a charge nor doubles it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from dp_synth_pipeline.errors import LedgerUnavailable
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy.events import SubsampledGaussian
from tests.unit.ledger.stores import SERVER, new_store

TRAINING = SubsampledGaussian(4.0, 0.01, 100)


@pytest.fixture
def ledger(tmp_path) -> Iterator[Ledger]:
    with new_store("postgresql", tmp_path) as url:
        opened = Ledger.open(url)
        opened.open_account("a", epsilon=3.0, delta=1e-5, why="test")
        yield opened


@contextmanager
def connection_cut_before_commit(ledger: Ledger) -> Iterator[None]:
    """Terminate the server side of the next transaction when all its statements ran and COMMIT is due."""
    engine, cuts = ledger._store.engine, []

    def cut(conn: sa.Connection) -> None:
        if cuts:
            return
        cuts.append(1)
        backend = conn.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        with psycopg.connect(SERVER, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (backend,))
            while other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (backend,)).fetchone():
                pass

    sa.event.listen(engine, "commit", cut)
    try:
        yield
    finally:
        sa.event.remove(engine, "commit", cut)
    assert cuts


def reserve(ledger: Ledger) -> Any:
    facts = {"table": "t", "run_id": "r", "code_version": "c"}
    return ledger.reserve("a", key="k", epsilon=1.0, delta=1e-5, own_delta=0.0, **facts)


def lost(ledger: Ledger, call: Callable[[], Any]) -> None:
    """Make a call whose connection is cut, and see that it left the ledger as it was."""
    before = ledger.head(), ledger.balance("a")
    with connection_cut_before_commit(ledger), pytest.raises(LedgerUnavailable):
        call()
    assert (ledger.head(), ledger.balance("a")) == before
    ledger.verify()


def test_every_decision_that_lost_its_connection_can_be_asked_again_and_is_charged_once(ledger):
    lost(ledger, lambda: reserve(ledger))
    release = reserve(ledger)
    lost(ledger, lambda: ledger.start(release.id, "training", [TRAINING], key="once"))
    entry = ledger.start(release.id, "training", [TRAINING], key="once")
    assert ledger.start(release.id, "training", [TRAINING], key="once") == entry
    lost(ledger, lambda: ledger.mark(entry.id, 50))
    ledger.mark(entry.id, 50)
    lost(ledger, lambda: ledger.settle(release.id))
    settled = ledger.settle(release.id)
    assert reserve(ledger).id == release.id
    assert len(ledger.releases("a")) == 1
    assert ledger.balance("a").cost_spent == settled.charged_cost
    ledger.verify()
