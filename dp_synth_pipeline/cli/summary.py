"""Prints at the end of a command rows, cost, what is left, checks, and where everything is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.in_process import Outcome
from dp_synth_pipeline.reporting import data_docs
from dp_synth_pipeline.synthesis import no_protection
from dp_synth_pipeline.synthesis.store import Store

MOST_WARNINGS = 5
"""Failed checks that are told on the terminal."""


@dataclass(frozen=True)
class Summary:
    """One table's refresh, in numbers that may leave."""

    table: str
    rows: int
    columns: int
    guarantee: str
    epsilon: float | None
    delta: float | None
    account: str | None
    epsilon_left: float | None
    entries: list[dict[str, Any]]
    checks: dict[str, int]
    warnings: list[str]
    seconds: dict[str, float]
    outputs: dict[str, str]
    run_id: str

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps(asdict(self))


def summarise(ledger: Ledger, store: Store, table: str, outcome: Outcome) -> Summary:
    """Collect what a successful run released."""
    folder = store.releasable(table)
    file = pq.ParquetFile(folder / "synthetic.parquet")
    results = json.loads((folder / "checks.json").read_text())
    published = json.loads((store.restricted(table) / "published.json").read_text())["facts"]["published"]
    return Summary(
        table=table,
        rows=file.metadata.num_rows,
        columns=len(file.schema_arrow.names),
        **_promise(ledger, store, table, outcome.run_id),
        checks={"passed": sum(r["passed"] for r in results), "failed": sum(not r["passed"] for r in results)},
        warnings=[r["description"] for r in results if not r["passed"]],
        seconds=outcome.seconds,
        outputs={
            "published": ", ".join(published),
            "synthetic": str(folder / "synthetic.parquet"),
            "checks": str(folder / data_docs.PAGE),
            "release_card": str(folder / "release_card.html"),
            "report": str(store.restricted(table) / "quality_report.html"),
        },
        run_id=outcome.run_id,
    )


def _promise(ledger: Ledger, store: Store, table: str, run: str) -> dict[str, Any]:
    """Return what the run's release cost and what is left; or, without a guarantee, who declared the source public."""
    for public in no_protection.releases(store):
        if (public.table, public.run_id) == (table, run):
            nothing = dict.fromkeys(("epsilon", "delta", "account", "epsilon_left"))
            return {"guarantee": public.notice, **nothing, "entries": []}
    release = next(r for r in ledger.releases() if r.run_id == run and r.table == table)
    entries = ledger.entries(release_id=release.id)
    return {
        "guarantee": "dp",
        "epsilon": release.final_epsilon or 0.0,
        "delta": release.final_delta or 0.0,
        "account": release.account,
        "epsilon_left": ledger.balance(release.account).epsilon_left,
        "entries": [{"id": e.id, "mechanism": e.mechanism, "events": [v.to_dict() for v in e.events]} for e in entries],
    }


def show(summaries: list[Summary], console: Console) -> None:
    """Print what was released, and where it is."""
    table = Table(title="Released", title_justify="left")
    for name in ("table", "rows", "cols", "ε", "δ", "ε left", "checks", "s"):
        table.add_column(name, justify="left" if name == "table" else "right", no_wrap=True)
    for s in summaries:
        warning_note = f", [yellow]{s.checks['failed']} warned[/]" if s.checks["failed"] else ""
        table.add_row(
            escape(s.table),
            f"{s.rows:,}",
            str(s.columns),
            _number(s.epsilon, ".3f"),
            _number(s.delta, ".1e"),
            _number(s.epsilon_left, ".3f"),
            f"[green]{s.checks['passed']} passed[/]{warning_note}",
            f"{sum(s.seconds.values()):.0f}",
        )
    console.print(table)
    if any(s.epsilon is not None for s in summaries):
        console.print("ε left: the most that one more release of this account may cost.", style="dim", highlight=False)
    for s in summaries:
        console.print(f"[bold]{escape(s.table)}[/]", highlight=False)
        if s.epsilon is None:
            console.print(f"  [bold red]{escape(s.guarantee)}[/]", highlight=False, soft_wrap=True)
        labels = {
            "published": "published",
            "synthetic": "Parquet",
            "release_card": "card",
            "report": "report [red](restricted)[/]",
        }
        for key, label in labels.items():
            console.print(f"  {label}: {escape(_short(s.outputs[key]))}", highlight=False, soft_wrap=True)
        for warning in s.warnings[:MOST_WARNINGS]:
            console.print(f"  [yellow]check failed[/] {escape(warning)}", highlight=False, soft_wrap=True)
        if len(s.warnings) > MOST_WARNINGS:
            remainder = (
                f"  and {len(s.warnings) - MOST_WARNINGS} more: see Data Docs, {escape(_short(s.outputs['checks']))}"
            )
            console.print(remainder, highlight=False, soft_wrap=True)


def _number(value: float | None, format: str) -> str:
    return "none" if value is None else f"{value:{format}}"


def _short(path: str) -> str:
    prefix = f"{Path.cwd()}/"
    return path.replace(prefix, "")
