"""Says how far off releases will be, before anything is spent: from what a person says, or from what was released before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field
from rich.console import Console

from dp_synth_pipeline.cli.options import Options
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.reporting import wording

if TYPE_CHECKING:
    from dp_synth_pipeline.ledger import Account
    from dp_synth_pipeline.synthesis.expected_quality import Quality, Shape
    from dp_synth_pipeline.synthesis.released import Released
    from dp_synth_pipeline.tabular.profiling.profile import TableProfile


class AskOptions(Options):
    """What is asked for, and of which table it would be a release."""

    purpose: str = Field(default="", description="What it is for, which a quota may bound.")
    like: str | None = Field(
        default=None,
        description="A released table, or the beginning of a release's id: its noisy number of rows and its profile say how "
        "far off such a release will be.",
    )
    rows: int | None = Field(
        default=None, ge=1, description="In place of --like, with --columns: how many rows, as is publicly known."
    )
    columns: int | None = Field(default=None, ge=2, description="With --rows: how many columns are learned.")

    @property
    def about_a_table(self) -> bool:
        """Whether anything was said of a table."""
        return any(said is not None for said in (self.like, self.rows, self.columns))

    def shape(self, account: Account) -> Shape | None:
        """Return the shape of the table that is asked about; None if nothing was said of it. No source is read.

        Raises:
            InvalidInput: if it is said in two ways or by halves, or nothing was released by that name.
        """
        from dp_synth_pipeline.synthesis import released
        from dp_synth_pipeline.synthesis.expected_quality import Shape
        from dp_synth_pipeline.synthesis.store import default_store

        if not self.about_a_table:
            return None
        if self.like and self.rows is None and self.columns is None:
            return Shape.of(_profile(released.like(default_store(), self.like)), account.max_rows)
        if self.like is not None or self.rows is None or self.columns is None:
            raise InvalidInput("say what table it is by --rows and --columns together, or by --like NAME alone.")
        return Shape(self.rows, self.columns, account.max_rows)


class ForecastOptions(AskOptions):
    """What a forecast is asked for besides."""

    drift: float | None = Field(
        default=None,
        description="With --remember, and with rows and columns: by how much pairs of columns move from each refresh to the "
        "next, from 0 to 1, as the check `drift` says it.",
    )


def _profile(found: Released) -> TableProfile:
    from dp_synth_pipeline.tabular.profiling.profile import TableProfile

    return TableProfile.from_json(Path(found.folder, "profile.json").read_text(encoding="utf-8"))


def released_shape(table: str, account: Account) -> Shape | None:
    """Return the shape that a table's newest release told; None if none is kept, or it has no two columns to pair."""
    from dp_synth_pipeline.synthesis import released
    from dp_synth_pipeline.synthesis.expected_quality import Shape
    from dp_synth_pipeline.synthesis.store import default_store

    try:
        return Shape.of(_profile(released.generator_of(default_store(), table)), account.max_rows)
    except InvalidInput:
        return None


def one(shape: Shape, account: Account, epsilon: float, delta: float | None = None) -> Quality:
    """Return how far a release that an account pays for will be off."""
    from dp_synth_pipeline.synthesis import expected_quality

    return expected_quality.expected(shape, epsilon, account.delta if delta is None else delta, account.relation)


def say(shape: Shape, account: Account, epsilon: float, delta: float | None, console: Console, table: str = "") -> None:
    """Print how far off a release will be, and if that is poor, what would help."""
    quality = one(shape, account, epsilon, delta)
    console.print(
        f"Expected of a release of epsilon {epsilon:g}, of {wording.size(shape, table)}: {wording.distances(quality)}",
        soft_wrap=True,
    )
    if quality.poor:
        warn(shape, account, epsilon, quality, console, delta)


def warn(
    shape: Shape, account: Account, epsilon: float, quality: Quality, console: Console, delta: float | None = None
) -> None:
    """Print that a release will be poor, and what would help."""
    from dp_synth_pipeline.synthesis import expected_quality

    helps = expected_quality.better(shape, epsilon, account.delta if delta is None else delta, account.relation)
    console.print(wording.poor(quality, *helps), style="yellow", soft_wrap=True)
