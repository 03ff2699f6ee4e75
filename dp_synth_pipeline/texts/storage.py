"""Released writers of text columns in one file: their numbers as safetensors, the rest as JSON in its header."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dp_synth_pipeline.texts.writer import Writer

FILE = "texts.safetensors"
"""Beside a generator."""


def save(path: Path, writers: Sequence[Writer]) -> None:
    """Write writers, all numbers and words of which are released."""
    from safetensors.numpy import save_file

    parts = [writer.to_dict() for writer in writers]
    arrays = {f"{i}.{name}": array for i, (_, own) in enumerate(parts) for name, array in own.items()}
    partial = path.with_name(f".{path.name}")
    save_file(arrays, partial, metadata={"texts": json.dumps([facts for facts, _ in parts])})
    partial.replace(path)


def load(path: Path) -> list[Writer]:
    """Read back what `save` wrote."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        names, described = file.keys(), json.loads(file.metadata()["texts"])
        arrays = {name: file.get_tensor(name) for name in names}
    return [
        Writer.from_dict(facts, {n.partition(".")[2]: a for n, a in arrays.items() if n.partition(".")[0] == str(i)})
        for i, facts in enumerate(described)
    ]
