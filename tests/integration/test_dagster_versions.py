"""The oldest Dagster that pyproject.toml allows has every name that we use of it, and makes a release."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import people

ROOT = Path(__file__).parents[2]
OLDEST = re.search(r'"dagster>=([\d.]+),', (ROOT / "pyproject.toml").read_text())

LOADED = """
import dagster
from dp_synth_pipeline.orchestration import dagster_internals
from dp_synth_pipeline.definitions import defs
assert all(hasattr(dagster_internals, name) for name in dagster_internals.__all__)
defs()
print(dagster.__version__)
"""


@pytest.fixture(scope="module")
def oldest(tmp_path_factory) -> tuple[str, dict[str, str]]:
    """The version, and an environment in which it stands before the installed one."""
    assert OLDEST is not None
    folder, version = tmp_path_factory.mktemp("dagster"), OLDEST[1]
    packages = [f"{name}=={version}" for name in ("dagster", "dagster-shared", "dagster-pipes")]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *packages], check=True
    )
    paths = os.pathsep.join([str(folder), str(ROOT)])
    return version, {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}


@pytest.mark.nightly
def test_definitions_load_with_the_oldest_dagster(oldest):
    version, environment = oldest
    done = subprocess.run([sys.executable, "-c", LOADED], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == version


@pytest.mark.nightly
def test_a_release_is_made_with_the_oldest_dagster(oldest, tmp_path):
    _, environment = oldest
    people(400).drop(columns="person").to_parquet(tmp_path / "t.parquet")
    asked = [
        "synthesize",
        "t.parquet",
        "--out",
        "o.parquet",
        "--epsilon",
        "2",
        "--open-account",
        "--purpose",
        "testing",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "dp_synth_pipeline", *asked],
        env={**environment, "DP_SYNTH_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "o.parquet").exists()
