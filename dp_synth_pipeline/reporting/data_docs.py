"""Renders Great Expectations' Data Docs of one validation as one static page that asks the network for nothing.

It holds what the checks hold: expectations, counts and rates of the synthetic table, never a cell of it and nothing private.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dp_synth_pipeline.reporting.templates import source

PAGE = "data_docs/index.html"
"""Great Expectations' page about the checks, in a table's releasable folder."""

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
)
"""What the library's pages load, run or link to; a page that stands alone needs none of it."""


TITLE = "Checks of a synthetic table"

UNAVAILABLE = f"""<!DOCTYPE html><html><head><title>{TITLE}</title></head><body><p>Great Expectations gave no page for this
table; checks.json beside it says how each check went.</p></body></html>"""


def to(path: Path) -> Callable[[Any], None]:
    """Return what `validation.run.validate` calls to write the page of a validation into a file."""
    return lambda outcome: _write(path, render_docs(outcome))


def _write(path: Path, page: str) -> None:
    path.write_text(page, encoding="utf-8")


def render_docs(outcome: Any) -> str:
    """Return one validation's result as a page, by Great Expectations' own renderers.

    Args:
        outcome: a Great Expectations validation result without unexpected values, or None; what its exceptions say is
            withheld, since it may quote cells.
    """
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view.view import DefaultJinjaPageView

    try:
        for result in outcome.results:
            if not result.success and not result.result:
                exception_texts = {"exception_message": "It could not be evaluated.", "exception_traceback": ""}
                result.exception_info = {"raised_exception": True, **exception_texts}
        page = DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(outcome))
    except Exception:  # a page that cannot be drawn takes no check down with it
        page = UNAVAILABLE
    return sealed(page)


def sealed(page: str) -> str:
    """Return a page of Data Docs without scripts, pictures, fonts and links of other hosts, in a style of its own."""
    for pattern in _DROPPED:
        page = re.sub(pattern, "", page)
    page = re.sub(r"(?is)<title>.*?</title>", f"<title>{TITLE}</title>", page, count=1)
    return page.replace("</head>", f"{SEALED}\n<style>\n{source('docs.css')}</style>\n</head>", 1)
