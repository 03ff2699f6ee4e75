"""Collects what the card of a released database says: one promise for a person and all that is theirs, table by table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq

from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.reporting.card import INTENDED, OUT_OF_SCOPE, CardFacts, ReleaseCard
from dp_synth_pipeline.reporting.release_card import (
    alike_elsewhere,
    checks_in,
    keep,
    kept_together,
    left_out,
    made,
    paid_facts,
    public_columns,
    remembering,
    texts_of,
)
from dp_synth_pipeline.synthesis import generator_files
from dp_synth_pipeline.synthesis.database.beginnings import begun_sentence
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.synthesis.database.table_release import TableRelease
from dp_synth_pipeline.synthesis.reading import dates_sentence, formulas_sentences, regenerated_sentence
from dp_synth_pipeline.synthesis.sampling import sha256
from dp_synth_pipeline.tabular.encoding import exact

TOGETHER = (
    "Which rows belong together follows from their keys, which lead to a row of {root}. Rows whose keys lead to none were "
    "left out, and so were rows beyond those that the list of tables says were kept."
)


def build(release: DatabaseRelease, declared_by: str = "") -> ReleaseCard:
    """Return the card of a settled release of a database, sealed by its ledger's key.

    Args:
        declared_by: who answers for the declared facts; empty if nobody is named.
    """
    settings, ledger = release.settings, release.protection.ledger
    tables = {table.name: release.table(table.name) for table in release.relations}
    told = [_told(release, table) for table in release.relations]
    card = ReleaseCard(
        CardFacts(
            table=settings.name,
            release=release.id,
            rows=sum(t["rows"] for t in told),
            columns=sum(t["columns"] for t in told),
            tables=[*told, *(_copied(release, name) for name in release.state.public)],
            public=[column for name in tables for column in _columns(release, name)],
            declared_by=declared_by,
            checks=[{**c, "name": f"{n}: {c['name']}"} for n, t in tables.items() for c in checks_in(t.folder)],
            description=settings.description or "",
            audit=list(_findings(tables)),
            contact=settings.contact or declared_by,
            intended_use=[settings.intended_use] if settings.intended_use else list(INTENDED),
            out_of_scope=list(OUT_OF_SCOPE),
            population=tables[release.relations.root.name].profile.population,
            limits=list(_limits(release, tables)),
            **made(),
            **paid_facts(ledger, release.record, release.lineage),
        )
    )
    return card.sealed(release.protection.seal)


def write(release: DatabaseRelease, declared_by: str = "") -> ReleaseCard:
    """Write the card of a release as JSON, Markdown and a page, beside its tables; return it."""
    card = build(release, declared_by)
    release.state = replace(release.state, card=keep(card, release.folder))
    return card


def _told(release: DatabaseRelease, table: Related) -> dict[str, Any]:
    state, schema = release.state.table(table.name), release.state.sources[table.name]
    rows = state.files.synthetic
    return {
        "name": table.name,
        "rows": state.facts.synthetic_rows or 0,
        "columns": len(schema.published),
        "belongs": _belongs(table),
        "sha256": sha256(rows) if rows else "",
    }


def _copied(release: DatabaseRelease, name: str) -> dict[str, Any]:
    """Return what a card says of a public table."""
    path, declared = release.state.public[name], release.settings.tables[name].public
    assert declared is not None
    footer = pq.ParquetFile(path).metadata
    belongs = f"nobody: copied as it is, since it is public: {declared.why}, says {declared.by}"
    facts = {"name": name, "rows": footer.num_rows, "columns": footer.num_columns, "belongs": belongs}
    return {**facts, "sha256": sha256(path)}


def _columns(release: DatabaseRelease, name: str) -> list[dict[str, Any]]:
    """Return the published columns of a table as a card lists them; of those that refer to a public table, to which."""
    columns = public_columns(release.state.sources[name], release.table(name).settings, name)
    keys = {f"{name}.{column}": f"the keys of {public}" for column, public in release.relations[name].refers}
    for column in columns:
        if column["name"] in keys:
            column["declared"] |= {"categories": keys[column["name"]]}
    return columns


def _belongs(table: Related) -> str:
    """Say what the rows of a table belong to, and which of them were kept.

    Example:
        >>> _belongs(Related("visits", parent="patients", reference="pid", order="day", max_rows=30, keep_first=True))
        'patients, by pid; of each, the first 30 rows in the order of day at most'
    """
    if table.parent is None:
        return f"itself: each row is a privacy unit, named by {table.key}"
    order = "" if table.order is None else f" in the order of {table.order}"
    which = f"the first {table.max_rows} rows{order}" if table.keep_first else f"{table.max_rows} rows{order}"
    chance = "" if table.keep_first else ", chosen by chance"
    static = f"; the same in all of them: {', '.join(table.static)}" if table.static else ""
    rising = f"; never falling: {', '.join(table.increasing)}" if table.increasing else ""
    falling = f"; never rising: {', '.join(table.decreasing)}" if table.decreasing else ""
    ends = f"; told by the next row: {', '.join(dict(table.until))}" if table.until else ""
    running = [f"{total} by {' and '.join(terms)}" for total, terms in table.running]
    ends += f"; going on from the row before: {', '.join(running)}" if running else ""
    ends += f"; none after {table.parent}.{', '.join(table.before)}" if table.before else ""
    return f"{table.parent}, by {table.reference}; of each, {which} at most{chance}{static}{rising}{falling}{ends}"


def _findings(tables: dict[str, TableRelease]) -> Iterator[dict[str, Any]]:
    for name, table in tables.items():
        for finding in generator_files.findings(table.folder / generator_files.FOLDER, table.id):
            yield {**finding, "told": f"{name}: {finding['told']}"}


def _limits(release: DatabaseRelease, tables: dict[str, TableRelease]) -> Iterator[str]:
    root = release.relations.root
    yield TOGETHER.format(root=root.name)
    if release.settings.population is not None:
        yield f"The number of rows of {root.name}, {release.settings.population:,}, was declared public."
    for name, table in tables.items():
        if (predicate := release.settings.tables[name].filter) is not None:
            yield f"{name}: only rows that satisfy a public predicate were read: {predicate}"
        source = release.state.sources[name]
        said = [tell(table.settings, source) for tell in (regenerated_sentence, dates_sentence)]
        said.append(begun_sentence(release.relations, name, table.schema.names))
        told_of_table = (
            *exact.limits_of(table.schema, table.profile.ends),
            *kept_together(table),
            *alike_elsewhere(table),
            *formulas_sentences(table.found_formulas),
            *texts_of(table),
            *left_out(table),
            *remembering(table),
        )
        for told in (*told_of_table, *filter(None, said)):
            yield f"{name}: {told}"
