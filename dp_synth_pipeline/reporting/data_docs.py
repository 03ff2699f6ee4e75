"""Renders Great Expectations' Data Docs of one validation as one static page that asks the network for nothing.

It holds what the checks hold: expectations, counts and rates of the synthetic table, never a cell of it and nothing private.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from dp_synth_pipeline.reporting.templates import source

PAGE = "data_docs/index.html"
"""Great Expectations' page about the checks, in a table's releasable folder."""


def page_of_output(name: str) -> str:
    """Return the page about the checks of a further table, beside `PAGE`."""
    return f"data_docs/output_{name}.html"


SEALED = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
"""Tells browsers to fetch nothing and run nothing, whatever else the page says."""

_DROPPED = (
    r"(?is)<script\b.*?</script>",
    r"(?is)<style\b.*?</style>",
    r"(?is)<link\b[^>]*>",
    r"(?is)<img\b[^>]*>",
    r"(?is)<nav class=\"navbar navbar-expand.*?</nav>\s*</div>\s*</nav>",
    r"(?is)<footer\b.*?</footer>",
    r"(?is)<title>\s*</title>",
    r"(?is)Data asset: None<br>",
    r'(?is)\shref="(?!#)[^"]*"',
    r'(?is)\sonclick="[^"]*"',
    r"(?is)<h4>Expectation Validation Result</h4>\s*<p class=\"lead\">.*?</p>",
    r"\[pyarrow\]",
)
"""What the library's pages load, run or link to; a page that stands alone needs none of it."""


VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">'

MARKS = {
    "fa-check-circle": "passed",
    "fa-times": "failed",
    "fa-exclamation-triangle": "could not be evaluated",
}
"""The library's icons, in words for whoever does not see them."""

NULL_RATE = "expect_column_proportion_of_non_null_values_to_be_between"
"""The expectation whose observed value the library leaves out."""

TITLE = "Checks of a synthetic table"

UNAVAILABLE = f"""<!DOCTYPE html><html><head><title>{TITLE}</title></head><body><p>Great Expectations gave no page for this
table; checks.json beside it says how each check went.</p></body></html>"""


@dataclass(frozen=True)
class Heading:
    """What a page says of itself; whatever is empty is left out.

    Attributes:
        table: the synthetic table, and the partition if there is one.
        release, run: whose rows were checked, and by which run.
        date: when, in words.
    """

    table: str = ""
    release: str = ""
    run: str = ""
    date: str = ""

    @property
    def title(self) -> str:
        """The page's title."""
        return f"Checks of {self.table}" if self.table else TITLE

    def html(self) -> str:
        """Return the title and the facts under it, escaped."""
        facts = {"Release": self.release, "Run": self.run, "Checked": self.date}
        told = " · ".join(f"{name} <code>{escape(value)}</code>" for name, value in facts.items() if value)
        note = "Checked by Great Expectations on the synthetic rows alone."
        return f'<h1>{escape(self.title)}</h1>\n<p class="lead">{note}{f"<br>{told}" if told else ""}</p>'


def to(path: Path, heading: Heading = Heading()) -> Callable[[Any], None]:
    """Return what `validation.run.validate` calls to write the page of a validation into a file."""
    return lambda outcome: _write(path, render_docs(outcome, heading))


def _write(path: Path, page: str) -> None:
    path.write_text(page, encoding="utf-8")


def render_docs(outcome: Any, heading: Heading = Heading()) -> str:
    """Return one validation's result as a page, by Great Expectations' own renderers.

    Args:
        outcome: a Great Expectations validation result without unexpected values, or None; what its exceptions say is
            withheld, since it may quote cells.
        heading: what the page says of itself.
    """
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view.view import DefaultJinjaPageView

    try:
        for result in outcome.results:
            if not result.success and not result.result:
                exception_texts = {"exception_message": "It could not be evaluated.", "exception_traceback": ""}
                result.exception_info = {"raised_exception": True, **exception_texts}
            _show_null_rate(result)
        page = DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(outcome))
    except Exception:  # a page that cannot be drawn takes no check down with it
        page = UNAVAILABLE
    return sealed(page, heading)


def _show_null_rate(result: Any) -> None:
    known = (result.result or {}).get("observed_value")
    if result.expectation_config.type == NULL_RATE and isinstance(known, float):
        result.result["observed_value"] = f"{100 * (1 - known):.3g}% null"


def sealed(page: str, heading: Heading = Heading()) -> str:
    """Return a page of Data Docs without scripts, pictures, fonts and links of other hosts, in a style of its own."""
    for pattern in _DROPPED:
        page = re.sub(pattern, "", page)
    for icon, words in MARKS.items():
        page = re.sub(rf'(<i\s+class="fas {icon}\b[^"]*")[^>]*>', rf'\1 role="img" aria-label="{words}">', page)
    page = re.sub(r"(?is)<title>.*?</title>", lambda _: f"<title>{escape(heading.title)}</title>", page, count=1)
    page = re.sub(r"(?is)<body[^>]*>", lambda body: f"{body[0]}\n<header>{heading.html()}</header>", page, count=1)
    page = re.sub(r"<(/?)h5\b", r"<\1h2", page)
    head = "" if 'name="viewport"' in page else VIEWPORT
    return page.replace("</head>", f"{SEALED}{head}\n<style>\n{source('docs.css')}</style>\n</head>", 1)
