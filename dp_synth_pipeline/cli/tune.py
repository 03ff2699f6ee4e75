"""`dp-synth tune` compares settings of training on rows drawn from a released generator: free, since that is released."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer
import yaml
from pydantic import Field, ValidationError

from dp_synth_pipeline.cli.options import Options, parsed_value, takes_options
from dp_synth_pipeline.cli.terminal import console, table
from dp_synth_pipeline.errors import Diverged, InvalidInput, TrainingError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from dp_synth_pipeline.synthesizer import SyntheticModel

CHANCE = 0.03
"""Nats a row by which two runs of the same settings may differ (`benchmarks/README.md`)."""

HELD_OUT = 5_000
"""Drawn rows that no trial learns from."""

ROUNDED = 1 + 1e-6
"""How much more a trial's account may pay than the release that it repeats, since charges are rounded up."""

GROUP = "training."

Candidate = dict[str, Any]
"""Settings of training by name; none for the defaults."""


class TuneOptions(Options):
    """What is compared, and on which released rows."""

    on_released: str = Field(
        description="A table that was released, or a saved model (a .dps file, a folder): the rows are drawn from it."
    )
    try_: list[str] = Field(
        description="KEY=VALUE,VALUE of training, such as training.max_epochs=10,30. May be repeated: every combination is "
        "tried, and the defaults."
    )
    epsilon: float | None = Field(
        default=None,
        description="What a release will cost, so that trials have its noise; default: what this one cost.",
    )
    rows: int | None = Field(
        default=None, ge=100, description="Rows that a trial learns from; default: as many as the release did, about."
    )


@dataclass
class Trial:
    """One candidate and what came of it.

    Attributes:
        likelihoods: of each held-out row, in nats, -inf for one that the trial cannot draw; None if training diverged.
    """

    candidate: Candidate
    likelihoods: np.ndarray | None


@takes_options
def tune(options: TuneOptions) -> None:
    """Compare settings of training on rows drawn from a released generator, and print those to write.

    It is free: the table that rows are drawn from is released, so whatever is learnt of it is post-processing. No source is
    read and no account charged. Each trial is a whole release of those rows, with the noise of the epsilon that is asked.
    Trials on real rows are charged, all of them as one study: see training.tune in dp-synth docs training.

    Example: dp-synth tune --on-released visits --try training.max_epochs=10,30 --try training.batch_share=0.03,0.06
    """
    said, candidates = console(stderr=True), grid(options.try_)
    model = _released(options.on_released)
    facts = model.card().facts
    epsilon = options.epsilon if options.epsilon is not None else facts.added_epsilon or facts.epsilon
    if epsilon is None:
        raise InvalidInput("--epsilon is missing: the release has none, so name what the next one will cost.")
    rows = options.rows or model.drawer().profile.rows
    drawn = model.sample(rows + HELD_OUT)
    learnt, held_out = drawn.iloc[:rows], drawn.iloc[rows:]
    said.print(
        f"Free: {rows:,} rows are drawn from release {facts.release[:12]}, which is paid for. Nothing is charged.",
        soft_wrap=True,
    )
    if facts.unit != "row":
        said.print(f"Drawn rows belong to no {facts.unit}, so trials have less noise than the release.", soft_wrap=True)
    trials = []
    for number, candidate in enumerate(candidates, 1):
        said.print(f"{number} of {len(candidates)}: {shown(candidate)}", soft_wrap=True)
        trials.append(Trial(candidate, _fitted(learnt, held_out, candidate, epsilon)))
    _tell(trials)


def grid(asked: list[str]) -> list[Candidate]:
    """Return every combination of the values that are asked for, after the defaults.

    Raises:
        InvalidInput: if one is no setting of training, or cannot have a value; it names the setting.
    """
    from dp_synth_pipeline.synthesis.section import said
    from dp_synth_pipeline.synthesis.settings import ReleaseSettings

    values: dict[str, list[Any]] = {}
    for text in asked:
        key, _, listed = text.partition("=")
        if not (key.startswith(GROUP) and listed):
            raise InvalidInput(f"--try {text}: expected KEY=VALUE,VALUE, such as training.max_epochs=10,30.")
        values[key.removeprefix(GROUP)] = [parsed_value(f"--try {key}", value) for value in listed.split(",")]
    found: list[Candidate] = [
        {},
        *(dict(zip(values, some, strict=True)) for some in itertools.product(*values.values())),
    ]
    for candidate in found:
        try:
            ReleaseSettings(source="drawn", account="drawn", epsilon=1.0, training=candidate)  # type: ignore[arg-type]
        except ValidationError as error:
            raise InvalidInput(f"--try {said(error, ReleaseSettings)}") from None
    return found


