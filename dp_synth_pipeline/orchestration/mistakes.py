"""Explains line by line what is wrong with a table's YAML: what was found and what was expected."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from dp_synth_pipeline.orchestration.dagster_internals import SourcePositionTree

SECRET = {"source", "target", "public", "broker", "backend"}
"""Fields whose values may hold a password, and are never quoted."""

VALUE_ERROR = "Value error, "


def explain(error: ValidationError, tree: SourcePositionTree | None) -> str:
    """Return one line for each mistake: `defs.yaml:5: epsilon: ..., got 'much'`.

    Args:
        tree: where each part of the file lies; without it, mistakes are named without lines.
    """
    lines = [_line(mistake, _attributes(tree)) for mistake in error.errors(include_url=False)]
    count = "one mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
    return "\n".join([f"{count} in this table's YAML:", *lines])


def _attributes(tree: SourcePositionTree | None) -> SourcePositionTree | None:
    return None if tree is None else tree.children.get("attributes", tree)


def _line(mistake: Any, tree: SourcePositionTree | None) -> str:
    message = mistake["msg"].removeprefix(VALUE_ERROR)
    path = [str(part) for part in mistake["loc"]]
    if not path:  # a rule of the whole table, whose message begins with the field it is about
        path = message.split(":")[0].split(".") if ":" in message else []
    name = ".".join(path)
    if path and not message.startswith((f"{name}:", f"{path[0]}:")):
        message = f"{name}: {message[:1].lower()}{message[1:]}"
    value = mistake.get("input")
    if (
        mistake["loc"]
        and not SECRET & set(path)
        and isinstance(value, str | int | float)
        and repr(value) not in message
    ):
        message = f"{message}, got {value!r}"
    return f"  {_place(path, tree)}{message}"


def _place(path: list[str], tree: SourcePositionTree | None) -> str:
    """Return `file:line: ` of the deepest part of `path` that the file has."""
    if tree is None:
        return ""
    for part in path:
        if part not in tree.children:
            break
        tree = tree.children[part]
    return f"{tree.position.filename}:{tree.position.start.line}: "
