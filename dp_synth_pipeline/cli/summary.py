"""Prints at the end of a command rows, cost, what is left, checks, and where everything is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from dp_synth_pipeline.cli.answers import share_facts
from dp_synth_pipeline.cli.terminal import standing, table
from dp_synth_pipeline.ledger import Ledger, Share
from dp_synth_pipeline.orchestration.in_process import Outcome
from dp_synth_pipeline.reporting import data_docs
from dp_synth_pipeline.reporting.card import from_json
from dp_synth_pipeline.synthesis import no_protection
from dp_synth_pipeline.synthesis.reading import COMPUTED, HANGING, REGENERATED
from dp_synth_pipeline.synthesis.store import Store

MOST_WARNINGS = 5
"""Failed checks that are told on the terminal."""

FOUND = (HANGING, COMPUTED)
"""How sentences of a card begin that say what was found of its columns, and is kept."""

OUTPUTS = {
    "published": "published",
    "synthetic": "Parquet",
    "release_card": "card",
    "report": "report [red](restricted)[/]",
}
"""What each output is called on the terminal."""


@dataclass(frozen=True)
class Summary:
    """One table's refresh, in numbers that may leave.

    Attributes:
        epsilon, delta: what the table promises, with all that it builds upon; None without a guarantee.
        epsilon_added: what this refresh added to that, and was charged.
        ledger: where the account is kept.
        share: how much of the account is used; None without a guarantee. In JSON: `used`, `set_aside` and `fits_more`.
        regenerated: which columns were recognised as identifiers, in words; none where none was.
        found: which dates and numbers were found to hang on others, in words; none where none was.
    """

    table: str
    rows: int
    columns: int
    guarantee: str
    epsilon: float | None
    delta: float | None
    epsilon_added: float | None
    account: str | None
    epsilon_left: float | None
    entries: list[dict[str, Any]]
    checks: dict[str, int]
    warnings: list[str]
    regenerated: list[str]
    seconds: dict[str, float]
    outputs: dict[str, str]
    run_id: str
    ledger: str = ""
    found: list[str] = field(default_factory=list)
    share: Share | None = None

    def to_json(self) -> str:
        """Return one JSON object."""
        facts = asdict(replace(self, share=None))
        del facts["share"]
        return json.dumps(facts | share_facts(self.share))


def summarise(ledger: Ledger, store: Store, table: str, outcome: Outcome) -> Summary:
    """Collect what a successful run released."""
    folder = store.releasable(table)
    file = pq.ParquetFile(folder / "synthetic.parquet")
    results = json.loads((folder / "checks.json").read_text())
    card = (folder / "release_card.json").read_text(encoding="utf-8")
    published = json.loads((store.restricted(table) / "published.json").read_text())["facts"]["published"]
    return Summary(
        table=table,
        rows=file.metadata.num_rows,
        columns=len(file.schema_arrow.names),
        **_promise(ledger, store, table, outcome.run_id),
        checks={"passed": sum(r["passed"] for r in results), "failed": sum(not r["passed"] for r in results)},
        warnings=[r["description"] for r in results if not r["passed"]],
        regenerated=[s for s in from_json(card).limits if s.startswith(REGENERATED)],
        found=[s for s in from_json(card).limits if s.startswith(FOUND)],
        seconds=outcome.seconds,
        outputs={
            "published": ", ".join(published),
            "synthetic": str(folder / "synthetic.parquet"),
            "checks": str(folder / data_docs.PAGE),
            "release_card": str(folder / "release_card.html"),
            "report": str(store.restricted(table) / "quality_report.html"),
        },
        run_id=outcome.run_id,
        ledger=str(ledger.place),
    )


def _promise(ledger: Ledger, store: Store, table: str, run: str) -> dict[str, Any]:
    """Return what the run's release cost and what is left; or, without a guarantee, who declared the source public."""
    for public in no_protection.releases(store):
        if (public.table, public.run_id) == (table, run):
            nothing = dict.fromkeys(("epsilon", "delta", "epsilon_added", "account", "epsilon_left"))
            return {"guarantee": public.notice, **nothing, "entries": []}
    release = next(r for r in ledger.releases() if r.run_id == run and r.table == table)
    lineage = ledger.lineage(release.id)
    return {
        "guarantee": "dp",
        "epsilon": lineage.epsilon,
        "delta": lineage.delta,
        "epsilon_added": release.final_epsilon or 0.0,
        "account": release.account,
        "epsilon_left": ledger.balance(release.account).epsilon_left,
        "share": ledger.share(release.account),
        "entries": [
            {"id": e.id, "mechanism": e.mechanism, "events": [v.to_dict() for v in e.events]} for e in lineage.own
        ],
    }


