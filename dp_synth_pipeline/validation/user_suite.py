"""A person's own Great Expectations suite, read before anything else is: names, severities, and what is wrong with the file.

The file is in Great Expectations' own form, JSON or YAML: `{name, expectations: [{type, kwargs, severity, meta}]}`. Our own
suite is written beside every synthetic table in that form, so that a person can start from it.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.validation.checks import Check, ascii_name
from dp_synth_pipeline.validation.expectations import STORAGE_EXPECTATION
from dp_synth_pipeline.validation.rules import RULE_EXPECTATION

FORM = "{name: NAME, expectations: [{type: expect_column_mean_to_be_between, kwargs: {column: age, max_value: 50}}]}"

SEVERITIES = {"critical": True, "warning": False, "info": False}
"""Great Expectations' severities, and whether a failure keeps the table from being published."""

COLUMN_KEYS = ("column", "column_A", "column_B")


def read_suite(path: str | Path) -> list[Check]:
    """Return the expectations of a suite file as checks whose names start with `own_`.

    Great Expectations itself is not loaded; whether the arguments of an expectation are right shows when it runs.

    Raises:
        InvalidInput: if the file is missing, is no suite, or names an expectation that Great Expectations does not have.
    """
    path = Path(path).expanduser()
    entries = _entries(path)
    checks: list[Check] = []
    for i, entry in enumerate(entries, 1):
        check = _check(entry, i, f"validation: suite {path}, expectation {i}")
        if check.name in {c.name for c in checks}:
            raise InvalidInput(
                f"validation: suite {path}, expectation {i}: two expectations are called {check.name}; give each its own "
                f"meta: {{check: NAME}}."
            )
        checks.append(check)
    return checks


def columns_of(check: Check) -> list[str]:
    """Return the columns that an expectation names."""
    listed = check.kwargs.get("column_list")
    several = [c for c in listed if isinstance(c, str)] if isinstance(listed, list) and check.kind != "columns" else []
    return [check.kwargs[k] for k in COLUMN_KEYS if isinstance(check.kwargs.get(k), str)] + several


def _entries(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"validation: suite {path} cannot be read ({type(error).__name__}); give the path of a JSON or YAML file."
        ) from None
    try:
        content = json.loads(text) if path.suffix.lower() == ".json" else _yaml(text)
    except ValueError as error:
        raise InvalidInput(f"validation: suite {path} is not valid {path.suffix or 'YAML'}: {error}.") from None
    entries = content.get("expectations") if isinstance(content, Mapping) else None
    if not isinstance(entries, list) or not entries:
        raise InvalidInput(f"validation: suite {path}: expected {FORM}, got no list of expectations.")
    return entries


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"line {mark.line + 1}" if mark is not None else "it cannot be parsed") from None


def _check(entry: Any, number: int, where: str) -> Check:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("type"), str):
        raise InvalidInput(f"{where}: it has no type; write it as in {FORM}.")
    kind, kwargs, meta = entry["type"], entry.get("kwargs") or {}, entry.get("meta") or {}
    if not isinstance(kwargs, Mapping) or not isinstance(meta, Mapping):
        raise InvalidInput(f"{where} ({kind}): kwargs and meta are mappings; write it as in {FORM}.")
    if not _known(kind):
        raise InvalidInput(f"{where}: Great Expectations has no {kind}; correct the type.")
    severity = entry.get("severity") or "critical"
    if severity not in SEVERITIES:
        raise InvalidInput(f"{where} ({kind}): severity is critical, warning or info, got {severity!r}.")
    check = Check("", None, "own", SEVERITIES[severity], "", kind, _plain(kwargs))
    called = meta.get("check")
    stem = str(called) if called else f"{kind.removeprefix('expect_')}_{'_'.join(columns_of(check))}"
    name = f"own__{_slug(stem)}" if called else f"own_{number}__{_slug(stem)}"
    text = entry.get("description") or f"{_words(kind)}{_about(columns_of(check))}"
    return Check(name, None, "own", check.blocking, str(text), kind, check.kwargs)


def _known(kind: str) -> bool:
    """Whether Great Expectations has an expectation of this type, by its own file: importing it takes seconds."""
    if kind in (STORAGE_EXPECTATION, RULE_EXPECTATION):
        return True
    spec = importlib.util.find_spec("great_expectations")
    if spec is None or spec.origin is None or re.fullmatch(r"expect_[a-z0-9_]+", kind) is None:
        return False
    return (Path(spec.origin).parent / "expectations" / "core" / f"{kind}.py").exists()


def _plain(value: Any) -> Any:
    """Bring what YAML read to what JSON has: dates as ISO text."""
    return json.loads(json.dumps(dict(value), default=lambda x: x.isoformat() if hasattr(x, "isoformat") else str(x)))


def _slug(text: str) -> str:
    return re.sub(r"_{3,}", "__", ascii_name(text))[:80].strip("_")


def _words(kind: str) -> str:
    return kind.replace("_", " ").capitalize()


def _about(columns: list[str]) -> str:
    return f" ({', '.join(columns)})." if columns else "."
