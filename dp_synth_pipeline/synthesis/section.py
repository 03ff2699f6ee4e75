"""A group of settings: what is unknown in it is refused, and a refusal names the setting and the one that may be meant."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from dp_synth_pipeline.errors import nearest


class Section(BaseModel):
    """A group of fields that refuses unknown ones, and whose errors quote no value: a URI may hold a password."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


def told(effect: str, source: str, within: str = "") -> dict[str, Any]:
    """Return what `docs/training.md` tells of a field beside its meaning, for its `json_schema_extra`.

    Args:
        effect: what moving it does, with figures where there are some.
        source: who says so: a publication, a benchmark or a module.
        within: its range, in words, where neither its type nor a rule says it.
    """
    return {"effect": effect, "source": source, **({"range": within} if within else {})}


def said(error: ValidationError, settings: type[BaseModel]) -> str:
    """Say what is wrong first with settings, beginning with the setting's name, and which one may be meant instead."""
    first = error.errors(include_url=False, include_input=False)[0]
    path, reason = [str(part) for part in first["loc"]], first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        reason = f"there is no such setting.{meant(path, settings)}"
    place = ".".join(path)
    reason = reason if reason.endswith(("?", ".")) else f"{reason}."
    return reason if not place or reason.startswith(place) else f"{place}: {reason}"


def meant(path: list[str], settings: type[BaseModel]) -> str:
    """Return a question that ends the refusal of an unknown setting, or nothing where none is like it.

    Args:
        path: where it was written, such as ["training", "epochs"].
    """
    section: Any = settings
    for part in path[:-1]:
        field = getattr(section, "model_fields", {}).get(part)  # a group of settings, and no list or choice of them
        section = field.annotation if field is not None else None
    if found := [place for place in _places(path[-1], settings) if place != ".".join(path)]:
        return f" Did you mean {found[0]}?"
    return nearest(path[-1], getattr(section, "model_fields", {}))


def _places(name: str, settings: type[BaseModel], above: str = "") -> list[str]:
    """Return where there is a setting of this very name, the nearest to the top first."""
    groups = {
        group: field.annotation
        for group, field in settings.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }
    here = [above + name] if name in settings.model_fields else []
    return here + [place for group, below in groups.items() for place in _places(name, below, f"{above}{group}.")]
