"""`text`: texts that are written anew, upon the rest of their row. Declared, never chosen: it has a price of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.kinds.base import Kind
from dp_synth_pipeline.tabular.storage import is_text

LONGEST, LONGEST_PROMPT = 1_000, 500
"""Characters that a text may be declared to have, at most; and what a model is asked to write."""


_NAMED = re.compile(r"\{([^{}]+)\}")


class Text(Kind):
    """Patterned strings and short texts of a declared length, which a model of their own writes."""

    name = "text"
    read_from = (is_text,)
    composed = True
    takes = ("max_length", "model", "prompt")
    sql = "VARCHAR"

    def check_declared(self, name: str, arrow_type: pa.DataType, facts: Mapping[str, Any]) -> None:
        most = facts.get("max_length")
        if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= LONGEST:
            raise InvalidInput(
                f"column {name!r}: kind: text needs max_length, a whole number of characters from 1 to {LONGEST:,}, as in "
                f"{{kind: text, max_length: 80}}, got {most!r}; longer texts are cut there."
            )
        model = facts.get("model")
        if model is not None and not (isinstance(model, str) and model):
            raise InvalidInput(
                f"column {name!r}: model: expected the path of a pretrained language model, got {model!r}; leave it out to "
                f"have texts written from counts of words."
            )
        _check_prompt(name, model, facts.get("prompt"))


def named(prompt: str) -> list[str]:
    """Return the columns that a prompt names in braces, each once.

    Example:
        >>> named("Write a nurse's note about a visit to a {ward}.")
        ['ward']
    """
    return list(dict.fromkeys(_NAMED.findall(prompt)))


def _check_prompt(name: str, model: str | None, prompt: Any) -> None:
    if prompt is None:
        return
    if not isinstance(prompt, str) or not 1 <= len(prompt.strip()) <= LONGEST_PROMPT:
        raise InvalidInput(
            f"column {name!r}: prompt: expected up to {LONGEST_PROMPT} characters that ask a language model for one text, "
            f"as in prompt: Write a nurse's note about a visit., got {prompt!r}; leave it out to have the model fine-tuned."
        )
    if model is None:
        raise InvalidInput(
            f"column {name!r}: prompt: it asks a language model, and none is named; add model: PATH, or leave it out."
        )
    if len(named(prompt)) > 1:
        raise InvalidInput(
            f"column {name!r}: prompt: texts go with one other column, and it names {', '.join(named(prompt))}; keep one."
        )
