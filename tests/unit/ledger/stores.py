"""Fixtures shared by every test of the ledger: a fresh store of each kind, and requests that fit it."""

from __future__ import annotations

import multiprocessing
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dp_synth_pipeline.ledger import Ledger, Release, engines, rows
from dp_synth_pipeline.privacy.events import Gaussian

SERVER = os.environ.get("DP_SYNTH_TEST_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432/test")
SMALL = (Gaussian(60.0),)
"""A mechanism of about epsilon 0.05, cheap to price."""

processes = multiprocessing.get_context("fork")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a store that does not exist yet, gone after the test."""
    with new_store(request.param, tmp_path) as place:
        yield place


@contextmanager
def new_store(kind: str, folder: Path) -> Iterator[str]:
    """Lend the URL of a store that does not exist yet; skip if no server answers."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/ledger.db"
        return
    schema = f"ledger_{uuid.uuid4().hex}"
    try:
        server = psycopg.connect(SERVER, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError:
        pytest.skip("no PostgreSQL server answers")
    with server:
        server.execute(f"CREATE SCHEMA {schema}")
        try:
            yield f"{SERVER}?options=-csearch_path%3D{schema}"
        finally:
            _hang_up(schema)
            server.execute(f"DROP SCHEMA {schema} CASCADE")


def _hang_up(schema: str) -> None:
    """Close what this process still has open to a store, as the end of a process would: a server has 100 connections."""
    for engine in list(engines._POOLED):
        if schema in str(engine.url):
            engine.dispose()


@pytest.fixture
def ledger(url: str) -> Ledger:
    """A ledger with an account 'f' under a Rényi filter and 'p' under declared plans, epsilon 3 and delta 1e-5 each."""
    opened = Ledger.open(url)
    opened.open_account("f", epsilon=3.0, delta=1e-5)
    opened.open_account("p", epsilon=3.0, delta=1e-5, rule="plan")
    return opened


@pytest.fixture
def parted(ledger: Ledger) -> Ledger:
    """An account with two blocks, which fits two releases of epsilon 0.5 on any row."""
    ledger.open_account("b", epsilon=1.0, delta=1e-5, rule="plan", blocks=["jan", "feb"], unit_in_one_block=True)
    return ledger


def ask(ledger: Ledger, account: str, key: str, **changes: Any) -> Release:
    """Reserve epsilon 0.5 at delta 1e-6, or what `changes` say."""
    request: dict[str, Any] = {
        "key": key,
        "epsilon": 0.5,
        "delta": 1e-6,
        "own_delta": 0.0,
        "unit": "row",
        "table": "adult",
        "run_id": "run-1",
        "code_version": "v1",
    }
    return ledger.reserve(account, **{**request, **changes})


def in_processes(count: int, work: Callable[..., None], *arguments: Any) -> list[int | None]:
    """Run `work` in processes that start together; return their exit codes, negative if a signal ended one."""
    together = processes.Barrier(count)

    def child() -> None:
        together.wait(30)
        work(*arguments)

    children = [processes.Process(target=child) for _ in range(count)]
    for one in children:
        one.start()
    for one in children:
        one.join(60)
    return [one.exitcode for one in children]


def sealed(ledger: Ledger) -> tuple[object, ...]:
    """Return all that a refusal must leave as it was."""
    with ledger._store.read() as conn:
        return ledger.head(), ledger.releases(), ledger.entries(), rows.accounts(conn)
