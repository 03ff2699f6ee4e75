"""Defines what a person writes about one table: its release, and when, where and for whom it is refreshed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import dagster as dg
from pydantic import Field, ValidationInfo, field_validator, model_validator

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration import automation as triggers
from dp_synth_pipeline.orchestration.dagster_internals import CheckError, is_valid_cron_string
from dp_synth_pipeline.orchestration.executors.compute import ComputeSettings
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.section import Section
from dp_synth_pipeline.synthesis.settings import ReleaseSettings


def _job_name(table: str) -> None:
    if not re.fullmatch(r"\w+", table, re.ASCII):
        raise InvalidInput(f"expected letters, digits and underscores, since Dagster names jobs by it; got {table!r}.")


DAGSTERS: dict[str, Callable[[Any], Any]] = {
    "table": _job_name,
    "database": _job_name,
    "group": lambda name: dg.AssetSpec("any", group_name=name),
    "owners": lambda names: dg.AssetSpec("any", owners=names),
    "tags": lambda tags: dg.AssetSpec("any", tags=tags),
}
"""What of Dagster judges a field whose rules are its own."""


class NewDataSettings(Section):
    """A sensor that asks for a refresh when a file was written anew; off until a person starts it."""

    watermark: str | None = Field(
        default=None,
        description="File that whoever loads the source writes last; by default the source, if it is a file.",
    )
    minutes: int = Field(default=15, ge=1, description="How often to look.")
    at_most_every: str = Field(default="1d", description="At most one refresh in so long: 12h, 7d, 4w.")

    @field_validator("at_most_every")
    @classmethod
    def _lasting(cls, value: str) -> str:
        duration(value, "on_new_data: at_most_every")
        return value


class ProjectSettings(Section):
    """When, where and for whom something of a project is refreshed."""

    compute: ComputeSettings | None = Field(
        default=None, description="Per stage, where it runs: {target: local | ray | k8s, gpus, cpus, memory_gib}."
    )
    schedule: str | None = Field(
        default=None, description="Cron of the refresh in UTC, such as 0 3 * * 1; off until started."
    )
    fresh_for: str | None = Field(default=None, description="How long a published table counts as fresh: 36h, 8d, 5w.")
    group: str | None = Field(default=None, description="Dagster's asset group; by default the table's name.")
    owners: list[str] = Field(default_factory=list, description="Who answers for the assets: a mail, or team:NAME.")
    tags: dict[str, str] = Field(default_factory=dict, description="Dagster tags of the assets.")

    @field_validator("table", "database", "group", "owners", "tags", check_fields=False)
    @classmethod
    def _as_dagster_takes_it(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and info.field_name is not None:
            try:
                DAGSTERS[info.field_name](value)
            except (dg.DagsterError, CheckError, InvalidInput) as error:
                raise InvalidInput(f"{info.field_name}: {str(error).splitlines()[0]}") from None
        return value

    @field_validator("schedule")
    @classmethod
    def _schedule(cls, value: str | None) -> str | None:
        if value is not None and not is_valid_cron_string(value):
            raise InvalidInput(f"schedule: expected a cron such as '0 3 * * 1' (Mondays at three), got {value!r}.")
        return value

    @field_validator("fresh_for")
    @classmethod
    def _fresh_for(cls, value: str | None) -> str | None:
        if value is not None:
            duration(value, "fresh_for")
        return value


class TableSettings(ProjectSettings, ReleaseSettings):
    """One table of a project: what its releases ask for, and when, where and for whom it is refreshed."""

    on_new_data: NewDataSettings | None = Field(
        default=None,
        description="Sensor that asks for a refresh when a file is new: {minutes, at_most_every, watermark}.",
    )
    automation: dict[str, str] = Field(
        default_factory=dict,
        description="For synthetic, published, quality_report, release_card: eager, on_missing or a cron.",
    )

    @field_validator("automation")
    @classmethod
    def _automation(cls, value: dict[str, str]) -> dict[str, str]:
        return triggers.check(value)

    @property
    def asked(self) -> ReleaseSettings:
        """What the ledger is asked for."""
        return self

    @property
    def source_names(self) -> list[str]:
        """The assets that stand for what is read."""
        return ["source"]

    @model_validator(mode="after")
    def _known_columns(self) -> TableSettings:
        """Refuse names of columns that a complete declaration lacks."""
        cut, validation = self.partitions, self.validation
        named = [
            ("unit", self.privacy_unit.column),
            ("partitions", cut and cut.column),
            ("validation.predict", validation.predict),
            *(("validation.sensitive", name) for name in validation.sensitive),
        ]
        unknown = [(field, name) for field, name in named if name and name not in self.columns]
        if self.columns_complete and unknown:
            field, name = unknown[0]
            raise InvalidInput(f"{field}: column {name!r} is not among `columns`, which columns_complete says are all.")
        return self

    @model_validator(mode="after")
    def _watched(self) -> TableSettings:
        """Refuse a sensor that has no file to look at, or that would refresh all partitions at once."""
        if self.on_new_data is None:
            return self
        if self.partitions is not None:
            raise InvalidInput(
                "on_new_data: a partition is refreshed when its window is over; write a `schedule` instead."
            )
        one_file = "://" not in self.source and Path(self.source).suffix and not any(c in self.source for c in "*?[")
        if self.on_new_data.watermark is None and not one_file:
            raise InvalidInput(
                "on_new_data: this source is not one file, and its rows are not looked at for news: that would be a look "
                "nobody paid for. Name a file that whoever loads it writes last: watermark: /lake/visits/_SUCCESS."
            )
        return self


class RelatedTablesSettings(ProjectSettings, DatabaseSettings):
    """Related tables of a project: what their releases ask for, and when, where and for whom they are refreshed."""

    @property
    def asked(self) -> ReleaseSettings:
        """What the ledger is asked for: all tables cost as much as one that is charged for them."""
        return self.whole

    @property
    def source_names(self) -> list[str]:
        """The assets that stand for what is read."""
        return [f"{name}/source" for name, table in self.tables.items() if table.source]

    @property
    def privacy_unit(self) -> PrivacyUnit:
        """Whose presence is hidden: whoever one row of the root is about."""
        return PrivacyUnit(self.relations.root.key, 1)

    privacy: ClassVar[str] = "dp"
    public: ClassVar[None] = None
    plan: ClassVar[None] = None
    partitions: ClassVar[None] = None
    automation: ClassVar[dict[str, str]] = {}
    """What a single table may ask for, and related ones cannot yet."""


AnySettings = TableSettings | RelatedTablesSettings
"""What a project refreshes: one table, or related ones together."""


def is_independent(settings: AnySettings) -> bool:
    """Return whether a schedule refreshes without use of what was released before, which nobody said it should."""
    if settings.schedule is None or settings.partitions is not None or "refresh" in settings.model_fields_set:
        return False
    return settings.training.tune is None and not settings.remembering_conflict


def duration(text: str, field_name: str) -> timedelta:
    """Read hours, days or weeks.

    Example:
        >>> duration("8d", "fresh_for")
        datetime.timedelta(days=8)
    """
    match = re.fullmatch(r"([1-9]\d{0,3})([hdw])", text.strip().lower())
    if match is None:
        raise InvalidInput(f"{field_name}: expected hours, days or weeks, such as 12h, 8d or 4w; got {text!r}.")
    return timedelta(**{{"h": "hours", "d": "days", "w": "weeks"}[match[2]]: int(match[1])})
