"""How fast and how safe the ledger is under load: `python benchmarks/ledger.py [--postgres URL]`.

1. 64 processes ask 50 times each for a share of an account that fits exactly 100 of them.
2. 200 processes are killed at random moments, at random points of a decision, or right before or after its commit.
3. An account with 10,000 entries decides once more.
4. A ledger with 10,000 releases is compared with its last checkpoint, as every decision does first: under 10 ms.

Prints what it finds and writes it to benchmarks/results/ledger.{json,csv}; fails if a promise is broken.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import random
import signal
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dp_synth_pipeline.errors import BudgetExceeded
from dp_synth_pipeline.ledger import Ledger, decide, journal, rows
from dp_synth_pipeline.privacy.events import SubsampledGaussian

RESULTS = Path(__file__).parent / "results"
STEPS = (SubsampledGaussian(20.0, 0.01, 10),)
fork = multiprocessing.get_context("fork")


@contextmanager
def stores(postgres: str | None) -> Iterator[dict[str, str]]:
    """Lend the URL of a fresh store of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        found = {"sqlite": f"sqlite:///{folder}/ledger.db"}
        if postgres is None:
            yield found
            return
        import psycopg

        schema = f"ledger_{uuid.uuid4().hex}"
        with psycopg.connect(postgres, autocommit=True) as server:
            server.execute(f"CREATE SCHEMA {schema}")
            try:
                yield {**found, "postgresql": f"{postgres}?options=-csearch_path%3D{schema}"}
            finally:
                server.execute(f"DROP SCHEMA {schema} CASCADE")


def ask(ledger: Ledger, account: str, epsilon: float = 0.1) -> Any:
    """Reserve one share."""
    return ledger.reserve(
        account, key=uuid.uuid4().hex, epsilon=epsilon, delta=1e-9, table="t", run_id="r", code_version="v"
    )


def race(ledger: Ledger, name: str, processes: int, each: int, fits: int, pace: float = 0.0) -> dict[str, Any]:
    """Let processes ask at once; return how many were admitted, and how long deciding took them.

    Without a pace they never pause, so that on few cores most of the time is spent waiting for a core; with one, each
    of them pauses for so many seconds on average.
    """
    ledger.open_account(name, epsilon=fits / 10, delta=1e-4, rule="plan")
    ledger.open_account(f"{name}-warm", epsilon=0.2, delta=1e-4, rule="plan")
    for _ in range(3):  # the first statements are compiled once, before the processes are forked
        with suppress(BudgetExceeded):
            ask(ledger, f"{name}-warm")
    together, results = fork.Barrier(processes + 1), fork.SimpleQueue()

    def work() -> None:
        taken: list[tuple[bool, float, float]] = []
        waits = timed(ledger)
        random.seed()
        together.wait()
        for _ in range(each):
            waits.clear()
            time.sleep(random.uniform(0, 2 * pace))
            begun = time.perf_counter()
            try:
                ask(ledger, name)
                admitted = True
            except BudgetExceeded:
                admitted = False
            taken.append((admitted, time.perf_counter() - begun, sum(waits)))
        results.put(taken)

    children = [fork.Process(target=work) for _ in range(processes)]
    for child in children:
        child.start()
    together.wait()
    begun = time.perf_counter()
    told = [one for _ in children for one in results.get()]
    wall = time.perf_counter() - begun
    for child in children:
        child.join()
    held = [r for r in ledger.releases(name) if r.state == "reserved"]
    admitted = sum(a for a, *_ in told)
    assert admitted == len(held) == fits, (admitted, len(held))
    assert ledger.balance(name).cost_left == 0
    ledger.verify()
    found = {
        "processes": processes,
        "requests": len(told),
        "admitted": admitted,
        "decisions_per_second": len(told) / wall,
        **quantiles("all", [t for _, t, _ in told]),
        **quantiles("admitted", [t for a, t, _ in told if a]),
        **quantiles("admitted_without_waiting", [t - w for a, t, w in told if a]),
        **quantiles("refused", [t for a, t, _ in told if not a]),
    }
    return {f"{name}.{what}": value for what, value in found.items()}


def timed(ledger: Ledger) -> list[float]:
    """Return a list that collects how long each write of this process waited for its turn."""
    waits: list[float] = []
    write = ledger._store.write

    @contextmanager
    def measured() -> Iterator[sa.Connection]:
        begun = time.perf_counter()
        with write() as conn:
            waits.append(time.perf_counter() - begun)
            yield conn

    ledger._store.write = measured  # type: ignore[method-assign]
    return waits


def quantiles(name: str, seconds: list[float]) -> dict[str, float]:
    """Return median, 99th percentile and maximum in milliseconds."""
    order = sorted(seconds)
    return {
        f"{name}_median_ms": 1e3 * statistics.median(order),
        f"{name}_p99_ms": 1e3 * order[min(len(order) - 1, int(0.99 * len(order)))],
        f"{name}_max_ms": 1e3 * order[-1],
    }


