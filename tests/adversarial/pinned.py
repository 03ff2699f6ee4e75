"""A world where chance and clocks stand still, and each metered mechanism answers what does not depend on the rows.

What leaves a release may depend on rows through a metered mechanism alone. So here a noisy count or histogram is a
constant, the rows that a noisy gradient sums are always the same ones, and what the ledger encrypts is a numbered token. Two
tables then leave the very same bytes behind, or something passed around the mechanisms. Nothing that leaves is masked.
"""

from __future__ import annotations

import contextlib
import datetime as datetimes
import hashlib
import io
import itertools
import json
import os
import secrets
import shutil
import sys
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import numpy as np
import pytest
import torch
from dagster._utils import timing
from dagster_shared.serdes import serialize_value
from great_expectations.render.view import view

from dp_synth_pipeline import cli
from dp_synth_pipeline.ledger import Ledger, export, journal
from dp_synth_pipeline.ledger import key as keys
from dp_synth_pipeline.model.dpsgd.batches import UnitRows
from dp_synth_pipeline.model.dpsgd.poisson_sampling import PoissonSampler
from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.privacy import mechanisms, noise
from dp_synth_pipeline.reporting import release_card, statements, table_checks
from dp_synth_pipeline.reporting.statement_page import render_statement
from dp_synth_pipeline.synthesis import profile_cache, retention, schema_inference
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.counting import Counts
from dp_synth_pipeline.tabular.profiling.profile_plan import finds_categories
from dp_synth_pipeline.tabular.schema import Column
from tests.integration.conftest import Bench, lent

POPULATION = 607
"""The answer of every noisy count."""

KNOWN = {"Rome", "Oslo", "Lima"}
"""The only values that any noisy histogram ever names: the answer for another one is far below every threshold."""

HIDDEN = -(10**9)
BATCH, PAIR = 8, 2
"""Units and rows a unit of the constant batch that every step of every training is given."""

DAWN = datetime(2026, 1, 1, tzinfo=UTC)
_Generator, _PCG64 = np.random.Generator, np.random.PCG64


def stream(*key: int) -> np.random.Generator:
    """Return a generator whose numbers are a function of `key` alone."""
    return _Generator(_PCG64([7, *key]))


@contextlib.contextmanager
def pinned() -> Iterator[None]:
    """Pin chance, clocks, mechanisms and encryption, each to what neither rows nor an earlier world can move."""
    with pytest.MonkeyPatch.context() as patch:
        _pin_chance(patch)
        _pin_clocks(patch)
        _pin_counts(patch)
        _pin_training(patch)
        _pin_encryption(patch)
        yield


def _pin_chance(patch: pytest.MonkeyPatch) -> None:
    counters: dict[str, Iterator[int]] = defaultdict(itertools.count)

    def drawn() -> np.random.Generator:
        """Return a stream that only the module that draws, and how often it did, can move."""
        name = sys._getframe(2).f_globals["__name__"]
        return stream(*name.encode(), next(counters[name]))

    class Pinned(torch.Generator):
        def seed(self) -> int:
            self.manual_seed(int(drawn().integers(2**31)))
            return 0

    def uuid4() -> uuid.UUID:
        return uuid.UUID(bytes=drawn().bytes(16), version=4)

    def random_bytes(size: int = 32) -> bytes:
        return drawn().bytes(size)

    def default_rng(seed: Any = None) -> np.random.Generator:
        return drawn() if seed is None else _Generator(_PCG64(seed))

    patch.setattr(uuid, "uuid4", uuid4)
    patch.setattr(view, "uuid4", uuid4)
    patch.setattr(os, "urandom", random_bytes)
    patch.setattr(noise.os, "urandom", random_bytes)
    patch.setattr(secrets, "token_bytes", random_bytes)
    patch.setattr(np.random, "default_rng", default_rng)
    patch.setattr(torch, "Generator", Pinned)
    torch.manual_seed(5)


def _pin_encryption(patch: pytest.MonkeyPatch) -> None:
    """Let tokens be numbered, as those of an ideal cipher, and let only their reader know what they hide."""
    hidden: dict[str, str] = {}

    def encrypted(key: bytes, fingerprint: str) -> str:
        token = stream(5, len(hidden)).bytes(48).hex()
        hidden[token] = fingerprint
        return token

    patch.setattr(keys, "encrypted", encrypted)
    patch.setattr(keys, "decrypted", lambda key, token: hidden[token])


