"""What a person writes about one table: the YAML's fields, their defaults and their meaning, in one place."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Literal

import dagster as dg
from dagster._utils.schedules import is_valid_cron_string
from pydantic import Field, field_validator, model_validator

from dp_synth_pipeline import __version__
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.spec import MAX_EPOCHS, GeneratorSpec, Purpose
from dp_synth_pipeline.privacy.budget import PrivacyUnit, check_delta, check_epsilon

DEFAULT_DELTA = 1e-5
"""The delta of an account opened without one."""


SEEDS = {"seed", "random_state", "noise_seed"}
SELECTIONS = {"early_stopping", "early_stop", "best_checkpoint", "keep_best", "patience", "reduce_on_plateau"}
"""Settings that other trainers have and that would void the guarantee here; each is refused by name."""


class UnitSettings(dg.Model, dg.Resolvable):
    """The privacy unit, when one person has several rows."""

    column: str
    max_rows: int = Field(default=4, ge=1, description="Rows kept per unit, chosen at random; more cost more noise.")


class TrainingSettings(dg.Model, dg.Resolvable):
    """How the generator learns; every number is public."""

    purpose: Literal["testing", "analytics", "machine_learning"] = "analytics"
    max_epochs: int | None = Field(default=None, ge=1, description="Overrides the purpose's 15, 40 or 80.")
    settings: dict[str, Any] = Field(default_factory=dict, description="Any field of model.spec.GeneratorSpec.")

    def spec(self) -> GeneratorSpec:
        """The network and optimiser settings."""
        epochs = self.max_epochs or MAX_EPOCHS[Purpose(self.purpose)]
        return GeneratorSpec(max_epochs=epochs).with_(**self.settings)


class TableSettings(dg.Model, dg.Resolvable):
    """One table to synthesize: where from, at what privacy cost, how, and where to."""

    table: str | None = Field(default=None, description="Name of the synthetic table; by default the folder's name.")
    source: str = Field(description="CSV or Parquet path, duckdb:///file.duckdb?table=name, or demo://name.")
    account: str = Field(description="The privacy account to charge; open it first: dp-synth ledger open.")
    epsilon: float = Field(description="The most that one refresh may cost.")
    plan: str | None = Field(
        default=None, description="A plan declared with dp-synth ledger plan; each refresh uses it once."
    )
    delta: float | Literal["auto"] = Field(default="auto", description="auto = 1 / N^1.2, capped at the account's.")
    unit: Literal["row"] | UnitSettings | str = Field(
        default="row", description="row, a column, or {column, max_rows}."
    )
    nulls: Literal["keep", "mean", "drop"] = Field(default="keep", description="For columns that declare no policy.")
    columns: dict[str, Any] = Field(default_factory=dict, description="Declared facts per column: public, and free.")
    columns_complete: bool = Field(default=False, description="`columns` lists every column: one asset check each.")
    population: int | None = Field(default=None, ge=2, description="Public number of units; else it is counted.")
    profile_share: float = Field(default=0.1, gt=0, lt=1, description="Part of the privacy cost spent on the profile.")
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    rows: int | None = Field(default=None, ge=1, description="Rows to generate; by default the noisy count.")
    schedule: str | None = Field(
        default=None, description="Cron of the refresh in UTC, such as 0 3 * * 1; off until started."
    )
    target: list[str] | str | None = Field(default=None, description=".parquet, .csv or duckdb:///...; one or several.")
    description: str | None = None
    group: str | None = None
    owners: list[str] = Field(default_factory=list)
    tags: dict[str, str] = Field(default_factory=dict)

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, value: float) -> float:
        check_epsilon(value)
        return value

    @field_validator("delta")
    @classmethod
    def _delta(cls, value: float | str) -> float | str:
        if not isinstance(value, str):
            check_delta(value)
        return value

    @field_validator("schedule")
    @classmethod
    def _schedule(cls, value: str | None) -> str | None:
        if value is not None and not is_valid_cron_string(value):
            raise InvalidInput(f"schedule: expected a cron such as '0 3 * * 1' (Mondays at three), got {value!r}.")
        return value

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
        self.training.spec()
        return self

    @property
    def name(self) -> str:
        """The table's name as a Dagster asset prefix."""
        if self.table is None:
            raise InvalidInput("the table has no name; write `table: NAME`.")
        return self.table

    @property
    def privacy_unit(self) -> PrivacyUnit:
        """Whose presence is hidden."""
        if isinstance(self.unit, UnitSettings):
            return PrivacyUnit(self.unit.column, self.unit.max_rows)
        return PrivacyUnit() if self.unit == "row" else PrivacyUnit(self.unit, UnitSettings(column=self.unit).max_rows)

    @property
    def targets(self) -> list[str]:
        """Where the synthetic table goes, beside the Parquet file in the store."""
        return [self.target] if isinstance(self.target, str) else list(self.target or [])

    def code_version(self) -> str:
        """Hash of everything that changes what a refresh does to private data."""
        free = {"description", "group", "owners", "tags", "target", "rows", "schedule"}
        facts = {"version": __version__, **self.model_dump(exclude=free, mode="json")}
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def table_name(text: str) -> str:
    """Turn a file's stem into a name that Dagster and SQL accept.

    Example:
        >>> table_name("adult-train 2024")
        'adult_train_2024'
    """
    name = re.sub(r"\W+", "_", text).strip("_").lower() or "table"
    return f"t_{name}" if name[0].isdigit() else name
