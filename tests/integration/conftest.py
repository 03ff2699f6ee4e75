"""A small table, a ledger and a store of its own for each test that runs the whole graph."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import numpy as np
import pandas as pd
import pytest

from dp_synth_pipeline import cli
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.settings import TableSettings
from tests.light import light, whole_fits

__all__ = ["light", "whole_fits"]  # every module of this folder

ROWS = 600


def people(rows: int = ROWS) -> pd.DataFrame:
    """A table with every common kind, nulls included; values are public, so a fixed stream is fine."""
    rng = np.random.Generator(np.random.PCG64(5))
    return pd.DataFrame(
        {
            "person": np.arange(rows) // 2,
            "age": rng.integers(18, 80, rows),
            "city": rng.choice(["Rome", "Oslo", "Lima"], rows, p=[0.6, 0.3, 0.1]),
            "income": np.round(rng.lognormal(3, 0.5, rows), 2),
            "smoker": rng.random(rows) < 0.3,
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, rows), unit="D"),
            "score": np.where(rng.random(rows) < 0.4, np.nan, rng.integers(0, 10, rows)),
        }
    )


@dataclass
class Bench:
    """One table's settings, with everything it needs on disk."""

    folder: Path
    ledger: Ledger
    instance: dg.DagsterInstance
    url: str

    def settings(self, **changes) -> TableSettings:
        facts = {
            "table": "people",
            "source": str(self.folder / "people.parquet"),
            "account": "people",
            "epsilon": 4.0,
            "columns": {"person": {"kind": "excluded"}},
            "target": f"duckdb:///{self.folder / 'warehouse.duckdb'}?table=synthetic.people",
            "training": {"max_epochs": 1},
        }
        return TableSettings(**{**facts, **changes})

    def definitions(self, **changes) -> dg.Definitions:
        return build_defs([self.settings(**changes)], ledger=self.url, store=str(self.store))

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def refresh(self, **changes) -> dg.ExecuteInProcessResult:
        job = self.definitions(**changes).resolve_job_def("people_refresh")
        quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        return job.execute_in_process(instance=self.instance, raise_on_error=False, run_config=quiet)


@contextmanager
def lent(folder: Path, url: str) -> Iterator[Bench]:
    """Lend a bench whose ledger is at `url`."""
    people().to_parquet(folder / "people.parquet")
    ledger = Ledger.open(url)
    ledger.open_account("people", epsilon=10.0, delta=1e-4, why="test")
    with dg.DagsterInstance.ephemeral() as instance:
        yield Bench(folder, ledger, instance, url)


@pytest.fixture
def bench(tmp_path):
    with lent(tmp_path, f"sqlite:///{tmp_path / 'ledger.db'}") as found:
        yield found


def steps(result: dg.ExecuteInProcessResult, outcome: str) -> set[str]:
    """Names of the links that ended in STEP_SUCCESS or STEP_FAILURE."""
    return {e.step_key.split("__")[-1] for e in result.all_events if e.event_type_value == outcome and e.step_key}


def failure(result: dg.ExecuteInProcessResult):
    """The first failed step's failure data."""
    return next(e.step_failure_data for e in result.all_events if e.event_type_value == "STEP_FAILURE")


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    """Runs `dp-synth` in a folder and home of its own; gives exit code, output and error text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delenv("DP_SYNTH_LEDGER", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["dp-synth", *map(str, args)])
        try:
            code = cli.main() or 0
        except SystemExit as stop:
            code = stop.code or 0
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err, text=" ".join((said.out + said.err).split()))

    run.folder = tmp_path
    run.ledger = lambda: Ledger.open(f"sqlite:///{tmp_path / 'home' / 'ledger.db'}")
    return run


def interrupt(patch, of, name, when=lambda *asked: True):
    """Press Ctrl-C when a function is called with certain arguments."""
    honest = getattr(of, name)

    def interrupted(*asked, **named):
        if when(*asked):
            signal.raise_signal(signal.SIGINT)
        return honest(*asked, **named)

    patch.setattr(of, name, interrupted)