def _pin_clocks(patch: pytest.MonkeyPatch) -> None:
    ticks: dict[str, Iterator[int]] = defaultdict(itertools.count)

    class AnyMoment(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, datetime)

    class Clock(datetime, metaclass=AnyMoment):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            """Return a moment that only the module that asks, and how often it did, can move."""
            return DAWN + timedelta(seconds=next(ticks[sys._getframe(1).f_globals["__name__"]]))

    class Datetimes:
        datetime = Clock

        def __getattr__(self, name: str) -> Any:
            return getattr(datetimes, name)

    for module in (journal, release_card, table_checks, metadata, profile_cache, retention, schema_inference):
        patch.setattr(module, "datetime", Clock)
    for name, module in list(sys.modules.items()):  # its page says when it read the drawn rows, and when it judged them
        if name.startswith("great_expectations") and vars(module).get("datetime") is datetimes:
            patch.setattr(module, "datetime", Datetimes())
    patch.setattr(timing.TimerResult, "seconds", property(lambda self: 0.0))  # what Dagster says of how long steps took


def _pin_counts(patch: pytest.MonkeyPatch) -> None:
    honest_count, honest_histograms = mechanisms.noisy_count, mechanisms.noisy_histograms
    honest_values = Counts.values
    asked: list[list[Any]] = []

    def values(self: Counts, column: Column, floor: int) -> list[tuple[Any, int]]:
        found = honest_values(self, column, floor)
        asked.clear()
        if column.kind.numeric:
            low, high = measure._bounds(column)
            asked.append([k for k, _ in found if low <= k <= high])
        elif finds_categories(column):
            asked.append([k for k, _ in found])
        return found

    def constant(cells: int) -> np.ndarray:
        return np.full(cells, max(1, POPULATION // max(cells, 1)), dtype=np.int64)

    def histograms(counts: Any, **how: Any) -> Any:
        answers, *rest = honest_histograms(counts, **how)
        if asked:  # a histogram whose cells are values that were found; after the nulls comes one for each of them
            (found,) = asked
            asked.clear()
            return [np.array([1, *(POPULATION // 3 if k in KNOWN else HIDDEN for k in found)])], *rest
        return [constant(len(answer)) for answer in answers], *rest

    patch.setattr(mechanisms, "noisy_count", lambda count, **how: (POPULATION, *honest_count(count, **how)[1:]))
    patch.setattr(mechanisms, "noisy_histograms", histograms)
    patch.setattr(Counts, "values", values)


def _pin_training(patch: pytest.MonkeyPatch) -> None:
    """Give each step the same rows, so that its clipped sum is constant, and its noise and sample a pinned stream."""
    steps = itertools.count()

    def take(self: UnitRows, chosen: np.ndarray) -> Any:
        columns = self.codes.shape[1]
        if self.starts is None:
            return [(torch.zeros(BATCH, columns, dtype=torch.int64), None)]
        return [(torch.zeros(BATCH, PAIR, columns, dtype=torch.int64), torch.ones(BATCH, PAIR))]

    def take_groups(self: UnitRows, chosen: np.ndarray, *, size: int, groups: int) -> Any:
        return [(torch.zeros(groups, 1, self.codes.shape[1], dtype=torch.int64), torch.full((groups, 1), 1 / size))]

    def draw(self: PoissonSampler) -> np.ndarray:
        # Each unit joins by a number of its own, so that one unit more changes no other's: audits see the reserved ones.
        return np.flatnonzero(stream(4, next(steps)).random(self.units) < self.sample_rate)

    patch.setattr(UnitRows, "take", take)
    patch.setattr(UnitRows, "take_groups", take_groups)
    patch.setattr(PoissonSampler, "draw", draw)


@dataclass
class Stage:
    """A folder in which one world after another is played, always under the same path; what was played is moved away."""

    folder: Path
    patch: pytest.MonkeyPatch

    @property
    def here(self) -> Path:
        """Where the present world lies."""
        return self.folder / "world"

    def play(self, name: str, act: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """Return what an act says that left a pinned world of its own."""
        self.here.mkdir()
        self.patch.chdir(self.here)
        self.patch.setenv("DP_SYNTH_HOME", str(self.here / "home"))
        self.patch.setenv("COLUMNS", "200")
        with pinned():
            seen = act(self.here)
        self.patch.chdir(self.folder)
        shutil.move(self.here, self.folder / name)
        return seen


@contextlib.contextmanager
def bench(here: Path) -> Iterator[Bench]:
    """Lend a bench in a world, with more accounts: somebody else's, one of persons, one of blocks, one of a large delta."""
    with lent(here, f"sqlite:///{here / 'ledger.db'}") as found:
        found.ledger.open_account("eve", epsilon=10.0, delta=1e-4)
        found.ledger.open_account("persons", epsilon=10.0, delta=1e-4, unit="person", max_rows=2)
        found.ledger.open_account("blocks", epsilon=10.0, delta=1e-4, unit_in_one_block=True)
        found.ledger.open_account("loose", epsilon=10.0, delta=1e-2)
        yield found


def seen(bench: Bench, *results: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """Return all that left a world: to Dagster, to the releasable folder, to targets and to readers of the ledger."""
    return {
        "status": [result.success for result in results],
        "log": [line for result in results for line in _log(bench, result)],
        "files": files(bench.store / "releasable"),
        "published": _published(bench.folder / "warehouse.duckdb"),
        "ledger": ledger(bench.ledger),
    }


def files(folder: Path) -> dict[str, tuple[int, str]]:
    """Return the name, size and digest of each file; of small text the text, so that a difference can be read."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        content = path.read_bytes()
        text = content.decode(errors="ignore") if path.suffix in (".json", ".md", ".html") else ""
        found[str(path.relative_to(folder))] = (len(content), text or hashlib.sha256(content).hexdigest())
    return found


def ledger(book: Ledger) -> dict[str, Any]:
    """Return what a reader of the ledger sees who lacks its key: every record, the chain, and the pages made of them."""
    return {
        "export": json.loads(export.to_json(book)),
        "csv": export.to_csv(book),
        "page": render_statement(statements.page(book)),
    }


def command(*words: str) -> Callable[[Path], dict[str, Any]]:
    """Return an act that runs `dp-synth`, and says its exit code, what it printed and what it left."""

    def act(here: Path) -> dict[str, Any]:
        code, out, err = _run(*words)
        return {
            "exit code": code,
            "out": out,
            "err": err,
            "files": files(here / "home" / "store" / "releasable"),
            "result": files(here).get("out.parquet"),
            "ledger": ledger(Ledger.open(f"sqlite:///{here / 'home' / 'ledger.db'}")),
        }

    return act


def _run(*words: str) -> tuple[Any, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["dp-synth", *words])
        try:
            code: Any = cli.main() or 0
        except SystemExit as stop:
            code = stop.code or 0
    return code, out.getvalue(), err.getvalue()


def _log(bench: Bench, result: dg.ExecuteInProcessResult) -> list[Any]:
    """Return the event log of a run, metadata, tags and all; without the moments at which Dagster wrote it."""
    lines = []
    for record in bench.instance.all_logs(result.run_id):
        event = None if record.dagster_event is None else json.loads(serialize_value(record.dagster_event))
        lines.append((record.level, record.step_key, record.user_message, record.message, _timeless(event)))
    return lines


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k != "timestamp"}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


def _published(warehouse: Path) -> Any:
    if not warehouse.exists():
        return None
    with duckdb.connect(str(warehouse), read_only=True) as con:
        names = con.sql("SELECT table_schema || '.' || table_name FROM information_schema.tables ORDER BY 1").fetchall()
        return {name: con.sql(f"SELECT * FROM {name}").fetchall() for (name,) in names}


def differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    """Yield where two accounts of what left differ, and how."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys(), key=str):
            yield from differences(one.get(name, "nothing"), other.get(name, "nothing"), f"{place}/{name}")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from differences(a, b, f"{place}/{number}")
    elif one != other:
        yield f"{place}: {_around(str(one), str(other))}"


def _around(one: str, other: str) -> str:
    first = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"{one[max(0, first - 60) : first + 80]!r} is not {other[max(0, first - 60) : first + 80]!r}"
