"""The tutorial works as it is written: each command and file of the page, in its order, in a new project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.docs.pages import ROOT, Block, blocks, commands

pytestmark = pytest.mark.slow

STEPS = blocks(ROOT / "docs/tutorial.md")
IN_PROCESS = '--config-json \'{"execution": {"config": {"in_process": {}}}}\''
"""Added to a launch: nine steps that each import torch in a process of their own would take minutes of the tests."""


def test_each_block_of_the_tutorial_says_what_the_test_does_with_it() -> None:
    assert STEPS
    assert [str(step) for step in STEPS if not step.mark.startswith(("run", "file ", "skip; "))] == []


def test_the_tutorial_works_as_it_is_written(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for step in STEPS:
        if step.mark.startswith("file "):
            file = shell.folder / step.mark.removeprefix("file ")
            assert file.suffix == ".py" or file.exists(), f"{step}: the page says that {file.name} is replaced"
            file.write_text(step.text, encoding="utf-8")
        elif step.mark.startswith("run"):
            printed = shell.run(step)
            expected = step.mark.partition("prints: ")[2]
            assert expected in printed, f"{step} printed\n{printed}"
    table = yaml.safe_load((shell.folder / "src/hospital/defs/visits/defs.yaml").read_text(encoding="utf-8"))[
        "attributes"
    ]
    published = pd.read_parquet(shell.folder / table["target"])
    assert len(published) > 1000
    assert set(published.ward.dropna()) <= set(table["columns"]["ward"]["categories"])


class Shell:
    """A terminal that keeps its folder and its variables from one block to the next."""

    def __init__(self, folder: Path) -> None:
        programs = folder / "bin"
        programs.mkdir()
        command = programs / "dp-synth"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dp_synth_pipeline "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        self.folder, self._state = folder, folder / "state"
        self._variables = os.environ | {
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT}:{folder}/hospital/src",  # as `pip install -e .` of the page would
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "OMP_NUM_THREADS": "1",
        }

    def run(self, step: Block) -> str:
        """Run a block; fail with what it printed unless each of its commands ends well."""
        if step.language == "python":
            return self._run(step, f"python - <<'PROGRAM'\n{step.text}PROGRAM")
        lines = [re.sub(r"^(dg launch .*)$", rf"\1 {IN_PROCESS}", line) for line in commands(step)]
        return self._run(step, "\n".join(lines))

    def _run(self, step: Block, script: str) -> str:
        whole = f"set -e\n{script}\npwd > {self._state}\nenv -0 >> {self._state}\n"
        done = subprocess.run(
            ["bash", "-c", whole], cwd=self.folder, env=self._variables, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"{step}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        folder, _, variables = self._state.read_text(encoding="utf-8").partition("\n")
        self.folder = Path(folder)
        self._variables = dict(pair.split("=", 1) for pair in variables.split("\0") if "=" in pair)
        return done.stdout + done.stderr
