"""`dp-synth synthesize-database` runs the assets of related tables, described by a YAML file or found in a folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import Field, ValidationError
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from dp_synth_pipeline.cli.answers import share_facts
from dp_synth_pipeline.cli.options import AccountOptions, SetOptions, open_once, opened, takes_options
from dp_synth_pipeline.cli.summary import OUTPUTS, quality
from dp_synth_pipeline.cli.synthesize import RunOptions, run_or_resume
from dp_synth_pipeline.cli.terminal import say_more, standing, table
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.in_process import Outcome
from dp_synth_pipeline.orchestration.resources import StoreResource
from dp_synth_pipeline.orchestration.settings import RelatedTablesSettings
from dp_synth_pipeline.reporting.card import from_json
from dp_synth_pipeline.synthesis.section import said
from dp_synth_pipeline.synthesis.settings import table_name
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.relations import names
from dp_synth_pipeline.tabular.sources import ingestion, source

SUFFIXES = (".parquet", ".pq", ".csv")
"""What is a table in a folder."""


class DatabaseOptions(SetOptions):
    """What is asked of the tables together."""

    epsilon: float | None = Field(default=None, description="The most that this release may cost, all tables together.")
    rows: int | None = Field(default=None, ge=1, description="Rows of the root to draw; default: their noisy number.")
    purpose: str | None = Field(default=None, description="testing, analytics or machine_learning: how long it trains.")
    write: Path | None = Field(
        default=None, description="Write what was guessed of a folder to this YAML file, and do nothing else."
    )


@takes_options
def synthesize_database(
    tables: Annotated[
        Path,
        typer.Argument(metavar="DIR|YAML", help="A folder of .parquet or .csv files; or a YAML file with `tables:`."),
    ],
    options: DatabaseOptions,
    account: AccountOptions,
    run: RunOptions,
    out: Annotated[
        str,
        typer.Option(help="A folder; or an address with {table} in it, such as duckdb:///f.duckdb?table=c.{table}."),
    ] = "",
) -> None:
    """Make differentially private synthetic copies of related tables, under one epsilon for each person.

    Of a folder, keys and parents are guessed from the names of columns, and said. --write writes the guess to a file, which
    you look over and give instead of the folder: only there can you say in which order the rows of a person are.

    Example: dp-synth synthesize-database clinic.yaml --out synthetic/ --epsilon 3
    """
    say_more(run.verbose)
    console = Console(stderr=True)
    written = options.over(_read(tables) if tables.is_file() else _guessed(tables, console), replace=True)
    if options.write is not None:
        _write(written, options.write, console)
        return
    settings = _settings({**written, **_asked(written, tables, out, options, account)})
    book = opened(account.ledger)
    if account.open_account and not run.resume:
        open_once(book, settings, "synthesize-database", console)
    outcome = run_or_resume(settings, book, account.url, run, console)
    summary = _summary(book, StoreResource().get(), settings, outcome)
    if run.json_:
        typer.echo(summary.to_json(book))
    else:
        summary.show(book, console)


def _read(path: Path) -> dict[str, Any]:
    """Return what a YAML file says: bare, or as the attributes of a component. Paths in it are relative to it.

    Raises:
        InvalidInput: if it is none, or has no `tables`.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise InvalidInput(f"{path} is not YAML ({type(error).__name__}); mend it and run again.") from None
    attributes = document.get("attributes", document) if isinstance(document, dict) else None
    if not isinstance(attributes, dict) or not isinstance(attributes.get("tables"), dict):
        raise InvalidInput(f"{path} has no `tables:`; write what dp-synth docs databases shows.")
    for facts in attributes["tables"].values():
        place = facts.get("source") if isinstance(facts, dict) else None
        if isinstance(place, str) and "://" not in place:
            facts["source"] = str(path.parent / Path(place).expanduser())
    return attributes