def show(summaries: list[Summary], console: Console) -> None:
    """Print what was released, and where it is."""
    columns = ("table", "rows", "cols", "used", "ε", "δ", "checks", "s")
    console.print(table("Released", columns, map(_row, summaries), right=columns[1:]))
    for s in summaries:
        console.print(f"[bold]{escape(s.table)}[/]", highlight=False)
        if s.share is not None:
            account = Text.assemble(f"  account {s.account}: ", standing(s.share, console))
            console.print(account, highlight=False, soft_wrap=True)
        if note := _promised(s):
            console.print(f"  {note}", highlight=False, soft_wrap=True)
        for told in (*s.regenerated, *s.found, *quality(s.outputs["report"], console)):
            console.print(f"  {escape(told)}", highlight=False, soft_wrap=True)
        for key, label in OUTPUTS.items():
            console.print(f"  {label}: {escape(_short(s.outputs[key]))}", highlight=False, soft_wrap=True)
        for warning in s.warnings[:MOST_WARNINGS]:
            console.print(f"  [yellow]check failed[/] {escape(warning)}", highlight=False, soft_wrap=True)
        if len(s.warnings) > MOST_WARNINGS:
            remainder = (
                f"  and {len(s.warnings) - MOST_WARNINGS} more: see Data Docs, {escape(_short(s.outputs['checks']))}"
            )
            console.print(remainder, highlight=False, soft_wrap=True)


def _row(s: Summary) -> list[str]:
    color = "yellow" if s.checks["failed"] else "green"
    return [
        escape(s.table),
        f"{s.rows:,}",
        str(s.columns),
        "none" if s.share is None else s.share.percent,
        _number(s.epsilon, ".3f"),
        _number(s.delta, ".1e"),
        f"[{color}]{s.checks['passed']} of {sum(s.checks.values())}[/]",
        f"{sum(s.seconds.values()):.0f}",
    ]


def _promised(s: Summary) -> str:
    """Say that nothing is promised, and on whose word; or what of the promise is this release's own, if not all of it."""
    if s.epsilon is None:
        return f"[bold red]{escape(s.guarantee)}[/]"
    if s.epsilon_added is None or s.epsilon <= s.epsilon_added:
        return ""
    return f"ε = {s.epsilon_added:.3f} was added by this release; the rest, by what it builds upon"


def quality(report: str, console: Console) -> list[str]:
    """Return the headline of a restricted report, on a terminal alone: whoever reads a log need not be the owner.

    It is computed on real rows without noise, so it stands neither in the summary nor in its JSON.
    """
    from dp_synth_pipeline.reporting.quality_report import HEADLINE  # it imports pandas

    file = Path(report).with_suffix(HEADLINE)
    if not console.is_terminal or not file.is_file():
        return []
    found = json.loads(file.read_text(encoding="utf-8"))
    private = "For you only: not differentially private, since it is computed on real rows without noise."
    if "tables" in found:
        each = ", ".join(f"{name} {word}" for name, word in found["tables"].items())
        return [f"quality: {found['verdict']}; by themselves: {each}. {private}"]
    if "told" in found:
        return [f"quality: {found['told']} {private}"]
    auc = "" if found["told_apart"] is None else f"; told from real rows with an AUC of {found['told_apart']:.3f}"
    return [
        f"quality: {found['verdict']}, accuracy {found['accuracy']:.1%} where chance allows {found['best']:.1%}{auc}. "
        f"{private}"
    ]


def _number(value: float | None, format: str) -> str:
    return "none" if value is None else f"{value:{format}}"


def _short(path: str) -> str:
    prefix = f"{Path.cwd()}/"
    return path.replace(prefix, "")
