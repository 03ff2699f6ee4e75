"""`dp-synth sample` draws rows from a released generator: without its source, without a ledger, and free."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml
from pydantic import Field

from dp_synth_pipeline.cli.options import Options, takes_options
from dp_synth_pipeline.cli.terminal import console
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.progress_bars import ProgressBars
from dp_synth_pipeline.reporting.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_synth_pipeline.synthesis.sampling import Asked, Drawer, Drawn
    from dp_synth_pipeline.synthesis.whole_table import WholeTable
    from dp_synth_pipeline.synthetic_tables import SyntheticTables

STAGE = "drawing"


class AskedOptions(Options):
    """What is asked of the rows beside their number."""

    where: str | None = Field(
        default=None,
        description="SQL condition that every row satisfies, as in \"y = 'yes' AND age BETWEEN 60 AND 80\".",
    )
    share: str | None = Field(
        default=None, description='Parts of the rows by value, as in "y: {yes: 0.5}"; other values share the rest.'
    )
    seed: int | None = Field(
        default=None, ge=0, description="The same seed draws the same rows. Noise is never seeded; rows are free to be."
    )

    def asked(self) -> Asked:
        """Return them as a drawer takes them."""
        from dp_synth_pipeline.synthesis.sampling import Asked

        return Asked(self.where, None if self.share is None else parsed_share(self.share), self.seed)


@takes_options
def sample(
    model: Annotated[
        str,
        typer.Argument(
            metavar="TABLE|FILE", help="A table or database that was released; or a saved model: a .dps file, a folder."
        ),
    ],
    rows: Annotated[int, typer.Option(min=1, help="Rows to draw.")],
    out: Annotated[
        str, typer.Option(help="Where they go: .parquet, .csv, duckdb:///FILE?table=NAME, or a warehouse's URI.")
    ],
    options: AskedOptions,
    release: Annotated[
        str,
        typer.Option(
            metavar="ID", help="Of a table: an earlier release that is still there; its id, or how it begins."
        ),
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, and nothing else, on standard output.")
    ] = False,
) -> None:
    """Draw rows from a released generator. It reads no source and no ledger, and charges nothing, however often.

    Of a table with partitions, rows come from all of them (from the last one, if each covers several windows), or from one
    that is named with its folder, such as visits/partition=2026-01-01. Of related tables, --rows says how many rows the root
    has, --where is about its columns, and --out names a folder.

    Example: dp-synth sample visits --rows 1000 --where "smoker = 'yes' AND age >= 60" --out smokers.csv
    """
    asked = options.asked()
    if (tables := _database(model)) is not None:
        _draw_database(tables, rows, out, asked, release, as_json)
    else:
        _draw_table(model, rows, out, asked, release, as_json)


def _draw_table(model: str, rows: int, out: str, asked: Asked, release: str, as_json: bool) -> None:
    """Draw rows of a single table and write them."""
    with ProgressBars(console(stderr=True), show=not as_json) as bars:
        bars.report(STAGE, 0, rows)  # the generator's libraries take a moment
        drawer, of = _drawer(model, release)
        _check_place(out)
        drawn = drawer.draw(rows, asked, partial(bars.report, STAGE))
        place = _written(drawn, drawer.schema, out)
    facts = {"rows": rows, "out": place, **of, "effective_sample_size": drawn.effective, "epsilon_charged": 0}
    if as_json:
        typer.echo(json.dumps(facts | {"where": asked.where, "share": asked.share, "seed": asked.seed}))
        return
    shown, parts = console(stderr=True), of.get("partitions")
    source = f"release {of['release'][:12]}" if parts is None else f"the releases of {counted(len(parts), 'partition')}"
    shown.print(f"Wrote {rows:,} rows to {place}. Nothing was charged: they come from {source}, already paid for.")
    _tell(rows, drawn.effective)


def _written(drawn: Drawn, schema: pa.Schema, out: str) -> str:
    """Write rows as they are drawn; return where they are."""
    from dp_synth_pipeline.targets import sink

    with TemporaryDirectory(prefix="dps-") as folder:
        file = Path(folder) / "rows.parquet"
        sink.write_parquet(iter(drawn), schema, file)
        return sink.publish(file, out)


def _check_place(out: str) -> None:
    """Refuse a place that cannot be written, before anything is drawn."""
    from dp_synth_pipeline.tabular.sources.warehouse import engines
    from dp_synth_pipeline.targets import sink

    sink.check_writable(out)
    if "://" not in out and Path(out).suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise InvalidInput(f"--out {out}: unknown kind of target. Give {engines.FORMS}.")


def parsed_share(text: str) -> dict[str, dict[Any, float]]:
    """Read `column: {value: part}`; every value is text, so that `yes` is no truth value, and `null` is a null.

    Raises:
        InvalidInput: if it is something else.
    """
    form = '--share: expected parts by value, as in --share "y: {yes: 0.5}", with signs in quotes: "y: {\'>50K\': 0.5}"'
    try:
        read = yaml.load(text, yaml.BaseLoader)
        return {c: {None if v == "null" else v: float(p) for v, p in parts.items()} for c, parts in read.items()}
    except (yaml.YAMLError, AttributeError, TypeError, ValueError):
        raise InvalidInput(f"{form}; got {text!r}.") from None


def _drawer(model: str, release: str) -> tuple[Drawer | WholeTable, dict[str, Any]]:
    """Return what draws, and the release that paid for it; of a table with partitions, the release of each."""
    from dp_synth_pipeline import synthesizer
    from dp_synth_pipeline.synthesis import released
    from dp_synth_pipeline.synthesis.sampling import Drawer
    from dp_synth_pipeline.synthesis.store import default_store
    from dp_synth_pipeline.synthesis.whole_table import WholeTable

    if Path(model).exists():
        if release:
            raise InvalidInput("--release chooses among a table's releases; a file is of one release, so leave it out.")
        saved = synthesizer.load(model)
        assert isinstance(saved, synthesizer.SyntheticModel)
        return saved.drawer(), {"release": saved.card().facts.release}
    store = default_store()
    if not release and (parts := released.partitions_of(store, model)):
        return WholeTable(parts), {"partitions": {Path(p.table).name.partition("=")[2]: p.release for p in parts}}
    found = released.generator_of(store, model, release)
    if (database := released.database_of(store, found)) is not None:
        raise InvalidInput(
            f"{model!r} is one of the related tables {database!r}, whose rows are drawn upon each other. Draw all of them: "
            f"dp-synth sample {database} --rows N --out FOLDER."
        )
    return Drawer(found.folder, found.folder / "profile.json"), {"release": found.release}


def _database(model: str) -> SyntheticTables | None:
    """Return the related tables that a file, a folder or a released name holds; None if it is a single table's."""
    from dp_synth_pipeline.synthesis.store import default_store
    from dp_synth_pipeline.synthetic_tables import holds_tables, load_tables

    places = (Path(model), default_store().root / "releasable" / model)
    return next((load_tables(place) for place in places if holds_tables(place)), None)


