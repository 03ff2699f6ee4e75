"""The pages' templates, styles and script, shipped as package data."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dp_synth_pipeline.validation import wording


def source(name: str) -> str:
    """Return the text of one file of this folder."""
    return files(__package__ or "").joinpath(name).read_text(encoding="utf-8")


def render(name: str, **facts: Any) -> str:
    """Return a template filled with facts; everything but our own style and script is escaped."""
    own = {k: Markup(facts.pop(k)) for k in ("plotly", "script", "charts") if k in facts}
    return _environment().get_template(name).render(style=Markup(source("page.css")), **own, **facts)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dp_synth_pipeline.validation", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": wording.percent, "scientific": wording.scientific, "at_most": wording.at_most}
    return environment
