"""The walls of the house, seen from outside: what is imported when, and what lies in the repository."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("dp_accounting", "great_expectations", "opacus", "opendp", "plotly", "scipy", "torch")
"""Libraries that take up to seconds to import. Each is imported by what uses it, when it does."""


def imported(statement: str) -> set[str]:
    """Run a statement in a fresh interpreter and return the top-level modules it imported."""
    code = f"import sys; {statement}; print(' '.join({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.split())


def test_definitions_load_without_what_only_some_steps_need():
    found = imported("from dp_synth_pipeline.definitions import defs; defs()")
    assert "dagster" in found
    assert not found & set(HEAVY)


@pytest.mark.parametrize(
    "modules",
    [
        "dp_synth_pipeline.privacy.accountant, dp_synth_pipeline.privacy.mechanisms, dp_synth_pipeline.privacy.calibration",
        "dp_synth_pipeline.tabular.encoding.codec, dp_synth_pipeline.tabular.profiling.measure",
        "dp_synth_pipeline.tabular.sources.ingestion, dp_synth_pipeline.targets.sink",
        "dp_synth_pipeline.ledger",
        "dp_synth_pipeline.synthesis.stages, dp_synth_pipeline.synthesis.schema_inference",
        "dp_synth_pipeline.reporting.release_card",
    ],
)
def test_a_release_and_all_below_it_import_without_dagster_and_what_only_some_steps_need(modules):
    assert not imported(f"import {modules}") & {"dagster", *HEAVY}


def test_the_package_itself_imports_nothing_heavy():
    assert not imported("import dp_synth_pipeline") & {"dagster", "pandas", "pyarrow", "numpy", *HEAVY}


def test_a_plan_and_its_cost_are_computed_without_torch():
    found = imported("from dp_synth_pipeline.synthesis import allocation, release_plan, settings")
    assert not found & {"torch", "opacus"}


@pytest.mark.parametrize(
    "modules",
    [
        ", ".join(f"dp_synth_pipeline.model.{m}" for m in ("dpsgd", "marginals", "autoregressive", "base", "artifact")),
        ", ".join(f"dp_synth_pipeline.model.{m}" for m in ("dpsgd.spec", "dpsgd.plan", "dpsgd.work", "marginals.plan")),
        "dp_synth_pipeline.model.autoregressive.spec, dp_synth_pipeline.model.autoregressive.plan",
    ],
)
def test_the_packages_of_the_model_room_and_its_plans_import_without_torch(modules):
    assert not imported(f"import {modules}") & {"torch", "opacus"}


def test_a_model_that_draws_needs_nothing_of_what_training_does():
    found = imported("import dp_synth_pipeline.model.autoregressive.generator")
    assert "torch" in found
    assert not found & {"opacus", "scipy"}


def test_no_room_is_more_than_a_fifth_of_the_house():
    package = ROOT / "dp_synth_pipeline"
    lines = {f: len(f.read_text().splitlines()) for f in package.rglob("*.py")}
    rooms = {room: sum(n for f, n in lines.items() if room in f.parents) for room in package.iterdir() if room.is_dir()}
    assert max(rooms.values()) <= sum(lines.values()) / 5, max(rooms, key=lambda room: rooms[room]).name


def test_every_file_of_orchestration_imports_dagster_and_no_other_does():
    package = ROOT / "dp_synth_pipeline"
    imports = re.compile(
        r"^\s*(?:import dagster|from dagster|from dp_synth_pipeline.orchestration.dagster_internals)", re.M
    )
    files = [f for f in package.rglob("*.py") if f.name != "__init__.py"]
    thick = [
        f.relative_to(package).as_posix() for f in files if bool(imports.search(f.read_text())) != _in_orchestration(f)
    ]
    assert thick == ["definitions.py"]


def test_one_file_alone_imports_what_is_private_to_dagster():
    private = re.compile(r"^\s*(?:import|from) (?:dagster\._|dagster_shared)", re.M)
    guilty = [f.name for f in (ROOT / "dp_synth_pipeline").rglob("*.py") if private.search(f.read_text())]
    assert guilty == ["dagster_internals.py"]


def _in_orchestration(file: Path) -> bool:
    return (ROOT / "dp_synth_pipeline/orchestration") in file.parents


def test_import_linter_holds_its_contracts():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        ("tabular/intruder.py", "import torch", "Torch and Opacus live under model"),
        (
            "model/dpsgd/intruder.py",
            "from dp_synth_pipeline.model.autoregressive import network",
            "DP-SGD knows no network, and marginals know neither",
        ),
    ],
)
def test_a_broken_wall_is_noticed(tmp_path, module, statement, contract):
    """Without this, a contract that checks nothing would pass."""
    import shutil

    copy = tmp_path / "house"
    shutil.copytree(ROOT / "dp_synth_pipeline", copy / "dp_synth_pipeline")
    shutil.copy(ROOT / "pyproject.toml", copy)
    (copy / "dp_synth_pipeline" / module).write_text(f"{statement}\n")
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        cwd=copy,
        check=False,
    )
    assert done.returncode != 0
    assert f"{contract} BROKEN" in done.stdout


def test_no_noise_is_seeded_in_the_package():
    seeds = ("manual_seed(", "random_state=", "np.random.seed", "torch.seed", "default_rng(0")
    guilty = [
        path.relative_to(ROOT)
        for path in (ROOT / "dp_synth_pipeline").rglob("*.py")
        if any(seed in path.read_text() for seed in seeds)
    ]
    assert guilty == []