def _draw_database(tables: SyntheticTables, persons: int, out: str, asked: Asked, release: str, as_json: bool) -> None:
    """Draw related tables and write them together.

    Raises:
        InvalidInput: if shares or an earlier release are asked for, which only a single table has.
    """
    import pyarrow.parquet as pq

    from dp_synth_pipeline.synthesis.database.drawing import redrawn_sentence
    from dp_synth_pipeline.targets import together

    if asked.share is not None or release:
        raise InvalidInput("--share and --release are for single tables; related tables are drawn as a whole.")
    relations = tables.relations
    names = [table.name for table in relations.everything]
    together.check(names, out, {})
    with ProgressBars(console(stderr=True), show=not as_json) as bars:
        drawn, effective, redrawn = tables.drawn(persons, asked, partial(bars.report, STAGE))
    with TemporaryDirectory(prefix="dps-") as folder:
        files = {name: Path(folder) / f"{name}.parquet" for name in drawn}
        for name, rows in drawn.items():
            pq.write_table(rows, files[name])
        places = together.publish(relations, files, out)
    counts = {name: rows.num_rows for name, rows in drawn.items()}
    if as_json:
        facts = {"rows": counts, "out": places, "release": tables.release, "epsilon_charged": 0, "seed": asked.seed}
        typer.echo(json.dumps(facts | {"where": asked.where, "effective_sample_size": effective}))
        return
    shown = console(stderr=True)
    for name, place in places.items():
        shown.print(f"Wrote {counts[name]:,} rows to {place}.")
    if redrawn:
        shown.print(redrawn_sentence(redrawn))
    shown.print(f"Nothing was charged: they come from release {tables.release[:12]}, already paid for.")
    _tell(persons, effective)


def _tell(rows: int, effective: int | None) -> None:
    """Say how many rows drawn one by one the rows are worth, if that was asked about."""
    from dp_synth_pipeline.synthesis.sampling import few

    if effective is None:
        return
    shown = console(stderr=True)
    shown.print(f"Effective sample size: {effective:,} of {rows:,}.")
    if said := few(rows, effective):
        shown.print(f"Warning: {said}")
