"""The check of a text column: no text is longer than was declared, and none has the form of an identifier.

Great Expectations is not asked, since its regular expressions know no borders of words.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from dp_synth_pipeline.tabular import text_lengths
from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.texts import tokens
from dp_synth_pipeline.validation.checks import Check

EXPECTATION = "expect_texts_to_be_short_and_to_identify_nobody"


def check_for(column: Column, name: str) -> Check:
    """Return the check of a text column."""
    text = (
        f"No text of {column.name} has more than {column.max_length:,} characters, or the form of an identifier, such as a "
        f"mail address or a telephone number."
    )
    kwargs = {"column": column.name, "most": column.max_length}
    return Check(name, column.name, "text", True, text, EXPECTATION, kwargs)


def evaluate(check: Check, table: pa.Table) -> tuple[bool, dict[str, Any]]:
    """Return whether a synthetic table keeps the check, and how many texts do not."""
    if table.schema.names.count(check.kwargs["column"]) != 1:
        return False, {"problem": "the column is missing, or occurs more than once"}
    texts = table.column(check.kwargs["column"]).drop_null().cast(pa.string()).to_pylist()
    figures = {
        "rows": table.num_rows,
        "too_long": sum(len(text) > check.kwargs["most"] for text in texts),
        "identifying": sum(map(tokens.identifies, texts)),
    }
    return not figures["too_long"] and not figures["identifying"], figures


def lengths_of(schema: TableSchema) -> TableSchema:
    """Return the columns that are compared: lengths in the place of texts."""
    return TableSchema(tuple(text_lengths.modelled(c) if c.kind.composed else c for c in schema))


def by_length(frame: pd.DataFrame, schema: TableSchema) -> pd.DataFrame:
    """Return rows with the length of each text in its place."""
    frame = frame.copy(deep=False)
    for column in schema:
        if column.kind.composed and column.name in frame:
            counts = text_lengths.of_texts(pa.array(frame[column.name], pa.string(), from_pandas=True), column)
            frame[text_lengths.name_of(column)] = pd.Series(counts.to_pandas(types_mapper=pd.ArrowDtype)).to_numpy(
                float, na_value=float("nan")
            )
    return frame