def _released(name: str) -> SyntheticModel:
    """Return the model that a file, a folder or a table's name holds.

    Raises:
        InvalidInput: if there is none, or it is of related tables.
    """
    from dp_synth_pipeline.synthesis.store import default_store
    from dp_synth_pipeline.synthesizer import SyntheticModel, load

    model = load(name if Path(name).exists() else default_store().root / "releasable" / name)
    if not isinstance(model, SyntheticModel):
        raise InvalidInput(f"--on-released {name}: it is of related tables; trials are of single ones.")
    return model


def _fitted(learnt: pd.DataFrame, held_out: pd.DataFrame, candidate: Candidate, epsilon: float) -> np.ndarray | None:
    """Return how likely a trial's generator makes each held-out row; None if its training diverged.

    The trial's ledger is thrown away with it: it bounds what leaves about rows that are released already.
    """
    from dp_synth_pipeline.ledger import Ledger
    from dp_synth_pipeline.synthesis.store import Store
    from dp_synth_pipeline.synthesizer import Synthesizer

    with TemporaryDirectory(prefix="dps-") as folder:
        book = Ledger.open(str(Path(folder) / "ledger.db"))
        book.open_account("drawn", epsilon=epsilon * ROUNDED, delta=1e-5, rule="plan", why="a trial on released rows")
        store = Store(Path(folder) / "store")
        how: dict[str, Any] = {"store": store, "show": False, "unit": "row", "training": candidate}
        try:
            return Synthesizer("drawn", epsilon, book, **how).fit(learnt).log_likelihood(held_out)
        except Diverged:
            return None


def scores(trials: list[Trial]) -> list[float | None]:
    """Return each trial's loss, in nats a row, over the held-out rows that all of them can draw.

    None if it diverged, or can draw none of these: a trial that can draw no row at all does not spoil the others.
    """
    import numpy as np

    able = [np.isfinite(t.likelihoods) if t.likelihoods is not None else np.zeros(1, bool) for t in trials]
    competing = [rows for rows in able if rows.any()]
    shared = np.all(competing, axis=0) if competing else np.zeros(1, bool)
    return [
        -float(t.likelihoods[shared].mean()) if t.likelihoods is not None and rows.any() and shared.any() else None
        for t, rows in zip(trials, able, strict=True)
    ]


def shown(candidate: Candidate) -> str:
    """Return a candidate as a person would set it."""
    return ", ".join(f"{name}={value}" for name, value in candidate.items()) or "the defaults"


def _outcome(trial: Trial, loss: float | None) -> str:
    if loss is not None:
        return f"{loss:.3f}"
    return "diverged" if trial.likelihoods is None else "draws no such row"


def _tell(trials: list[Trial]) -> None:
    """Print what each trial reached, and the settings to write on standard output: none if the defaults do as well."""
    said, reached = console(stderr=True), scores(trials)
    lines = [(shown(trial.candidate), _outcome(trial, loss)) for trial, loss in zip(trials, reached, strict=True)]
    said.print(table("Drawn rows that were held out", ("training", "nats a row"), lines, right=("nats a row",)))
    compared = [(loss, trial) for trial, loss in zip(trials, reached, strict=True) if loss is not None]
    if not compared:
        raise TrainingError(
            "no trial ended with rows to compare. Where noise hid a column, learn from more rows (--rows) or spend more "
            "(--epsilon); where training diverged, lower training.learning_rate."
        )
    loss, best = min(compared, key=lambda found: found[0])
    usual = reached[0]
    if not best.candidate or (usual is not None and usual - loss < CHANCE):
        said.print(f"Nothing beats the defaults by {CHANCE} nats a row, which is chance. Leave them.", soft_wrap=True)
        return
    said.print("Lower is better. Write this into the table's YAML; it was chosen without a look at a real row:")
    typer.echo(yaml.safe_dump({"training": best.candidate}, sort_keys=False), nl=False)
