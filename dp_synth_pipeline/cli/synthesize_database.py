"""`dp-synth synthesize-database` runs the assets of related tables, described by a YAML file or found in a folder."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
import yaml
from pydantic import Field, ValidationError
from rich.console import Console

from dp_synth_pipeline.cli import related_summary
from dp_synth_pipeline.cli.options import AccountOptions, SetOptions, open_once, opened, takes_options
from dp_synth_pipeline.cli.synthesize import RunOptions, run_or_resume
from dp_synth_pipeline.cli.terminal import say_more
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.resources import StoreResource
from dp_synth_pipeline.orchestration.settings import RelatedTablesSettings
from dp_synth_pipeline.relations import names
from dp_synth_pipeline.synthesis.section import said
from dp_synth_pipeline.synthesis.settings import table_name
from dp_synth_pipeline.tabular.sources import ingestion, source

SUFFIXES = (".parquet", ".pq", ".csv")
"""What is a table in a folder."""


class DatabaseOptions(SetOptions):
    """What is asked of the tables together."""

    epsilon: float | None = Field(default=None, description="The most that this release may cost, all tables together.")
    rows: int | None = Field(default=None, ge=1, description="Rows of the root to draw; default: their noisy number.")
    purpose: str | None = Field(default=None, description="testing, analytics or machine_learning: how long it trains.")
    root: str | None = Field(
        default=None,
        description="Of a folder: the table whose rows are the persons, if the names of columns do not tell.",
    )
    public: list[str] = Field(
        default_factory=list,
        description="Of a folder, TABLE=REASON: a table that everybody may see, such as a catalogue; copied as it is.",
    )
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

    Of a folder, keys and parents are guessed from the names of columns, and said; and that rows of a person are in the order
    of their first date, if the files say what dates are: CSVs do not. --write writes the guess to a file, which you look
    over and give instead of the folder: there you can say what else they are ordered by.

    Example: dp-synth synthesize-database clinic.yaml --out synthetic/ --epsilon 3
    """
    say_more(run.verbose)
    console = Console(stderr=True)
    said = _read(tables, options) if tables.is_file() else _guessed(tables, options, console)
    written = options.over(said, replace=True)
    if options.write is not None:
        _write(written, options.write, console)
        return
    settings = _settings({**written, **_asked(written, tables, out, options, account)})
    book = opened(account.ledger, create=True)
    if account.open_account and not run.resume:
        open_once(book, settings, "synthesize-database", console)
    outcome = run_or_resume(settings, book, account.url, run, console)
    summary = related_summary.summarise(book, StoreResource().get(), settings.name, outcome)
    if run.json_:
        typer.echo(summary.to_json(book))
    else:
        summary.show(book, console)


def _read(path: Path, options: DatabaseOptions) -> dict[str, Any]:
    """Return what a YAML file says: bare, or as the attributes of a component. Paths in it are relative to it.

    Raises:
        InvalidInput: if it is none, or has no `tables`; or if an option says of it what is said of a folder.
    """
    if options.root or options.public:
        raise InvalidInput(
            f"--{'root' if options.root else 'public'} is said of a folder; in a YAML file, its tables have `parent:` and "
            f"`public:`."
        )
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


def _guessed(folder: Path, options: DatabaseOptions, console: Console) -> dict[str, Any]:
    """Return the tables in a folder, with keys and parents as their columns' names tell, and say them.

    Raises:
        InvalidInput: if there are no two tables, or their names do not tell.
    """
    files = sorted(f for f in folder.glob("*") if f.suffix.lower() in SUFFIXES) if folder.is_dir() else []
    if len(files) < 2:
        raise InvalidInput(f"{folder}: expected a folder of at least two .parquet or .csv files, or a YAML file.")
    types = {table_name(f.stem): ingestion.column_types(source.parse(str(f))) for f in files}
    dates = {name: [c for c, t in of.items() if t is not None and _is_day(t)] for name, of in types.items()}
    public = _declared_public(options.public)
    found = names.guess({name: list(of) for name, of in types.items()}, options.root, public, dates)
    console.print("From the names and types of the columns (--write FILE to look them over):", highlight=False)
    for name, facts in found.items():
        parent = facts.get("parent")
        told = "".join(f", belongs to {t} by {c}" for c, t in (parent.items() if isinstance(parent, dict) else ()))
        told = told or (", public" if name in public else ", the root")
        if isinstance(parent, dict):
            told += f", in the order of {facts['order']}" if "order" in facts else ", in no order"
        refers = facts.get("refers")
        told += "".join(f", refers to {t} by {c}" for c, t in (refers.items() if isinstance(refers, dict) else ()))
        console.print(f"  {name}: key {facts.get('key', 'none')}{told}", highlight=False, markup=False)
    sources = {table_name(f.stem): str(f) for f in files}
    tables = {name: {"source": sources[name], **facts} for name, facts in found.items()}
    return {"tables": {name: facts | public.get(name, {}) for name, facts in tables.items()}}


def _is_day(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type))


def _declared_public(told: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what is declared of public tables, each told as TABLE=REASON by whoever runs the command."""
    found = {}
    for one in told:
        table, _, why = one.partition("=")
        if not why.strip():
            raise InvalidInput(
                f"--public {one}: say why everybody may see it: --public {table}='the catalogue is on our site'."
            )
        found[table_name(table)] = {"public": {"why": why.strip(), "by": getpass.getuser()}}
    return found


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
