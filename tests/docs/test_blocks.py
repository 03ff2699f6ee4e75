"""What the pages show can be typed: commands parse, YAML is valid, Python runs, and figures follow from their formulas."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
import yaml
from scipy.optimize import brentq
from scipy.stats import norm

from dp_synth_pipeline.cli import app
from dp_synth_pipeline.orchestration.settings import RelatedTablesSettings, TableSettings
from tests.docs.pages import PAGES, ROOT, Block, blocks, commands

SHOWN = [block for page in PAGES for block in blocks(page)]
CONSOLE = [block for block in SHOWN if block.language in ("console", "sh")]
YAML = [block for block in SHOWN if block.language == "yaml"]


def parsed(line: str) -> None:
    """Parse a line of `dp-synth` as the program would, without running it."""
    words = shlex.split(line)[1:]
    command: Any = typer.main.get_command(app)
    path = "dp-synth"
    while hasattr(command, "commands"):
        assert set(words[:1]) & set(command.commands), f"{path} has no command {words[:1]}"
        path, command, words = f"{path} {words[0]}", command.commands[words[0]], words[1:]
        if words == ["--help"]:
            return
    command.make_context(path, words)


@pytest.mark.parametrize("block", CONSOLE, ids=str)
def test_every_command_of_the_pages_exists_with_its_options(block: Block) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for line in commands(block):
        for part in re.split(r" && | \| ", line):
            if part.startswith("dp-synth "):
                parsed(part)
            if part.startswith("make "):
                assert part.split()[1] in targets, part


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_sentence_or_an_indented_line_names_exists(page: Path) -> None:
    command: Any = typer.main.get_command(app)
    for line in re.findall(r"^ {4}(dp-synth .+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        parsed(re.sub(r"\s+#.*$", "", line).split(" | ")[0])
    for first, second in re.findall(r"`dp-synth ([a-z]+)(?: ([a-z]+))?[ `]", page.read_text(encoding="utf-8")):
        assert first in command.commands, (first, second)
        if second and hasattr(command.commands[first], "commands"):
            assert second in command.commands[first].commands, (first, second)


def test_a_command_that_does_not_exist_is_noticed() -> None:
    for line in ("dp-synth ledger opne visits --epsilon 1", "dp-synth ledger open visits --epsilons 1"):
        with pytest.raises((AssertionError, Exception), match=r"no command|No such option"):
            parsed(line)


@pytest.mark.parametrize("block", [block for block in SHOWN if block.language == "python"], ids=str)
def test_every_python_of_the_pages_is_a_program(block: Block) -> None:
    compile(block.text, str(block), "exec")


@pytest.mark.parametrize("block", YAML, ids=str)
def test_every_yaml_of_the_pages_is_valid(block: Block) -> None:
    content = yaml.safe_load(block.text)
    if content.get("type") == "dp_synth_pipeline.SyntheticTable":
        table = content["attributes"]
    elif content.get("type") == "dp_synth_pipeline.SyntheticDatabase":
        RelatedTablesSettings(**{"database": "clinic", **content["attributes"]})
        return
    elif set(content) <= {"execution", "expectations"}:  # Dagster's run configuration, and Great Expectations' suite
        return
    else:
        assert set(content) <= set(TableSettings.model_fields), f"{block}: not keys of a table: {set(content)}"
        table = {"source": "visits.parquet", "account": "visits", "epsilon": 1.0} | content
    TableSettings(**{"table": "visits", **table})


@pytest.fixture
def patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """A table for the blocks, in a folder with homes of their own: of so many people that noise hides no age."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path / "home"))
    chance = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "patient_id": np.arange(8000) // 2,
            "age": chance.integers(0, 90, 8000),
            "sex": chance.choice(["F", "M"], 8000),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/files-and-notebooks.md"])
def test_the_python_of_a_page_runs_as_it_stands(
    page: str, patients: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dp_synth_pipeline as dps
    from dp_synth_pipeline.synthesizer import Synthesizer

    ((block),) = blocks(ROOT / page, "python")

    def quick(*arguments: Any, **keywords: Any) -> Synthesizer:
        return Synthesizer(*arguments, **keywords, training={"max_epochs": 1}, show=False)

    monkeypatch.setattr(dps, "Synthesizer", quick, raising=False)
    names: dict[str, Any] = {"frame": patients}
    exec(compile(block.text, str(block), "exec"), names)
    assert names["model"].epsilon <= 1.5
    assert list(names["model"].sample(10).columns) == list(patients.columns)


def test_the_definitions_that_a_page_builds_have_the_assets_that_it_lists(patients: pd.DataFrame) -> None:
    page = ROOT / "docs/your-table.md"
    ((block),) = blocks(page, "python")
    names: dict[str, Any] = {}
    exec(compile(block.text, str(block), "exec"), names)
    keys = {key.path[-1] for assets in names["definitions"].assets or () for key in getattr(assets, "keys", ())}
    listed = set(
        re.findall(r"^\| `(\w+)` \|", page.read_text(encoding="utf-8").split("## What becomes of it")[1], re.MULTILINE)
    )
    assert listed == keys


def test_the_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    def table(page: str, wide: int) -> list[list[str]]:
        lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
        cells = [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines if line[:2] == "| "]
        return [row for row in cells if len(row) == wide and row[1] in ("2.51", "1", "none")]

    measured = table("benchmarks/README.md", 9)
    told = [row for row in table("README.md", 6) if not row[0].startswith("real rows")]
    assert len(told) == 7
    for name, epsilon, distance, disc, tstr, seconds in told:
        who = name.replace("dp_synth_pipeline", "dp-synth").split("*")[0].split()[0].strip(",")
        same = [row for row in measured if row[0].startswith(who) and row[1] == epsilon and row[6] == tstr]
        assert [(row[3], row[5], row[8]) for row in same] == [(distance, disc, seconds)], name


def rows(page: str, heading: str) -> list[list[float]]:
    """Return the figures of the first table under a heading."""
    under = (ROOT / page).read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = re.findall(r"^\| *([\d.,]+) *\|(.+)\|$", under, re.MULTILINE)
    return [[float(n.replace(",", "")) for n in re.findall(r"[\d.,]*\d(?:e-\d+)?", f"{a}|{b}")] for a, b in table]


def test_what_a_belief_may_become_follows_from_epsilon() -> None:
    figures = rows("docs/choosing.md", "What an ε means")
    assert len(figures) == 6
    for epsilon, half, hundredth, right, found in figures:
        odds = math.exp(epsilon)
        assert half == pytest.approx(100 * odds / (1 + odds), abs=0.5)
        assert hundredth == pytest.approx(odds / (0.99 + 0.01 * odds), rel=0.03)
        mu = brentq(
            lambda m, e=epsilon: norm.cdf(m / 2 - e / m) - math.exp(e) * norm.cdf(-m / 2 - e / m) - 1e-5, 0.01, 20
        )
        assert right == pytest.approx(100 * norm.cdf(mu / 2), abs=0.6)
        assert found == pytest.approx(100 * norm.cdf(norm.ppf(0.01) + mu), rel=0.05)


def test_the_deltas_of_a_page_are_those_of_delta_auto() -> None:
    figures = rows("docs/choosing.md", "δ")
    assert len(figures) == 4
    for units, delta, together in figures:
        assert delta == pytest.approx(units**-1.2, rel=0.05)
        assert together == pytest.approx(units * delta, rel=0.06)
