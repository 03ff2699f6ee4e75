"""Prints at the end of a command what a release of related tables made, what it cost, and where everything is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from dp_synth_pipeline.cli.answers import share_facts
from dp_synth_pipeline.cli.summary import FOUND, OUTPUTS, quality
from dp_synth_pipeline.cli.terminal import standing, table
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.in_process import Outcome
from dp_synth_pipeline.reporting.card import from_json
from dp_synth_pipeline.synthesis.store import Store


@dataclass(frozen=True)
class RelatedSummary:
    """What a release of related tables made, in numbers that may leave."""

    database: str
    rows: dict[str, int]
    epsilon: float
    delta: float
    account: str
    checks: dict[str, int]
    failed: list[str]
    found: list[str]
    seconds: dict[str, float]
    places: list[str]
    card: str
    report: str
    run_id: str

    def to_json(self, ledger: Ledger) -> str:
        """Return one JSON object."""
        return json.dumps(asdict(self) | share_facts(ledger.share(self.account)) | {"ledger": str(ledger.place)})

    def show(self, ledger: Ledger, console: Console) -> None:
        """Print what was released, and where it is."""
        console.print(table(f"Released: {self.database}", ("table", "rows"), _counted(self.rows), right=("rows",)))
        told = f"  ε = {self.epsilon:.3f} at δ = {self.delta:.1e}, for each person and all that is theirs"
        console.print(told, highlight=False)
        used = Text.assemble(f"  account {self.account}: ", standing(ledger.share(self.account), console))
        console.print(used, highlight=False, soft_wrap=True)
        passed = f"  checks: {self.checks['passed']} of {sum(self.checks.values())} passed"
        console.print(passed, highlight=False)
        for failed in self.failed:
            console.print(f"  [yellow]check failed[/] {escape(failed)}", highlight=False, soft_wrap=True)
        for told in (*self.found, *quality(self.report, console)):
            console.print(f"  {escape(told)}", highlight=False, soft_wrap=True)
        places = [*(("published", p) for p in self.places), ("card", self.card), (OUTPUTS["report"], self.report)]
        for label, place in places:
            console.print(f"  {label}: {escape(place)}", highlight=False, soft_wrap=True)


def _counted(rows: dict[str, int]) -> list[tuple[str, ...]]:
    return [(escape(name), f"{count:,}") for name, count in rows.items()]


def summarise(ledger: Ledger, store: Store, database: str, outcome: Outcome) -> RelatedSummary:
    """Collect what a successful run released."""
    folder = store.releasable(database)
    card = from_json((folder / "release_card.json").read_text(encoding="utf-8")).facts
    state = json.loads((store.restricted(database) / "release_card.json").read_text(encoding="utf-8"))
    failed = [c for c in card.checks if not c["passed"]]
    return RelatedSummary(
        database=database,
        rows={t["name"]: t["rows"] for t in card.tables},
        epsilon=card.epsilon or 0.0,
        delta=card.delta or 0.0,
        account=card.account,
        checks={"passed": len(card.checks) - len(failed), "failed": len(failed)},
        failed=[f"{c['name']}: {c['description']}" for c in failed],
        found=[s for s in card.limits if s.partition(": ")[2].startswith(FOUND)],
        seconds=outcome.seconds,
        places=state["published"],
        card=str(folder / "release_card.html"),
        report=str(store.restricted(database) / "quality_report.html"),
        run_id=outcome.run_id,
    )
