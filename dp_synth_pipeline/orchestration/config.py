"""What a person writes about one table: the YAML's fields, their defaults and their meaning, in one place."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, Literal, NamedTuple

import dagster as dg
from dagster._utils.schedules import is_valid_cron_string
from pydantic import ConfigDict, Field, field_validator, model_validator

from dp_synth_pipeline import __version__
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration import automation as triggers
from dp_synth_pipeline.orchestration import partitions as blocks
from dp_synth_pipeline.orchestration.executors.compute import ComputeSettings
from dp_synth_pipeline.orchestration.sections import (
    NewDataSettings,
    PartitionSettings,
    PublicSettings,
    TrainingSettings,
    UnitSettings,
    ValidationSettings,
    duration,
)
from dp_synth_pipeline.privacy.budget import PrivacyUnit, check_delta, check_release
from dp_synth_pipeline.tabular.sources.warehouse import predicate
from dp_synth_pipeline.tabular.sources.warehouse.address import shown
from dp_synth_pipeline.tabular.targets import sink
from dp_synth_pipeline.tabular.targets.place import same_place

DEFAULT_DELTA = 1e-5
"""The delta of an account opened without one."""


SUFFIX = "-schema"
"""Ends the name under which the ledger and the restricted store keep the release of a table's schema."""

SEEDS = {"seed", "random_state", "noise_seed"}
SELECTIONS = {"early_stopping", "early_stop", "best_checkpoint", "keep_best", "patience", "reduce_on_plateau"}
"""Settings that other trainers have and that would void the guarantee here; each is refused by name."""


MOST_ROWS = 10**9
"""Synthetic rows of one release, at most: more would outlast any disk, and fail after all was paid."""


class Charge(NamedTuple):
    """Which account pays for a refresh, and at most how much."""

    account: str
    epsilon: float


