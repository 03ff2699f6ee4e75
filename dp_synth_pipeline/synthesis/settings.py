"""Defines what one release asks for: the fields that a person writes, their defaults and their meaning, in one place.

Schedules, owners and machines are no part of a release: they stay with whatever runs it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from dp_synth_pipeline import __version__
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import LEAST_RELEASE, MOST_RELEASE, PrivacyUnit, check_delta, check_release
from dp_synth_pipeline.synthesis.section import Section, told
from dp_synth_pipeline.synthesis.training_settings import SEEDS, TrainingSettings
from dp_synth_pipeline.tabular import declarable
from dp_synth_pipeline.tabular.constraints.parse import Rule, parse
from dp_synth_pipeline.tabular.kinds.surrogates import check_locale
from dp_synth_pipeline.tabular.sources import public_list
from dp_synth_pipeline.tabular.sources.place import same_place
from dp_synth_pipeline.tabular.sources.warehouse import engines, predicate
from dp_synth_pipeline.tabular.sources.warehouse.address import shown
from dp_synth_pipeline.targets import sink

DEFAULT_DELTA = 1e-5
"""The delta of an account opened without one."""


SUFFIX = "-schema"
"""Ends the name under which the ledger and the restricted store keep the release of a table's schema."""

PLACE = "{partition}"
"""Where a target names its partition."""

MOST_ROWS = 10**9
"""Synthetic rows of one release, at most: more would outlast any disk, and fail after all was paid."""


class Charge(NamedTuple):
    """Which account pays for a refresh, and at most how much."""

    account: str
    epsilon: float


FREE = frozenset(
    {
        "description",
        "contact",
        "intended_use",
        "target",
        "rows",
        "generation",
        "retention_days",
        "public",
        "validation",
        "locale",
    }
)
"""Fields that change nothing of what a release does to private data."""


class PublicSettings(Section):
    """Who declared a source public, and why: the record of a release without a privacy guarantee."""

    why: str = Field(description="Why everybody may see each row of the source, such as its licence.")
    by: str = Field(description="The person who says so.")

    @field_validator("why", "by")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise InvalidInput("public: expected who declared the data public (by) and the reason (why), got a blank.")
        return " ".join(value.split())


class UnitSettings(Section):
    """The privacy unit, when one person has several rows."""

    column: str = Field(
        description="Column that names a person: all rows with one value of it are protected together.",
        json_schema_extra=told(
            "A row as unit protects one visit, and not the patient.", "NIST SP 800-226; docs/choosing.md", "a column"
        ),
    )
    max_rows: int = Field(
        default=4,
        ge=1,
        le=10**6,
        description="Rows kept per unit, chosen at random; more cost more noise.",
        json_schema_extra=told(
            "The noise of a histogram grows with it; too few leave out rows of the busiest.", "docs/choosing.md"
        ),
    )


class PartitionSettings(Section):
    """The blocks that a table is refreshed in: the windows of a date column, or the listed values of a column."""

    column: str = Field(
        description="Column whose value puts a row into its block; rows with a null there are not read."
    )
    cadence: Literal["daily", "weekly", "monthly"] | None = Field(
        default=None, description="Windows of a date or time column, in UTC; a week begins on Monday."
    )
    start: str | None = Field(default=None, description="With cadence: the first day, such as 2026-01-01.")
    windows: int | None = Field(
        default=None,
        ge=2,
        description="With cadence: how many windows a refresh covers, that of its partition and those before it; one "
        "without it. A release is charged to each block that shares a day with any of them.",
    )
    blocks: Literal["daily", "weekly", "monthly"] | None = Field(
        default=None,
        description="With cadence: how the account's blocks are cut, if in another way than these windows. A release is "
        "charged to each block that shares a day with its windows.",
    )
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
        if self.blocks is not None and self.cadence is None:
            raise InvalidInput("partitions: blocks says how windows of time are charged, and needs a cadence.")
        if self.windows is not None and self.cadence is None:
            raise InvalidInput("partitions: windows says how many windows of time are covered, and needs a cadence.")
        try:
            date.fromisoformat(self.start or "2026-01-01")
        except ValueError:
            raise InvalidInput(f"partitions: start is a day such as 2026-01-01, got {self.start!r}.") from None
        return self

    @property
    def cut(self) -> str:
        """How the account's blocks are cut: the windows of time that each holds, or `value`."""
        return self.blocks or self.cadence or "value"

    @property
    def one_block(self) -> bool:
        """Whether what a partition covers is one block of the account, and no other partition's."""
        return self.windows is None and self.cut == (self.cadence or "value")

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


