"""Refuses names of columns that a table does not have, by names alone: they are public, and no row is read for them."""

from __future__ import annotations

from collections.abc import Sequence

from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular import condition, constraints, declare, offsets
from dp_synth_pipeline.tabular.sources.source_validation import check_filter_names
from dp_synth_pipeline.validation.figures import check_declared


def check_header(settings: ReleaseSettings, names: Sequence[str]) -> None:
    """Refuse of a table's settings what a run would refuse by the names of the source's columns.

    Args:
        names: what the source's columns are called.

    Raises:
        InvalidInput: naming the column, and one that is called alike.
    """
    declare.check_names(names, settings.columns, settings.privacy_unit.column, settings.columns_complete)
    for name, facts in settings.columns.items():
        for fact in offsets.HANGS:
            if facts and facts.get(fact):
                offsets.check_base(name, fact, facts[fact], names)
    if settings.filter is not None:
        check_filter_names(settings.filter, names)
    if settings.partitions is not None:
        condition.own_name([settings.partitions.column], names, "partitions: column")
    published = [name for name in names if (settings.columns.get(name) or {}).get("kind") != "excluded"]
    check(settings, published, published)


def check(settings: ReleaseSettings, published: Sequence[str], compared: Sequence[str]) -> None:
    """Refuse columns that rules, reports and conditions speak of, and that the synthetic table does not have.

    Args:
        published: the names of its columns.
        compared: those of them that reports look at.

    Raises:
        InvalidInput: naming the column, and where it stands.
    """
    check_declared(compared, settings.validation.predict, settings.validation.sensitive)
    constraints.check_names(settings.validation.parsed_rules, dict.fromkeys(published), complete=True)
    for asked in (settings.generation, *settings.generation.outputs.values()):
        if asked.where is not None:
            condition.check(asked.where, published)
        for name in asked.share or ():
            condition.own_name([name], published, "share")
