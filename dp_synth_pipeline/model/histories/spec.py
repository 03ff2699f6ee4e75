"""Hyperparameters of learning histories: those of a table, but for how far weights walk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec


@dataclass(frozen=True)
class HistorySpec(GeneratorSpec):
    """How the rows of a history are learnt: from the shares of single codes alone, so weights have further to go.

    The rule of a table's learning rate was found on networks that noisy pairs had taught first. On two tables of baseball
    seasons 1.9 times its rate was better, and 3 times no better or worse (benchmarks/README.md, "Related tables").
    """

    reach: ClassVar[float] = 1.6
