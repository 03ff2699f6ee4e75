"""The site is built strictly, is whole, and fetches nothing from anywhere when somebody reads it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer

import dp_synth_pipeline
from dp_synth_pipeline.cli import app
from dp_synth_pipeline.orchestration.settings import TableSettings
from tests.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.slow

FETCHED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
}
"""What a browser fetches by itself to show a page; links are followed by people."""


class Page(HTMLParser):
    """What one page fetches, links to and can be linked to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file, self.fetched, self.links, self.ids = file, list[str](), list[str](), set[str]()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = {name: value or "" for name, value in attrs}
        self.ids |= {facts["id"]} if "id" in facts else set()
        self.ids |= {facts["name"]} if tag == "a" and "name" in facts else set()
        if tag in FETCHED and FETCHED[tag] in facts:
            self.fetched.append(facts[FETCHED[tag]])
        if tag == "link" and facts.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(facts.get("href", ""))
        if tag == "a" and "href" in facts:
            self.links.append(facts["href"])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in sorted(site.rglob("*.html"))}


def test_every_page_of_the_folder_is_on_the_site(pages: dict[Path, Page], site: Path) -> None:
    written = {str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in DOCS}
    built = {str(file.relative_to(site)) for file in pages}
    assert written | {"changelog.html", "contributing.html", "security.html", "benchmarks.html"} <= built


def test_no_page_fetches_anything_from_another_host(pages: dict[Path, Page], site: Path) -> None:
    for page in pages.values():
        for url in page.fetched:
            assert not re.match(r"(?:\w+:)?//", url), (page.file.name, url)
            assert (page.file.parent / unquote(url.split("?")[0])).exists() or url.startswith("/"), (
                page.file.name,
                url,
            )
    for sheet in site.rglob("*.css"):
        for url in re.findall(r"(?:url\(|@import\s+)['\"]?([^'\")]+)", sheet.read_text(encoding="utf-8")):
            assert not re.match(r"(?:https?:)?//", url), (sheet.name, url)


def test_every_link_of_the_site_leads_to_a_page_and_an_anchor(pages: dict[Path, Page]) -> None:
    for page in pages.values():
        if page.file.name == "404.html":  # its links begin at the root, wherever it is shown
            continue
        for link in page.links:
            if re.match(r"\w+:", link):
                continue
            path, _, anchor = link.partition("#")
            goal = (page.file.parent / unquote(path)).resolve() if path else page.file.resolve()
            goal = goal / "index.html" if goal.is_dir() else goal
            assert goal.exists(), (page.file.name, link)
            if anchor and goal in pages:
                assert unquote(anchor) in pages[goal].ids, (page.file.name, link)


def test_the_search_finds_what_the_reference_and_the_pages_say(site: Path) -> None:
    entries = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    titles = {re.sub("<.*?>", "", entry["title"]) for entry in entries}
    assert {"dp-synth ledger open", "Why do the epsilons not add up?", "Glossary"} <= titles
    assert (site / "search/search_index.js").exists()  # for pages that are opened from a disk


def test_the_reference_has_every_command_option_key_and_name(site: Path) -> None:
    shown = {p: (site / f"reference/{p}.html").read_text(encoding="utf-8") for p in ("cli", "yaml", "api")}

    def walk(name: str, command: object) -> None:
        subcommands = getattr(command, "commands", {})
        for word, subcommand in subcommands.items():
            walk(f"{name} {word}", subcommand)
        if not subcommands:
            assert f">{name}<" in shown["cli"], name
            for parameter in getattr(command, "params", ()):
                if parameter.param_type_name == "option" and parameter.name != "help":
                    assert f"<code>{parameter.opts[0]}</code>" in shown["cli"], (name, parameter.opts)

    walk("dp-synth", typer.main.get_command(app))
    for key in TableSettings.model_fields:
        assert f"<td><code>{key}</code></td>" in shown["yaml"], key
    for name in dp_synth_pipeline._LAZY:
        assert re.search(rf'id="dp_synth_pipeline[\w.]*\.{name}"', shown["api"]), name


def test_every_key_of_the_yaml_says_what_it_means(site: Path) -> None:
    text = (site / "reference/yaml.html").read_text(encoding="utf-8")
    rows = re.findall(r"<tr>\s*<td><code>(\w+)</code></td>(.*?)</tr>", text, re.DOTALL)
    silent = [
        key for key, rest in rows if not re.sub("<.*?>", "", re.findall(r"<td>(.*?)</td>", rest, re.DOTALL)[-1]).strip()
    ]
    assert not silent
    assert len(rows) > 80