class RefreshSettings(Section):
    """What a refresh takes over from the releases before it; all of that was released, so it is free."""

    remember: bool = Field(
        default=False,
        description="Combine the noisy counts of each refresh with those of the same account's earlier releases of this "
        "table, and go on from the last one's network instead of training one.",
    )
    epsilon: float | None = Field(
        default=None, description="With remember: the most that a refresh may cost that goes on so; default: `epsilon`."
    )

    drift_at_most: float = Field(
        default=0.05,
        gt=0,
        le=1,
        description="With remember: the check `drift` fails if the noisy counts moved further than this since the last "
        "release, as a mean total variation distance of pairs of columns.",
    )

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, value: float | None) -> float | None:
        if value is not None:
            check_release(value)
        return value

    @model_validator(mode="after")
    def _remembering(self) -> RefreshSettings:
        if self.epsilon is not None and not self.remember:
            raise InvalidInput("refresh: epsilon: it is what a refresh costs that remembers; write remember: true too.")
        return self


MOST_REPORT = 0.25
"""Part of epsilon that charged figures may take: more would only starve what they judge."""


class ValidationSettings(Section):
    """What is checked beside our own expectations, and what the reports look at; all of it public."""

    suite: str | None = Field(
        default=None, description="Great Expectations suite of your own (JSON or YAML), run beside ours."
    )
    rules: list[str] = Field(
        default_factory=list,
        description="Rules across columns: 'start <= end', 'total = a + b', 'total = price * count', 'country -> currency'.",
    )
    enforce_rules: bool = Field(default=True, description="Also make generation keep to `rules`.")
    find_formulas: bool = Field(
        default=True,
        description="Find by noisy counts which numbers are a multiple of another one, or the sum, product or quotient of "
        "two others, in their row, and make generation keep to that as to `rules`. It takes at most 4 % of the squared "
        "signal, and nothing where rows are too few to tell.",
    )
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
        default=None,
        gt=0,
        description="Part of `epsilon` for headline figures that may be published.",
        json_schema_extra=told(
            "What it takes, learning lacks; 0.05 at 50,000 rows errs by about 0.001.",
            "`validation.dp_metrics`",
            "above 0, at most a quarter of `epsilon`",
        ),
    )
    at_least: Literal["excellent", "good", "fair"] | None = Field(
        default=None,
        description="Keep a table from being published whose charged figures do not show that it is so good; needs "
        "`report_epsilon`, or privacy: none.",
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
        """Refuse a `report_epsilon` that nothing could pay for, and a gate that would read what nobody paid for.

        Args:
            epsilon: what a refresh may cost; None if nothing is charged.
            plan: the declared plan that says what runs, if any.

        Raises:
            InvalidInput: if nothing is charged, a plan says what runs, or it is more than a quarter of epsilon; or if
                `at_least` has no charged figures to read.
        """
        if self.at_least is not None and self.report_epsilon is None and epsilon is not None:
            raise InvalidInput(
                "validation: at_least: whether a table is published is a fact that leaves, so it may not hang on the "
                "restricted report, which is computed on real rows without noise: that would tell a bit of them for free. "
                "Charge the figures that decide: write report_epsilon: 0.05 too."
            )
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
    def enforced_rules(self) -> list[str]:
        """The rules that generation keeps to."""
        return list(self.rules) if self.enforce_rules else []

    @property
    def parsed_rules(self) -> list[Rule]:
        """The rules, read."""
        return [parse(text) for text in self.rules]


class DrawSettings(Section):
    """What is drawn from a generator: free, and public, so it may be changed at any time."""

    rows: int | None = Field(default=None, ge=1, le=MOST_ROWS, description="Rows; by default the noisy count.")
    where: str | dict[str, Any] | None = Field(
        default=None,
        description="Only rows that satisfy it: SQL such as \"y = 'yes' AND age >= 60\", or values by column, {y: yes}.",
    )
    share: dict[str, dict[Any, float]] | None = Field(
        default=None, description="Parts of the rows by value, {y: {yes: 0.5}}; values not named share the rest."
    )

    @model_validator(mode="before")
    @classmethod
    def _unseeded(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.keys() & SEEDS:
            raise InvalidInput(
                "generation: a release takes no seed; draw the same rows again with dp-synth sample TABLE --seed N."
            )
        return value

    @field_validator("where")
    @classmethod
    def _condition(cls, value: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
        if value is not None:
            from dp_synth_pipeline.tabular import condition  # brings DuckDB

            condition.check(value)
        return value

    @field_validator("share")
    @classmethod
    def _parts(cls, value: dict[str, dict[Any, float]] | None) -> dict[str, dict[Any, float]] | None:
        if value is not None:
            check_share(value)
        return value


class OutputSettings(DrawSettings):
    """One more table that is drawn from the generator, and published beside the first."""

    target: str = Field(repr=False, description="Where it goes, as in the table's own `target`.")


class GenerationSettings(DrawSettings):
    """The rows of the synthetic table, and further tables drawn from the same generator."""

    outputs: dict[str, OutputSettings] = Field(
        default_factory=dict,
        description="Further tables by name: {adults: {where: age >= 18, rows: 5000, target: adults.parquet}}.",
    )

    @field_validator("outputs")
    @classmethod
    def _named(cls, value: dict[str, OutputSettings]) -> dict[str, OutputSettings]:
        for name in value:
            if name != folded(name):
                raise InvalidInput(f"generation: outputs: a name has small letters, digits and _ alone; got {name!r}.")
        return value


def check_share(share: dict[str, dict[Any, float]]) -> None:
    """Refuse parts that are none, or that add up to more than all rows.

    Raises:
        InvalidInput: naming the column.
    """
    for column, parts in share.items():
        if not parts or any(not 0 <= part <= 1 for part in parts.values()) or sum(parts.values()) > 1 + 1e-9:
            raise InvalidInput(
                f"share: {column}: expected parts of all rows by value, each between 0 and 1 and at most 1 together, as in "
                f"{{y: {{yes: 0.5}}}}."
            )


def check_columns(columns: dict[str, Any], field_name: str) -> None:
    """Refuse declared facts that hold for no storage type.

    Raises:
        InvalidInput: with a line for each column, which begins with its name behind the field's.
    """
    found = declarable.mistakes(columns)
    if found:
        raise InvalidInput("\n".join(f"{field_name}.{name}: {mistake}" for name, mistake in found.items()))


def check_filter(text: str | None, source: str) -> str | None:
    """Return a declared filter as a person wrote it; what runs is written from it when the source is opened.

    Raises:
        InvalidInput: if it is no predicate of one row in the SQL of the source's engine.
    """
    if text is not None:
        predicate.check(text, engines.dialect(source))
    return None if text is None else text.strip()


class ReleaseSettings(Section):
    """What one release of one table asks for: where from, at what privacy cost, how, and where to."""

    table: str | None = Field(default=None, description="Name of the synthetic table; by default the folder's name.")
    source: str = Field(
        repr=False,  # it may hold a password
        description="CSV or Parquet path, duckdb:///file.duckdb?table=name, postgresql://user@host/db?table=schema.name, "
        "delta://folder, snowflake://..., bigquery://... or demo://name.",
    )
    filter: str | None = Field(
        default=None,
        description="SQL predicate of one row's columns, in the source's own SQL; only such rows are read. Public.",
    )
    privacy: Literal["dp", "none"] = Field(
        default="dp", description="none: no guarantee at all, for data that `public` declares public."
    )
    public: PublicSettings | None = Field(default=None, description="With privacy: none: {why, by}.")
    account: str | None = Field(
        default=None, description="The privacy account to charge; open it first: dp-synth ledger open."
    )
    epsilon: float | None = Field(
        default=None,
        description="The most that one refresh may cost.",
        json_schema_extra=told(
            "On Adult, 2-way distance is 0.144 at 0.1, 0.025 at 1, 0.015 at 2.51 and 0.013 at 8.",
            "Dwork et al. 2006; benchmarks, what each epsilon buys",
            f"{LEAST_RELEASE:g} to {MOST_RELEASE:g}",
        ),
    )
    plan: str | None = Field(
        default=None, description="A plan declared with dp-synth ledger plan; each refresh uses it once."
    )
    delta: float | Literal["auto"] = Field(
        default="auto",
        description="auto = 1 / N^1.2, capped at the account's.",
        json_schema_extra=told(
            "From 1e-5 to 1e-6 takes about 10 % more noise at ε = 2.5; δ times N should be far below 1.",
            "Dwork et al. 2006; docs/choosing.md",
            "`auto`, or strictly between 0 and 1",
        ),
    )
    unit: Literal["row"] | UnitSettings | str = Field(
        default="row", description="row, a column, or {column, max_rows}."
    )
    nulls: Literal["keep", "mean", "median", "mode", "drop"] = Field(
        default="keep", description="For columns that declare no policy."
    )
    other: Literal["drop", "draw"] = Field(
        default="drop", description="Values too rare to be named: never drawn, or drawn as the public label `other`."
    )
    columns: dict[str, Any] = Field(default_factory=dict, description="Declared facts per column: public, and free.")
    locale: str | None = Field(
        default=None, description="Language and country of made-up names and numbers, such as de_DE; by default en_US."
    )
    columns_complete: bool = Field(default=False, description="`columns` lists every column: one asset check each.")
    inferred_by: str | None = Field(
        default=None,
        description="The release that paid for `columns`, from `dp-synth schema infer`: the card counts it.",
    )
    population: int | None = Field(
        default=None,
        ge=2,
        le=10**11,
        description="Public number of units; else it is counted.",
        json_schema_extra=told("Saves the 2 % of ε that the count takes; it must be public.", "docs/spending.md"),
    )
    profile_share: Annotated[float, Field(gt=0, lt=1)] | Literal["auto"] = Field(
        default="auto",
        description="Part of the privacy cost spent on the profile; auto is 0.05 to 0.25, or up to 0.9 of few rows.",
        json_schema_extra=told(
            "More shows more names and finer ranges, and leaves less to marginals and training.",
            "docs/spending.md",
            "`auto`, or strictly between 0 and 1",
        ),
    )
    reuse_profile: bool = Field(
        default=True,
        description="Reuse the last profile, free, while its facts still match.",
        json_schema_extra=told("Off, each refresh measures and pays for a profile of its own.", "docs/spending.md"),
    )
    refresh: RefreshSettings = Field(
        default_factory=RefreshSettings, description="What a refresh takes over from the last: {remember, epsilon}."
    )
    retention_days: int | None = Field(
        default=None, ge=0, description="Days to keep the snapshot, at most until the next refresh; 0: this run only."
    )
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    validation: ValidationSettings = Field(default_factory=ValidationSettings)
    rows: int | None = Field(
        default=None, ge=1, le=MOST_ROWS, description="Rows to generate; by default the noisy count."
    )
    generation: GenerationSettings = Field(
        default_factory=GenerationSettings,
        description="What is drawn: {rows, where, share}, and further tables under `outputs`. Free.",
    )
    partitions: PartitionSettings | None = Field(
        default=None,
        description="Privacy blocks: {column: visit_date, cadence: daily, start: 2026-01-01} or {column, values: [..]}.",
    )
    target: list[str] | str | None = Field(
        default=None,
        repr=False,
        description=".parquet, .csv, duckdb:///..., postgresql://... and so on; one or several.",
    )
    description: str | None = Field(default=None, description="What the table is, for its card.")
    contact: str | None = Field(
        default=None,
        description="Whom the card names for questions: an address or a page. Default: the table's owners.",
    )
    intended_use: str | None = Field(default=None, description="What the synthetic rows are for, for the card.")

    _judged: frozenset[str] = PrivateAttr(frozenset())

    def judged(self, columns: Collection[str]) -> Self:
        """Return the settings of a table of whose columns rules across tables speak: these are modelled, as if declared."""
        found = self.model_copy()
        found._judged = frozenset(columns)
        return found

    @property
    def modelled(self) -> set[str]:
        """The columns of which rules speak, so that they are modelled whatever they are called."""
        return {*self._judged, *(name for rule in self.validation.parsed_rules for name in rule.columns)}

    @field_validator("columns")
    @classmethod
    def _columns(cls, value: dict[str, Any]) -> dict[str, Any]:
        check_columns(value, "columns")
        return value

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, value: float | None) -> float | None:
        if value is not None:
            check_release(value)
        return value

    @field_validator("delta")
    @classmethod
    def _delta(cls, value: float | str) -> float | str:
        if not isinstance(value, str):
            check_delta(value)
        return value

    @field_validator("locale")
    @classmethod
    def _locale(cls, value: str | None) -> str | None:
        return None if value is None else check_locale(value, "locale")

    @field_validator("filter")
    @classmethod
    def _filter(cls, value: str | None, info: ValidationInfo) -> str | None:
        return check_filter(value, info.data.get("source", ""))

    @model_validator(mode="after")
    def _one_guarantee(self) -> ReleaseSettings:
        if self.privacy == "none":
            self._declared_public()
        elif self.public is not None:
            raise InvalidInput(
                "public: declares the source public, so it goes with privacy: none; write that, or remove it."
            )
        elif self.account is None or self.epsilon is None:
            lacking = "account" if self.account is None else "epsilon"
            raise InvalidInput(
                f"{lacking}: it is missing. Name the account to charge (dp-synth ledger open NAME --epsilon E --delta D "
                f"opens one) and the epsilon that one refresh may cost; or, for data that you declare public, write "
                f"privacy: none and public: {{why: REASON, by: NAME}}."
            )
        return self

    def _declared_public(self) -> None:
        if self.public is None:
            raise InvalidInput(
                "privacy: none gives no guarantee, so it needs a person who declares the data public: write "
                "public: {why: REASON, by: NAME}, or account and epsilon for a guarantee."
            )
        charged_fields = {
            "account": self.account,
            "epsilon": self.epsilon,
            "plan": self.plan,
            "delta": None if self.delta == "auto" else self.delta,
            "noise_multiplier": self.training.noise_multiplier,
            "looks": self.training.looks,
        }
        if conflicts := [name for name, value in charged_fields.items() if value]:
            raise InvalidInput(
                f"{conflicts[0]}: with privacy: none nothing is charged and no noise is drawn; remove it, or write "
                f"privacy: dp for a guarantee."
            )

    @model_validator(mode="after")
    def _sound_training(self) -> ReleaseSettings:
        if self.training.start == "public" and self.training.public is None:
            raise InvalidInput(
                "training: start: public learns from a table that you declare public; name it: training: {public: FILE}."
            )
        if self.training.microbatch > 1 and self.privacy_unit.column is not None:
            raise InvalidInput(
                "training: microbatch above 1 needs rows as privacy units; leave it at 1, or unit at row."
            )
        return self

    @model_validator(mode="after")
    def _sound_study(self) -> ReleaseSettings:
        conflicts = {
            "privacy: none, under which nothing is noised": self.privacy == "none",
            "plan, which declares one training": self.plan is not None,
            "refresh: remember, which trains once": self.refresh.remember,
        }
        if self.training.tune is not None and (found := [name for name, is_so in conflicts.items() if is_so]):
            raise InvalidInput(f"training: tune: it does not go with {found[0]}; remove one of them.")
        return self

    @model_validator(mode="after")
    def _sound_refresh(self) -> ReleaseSettings:
        """Refuse to remember where there is nothing to go on from, or nothing to combine."""
        if self.refresh.remember and (conflict := self.remembering_conflict):
            field_name = "remember" if self.refresh.epsilon is None or self.partitions is None else "epsilon"
            raise InvalidInput(f"refresh: {field_name}: it does not go with {conflict}; remove one of them.")
        return self

    @property
    def remembering_conflict(self) -> str:
        """What of the other settings a refresh that remembers does not go with; empty if it goes with all of them."""
        spec = self.training.spec()
        conflicts = {
            "privacy: none": self.privacy == "none",
            "plan, which says what runs": self.plan is not None,
            "reuse_profile: false, since codes are the profile's": not self.reuse_profile,
            "training: method: autoregressive, which counts nothing": spec.method == "autoregressive",
            "training: rake: false, which uses no counts": not spec.rake,
            "kind: text, which is measured anew": bool(self.text_columns),
            "partitions, each of which asks for `epsilon`": self.refresh.epsilon is not None
            and self.partitions is not None,
        }
        return next((name for name, is_so in conflicts.items() if is_so), "")

    @model_validator(mode="after")
    def _spared_source(self) -> ReleaseSettings:
        every = [*self.targets, *(output.target for output in self.generation.outputs.values())]
        for target in every if self.source else ():  # a Python call names its source when it fits
            sink.check_spared(target, self.read)
        for number, target in enumerate(every):
            if any(same_place(target, other) for other in every[:number]):
                raise InvalidInput("target: two tables would be written to one place; name another for one of them.")
        if self.validation.holdout is not None and same_place(self.source, self.validation.holdout):
            raise InvalidInput(
                "validation: holdout: it is the source itself, whose rows are learnt from; name rows that never are."
            )
        if self.training.public is not None and same_place(self.source, self.training.public):
            raise InvalidInput(
                "training: public: it is the source itself, and learning from it free would undo its protection; name a "
                "table that is public."
            )
        public_list.check_public(self.columns, [self.source, self.validation.holdout or ""])
        return self

    @model_validator(mode="after")
    def _rows_once(self) -> ReleaseSettings:
        if self.rows is not None and self.generation.rows is not None:
            raise InvalidInput("generation: rows: `rows` of the table says so too; remove one of them.")
        return self

    @model_validator(mode="after")
    def _charged_figures(self) -> ReleaseSettings:
        least = min((e for e in (self.epsilon, self.refresh.epsilon) if e is not None), default=None)
        self.validation.check_charge(None if self.privacy == "none" else least, self.plan)
        return self

    @model_validator(mode="after")
    def _sound_blocks(self) -> ReleaseSettings:
        """Refuse partitions that would break the promise or overwrite one another."""
        every = [*self.targets, *(output.target for output in self.generation.outputs.values())]
        has_placeholder = [PLACE in target for target in every]
        if self.partitions is None:
            if any(has_placeholder):
                raise InvalidInput(f"target: {PLACE} needs `partitions`; add them, or name one table.")
            return self
        unit = self.privacy_unit.column
        if unit is not None and self.privacy == "dp" and self.partitions.units_span is None:
            raise InvalidInput(
                f"partitions: the privacy unit is {unit}, and one {unit} may have rows in several blocks; what each block "
                f"releases about them then adds up. Write units_span: true, and every partition is charged to the account "
                f"as a whole; or units_span: false, if you declare that each {unit} has rows in one block only."
            )
        if not all(has_placeholder):
            raise InvalidInput(
                f"target: partitions would overwrite one another; write {PLACE} into each target, as in "
                f"visits/visit_date={PLACE}/rows.parquet or duckdb:///warehouse.duckdb?table=synthetic.visits_{PLACE}."
            )
        return self

    @property
    def name(self) -> str:
        """The table's name as a Dagster asset prefix."""
        if self.table is None:
            raise InvalidInput("the table has no name; write `table: NAME`.")
        return self.table

    @property
    def charge(self) -> Charge:
        """Who pays, and how much at most; there is nobody under `privacy: none`."""
        if self.account is None or self.epsilon is None:
            raise InvalidInput("this table is declared public, so no account pays for it; write privacy: dp.")
        return Charge(self.account, self.epsilon)

    @property
    def privacy_unit(self) -> PrivacyUnit:
        """Whose presence is hidden."""
        if isinstance(self.unit, UnitSettings):
            return PrivacyUnit(self.unit.column, self.unit.max_rows)
        return PrivacyUnit() if self.unit == "row" else PrivacyUnit(self.unit, UnitSettings(column=self.unit).max_rows)

    @property
    def charges_blocks(self) -> bool:
        """Whether a release is paid from its blocks: a row lies in one; a unit of several rows does if a person says so."""
        cut = self.partitions
        if cut is None or self.privacy == "none" or self.plan is not None:
            return False  # a use of a plan is paid for by the account's own row, which counts on top of every block
        return cut.units_span is False or (cut.units_span is None and self.privacy_unit.column is None)

    @property
    def read(self) -> dict[str, str]:
        """What a refresh reads, by its role: no target may be any of it."""
        uris = {"source": self.source, "holdout": self.validation.holdout, "public table": self.training.public}
        lists = {f"categories of {name}": uri for name, uri in public_list.addresses(self.columns).items()}
        return {role: uri for role, uri in (uris | lists).items() if uri is not None}

    @property
    def targets(self) -> list[str]:
        """Where the synthetic table goes, beside the Parquet file in the store."""
        return [self.target] if isinstance(self.target, str) else list(self.target or [])

    @property
    def text_columns(self) -> list[str]:
        """The columns that are declared as texts; no other is one."""
        return [name for name, facts in self.columns.items() if (facts or {}).get("kind") == "text"]

    @property
    def note_columns(self) -> list[str]:
        """Those of them that a language model writes."""
        return [name for name in self.text_columns if self.columns[name].get("model") is not None]

    @property
    def tuned_columns(self) -> list[str]:
        """Those of them whose language model is fine-tuned, since it is asked nothing."""
        return [name for name in self.note_columns if self.columns[name].get("prompt") is None]

    @property
    def descriptions(self) -> dict[str, str]:
        """What a person wrote about columns, for readers: public, and no part of what is learnt."""
        return {name: facts["description"] for name, facts in self.columns.items() if "description" in (facts or {})}

    def terms(self) -> dict[str, Any]:
        """Return all that changes what a refresh does to private data: what a release is charged for, JSON-ready."""
        charged_fields = ReleaseSettings.model_fields.keys() - FREE
        facts = {"version": __version__, **self.model_dump(include=charged_fields, mode="json")}
        for name in self.descriptions:
            del facts["columns"][name]["description"]
        facts["source"] = shown(self.source)  # a new password is no new code, and a hash of a weak one can be guessed
        facts["training"] = self.training.terms() | {"public": shown(self.training.public or "") or None}
        facts["report_epsilon"] = (
            self.validation.report_epsilon
        )  # all else under `validation` looks at what is released
        return json.loads(json.dumps(facts, default=str))

    def code_version(self) -> str:
        """Hash of everything that changes what a refresh does to private data."""
        return terms_version(self.terms())


def terms_version(terms: dict[str, Any]) -> str:
    """Return the hash by which a release, in the ledger, knows the terms that it was reserved under."""
    return hashlib.sha256(json.dumps(terms, sort_keys=True).encode()).hexdigest()[:12]


def table_name(text: str) -> str:
    """Turn a file's stem into a name that Dagster and SQL accept.

    Example:
        >>> table_name("adult-train 2024")
        'adult_train_2024'
    """
    name = re.sub(r"\W+", "_", text).strip("_").lower() or "table"
    return f"t_{name}" if name[0].isdigit() else name
