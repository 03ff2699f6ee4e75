"""A made-up clinic and its neighbours: the same with one person more, who has the most and the oddest rows everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dp_synth_pipeline.errors import DpSynthError
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.reporting import database_card
from dp_synth_pipeline.synthesis.database import stages
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.store import Store
from tests.adversarial import pinned

Tables = dict[str, pd.DataFrame]

MOST = {"visits": 3, "drugs": 2, "calls": 2}
RELATIONS: dict[str, dict[str, Any]] = {
    "patients": {"key": "patient"},
    "visits": {"key": "visit", "parent": {"patient": "patients"}, "order": "seen", "max_rows": MOST["visits"]},
    "drugs": {"parent": {"visit": "visits"}, "max_rows": MOST["drugs"]},
    "calls": {
        "parent": {"patient": "patients"},
        "order": "called",
        "max_rows": MOST["calls"],
        "columns": {
            "cost": {"monotone": "increasing"},
            "ended": {"until": "next"},
            "x": {"monotone": False},  # tells which rows stay
        },
    },
}
TRAINING = {"max_epochs": 1, "hidden": 4}


def clinic(patients: int = 60) -> Tables:
    """Return patients, their visits and calls in time, and what was prescribed; `x` differs in every row of a table.

    What calls cost in all grows from one to the next, and each is open until the next. All begin after the patient came.
    """
    rng = np.random.default_rng(3)
    person = np.repeat(np.arange(patients), rng.integers(0, 6, patients))
    visits = pd.DataFrame(
        {
            "visit": [f"v{i:04d}" for i in range(len(person))],
            "patient": person + 500.0,
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, len(person)), unit="D"),
            "ward": rng.choice(["Rome", "Oslo"], len(person)),
            "x": np.arange(len(person)) / 7,
        }
    )
    visits["left"] = visits["seen"] + pd.to_timedelta(np.arange(len(person)) % 5, unit="D")
    caller = np.repeat(np.arange(patients), np.arange(patients) % 4)
    called = pd.Timestamp("2024-02-01") + pd.to_timedelta(np.arange(len(caller)) % 300, unit="D")
    held = np.repeat(visits["visit"].to_numpy(), rng.integers(0, 4, len(visits)))
    calls = pd.DataFrame({"patient": caller + 500.0, "called": called, "called_month": called.month.astype("int64")})
    calls["ended"] = calls.groupby("patient")["called"].shift(-1).fillna(calls["called"] + pd.Timedelta(days=3))
    begun = visits.groupby("patient")["seen"].min().combine_first(calls.groupby("patient")["called"].min())
    came = begun.reindex(np.arange(patients) + 500.0) - pd.to_timedelta(np.arange(patients) % 9, unit="D")
    return {
        "patients": pd.DataFrame(
            {
                "patient": pd.array(np.arange(patients) + 500, "Int64"),
                "city": rng.choice(["Rome", "Lima"], patients),
                "came": came.to_numpy(),
                "x": np.arange(patients) / 7,
            }
        ),
        "visits": visits,
        "drugs": pd.DataFrame(
            {"visit": held, "drug": rng.choice(["Oslo", "Lima"], len(held)), "x": np.arange(len(held)) / 7}
        ),
        "calls": calls.assign(cost=np.arange(len(caller)) / 4, x=np.arange(len(caller)) / 7),
    }


def one_more(tables: Tables, visits: int = 40, drugs: int = 9) -> Tables:
    """Return the tables with a person more: many rows in each, all unlike everybody's, null and extreme times included."""
    seen = [pd.Timestamp("1931-05-07") + pd.Timedelta(days=400 * i) for i in range(visits)]
    seen[::7] = [pd.NaT] * len(seen[::7])
    names = [f"w{i}" for i in range(visits)]
    more = {
        "patients": pd.DataFrame(
            {"patient": [9**8] * 3, "city": ["Atlantis"] * 3, "came": [pd.NaT, *seen[2:4]], "x": [1e9, -1e9, None]}
        ),
        "visits": pd.DataFrame(
            {"visit": names, "patient": 9.0**8, "seen": seen, "ward": "Atlantis", "x": 1e9, "left": seen[::-1]}
        ),
        "drugs": pd.DataFrame({"visit": names * drugs, "drug": "hemlock", "x": 1e9}),
        "calls": pd.DataFrame(
            {
                "patient": 9.0**8,
                "called": seen[::-1],
                "called_month": 13,
                "ended": seen,
                "cost": [1e9, None, -1e9, 7] * 10,
                "x": 1e9,
            }
        ),
    }
    return {name: pd.concat([table, more[name]], ignore_index=True) for name, table in tables.items()}


class Listener:
    """Remembers all that a release reports of itself."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def report(self, stage: str, done: int, total: int, note: str = "") -> None:
        self.lines.append((stage, done, total, note))

    def log(self, message: str) -> None:
        self.lines.append((message,))

    def warn(self, message: str) -> None:
        self.lines.append((message,))

    def wait(self, stage: str, why: str) -> None:
        self.lines.append((stage, why))


def settings(
    folder: Path,
    tables: Tables,
    changes: dict[str, dict[str, Any]] | None = None,
    epsilon: float = 4.0,
    **more: Any,
) -> DatabaseSettings:
    """Write the tables as Parquet files, and return what asks for a release of them."""
    asked = {}
    for name, table in tables.items():
        table.to_parquet(folder / f"{name}.parquet")
        asked[name] = {**RELATIONS[name], "source": str(folder / f"{name}.parquet"), **(changes or {}).get(name, {})}
    facts: dict[str, Any] = {
        "database": "clinic",
        "account": "clinic",
        "epsilon": epsilon,
        "target": str(folder / "out"),
    }
    return DatabaseSettings(**facts, tables=asked, training=TRAINING, **more)


def released(
    tables: Tables, *, changes: dict[str, dict[str, Any]] | None = None, upto: str = "published"
) -> Callable[[Path], dict[str, Any]]:
    """Return an act: release a database up to a stage, and look at all that leaves.

    Args:
        changes: settings of its tables.
    """

    def act(here: Path) -> dict[str, Any]:
        ledger, heard, told = Ledger.open(f"sqlite:///{here / 'ledger.db'}"), Listener(), ""
        ledger.open_account("clinic", epsilon=6, delta=1e-5, unit="patient", why="test")
        asked = settings(here, tables, changes)
        release = DatabaseRelease.reserve(asked, ledger, Store(here / "store"), key="k", run_id="run", progress=heard)
        facts = []
        try:
            for stage in stages.of_database(asked):
                facts.append((stage.name, release.run(stage)))
                if stage.name == upto:
                    break
            if upto == "published":
                database_card.write(release)
        except DpSynthError as error:
            told = f"{type(error).__name__}: {error}"
        return {
            "facts": facts,
            "told": told,
            "log": heard.lines,
            "files": pinned.files(here / "store" / "releasable"),
            "published": pinned.files(here / "out"),
            "ledger": pinned.ledger(ledger),
        }

    return act