def kills(ledger: Ledger, count: int) -> dict[str, Any]:
    """Kill processes at random, three at work at any time; return what became of the account."""
    ledger.open_account("kills", epsilon=30.0, delta=1e-4, rule="plan")

    def work(point: int | None, before_commit: bool) -> None:
        seen = 0

        def statement(*_: object) -> None:
            nonlocal seen
            seen += 1
            if seen == point:
                os.kill(os.getpid(), signal.SIGKILL)

        def commit(connection: sa.Connection) -> None:
            if before_commit and connection.get_execution_options().get("dp_write") and random.random() < 0.2:
                os.kill(os.getpid(), signal.SIGKILL)

        random.seed()
        sa.event.listen(ledger._store.engine, "before_cursor_execute", statement)
        sa.event.listen(ledger._store.engine, "commit", commit)
        with suppress(BudgetExceeded):
            while True:
                release = ask(ledger, "kills")
                entry = ledger.start(release.id, "training", STEPS)
                ledger.mark(entry.id, 5)
                if random.random() < 0.3:
                    ledger.settle_at_mark(entry.id, why="crash", who="benchmark")
                ledger.settle(release.id)

    killed = 0
    while killed < count:
        children = [
            fork.Process(target=work, args=(random.choice([None, random.randint(1, 60)]), random.random() < 0.3))
            for _ in range(3)
        ]
        for child in children:
            child.start()
        time.sleep(random.uniform(0.01, 0.25))
        for child in children:
            child.kill()
            child.join(60)
            killed += child.exitcode == -signal.SIGKILL
        left = ledger.balance("kills")
        assert left.cost_left >= 0
        if left.cost_left < 10**8:
            ledger.raise_account("kills", epsilon=ledger.account("kills").epsilon + 20, why="room", who="benchmark")
    begun = time.perf_counter()
    ledger.void(ask(ledger, "kills", 0.001).id, "afterwards")
    after = time.perf_counter() - begun
    verified = ledger.verify()
    return {"killed": killed, "releases": verified.releases, "decision_after_ms": 1e3 * after}


def long_ledger(ledger: Ledger, entries: int) -> dict[str, float]:
    """Fill an account with entries, then time one more decision, and reading them all."""
    ledger.open_account("long", epsilon=1e4, delta=1e-2, rule="plan")
    ledger.open_account("short", epsilon=1e4, delta=1e-2, rule="plan")
    with ledger._store.write() as conn:
        release = decide.started(ask_as(ledger, "long", conn))
        first = decide.entry(release, [], "m", STEPS, None)
        for number in range(entries):
            entry = copy(first, number)
            rows.put_entry(conn, entry, new=True)
    times = {}
    for name in ("short", "long"):
        spent = []
        for _ in range(50):
            begun = time.perf_counter()
            ask(ledger, name, 0.001)
            spent.append(time.perf_counter() - begun)
        times[f"decide_{name}_ms"] = 1e3 * statistics.median(spent)
    begun = time.perf_counter()
    with ledger._store.read() as conn:
        assert conn.execute(sa.text("SELECT count(*) FROM dp_entry WHERE account = 'long'")).scalar_one() == entries
    return {**times, "count_entries_ms": 1e3 * (time.perf_counter() - begun), "entries": entries}


def long_journal(ledger: Ledger, releases: int) -> dict[str, float]:
    """Fill the journal with releases, then time what every decision compares before anything else."""
    ledger.open_account("many", epsilon=1e4, delta=1e-2, rule="plan")
    with ledger._store.write() as conn:
        for _ in range(releases):
            ask_as(ledger, "many", conn)
    spent = []
    for _ in range(50):
        with ledger._store.locked() as conn:
            begun = time.perf_counter()
            ledger._store.memory.checked(conn)
            spent.append(time.perf_counter() - begun)
    found = {"releases_in_journal": releases, **quantiles("compare", spent), "compare_min_ms": 1e3 * min(spent)}
    assert found["compare_min_ms"] < 10, found  # the least: what else runs on the machine is not the ledger's cost
    return found


def ask_as(ledger: Ledger, account: str, conn: sa.Connection) -> Any:
    """Reserve inside a transaction that is open."""
    from dp_synth_pipeline.ledger import request
    from dp_synth_pipeline.ledger.terms import BudgetRequest

    opened, _ = rows.account(conn, account)
    key = uuid.uuid4().hex
    asked = BudgetRequest(key=key, table="t", run_id="r", code_version="v", epsilon=0.1, delta=1e-9)
    made = request.release(opened, asked)
    rows.put_release(conn, made, new=True)
    rows.hold(conn, made)
    journal.append(conn, made.state, account, release=made)
    return made


def copy(entry: Any, number: int) -> Any:
    """Return another entry like this one."""
    return type(entry).from_record(
        {**entry.to_record(), "id": uuid.uuid4().hex, "mechanism": f"m{number}", "position": number}
    )


def main() -> None:
    """Run all three on every store that is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", help="URL of a PostgreSQL server, such as postgresql://postgres@127.0.0.1/test")
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--pace", type=float, default=0.6, help="mean pause between two requests of a process, seconds")
    parser.add_argument("--only-race", action="store_true")
    options = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    with stores(options.postgres) as urls:
        for name, url in urls.items():
            ledger = Ledger.open(url)
            found[name] = race(ledger, "race", options.processes, options.each, fits=100)
            found[name] |= race(ledger, "paced", options.processes, options.each, fits=100, pace=options.pace)
            if not options.only_race:
                found[name] |= kills(ledger, options.kills) | long_ledger(ledger, 10_000)
                found[name] |= long_journal(ledger, 10_000)
            print(name, *(f"  {k}: {v:.4g}" for k, v in found[name].items()), sep="\n")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "ledger.json").write_text(json.dumps(found, indent=2))
    with (RESULTS / "ledger.csv").open("w") as file:
        writer = csv.writer(file)
        writer.writerows([s, k, v] for s, values in found.items() for k, v in values.items())


if __name__ == "__main__":
    main()
