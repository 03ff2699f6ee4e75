"""How a table's settings say that its source is read, and which of its columns are made anew instead.

Recognition looks at names and at released figures, so it costs nothing and may be told to everybody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa

from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular import recognition
from dp_synth_pipeline.tabular.offsets import HANGS, modelled_name
from dp_synth_pipeline.tabular.policies import OtherPolicy
from dp_synth_pipeline.tabular.profiling import ordered_dates
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.tabular.sources import public_list
from dp_synth_pipeline.tabular.sources.ingestion import Reading
from dp_synth_pipeline.tabular.storage import is_text

EMPTY = 0.95
"""Part of a column that is null, by its noisy profile, from which hardly anything else is in it."""

MOSTLY = 0.5
"""Part of a column's values, by its noisy profile, from which a reader should know that others stand in their place."""

COMPUTED = "Found by noisy counts to hold in nearly every row, and kept in all that are drawn"
"""How the sentence about formulas begins."""

REGENERATED = "Regenerated as what they identify, and never modelled"
"""How the sentence about recognised columns begins."""

HANGING = "Found by noisy counts to hang together, and kept so in every row"
"""How the sentence about ordered dates begins."""


def reading(settings: ReleaseSettings, kept: Collection[str] = ()) -> Reading:
    """Return the declared facts, policies and unit of a table, as `ingestion.opened` takes them.

    Args:
        kept: columns that stay what they are, whatever their names say, since a profile or a snapshot has them as such.
    """
    found: Reading = {
        "declared": public_list.resolved(settings.columns),
        "nulls": settings.nulls,
        "other": settings.other,
        "unit": settings.privacy_unit,
        "complete": settings.columns_complete,
        "kept": {*kept, *_wanted(settings)},
    }
    return found if settings.locale is None else {**found, "locale": settings.locale}


def undeclared(settings: ReleaseSettings, kinds: Mapping[str, str]) -> dict[str, str]:
    """Return those of some recognised kinds whose columns nobody declared anything about, and no rule or report needs."""
    wanted = _wanted(settings)
    return {name: kind for name, kind in kinds.items() if not settings.columns.get(name) and name not in wanted}


