"""The benchmarks that need no table run: a figure that nobody can repeat is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize(
    ("program", "options", "rows"),
    [
        (
            "step",
            ["--batch", "16", "--hidden", "2", "--rounds", "1", "--steps", "1"],
            ["| without DP", "| DP, one pass"],
        ),
        pytest.param(
            "scale",
            ["--point", "400", "3", "4", "--epochs", "1", "--limit", "4096"],
            ['"drawn": ', '"generator_s": '],
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "audit",
            ["--epsilon", "3", "--canaries", "2000"],
            ["| claimed |", "| 3.00 | "],
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["step", "scale", "audit"],
)
def test_a_benchmark_runs_and_prints_its_table(
    tmp_path: Path, program: str, options: list[str], rows: list[str]
) -> None:
    out = ["--out", str(tmp_path)] if program == "scale" else []
    command = [sys.executable, str(FOLDER / f"{program}.py"), *options, *out]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    assert all(row in done.stdout for row in rows)
