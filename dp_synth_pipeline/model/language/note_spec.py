"""How a language model is fine-tuned; imports neither torch nor transformers, so that a plan can be computed anywhere."""

from __future__ import annotations

from dataclasses import dataclass

from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec, whole


@dataclass(frozen=True)
class NoteSpec(TrainingSpec):
    """How notes are learnt; see `TrainingSpec` for the rest.

    A language model knows its language already, so one pass over the rows does, and each is dear.

    Attributes:
        rank: of each adapter; the released numbers grow with it.
    """

    max_epochs: int = 1
    max_batch: int = 1024
    learning_rate: float | None = 4e-3
    rank: int = 4

    rules = TrainingSpec.rules | {"rank": whole(1)}
