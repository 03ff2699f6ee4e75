"""The sections of a table's YAML: unit, partitions, new data, training, validation, and who declared a source public."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any, Literal

import dagster as dg
from pydantic import Field, field_validator, model_validator

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.spec import MAX_EPOCHS, GeneratorSpec, Purpose
from dp_synth_pipeline.tabular.constraints.parse import Rule, parse


class PublicSettings(dg.Model, dg.Resolvable):
    """Who declared a source public, and why: the record of a release without a privacy guarantee."""

    why: str = Field(description="Why everybody may see each row of the source, such as its licence.")
    by: str = Field(description="The person who says so.")

    @field_validator("why", "by")
    @classmethod
    def _said(cls, value: str) -> str:
        if not value.strip():
            raise InvalidInput("public: expected who declared the data public (by) and the reason (why), got a blank.")
        return " ".join(value.split())


class UnitSettings(dg.Model, dg.Resolvable):
    """The privacy unit, when one person has several rows."""

    column: str
    max_rows: int = Field(
        default=4, ge=1, le=10**6, description="Rows kept per unit, chosen at random; more cost more noise."
    )


class PartitionSettings(dg.Model, dg.Resolvable):
    """The blocks that a table is refreshed in: the windows of a date column, or the listed values of a column."""

    column: str = Field(
        description="Column whose value puts a row into its block; rows with a null there are not read."
    )
    cadence: Literal["daily", "weekly", "monthly"] | None = Field(
        default=None, description="Windows of a date or time column, in UTC; a week begins on Monday."
    )
    start: str | None = Field(default=None, description="With cadence: the first day, such as 2026-01-01.")
    values: list[str] | None = Field(
        default=None, description="Instead of cadence: one block per listed value. Public."
    )
    units_span: bool | None = Field(
        default=None,
        description="With a column as unit: true: a unit may have rows in several blocks, so every partition is charged "
        "to the account as a whole; false: you declare that each unit has rows in one block only.",
    )
    backfill: Literal["multi_run", "single_run"] = Field(
        default="multi_run", description="One release per block, or one release over all blocks of a backfill."
    )

    @field_validator("start", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return value.isoformat() if isinstance(value, date) else value

    @model_validator(mode="after")
    def _one_way(self) -> PartitionSettings:
        form = "{column: visit_date, cadence: daily, start: 2026-01-01} or {column: region, values: [north, south]}"
        if (self.cadence is None) == (self.values is None) or (self.cadence is None) != (self.start is None):
            raise InvalidInput(f"partitions: expected {form}, got another mixture of cadence, start and values.")
        try:
            date.fromisoformat(self.start or "2026-01-01")
        except ValueError:
            raise InvalidInput(f"partitions: start is a day such as 2026-01-01, got {self.start!r}.") from None
        return self

    @field_validator("values")
    @classmethod
    def _told_apart(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and (
            not value or len({folded(v) for v in value}) < len(value) or not all(map(folded, value))
        ):
            raise InvalidInput(
                "partitions: values are a list of texts, none blank, that differ in more than case, blanks and punctuation: "
                "each names a block, a folder and a table."
            )
        return value


def folded(value: str) -> str:
    """Return a value as names spell it: lower case, runs of anything but letters, digits and dots as one underscore.

    Example:
        >>> folded("New York ")
        'new_york'
    """
    return re.sub(r"[^\w.]+", "_", value.strip().casefold()).strip("._")


class NewDataSettings(dg.Model, dg.Resolvable):
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


def duration(text: str, what: str) -> timedelta:
    """Read hours, days or weeks.

    Example:
        >>> duration("8d", "fresh_for")
        datetime.timedelta(days=8)
    """
    found = re.fullmatch(r"([1-9]\d{0,3})([hdw])", text.strip().lower())
    if found is None:
        raise InvalidInput(f"{what}: expected hours, days or weeks, such as 12h, 8d or 4w; got {text!r}.")
    return timedelta(**{{"h": "hours", "d": "days", "w": "weeks"}[found[2]]: int(found[1])})


class TrainingSettings(dg.Model, dg.Resolvable):
    """How the generator learns; every number is public."""

    purpose: Literal["testing", "analytics", "machine_learning"] = "analytics"
    max_epochs: int | None = Field(default=None, ge=1, description="Overrides the purpose's 15, 30 or 60.")
    method: Literal["hybrid", "autoregressive", "marginals"] = "hybrid"
    start: Literal["marginals", "random", "mean_var", "warm_start", "public"] = "marginals"
    public: str | None = Field(
        default=None, description="With start: public: a table like the source, declared public."
    )
    settings: dict[str, Any] = Field(default_factory=dict, description="Any field of model.spec.GeneratorSpec.")

    def spec(self) -> GeneratorSpec:
        """The network and optimiser settings."""
        epochs = self.max_epochs or MAX_EPOCHS[Purpose(self.purpose)]
        return GeneratorSpec(method=self.method, start=self.start, max_epochs=epochs).with_(**self.settings)


MOST_REPORT = 0.25
"""Part of epsilon that charged figures may take: more would only starve what they judge."""


class ValidationSettings(dg.Model, dg.Resolvable):
    """What is checked beside our own expectations, and what the reports look at; all of it public."""

    suite: str | None = Field(
        default=None, description="Great Expectations suite of your own (JSON or YAML), run beside ours."
    )
    rules: list[str] = Field(
        default_factory=list,
        description="Rules across columns: 'start <= end', 'total = a + b', 'country -> currency'.",
    )
    enforce_rules: bool = Field(default=True, description="Also make generation keep to `rules`.")
    severity: dict[str, Literal["warn", "block"]] = Field(
        default_factory=dict,
        description="Check name, or a pattern such as 'age__*', to warn or block; the last that matches wins.",
    )
    one_run_audit: bool = Field(
        default=False, description="Add job TABLE_audit: a weekly attack on a training of a made-up table; free."
    )
    predict: str | None = Field(default=None, description="Column that models predict, for the report.")
    sensitive: list[str] = Field(
        default_factory=list, description="Columns whose groups the report compares, and that attacks try to guess."
    )
    holdout: str | None = Field(
        default=None,
        repr=False,  # it may hold a password
        description="Rows of the same population, with the source's columns, that were never learnt from: the restricted "
        "report tells from them whether synthetic rows copy. Real rows: read like the source, and not charged, since no "
        "result leaves the restricted folder.",
    )
    report_epsilon: float | None = Field(
        default=None, gt=0, description="Part of `epsilon` for headline figures that may be published."
    )

    evidence_checks: bool = Field(
        default=False,
        description="Also tell Dagster whether distances and attacks on the holdout warned: un-noised, a bit each.",
    )

    @field_validator("rules")
    @classmethod
    def _rules(cls, value: list[str]) -> list[str]:
        for text in value:
            parse(text)
        return value

    @model_validator(mode="after")
    def _evidence(self) -> ValidationSettings:
        if self.evidence_checks and self.holdout is None:
            raise InvalidInput("validation: evidence_checks: they compare with a holdout; write holdout: FILE too.")
        return self

    def check_charge(self, epsilon: float | None, plan: str | None) -> None:
        """Refuse a `report_epsilon` that nothing could pay for.

        Args:
            epsilon: what a refresh may cost; None if nothing is charged.
            plan: the declared plan that says what runs, if any.

        Raises:
            InvalidInput: if nothing is charged, a plan says what runs, or it is more than a quarter of epsilon.
        """
        if self.report_epsilon is None:
            return
        if epsilon is None:
            raise InvalidInput("validation: report_epsilon: with privacy: none nothing is charged; remove it.")
        if plan is not None:
            raise InvalidInput(
                "validation: report_epsilon: a declared plan says what runs, and these figures are not in it; remove one."
            )
        if self.report_epsilon > MOST_REPORT * epsilon:
            raise InvalidInput(
                f"validation: report_epsilon: it is a part of epsilon = {epsilon:g}, at most a quarter; got "
                f"{self.report_epsilon:g}. Little is plenty: 0.05 at 50,000 rows errs by about 0.001."
            )

    @property
    def parsed_rules(self) -> list[Rule]:
        """The rules, read."""
        return [parse(text) for text in self.rules]
