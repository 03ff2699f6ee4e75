"""Writes the reference of commands, YAML and Python as Markdown, from the code alone: no list to keep up to date."""

from __future__ import annotations

import csv
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import dp_synth_pipeline
from dp_synth_pipeline import errors
from dp_synth_pipeline.cli import app
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.orchestration.settings import RelatedTablesSettings, TableSettings
from dp_synth_pipeline.synthesis import expected_quality
from dp_synth_pipeline.synthesis.database.settings import DatabaseTable
from dp_synth_pipeline.synthesis.expected_quality import CELLS, Shape
from dp_synth_pipeline.synthesis.settings import DEFAULT_DELTA, ReleaseSettings, UnitSettings, ValidationSettings
from dp_synth_pipeline.synthesis.training_settings import TrainingSettings, TuneSettings
from dp_synth_pipeline.tabular.kinds import KINDS, Column


def commands() -> str:
    """Return every command with its arguments and options."""
    return "\n".join(_command("dp-synth", typer.main.get_command(app), 2))


def _command(name: str, command: Any, level: int) -> Iterator[str]:
    subcommands = getattr(command, "commands", {})
    if name != "dp-synth":
        yield f"{'#' * level} {name}\n"
        yield re.sub(r"\s*Example: ", "\n\n    ", inspect.cleandoc(command.help or "")) + "\n"
    parameters = [p for p in command.params if p.name != "help" and not getattr(p, "hidden", False)]
    if parameters and not subcommands:
        yield "| | | |\n|---|---|---|"
        yield from map(_parameter, parameters)
        yield ""
    for word, subcommand in sorted(subcommands.items()):
        yield from _command(f"{name} {word}", subcommand, level if name == "dp-synth" else level + 1)


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        name = ", ".join(f"`{flag}`" for flag in parameter.opts)
    return f"| {name} | {_cell(parameter.help)} | {_needed(parameter)} |"


def _needed(parameter: Any) -> str:
    if parameter.required:
        return "**required**"
    default = parameter.default
    if default is None or default in (False, "", (), []) or callable(default):
        return ""
    return f"default `{default}`"


def settings() -> str:
    """Return every key of a table's YAML, section by section, with its type, its default and its meaning."""
    parts: list[str] = []
    _section(TableSettings, "", parts, {})
    return "\n".join(parts)


def related() -> str:
    """Return the keys of related tables' YAML that a single table has not; the others mean the same."""
    single, parts = set(TableSettings.model_fields), ["| key | type | default | meaning |", "|---|---|---|---|"]
    for model, path in ((RelatedTablesSettings, ""), (DatabaseTable, "tables.NAME.")):
        for name, field in model.model_fields.items():
            if path or name not in single or name in ("rows", "target"):
                default = _default(field.get_default(call_default_factory=True), field.is_required())
                parts.append(f"| `{path}{name}` | {_type(field.annotation)} | {default} | {_cell(field.description)} |")
    return "\n".join(parts)


def _section(model: type[BaseModel], path: str, parts: list[str], places: dict[type, str]) -> None:
    """Describe one section and those within; what several keys hold is described once, at its first place."""
    parts += [f"## {path or 'A table'}\n", _first(model), "", "| key | type | default | meaning |", "|---|---|---|---|"]
    inner = []
    for name, field in model.model_fields.items():
        place, sections = f"{path}.{name}".lstrip("."), _sections(field.annotation)
        inner += [(place, section) for section in sections if section not in places]
        places.update((section, place) for section in sections if section not in places)
        kind = _type(field.annotation)
        for section in sections:
            kind = kind.replace("section", f"[section](#{places[section].replace('.', '')})")
        default = _default(field.get_default(call_default_factory=True), field.is_required())
        meaning = field.description or " ".join(map(_first, sections))
        parts.append(f"| `{name}` | {kind} | {default} | {_cell(meaning)} |")
    parts.append("")
    for place, section in inner:
        _section(section, place, parts, places)


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in get_args(annotation) for section in _sections(part)]


def _type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " or ".join(_type(part) for part in arguments if part is not type(None))
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is list:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return "mapping"
    if hasattr(annotation, "__metadata__"):
        return _type(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    words = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "nothing"}
    return words.get(annotation, "anything")


def _default(value: Any, required: bool) -> str:
    if required or value is PydanticUndefined:
        return "**required**"
    if value is None or isinstance(value, BaseModel) or value in ({}, []):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def columns() -> str:
    """Return the facts that may be declared of a column, and the kinds that there are."""
    kinds = ", ".join(f"`{kind}`" for kind in KINDS)
    return f"Kinds: {kinds}.\n\n" + _attributes(Column, leave_out={"name", "storage"})


GUARANTEES: tuple[tuple[str, type[BaseModel], tuple[str, ...]], ...] = (
    ("", ReleaseSettings, ("epsilon", "delta", "population", "profile_share", "reuse_profile")),
    ("unit.", UnitSettings, ("column", "max_rows")),
    ("validation.", ValidationSettings, ("report_epsilon",)),
)
"""The settings, by section, that say what is promised and how ε is divided."""


def guarantee() -> str:
    """Return the settings that say what is promised: range, default, meaning, effect and source of each."""
    rows = [_knob(f"{path}{name}", model.model_fields[name]) for path, model, names in GUARANTEES for name in names]
    return "\n".join([*KNOBS, *rows])


def training() -> str:
    """Return every setting of training: range, default, meaning, effect and source of each."""
    models = {"training.": TrainingSettings, "training.tune.": TuneSettings}
    rows = [
        _knob(f"{path}{name}", field) for path, model in models.items() for name, field in model.model_fields.items()
    ]
    return "\n".join([*KNOBS, *rows])