def told_by_names(schema: TableSchema, carried: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the kinds of learned columns whose names alone say that they identify somebody.

    Args:
        carried: the own names of columns that are carried for other rows.
    """
    found = {c.name: recognition.by_name(carried.get(c.name, c.name), c.arrow_type) for c in schema.learned}
    return {name: kind.name for name, kind in found.items() if kind is not None}


def told_by_profile(
    schema: TableSchema,
    profile: TableProfile,
    hints: Mapping[str, str],
    carried: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the kinds of learned columns that a released profile shows to identify somebody.

    Args:
        hints: the kinds of columns whose cells do so if they hardly repeat.
        carried: the own names of columns that are carried for other rows.
    """
    own = {c.name: replace(c, name=carried.get(c.name, c.name)) for c in schema.learned}
    found = {
        c.name: recognition.by_profile(own[c.name], profile[c.name], profile.rows, hints.get(c.name))
        for c in schema.learned
        if c.base is None and not c.kind.composed
    }
    return {name: kind.name for name, kind in found.items() if kind is not None}


def recognised(settings: ReleaseSettings, schema: TableSchema) -> list[Column]:
    """Return the columns that are made anew though nobody declared that they are."""
    unit = settings.privacy_unit.column
    return [c for c in schema.published if c.kind.regenerated and not settings.columns.get(c.name) and c.name != unit]


def unit_sentence(settings: ReleaseSettings, names: Iterable[str]) -> str:
    """Say whom a row as unit does not protect, if nobody chose that unit and a column's name alone names people.

    Whether ids repeat is a fact about rows, so it is not asked; empty if there is nothing to say.
    """
    chosen = settings.privacy == "none" or "unit" in settings.model_fields_set
    found = [] if chosen else [name for name in names if recognition.names_a_unit(name)]
    if not found:
        return ""
    return (
        f"The privacy unit is a row, so rows of one {found[0]} are protected one by one. unit: {found[0]} (on the command "
        f"line --unit {found[0]}) protects all rows of a person together, and takes an account of that unit. If nobody has "
        f"several rows, say so: unit: row (--unit row)."
    )


def may_hang(settings: ReleaseSettings, schema: TableSchema) -> frozenset[str]:
    """Return the dates, and what may be parts of them, of which a person left open whether they hang on another column."""
    partitions = settings.partitions
    declared = {n: facts for n, facts in settings.columns.items() if facts and any(fact in facts for fact in HANGS)}
    bases = {facts.get(fact) for facts in declared.values() for fact in HANGS}
    names = {*ordered_dates.dates(schema), *ordered_dates.parts(schema)}
    return frozenset(names - {*declared, *bases, partitions and partitions.column})


def dates_sentence(settings: ReleaseSettings, schema: TableSchema) -> str:
    """Say which dates were found to hang on others, and how to have them modelled by themselves; empty if none was."""
    free = may_hang(settings, schema)
    found = [c for c in schema if c.base is not None and c.name in free]
    if not found:
        return ""
    facts = ", ".join(f"{fact}: {value}" for fact, value in hanging_facts(found[0]).items())
    return (
        f"{HANGING}: {', '.join(map(_hanging, found))}. To model one by itself, declare after: false for it under columns; "
        f"to keep it as it is, declare what was found, as in columns: {{{found[0].name}: {{{facts}}}}}."
    )


def formulas_sentences(found: Sequence[str]) -> list[str]:
    """Say which numbers were found to be given by others, and how to have them modelled by themselves."""
    if not found:
        return []
    return [
        f"{COMPUTED}: {'; '.join(found)}. To keep them so whatever is measured, declare them as rules; to have "
        f"each number drawn as it was learnt, set find_formulas: false."
    ]


def together_sentence(pairs: Sequence[str]) -> str:
    """Say of which two columns each the codes of one were found to give those of the other."""
    return (
        f"Noisy counts tell that codes of one of these two columns give those of the other, so that drawn rows keep them "
        f"together: {'; '.join(pairs)}."
    )


def alike_sentence(pairs: Sequence[str]) -> str:
    """Say which columns may have the very values of other rows."""
    return (
        f"By released names, types and values, these columns may have the value of a row above or beside theirs, and do as "
        f"often as was learnt: {'; '.join(pairs)}."
    )


def hanging_facts(column: Column) -> dict[str, str]:
    """Return on which column one hangs, and how, as a person declares it."""
    return {fact: str(said) for fact in (*HANGS, "part") if (said := getattr(column, fact)) is not None}


def _hanging(column: Column) -> str:
    said = "never before" if column.after is not None else f"the {column.part} of" if column.part else "the same as"
    return f"{column.name} is {said} {column.base}"


def regenerated_sentence(settings: ReleaseSettings, schema: TableSchema) -> str:
    """Say which columns are made anew, and how to have them modelled; empty if none was recognised."""
    columns = recognised(settings, schema)
    if not columns:
        return ""
    names = ", ".join(f"{c.name} ({c.kind})" if c.kind.name != c.name else c.name for c in columns)
    return (
        f"{REGENERATED}: {names}. To model one, declare its kind under columns, "
        f"such as kind: integer or kind: category."
    )


def warnings_about(schema: TableSchema, profile: TableProfile, read: Collection[str]) -> list[str]:
    """Say of which columns hardly anything but nulls is drawn, or mostly other values than there were, and what to do.

    Args:
        read: the columns whose values are cells of a source: a distance to the next row is null where none has a next one.
    """
    columns = [(c, profile[modelled_name(c)]) for c in schema.learned if c.same_as is None]
    hidden = [c for c, released in columns if released.hidden]
    texts = _listed(c for c in hidden if c.kind.categorical)
    numbers = _listed(c for c in hidden if c.kind.numeric)
    empty = _listed(c for c, released in columns if released.null_rate >= EMPTY and c.name in read)
    replaced = ", ".join(_released(c, released) for c, released in columns if _is_replaced(c, released))
    said = {
        f"Text of which no value is frequent enough to be released, so that only nulls are drawn: {texts}. Declare what it "
        f"is, such as kind: date, kind: identifier with a pattern, kind: name, kind: text with a max_length, or kind: "
        f"excluded. Where it repeats, declare its values, spend more epsilon, or name a source with more rows.": texts,
        f"Rows are too few for this much noise to tell where values lie, so that only nulls are drawn: {numbers}. Declare "
        f"their ends, as lower and upper; spend more epsilon; or name a source with more rows.": numbers,
        f"Nulls, and hardly anything else: {empty}. If the source has values there, they are not read as what was "
        f"declared: dates as text are read as ISO writes them, or by a declared format, such as format: '%d.%m.%Y'.": empty,
        f"Most values of these columns are too rare to be released, and drawn rows have more frequent ones in their place, "
        f"which come out too often: {replaced}. Name all values where they are public, as categories: {{from: FILE}}; "
        f"have a label stand for the rare ones, other: draw; have words written, kind: text with a max_length; or leave "
        f"the column out, kind: excluded.": replaced,
    }
    return [sentence for sentence, names in said.items() if names]


def _is_replaced(column: Column, released: ColumnProfile) -> bool:
    """Say whether most values of a column are too rare to be released, and released ones are drawn in their place."""
    drops = column.kind.categorical and column.other is OtherPolicy.DROP
    return drops and bool(released.values) and released.other >= MOSTLY * (1 - released.null_rate)


def _released(column: Column, released: ColumnProfile) -> str:
    share = released.other / (1 - released.null_rate)
    return f"{column.name} ({share * 100:.0f} % of the values; {len(released.values):,} are released)"


def _listed(columns: Iterable[Column]) -> str:
    return ", ".join(c.name for c in columns)


def text_sentence(settings: ReleaseSettings, storage: Mapping[str, pa.DataType | None]) -> str:
    """Say what becomes of text columns that nobody declared anything about, from public types; empty if there is none."""
    texts = {name: kind for name, kind in storage.items() if kind is not None and is_text(kind)}
    plain = [n for n, kind in texts.items() if not pa.types.is_dictionary(kind) and not recognition.by_name(n, kind)]
    names = [n for n in plain if not settings.columns.get(n) and n != settings.privacy_unit.column]
    if not names:
        return ""
    return (
        f"Text is learnt as categories: {', '.join(names)}. Only values that many rows share are drawn, so text that "
        f"hardly repeats comes out empty. Of dates and numbers that are stored as text, declare the kind, as in "
        f"columns={{{names[-1]!r}: {{'kind': 'date'}}}}, or convert them first, as by pandas.to_datetime."
    )


def kept_sentence(settings: ReleaseSettings, schema: TableSchema) -> str:
    """Say which columns look like identifiers and are modelled, since the profile that is used has them so."""
    names = list(undeclared(settings, told_by_names(schema)))
    if not names:
        return ""
    return (
        f"Modelled as before, though their names are those of identifiers: {', '.join(names)}. The profile that is reused "
        f"has them so; a new one has them regenerated: dp-synth profile renew."
    )


def sentences(settings: ReleaseSettings, schema: TableSchema) -> list[str]:
    """Say which of a table's columns were recognised, from public and released facts, and what became of them."""
    said = (
        regenerated_sentence(settings, schema),
        dates_sentence(settings, schema),
        kept_sentence(settings, schema),
    )
    return [sentence for sentence in said if sentence]


def _wanted(settings: ReleaseSettings) -> set[str]:
    """Return the columns that rules, reports and other columns speak of, which are modelled."""
    validation = settings.validation
    declared = [facts for facts in settings.columns.values() if isinstance(facts, Mapping)]
    bases = {str(facts[fact]) for facts in declared for fact in HANGS if facts.get(fact)}
    return {*settings.modelled, *bases, *validation.sensitive, *filter(None, (validation.predict,))}
