"""Coherence as mostlyai-qa defines it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.tabular.schema import TableSchema, build
from dp_synth_pipeline.validation.coherence import Coherence, coherence
from dp_synth_pipeline.validation.related_frames import RelatedFrame

RNG_SEED = 3


def frame(*sequences: str) -> RelatedFrame:
    """Return sequences of one-letter categories."""
    parent = np.repeat(np.arange(len(sequences)), [len(s) for s in sequences])
    return RelatedFrame(pd.DataFrame({"x": list("".join(sequences))}), parent, parent)


def found(real: RelatedFrame, synthetic: RelatedFrame, schema: TableSchema | None = None) -> Coherence | None:
    schema = schema or build({"x": pa.string()})
    return coherence(real, synthetic, schema, np.random.default_rng(RNG_SEED))


def test_equal_sequences_are_coherent() -> None:
    same = found(frame(*["aab"] * 20, *["b"] * 20), frame(*["aab"] * 20, *["b"] * 20))
    assert same is not None
    assert same.reached > 0.9
    assert found(frame(*["aa"] * 20), frame(*["aa"] * 20)) == Coherence(1.0, 1.0)


def test_each_of_the_three_agreements_is_told_by_hand() -> None:
    """(a, a) against (a, b): no step agrees; one value each, or more, is one cell; half of the sequences' values are a."""
    told = found(frame(*["aa"] * 10), frame(*["ab"] * 10))
    assert told is not None
    assert told.reached == pytest.approx((0 + 1 + 0.5) / 3)


def test_a_sequence_of_one_row_is_followed_by_nothing() -> None:
    told = found(frame(*["a"] * 10), frame(*["aa"] * 10))
    assert told is not None
    assert told.reached == pytest.approx((0 + 1 + 1) / 3)


def test_how_many_values_a_sequence_has_is_compared() -> None:
    """Half of the real sequences have two values; no synthetic one has, though all steps of either are alike."""
    told = found(frame(*["aa"] * 10, *["ab"] * 10), frame(*["aa"] * 10, *["bb"] * 10))
    assert told is not None
    steps, values, having = 0.5, 0.5, 1 - abs(2 / 3 - 1 / 2)
    assert told.reached == pytest.approx((steps + values + having) / 3)


def test_any_step_of_a_sequence_may_be_the_one_that_is_looked_at() -> None:
    """Of (a, a, b), half of the steps are (a, a), as of (a, a) and (a, b) together; the first steps alone are not."""
    told = found(frame(*["aa"] * 400, *["ab"] * 400), frame(*["aab"] * 800))
    assert told is not None
    values, having = 0.5, 1 - abs(2 / 3 - 1 / 2)
    assert told.reached == pytest.approx((1 + values + having) / 3, abs=0.05)


def test_no_rows_have_no_coherence() -> None:
    assert found(frame("a"), frame()) is None
