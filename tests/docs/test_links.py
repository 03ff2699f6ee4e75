"""Links, anchors and paths of the pages lead somewhere, as they are read in the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, links, prose


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    for target in links(page):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), target
        assert not anchor or anchor in anchors(goal), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_of_the_repository_that_a_page_names_is_there(page: Path) -> None:
    tops = "benchmarks|dagster_home|docs|dp_synth_pipeline|examples|tests"
    made = {"benchmarks/results", "dagster_home/store"}  # by running what is there
    for path in re.findall(rf"`((?:{tops})/[\w./-]+)`", prose(page)):
        if re.search(r"\b[A-Z]{4,}\b", path.replace("_", " ")):  # stands for a name of the reader's own
            continue
        assert (ROOT / path).exists() or any(path.startswith(folder) for folder in made), path


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120
