"""What the documents promise of each other, and of the package, is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import dp_synth_pipeline
from dp_synth_pipeline.reporting.card import to_json
from tests.unit.reporting.test_card import CARD

ROOT = Path(__file__).parents[2]


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == dp_synth_pipeline.__version__


def test_the_lines_that_find_affected_releases_list_every_card_with_its_mechanisms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("visits/cards", "visits/partition=2026-01-01/cards"):
        (tmp_path / "store/releasable" / folder).mkdir(parents=True)
        (tmp_path / "store/releasable" / folder / "r.json").write_text(to_json(CARD), encoding="utf-8")
    (block,) = re.findall(r"```python\n(.+?)```", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec("\n".join(line.removeprefix("   ") for line in block.splitlines()), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all("subsampled_gaussian" in line for line in lines)
