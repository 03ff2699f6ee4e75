"""Loads and renders the pages' templates and styles, which ship as package data. No page has a script."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from dp_synth_pipeline.reporting import scaling, wording

_MARKS = str.maketrans({c: f"\\{c}" for c in "\\`*_[]{}<>|#!~"})
"""What Markdown would read as markup, with a backslash before it."""


def source(name: str) -> str:
    """Return the text of one file of this folder."""
    return files(__package__ or "").joinpath(name).read_text(encoding="utf-8")


def render(name: str, **facts: Any) -> str:
    """Return a template filled with facts; everything but our own styles is escaped."""
    files = {"style": "page.css", "account_style": "account.css", "figure_style": "figures.css"}
    files |= {"report_style": "report.css"}
    styles = {name: Markup(source(file)) for name, file in files.items()}
    return _environment().get_template(name).render(**styles, **facts)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dp_synth_pipeline.reporting", "templates"),
        autoescape=lambda name: not (name or "").endswith(".md.j2"),  # Markdown has its own filters, below
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": wording.percent, "scientific": wording.scientific, "at_most": wording.at_most}
    environment.filters |= {"at_most_percent": wording.at_most_percent}
    environment.filters |= {f.__name__: f for f in scaling.FILTERS}
    environment.filters |= {"md": markdown, "code": code, "prose": prose}
    return environment


def markdown(text: Any) -> str:
    """Return a text that Markdown shows as it is, on one line.

    Example:
        >>> markdown("a_b | <c>")
        'a\\\\_b \\\\| \\\\<c\\\\>'
    """
    return " ".join(str(text).split()).translate(_MARKS)


def prose(text: str) -> Markup:
    """Return one line of Markdown as HTML; HTML in it is shown as it is.

    Example:
        >>> prose("write `rows: 10` <here>")
        Markup('write <code>rows: 10</code> &lt;here&gt;')
    """
    return Markup(MarkdownIt("commonmark", {"html": False}).renderInline(text))


def code(text: Any) -> str:
    """Return a text as a Markdown code span, on one line; a backtick or bar in it is replaced, so that it cannot end it.

    Example:
        >>> code("a|b")
        '`a¦b`'
    """
    line = " ".join(str(text).split()).replace("`", "'").replace("|", "¦")
    return f"`{line}`" if line else ""
