"""The walls of the house, seen from outside: what is imported when, and what lies in the repository."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "opacus", "great_expectations", "plotly", "opendp")


def imported(statement: str) -> set[str]:
    """Run a statement in a fresh interpreter and return the top-level modules it imported."""
    code = f"import sys; {statement}; print(' '.join({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.split())


def test_definitions_load_without_torch_opacus_or_great_expectations():
    found = imported("from dp_synth_pipeline.definitions import defs; defs()")
    assert "dagster" in found
    assert not found & set(HEAVY)


@pytest.mark.parametrize(
    "modules",
    [
        "dp_synth_pipeline.privacy.accountant, dp_synth_pipeline.privacy.mechanisms, dp_synth_pipeline.privacy.calibration",
        "dp_synth_pipeline.tabular.encoding.codec, dp_synth_pipeline.tabular.profiling.measure",
        "dp_synth_pipeline.tabular.sources.ingestion, dp_synth_pipeline.tabular.targets.sink",
        "dp_synth_pipeline.ledger",
    ],
)
def test_privacy_tabular_and_ledger_import_without_dagster_and_torch(modules):
    found = imported(f"import {modules}")
    assert not found & {"dagster", "torch", "opacus", "great_expectations"}


def test_the_package_itself_imports_nothing_heavy():
    assert not imported("import dp_synth_pipeline") & {"dagster", "pandas", "pyarrow", "numpy", *HEAVY}


def test_a_plan_and_its_cost_are_computed_without_torch():
    found = imported("from dp_synth_pipeline.orchestration import planning")
    assert not found & {"torch", "opacus"}


def test_import_linter_holds_its_contracts():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_broken_wall_is_noticed(tmp_path):
    """Without this, a contract that checks nothing would pass."""
    import shutil

    copy = tmp_path / "house"
    shutil.copytree(ROOT / "dp_synth_pipeline", copy / "dp_synth_pipeline")
    shutil.copy(ROOT / "pyproject.toml", copy)
    (copy / "dp_synth_pipeline/tabular/intruder.py").write_text("import torch\n")
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        cwd=copy,
        check=False,
    )
    assert done.returncode != 0
    assert "Torch and Opacus live under model BROKEN" in done.stdout


def test_no_noise_is_seeded_in_the_package():
    seeds = ("manual_seed(", "random_state=", "np.random.seed", "torch.seed", "default_rng(0")
    guilty = [
        path.relative_to(ROOT)
        for path in (ROOT / "dp_synth_pipeline").rglob("*.py")
        if any(seed in path.read_text() for seed in seeds)
    ]
    assert guilty == []
