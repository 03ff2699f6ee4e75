"""The pages of the repository as tests read them: their blocks, links and anchors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *DOCS, ROOT / "benchmarks/README.md"])

BLOCK = re.compile(
    r"(?:^ *<!-- test: (?P<mark>[^>]+) -->\n)?^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page.

    Attributes:
        mark: what the comment above it tells the tests, which readers do not see; empty without one.
        language: what follows the fence, such as console.
        text: the block, without the indentation of a list that it lies in.
        line: where it begins in its page, from 1.
    """

    page: Path
    mark: str
    language: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return a page's fenced blocks of some languages, or all of them, in their order."""
    text = page.read_text(encoding="utf-8")
    found = [
        Block(page, m["mark"] or "", m["language"], dedent(m["text"]), text[: m.start("text")].count("\n"))
        for m in BLOCK.finditer(text)
    ]
    return [block for block in found if not languages or block.language in languages]


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """Return the targets of a page's links and pictures."""
    return re.findall(r"\]\(([^)\s]+)\)", prose(page))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site write them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]+)\]\([^)]+\)|[`*]", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


def commands(block: Block) -> list[str]:
    """Return the commands of a console block, without comments, with continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", block.text)
    stripped = (re.sub(r"\s+#.*$|^#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in stripped if line]