def _guessed(folder: Path, console: Console) -> dict[str, Any]:
    """Return the tables in a folder, with keys and parents as their columns' names tell, and say them.

    Raises:
        InvalidInput: if there are no two tables, or their names do not tell.
    """
    files = sorted(f for f in folder.glob("*") if f.suffix.lower() in SUFFIXES) if folder.is_dir() else []
    if len(files) < 2:
        raise InvalidInput(f"{folder}: expected a folder of at least two .parquet or .csv files, or a YAML file.")
    columns = {table_name(f.stem): list(ingestion.column_types(source.parse(str(f)))) for f in files}
    found = names.guess(columns)
    console.print("From the names of the columns (--write FILE to look them over):", highlight=False)
    for name, facts in found.items():
        parent = facts.get("parent")
        told = "".join(f", belongs to {t} by {c}" for c, t in (parent.items() if isinstance(parent, dict) else ()))
        console.print(f"  {name}: key {facts.get('key', 'none')}{told or ', the root'}", highlight=False, markup=False)
    sources = {table_name(f.stem): str(f) for f in files}
    return {"tables": {name: {"source": sources[name], **facts} for name, facts in found.items()}}


def _write(written: dict[str, Any], path: Path, console: Console) -> None:
    """Write what was guessed, for a person to look over.

    Raises:
        InvalidInput: if there is a file already.
    """
    if path.exists():
        raise InvalidInput(f"--write {path}: there is such a file; name another one.")
    remarks = (
        "# Guessed from the names of columns; look it over. `order: COLUMN` puts the rows of a person in order, and\n"
        "# `max_rows: N` says how many are kept. Then: dp-synth synthesize-database FILE --out DIR --epsilon E.\n"
    )
    path.write_text(remarks + yaml.safe_dump(written, sort_keys=False), encoding="utf-8")
    console.print(f"Wrote {path}; nothing was read but names, and nothing was charged.", highlight=False)


def _asked(
    written: dict[str, Any], tables: Path, out: str, options: DatabaseOptions, account: AccountOptions
) -> dict[str, Any]:
    """Return what the options say, which goes before what the file says."""
    name = written.get("database") or table_name(tables.resolve().stem)
    asked: dict[str, Any] = {
        "database": name,
        "account": account.account or written.get("account") or name,
        "epsilon": options.epsilon if options.epsilon is not None else written.get("epsilon"),
    }
    if asked["epsilon"] is None:
        raise InvalidInput(
            "--epsilon is missing: name the most that all tables together may cost, such as --epsilon 3."
        )
    if not (out or written.get("target")):
        raise InvalidInput("--out is missing: name a folder for the synthetic tables.")
    more = {"target": out or None, "rows": options.rows, "delta": account.delta}
    asked |= {field: value for field, value in more.items() if value is not None}
    if options.purpose is not None:
        asked["training"] = {**written.get("training", {}), "purpose": options.purpose}
    return asked


def _settings(fields: dict[str, Any]) -> RelatedTablesSettings:
    try:
        return RelatedTablesSettings(**fields)
    except ValidationError as error:
        raise InvalidInput(said(error, RelatedTablesSettings)) from None


@dataclass(frozen=True)
class Summary:
    """What a release of related tables made, in numbers that may leave."""

    database: str
    rows: dict[str, int]
    epsilon: float
    delta: float
    account: str
    checks: dict[str, int]
    failed: list[str]
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
        for told in quality(self.report, console):
            console.print(f"  {escape(told)}", highlight=False, soft_wrap=True)
        places = [*(("published", p) for p in self.places), ("card", self.card), (OUTPUTS["report"], self.report)]
        for label, place in places:
            console.print(f"  {label}: {escape(place)}", highlight=False, soft_wrap=True)


def _counted(rows: dict[str, int]) -> list[tuple[str, ...]]:
    return [(escape(name), f"{count:,}") for name, count in rows.items()]


def _summary(ledger: Ledger, store: Store, settings: RelatedTablesSettings, outcome: Outcome) -> Summary:
    """Collect what a successful run released."""
    folder = store.releasable(settings.name)
    card = from_json((folder / "release_card.json").read_text(encoding="utf-8")).facts
    state = json.loads((store.restricted(settings.name) / "release_card.json").read_text(encoding="utf-8"))
    failed = [c for c in card.checks if not c["passed"]]
    return Summary(
        database=settings.name,
        rows={t["name"]: t["rows"] for t in card.tables},
        epsilon=card.epsilon or 0.0,
        delta=card.delta or 0.0,
        account=card.account,
        checks={"passed": len(card.checks) - len(failed), "failed": len(failed)},
        failed=[f"{c['name']}: {c['description']}" for c in failed],
        seconds=outcome.seconds,
        places=state["published"],
        card=str(folder / "release_card.html"),
        report=str(store.restricted(settings.name) / "quality_report.html"),
        run_id=outcome.run_id,
    )