class TableSettings(dg.Model, dg.Resolvable):
    """One table to synthesize: where from, at what privacy cost, how, and where to."""

    model_config = ConfigDict(hide_input_in_errors=True)  # a URI may hold a password

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
    epsilon: float | None = Field(default=None, description="The most that one refresh may cost.")
    plan: str | None = Field(
        default=None, description="A plan declared with dp-synth ledger plan; each refresh uses it once."
    )
    delta: float | Literal["auto"] = Field(default="auto", description="auto = 1 / N^1.2, capped at the account's.")
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
    columns_complete: bool = Field(default=False, description="`columns` lists every column: one asset check each.")
    population: int | None = Field(
        default=None, ge=2, le=10**11, description="Public number of units; else it is counted."
    )
    profile_share: Annotated[float, Field(gt=0, lt=1)] | Literal["auto"] = Field(
        default="auto", description="Part of the privacy cost spent on the profile; auto is between 0.05 and 0.25."
    )
    reuse_profile: bool = Field(default=True, description="Reuse the last profile, free, while its facts still match.")
    retention_days: int | None = Field(
        default=None, ge=0, description="Days to keep the snapshot, at most until the next refresh; 0: this run only."
    )
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    validation: ValidationSettings = Field(default_factory=ValidationSettings)
    compute: ComputeSettings | None = Field(
        default=None, description="Per stage, where it runs: {target: local | ray | k8s, gpus, cpus, memory_gib}."
    )
    rows: int | None = Field(
        default=None, ge=1, le=MOST_ROWS, description="Rows to generate; by default the noisy count."
    )
    schedule: str | None = Field(
        default=None, description="Cron of the refresh in UTC, such as 0 3 * * 1; off until started."
    )
    on_new_data: NewDataSettings | None = Field(
        default=None,
        description="Sensor that asks for a refresh when a file is new: {minutes, at_most_every, watermark}.",
    )
    automation: dict[str, str] = Field(
        default_factory=dict,
        description="For synthetic, published, quality_report, release_card: eager, on_missing or a cron.",
    )
    fresh_for: str | None = Field(default=None, description="How long a published table counts as fresh: 36h, 8d, 5w.")
    partitions: PartitionSettings | None = Field(
        default=None,
        description="Privacy blocks: {column: visit_date, cadence: daily, start: 2026-01-01} or {column, values: [..]}.",
    )
    target: list[str] | str | None = Field(
        default=None,
        repr=False,
        description=".parquet, .csv, duckdb:///..., postgresql://... and so on; one or several.",
    )
    description: str | None = None
    group: str | None = None
    owners: list[str] = Field(default_factory=list)
    tags: dict[str, str] = Field(default_factory=dict)

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

    @field_validator("filter")
    @classmethod
    def _filter(cls, value: str | None) -> str | None:
        return None if value is None else predicate.check(value)

    @field_validator("schedule")
    @classmethod
    def _schedule(cls, value: str | None) -> str | None:
        if value is not None and not is_valid_cron_string(value):
            raise InvalidInput(f"schedule: expected a cron such as '0 3 * * 1' (Mondays at three), got {value!r}.")
        return value

    @field_validator("automation")
    @classmethod
    def _automation(cls, value: dict[str, str]) -> dict[str, str]:
        return triggers.check(value)

    @field_validator("fresh_for")
    @classmethod
    def _fresh_for(cls, value: str | None) -> str | None:
        if value is not None:
            duration(value, "fresh_for")
        return value

    @model_validator(mode="after")
    def _one_guarantee(self) -> TableSettings:
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
        given = {
            "account": self.account,
            "epsilon": self.epsilon,
            "plan": self.plan,
            "delta": None if self.delta == "auto" else self.delta,
            **{k: self.training.settings.get(k) for k in ("noise_multiplier", "looks")},
        }
        if found := [name for name, value in given.items() if value]:
            raise InvalidInput(
                f"{found[0]}: with privacy: none nothing is charged and no noise is drawn; remove it, or write "
                f"privacy: dp for a guarantee."
            )

    @model_validator(mode="after")
    def _sound_training(self) -> TableSettings:
        asked = set(self.training.settings)
        if asked & SEEDS:
            raise InvalidInput("training: a seed would repeat the noise and void the guarantee; remove it.")
        if found := sorted(asked & SELECTIONS):
            raise InvalidInput(
                f"training: {found[0]} stops or selects on a loss of real rows, which no epsilon would cover; remove it. "
                f"max_epochs ends training by a public rule."
            )
        if self.training.spec().microbatch > 1 and self.privacy_unit.column is not None:
            raise InvalidInput(
                "training: microbatch above 1 needs rows as privacy units; leave it at 1, or unit at row."
            )
        return self

    @model_validator(mode="after")
    def _spared_source(self) -> TableSettings:
        for target in self.targets:
            sink.check_spared(target, self.read)
        if self.validation.holdout is not None and same_place(self.source, self.validation.holdout):
            raise InvalidInput(
                "validation: holdout: it is the source itself, whose rows are learnt from; name rows that never are."
            )
        if self.training.public is not None and same_place(self.source, self.training.public):
            raise InvalidInput(
                "training: public: it is the source itself, and learning from it free would undo its protection; name a "
                "table that is public."
            )
        return self

    @model_validator(mode="after")
    def _charged_figures(self) -> TableSettings:
        self.validation.check_charge(None if self.privacy == "none" else self.epsilon, self.plan)
        return self

    @model_validator(mode="after")
    def _triggers_and_blocks(self) -> TableSettings:
        blocks.check(self)
        triggers.check_watermark(self)
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
    def read(self) -> dict[str, str]:
        """What a refresh reads, by its role: no target may be any of it."""
        found = {"source": self.source, "holdout": self.validation.holdout, "public table": self.training.public}
        return {role: uri for role, uri in found.items() if uri is not None}

    @property
    def targets(self) -> list[str]:
        """Where the synthetic table goes, beside the Parquet file in the store."""
        return [self.target] if isinstance(self.target, str) else list(self.target or [])

    def terms(self) -> dict[str, Any]:
        """Return all that changes what a refresh does to private data: what a release is charged for, JSON-ready."""
        free = {"description", "group", "owners", "tags", "target", "rows", "schedule", "retention_days", "public"}
        free |= {"compute", "on_new_data", "automation", "fresh_for", "validation"}
        facts = {"version": __version__, **self.model_dump(exclude=free, mode="json")}
        facts["source"] = shown(self.source)  # a new password is no new code, and a hash of a weak one can be guessed
        facts["training"]["public"] = shown(self.training.public or "") or None
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
