"""Explains line by line what is wrong with a table's YAML: what was found and what was expected."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import ValidationError

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.dagster_internals import SourcePositionTree
from dp_synth_pipeline.orchestration.settings import RelatedTablesSettings, TableSettings
from dp_synth_pipeline.synthesis.section import meant

SECRET = {"source", "target", "public", "broker", "backend"}
"""Fields whose values may hold a password, and are never quoted."""

UNKNOWN = "there is no such field"

VALUE_ERROR = "Value error, "


@contextmanager
def about(field: str) -> Iterator[None]:
    """Begin a refusal's message with the field that it is about."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error}") from None


def explain(error: ValidationError | InvalidInput, tree: SourcePositionTree | None) -> str:
    """Return one line for each mistake: `defs.yaml:5: epsilon: ..., got 'much'`.

    Args:
        error: of pydantic, or one of ours whose message begins with the field that it is about.
        tree: where each part of the file lies; without it, mistakes are named without lines.
    """
    found = error.errors(include_url=False) if isinstance(error, ValidationError) else [{"msg": str(error), "loc": ()}]
    attributes = _attributes(tree)
    related = attributes is not None and "tables" in attributes.children
    what, settings = ("database", RelatedTablesSettings) if related else ("table", TableSettings)
    for mistake in found:
        if mistake.get("type") == "extra_forbidden":
            question = meant([str(part) for part in mistake["loc"]], settings)
            mistake["msg"] = f"{UNKNOWN}.{question}" if question else f"{UNKNOWN}; correct its name, or remove it."
    lines = [_line(mistake, attributes) for mistake in _one_each(found)]
    count = "one mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
    return "\n".join([f"{count} in this {what}'s YAML:", *lines])


def _one_each(found: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield one mistake for each line of each message, and one for all alternatives that a field has."""
    for _, group in groupby(found, key=lambda mistake: mistake["loc"][:1]):
        mistakes = list(group)
        if len(mistakes) > 1 and _alternatives(mistakes[0]["loc"][0]):
            deepest = max(len(m["loc"]) for m in mistakes)
            nearest = [m for m in mistakes if len(m["loc"]) == deepest]
            texts = dict.fromkeys(m["msg"][:1].lower() + m["msg"][1:] for m in nearest)
            field, _, *inside = nearest[0]["loc"]
            yield {**nearest[0], "loc": (field, *inside), "msg": ", or ".join(texts)}
            continue
        for mistake in mistakes:
            texts = mistake["msg"].removeprefix(VALUE_ERROR).splitlines()
            for text in texts:
                yield {**mistake, "msg": text} if len(texts) == 1 else {"msg": text, "loc": ()}


def _alternatives(field: Any) -> bool:
    """Whether a field may be of one type or another; pydantic then says what is wrong with it as each."""
    info = {**RelatedTablesSettings.model_fields, **TableSettings.model_fields}.get(str(field))
    types = get_args(info.annotation) if info and get_origin(info.annotation) in (Union, UnionType) else ()
    return len([t for t in types if t is not type(None)]) > 1


def _attributes(tree: SourcePositionTree | None) -> SourcePositionTree | None:
    return None if tree is None else tree.children.get("attributes", tree)


def _line(mistake: Any, tree: SourcePositionTree | None) -> str:
    unknown, message = mistake.get("type") == "extra_forbidden", mistake["msg"]
    path = [str(part) for part in mistake["loc"]]
    named = _named(message, tree)
    if len(named) > len(path) or not path:  # a rule of the whole table, whose message begins with what it is about
        path = named
    name = ".".join(path)
    if path and not message.startswith((f"{name}:", f"{path[0]}:", f"{path[0]}.")):
        message = f"{name}: {message[:1].lower()}{message[1:]}"
    value = mistake.get("input")
    if (
        mistake["loc"]
        and not unknown
        and not SECRET & set(path)
        and isinstance(value, str | int | float)
        and repr(value) not in message
    ):
        message = f"{message}, got {value!r}"
    return f"  {_place(path, tree)}{message}"


def _named(message: str, tree: SourcePositionTree | None) -> list[str]:
    """Return the field that a message begins with, as far as the file has it: `columns.sex: nulls: ...`.

    The file decides where a name ends, since names of columns may have dots.
    """
    if tree is None:
        return message.split(":")[0].split(".") if ":" in message else []
    rest = re.sub(r"^[.:\s]*(?:unknown \w+ |(?:declared )?column (?='))?'?", "", message)
    names = [str(n) for n in tree.children if re.match(rf"{re.escape(str(n))}(?!\w)", rest)]
    if not names:  # or with a part of one of its parts, as in `training: unknown setting 'rate'` of its `settings`
        deeper = ([str(name), *_named(rest, part)] for name, part in tree.children.items())
        return next((path for path in deeper if len(path) > 1), [])
    name = max(names, key=len)
    return [name, *_named(rest.removeprefix(name), tree.children[name])]


def _place(path: list[str], tree: SourcePositionTree | None) -> str:
    """Return `file:line: ` of the deepest part of `path` that the file has."""
    if tree is None:
        return ""
    for part in path:
        if part not in tree.children:
            break
        tree = tree.children[part]
    return f"{tree.position.filename}:{tree.position.start.line}: "
