"""Reads the examples of docstrings as code: here they stand under `Example:`, and griffe knows `Examples:`."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Writes the heading that the reader knows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