KNOBS = ("| setting | default | range | meaning | effect | source |", "|---|---|---|---|---|---|")


def _knob(path: str, field: FieldInfo) -> str:
    about = field.json_schema_extra
    assert isinstance(about, dict), f"{path} tells no effect and no source"
    default = _default(field.get_default(), field.is_required()) or "-"
    source = str(about["source"]).replace("benchmarks,", "[benchmarks](../benchmarks/README.md),")
    source = re.sub(r"docs/(\w+)\.md", r"[\1](\1.md)", source)
    cells = (default, _range(path, field), field.description, str(about["effect"]), source)
    return f"| `{path}` | {' | '.join(map(_cell, cells))} |"


def _range(path: str, field: FieldInfo) -> str:
    """Return what a value may be, in the words of the rule that refuses others."""
    about, name = field.json_schema_extra, path.split(".")[-1]
    if isinstance(about, dict) and "range" in about:
        return str(about["range"])
    if name in GeneratorSpec.rules:
        return re.sub(r"^(be|lie) ", "", GeneratorSpec.rules[name][0])
    bounds = {kind: limit for m in field.metadata for kind in ("ge", "le") if (limit := getattr(m, kind, None))}
    if bounds:
        return f"{bounds['ge']:,} to {bounds['le']:,}"
    return _type(field.annotation)


def _attributes(cls: type, leave_out: set[str]) -> str:
    """Return a table of a dataclass's fields, as its docstring and those of its bases describe them."""
    assert is_dataclass(cls)
    meaning: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        attributes = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2].split("\n\n")[0]
        for names, text in re.findall(r"^    (\w[\w, ]*): (.+(?:\n {8}.+)*)", attributes, re.MULTILINE):
            meaning |= dict.fromkeys(names.split(", "), text)
    rows = []
    for field in fields(cls):
        if field.name not in leave_out:
            default = None if field.default is MISSING else field.default
            shown = default.value if isinstance(default, Enum) else default
            rows.append(f"| `{field.name}` | {_default(shown, required=False)} | {_cell(meaning[field.name])} |")
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])


def python() -> str:
    """Return directives for the public names of the package, and for everything that it may raise."""
    names = dict(dp_synth_pipeline._LAZY)
    return "\n".join(f"::: {module}.{name}\n" for name, module in names.items())


def raised() -> str:
    """Return the errors that are raised on purpose, with the exit code of a command that ends by one."""
    kinds = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, errors.DpSynthError)]
    rows = [f"| `{kind.__name__}` | {kind.exit_code} | {_cell(_first(kind))} |" for kind in kinds]
    return "\n".join(["| error | exit code | what it says |", "|---|---|---|", *rows])


def _first(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def _cell(text: str | None) -> str:
    """Return a text that fits into one cell of a table."""
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")


MEASURED = Path(__file__).parents[2] / "benchmarks/figures/expected.csv"
"""Releases whose distances were measured."""


def expected() -> str:
    """Return the distances to expect of a table of 15 columns, by its rows and epsilon."""
    epsilons = (0.5, 1.0, 2.5, 6.0)
    lines = [f"| rows | {' | '.join(f'ε = {epsilon:g}' for epsilon in epsilons)} |", "|---" * (len(epsilons) + 1) + "|"]
    for rows in (1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000):
        told = [expected_quality.expected(Shape(rows, 15), epsilon, DEFAULT_DELTA) for epsilon in epsilons]
        lines.append(f"| {rows:,} | {' | '.join(f'{q.two_way:.2g} ({q.one_way:.2g})' for q in told)} |")
    return "\n".join(lines)


def measured() -> str:
    """Return the distances of pairs that were measured, beside those that were to be expected."""
    heads = ("table", "rows x columns", "ε", "measured", "expected of rows and columns", "expected of its own release")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    with MEASURED.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            rows, columns, epsilon, found = (float(row[name]) for name in ("rows", "columns", "epsilon", "tvd2"))
            shapes = [Shape(int(rows), int(columns), cells=float(cells)) for cells in (CELLS, row["cells"]) if cells]
            told = [expected_quality.expected(shape, epsilon, DEFAULT_DELTA).two_way for shape in shapes]
            cells = [f"{each:.2g} ({each / found - 1:+.0%})" for each in told] + ["-"] * (2 - len(told))
            lines.append(
                f"| {row['table']} | {rows:,.0f} x {columns:.0f} | {epsilon:g} | {found:.2g} | {' | '.join(cells)} |"
            )
    return "\n".join(lines)


PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings,
    "related": related,
    "columns": columns,
    "guarantee": guarantee,
    "training": training,
    "python": python,
    "errors": raised,
    "expected": expected,
    "measured": measured,
}
"""What a page may ask for by a comment, such as `<!-- reference: commands -->`; GitHub shows nothing there."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what a page asks for, where the page itself does not hold it."""
    return re.sub(r"<!-- reference: (\w+) -->", lambda asked: PARTS[asked[1]](), markdown)


def current(markdown: str) -> str:
    """Return a page that holds parts between `<!-- from the settings: NAME -->` and `<!-- end -->`, with those as now."""
    return re.sub(
        r"(<!-- from the settings: (\w+) -->\n).*?(<!-- end -->)",
        lambda asked: f"{asked[1]}\n{PARTS[asked[2]]()}\n\n{asked[3]}",
        markdown,
        flags=re.DOTALL,
    )


if __name__ == "__main__":  # writes a page anew: python docs/site/reference.py docs/training.md
    for page in map(Path, sys.argv[1:]):
        page.write_text(current(page.read_text(encoding="utf-8")), encoding="utf-8")
