"""Puts documents that lie elsewhere in the repository on the site, and pictures into the colours of their page."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]

ADOPTED = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/three_lines.ipynb": "examples/three_lines.md",
    "examples/review.ipynb": "examples/review.md",
}
"""Documents that lie elsewhere in the repository, and the pages that they become."""


def on_files(files: Files, config: Any) -> Files:
    """Add the adopted documents, and the figures that they show."""
    for source, page in ADOPTED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        text = from_notebook(text) if source.endswith(".ipynb") else relinked(text, source)
        files.append(File.generated(config, page, content=text))
    for figure in sorted((ROOT / "benchmarks/figures").glob("*.png")):
        files.append(File.generated(config, f"figures/{figure.name}", abs_src_path=str(figure)))
    return files


def from_notebook(text: str) -> str:
    """Return a notebook as a page: its words, and its code in blocks."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    return "\n\n".join(words if kind == "markdown" else f"```python\n{words}\n```" for kind, words in cells)


def relinked(text: str, source: str) -> str:
    """Return an adopted document with links as its page needs them."""
    if source.startswith("benchmarks/"):
        return text.replace("](../docs/", "](")
    text = re.sub(r"\]\(docs/([^)]+)\)", r"](\1)", text)
    for other, page in ADOPTED.items():
        text = text.replace(f"]({other}", f"]({page}")
    return text


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links out of `docs/` to the adopted pages."""
    for source, name in ADOPTED.items():
        name = posixpath.relpath(name, posixpath.dirname(page.file.src_uri) or ".")
        markdown = re.sub(rf"\]\((?:\.\./)+{re.escape(source)}", f"]({name}", markdown)
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Put pictures into the page itself, so that they take its colours, light and dark."""
    return re.sub(r'<img alt="([^"]*)" src="(?:\.\./)*(pictures/[\w-]+\.svg)"[^>]*>', _inlined, html)


def _inlined(image: re.Match[str]) -> str:
    svg = (ROOT / "docs" / image[2]).read_text(encoding="utf-8")
    svg = re.sub(r"<style>.*?</style>\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{image[1]}" ', 1)
    return f'<span class="picture">{svg}</span>'
