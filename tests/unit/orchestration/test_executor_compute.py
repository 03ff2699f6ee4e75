"""What a person declares about compute, and what each engine reads of it."""

import json
import logging
from contextlib import nullcontext

import dagster as dg
import pytest
from pydantic import ValidationError

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.executors.compute import (
    CELERY,
    COMPUTE,
    K8S,
    RAY,
    Compute,
    ComputeSettings,
    resolve,
)
from dp_synth_pipeline.orchestration.executors.placing import check_placed
from dp_synth_pipeline.orchestration.settings import TableSettings

DEFAULT = Compute(gpus=2)
POSTGRES = "postgresql+psycopg://someone@ledger/ledger"


def settings(table="visits", **changes):
    return TableSettings(**{"table": table, "source": "a.csv", "account": "a", "epsilon": 1.0, **changes})


def steps(definitions: dg.Definitions) -> dict[str, dg.AssetsDefinition]:
    parts = [*(definitions.assets or ()), *(definitions.asset_checks or ())]
    return {p.op.name: p for p in parts if isinstance(p, dg.AssetsDefinition) and p.is_executable}


def test_the_steps_own_tag_comes_first_then_the_runs_then_the_default():
    step, run = ({COMPUTE: json.dumps({"target": t})} for t in ("ray", "k8s"))
    assert resolve(step, run, DEFAULT).target == "ray"
    assert resolve({}, run, DEFAULT).target == "k8s"
    assert resolve({}, {}, DEFAULT) is DEFAULT


def test_a_step_that_declares_zero_gpus_gets_none_whatever_its_run_or_the_default_say():
    run = {COMPUTE: json.dumps({"target": "ray", "gpus": 1})}
    step = {k: v for k, v in Compute(gpus=0).tags().items() if k == COMPUTE}
    assert resolve(step, run, DEFAULT) == Compute(target="local", gpus=0)
    assert Compute(target="ray", gpus=0).tags()[RAY] == {"num_gpus": 0.0}
    assert "limits" not in str(Compute(target="k8s").tags()[K8S])


def test_ray_shares_a_gpu_and_the_others_refuse_a_part_of_one():
    assert Compute(target="ray", gpus=0.5).tags()[RAY]["num_gpus"] == 0.5
    for target in ("local", "k8s"):
        with pytest.raises(ValidationError, match="whole GPUs"):
            Compute(target=target, gpus=0.5)


def test_every_engine_reads_its_own_tag():
    tags = Compute(
        target="k8s",
        gpus=1,
        cpus=4,
        memory_gib=16,
        node_selector={"pool": "gpu"},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
    ).tags()
    assert tags[RAY] == {"num_gpus": 1.0, "num_cpus": 4.0, "memory": 16 * 2**30}
    assert tags[K8S]["container_config"]["resources"] == {
        "requests": {"cpu": "4", "memory": "16384Mi"},
        "limits": {"memory": "16384Mi", "nvidia.com/gpu": "1"},
    }
    assert tags[K8S]["pod_spec_config"] == {
        "node_selector": {"pool": "gpu"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
    assert tags[CELERY] == "gpu"
    assert CELERY not in Compute().tags()


@pytest.mark.parametrize(
    ("compute", "named"),
    [({"trainig": {}}, "trainig"), ({"training": {"gpu": 1}}, "gpu"), ({"training": 1}, "training")],
)
def test_an_unknown_key_is_refused_by_its_name(compute, named):
    with pytest.raises(ValidationError, match=named):
        settings(compute=compute)


def test_a_tag_that_cannot_be_read_is_refused_with_what_was_expected():
    for tag in ("one gpu", '{"target": "slurm"}', '{"gpus": -1}', "[]"):
        with pytest.raises(InvalidInput, match="run's tag dp_synth/compute cannot be read"):
            resolve({}, {COMPUTE: tag}, DEFAULT)


def test_only_a_stage_with_gpus_is_in_a_pool_since_a_killed_run_would_keep_its_slot():
    found = steps(build_defs([settings(compute={"training": {"gpus": 1}, "checks": {"cpus": 2}})]))
    assert {name: step.op.pool for name, step in found.items() if step.op.pool} == {
        "visits__generator": "gpu",
    }
    tagged = {name for name, step in found.items() if COMPUTE in step.op.tags}
    assert tagged == {"visits__generator", "visits__quality_report", "visits__checks"}


def test_without_compute_dagsters_own_executor_stays_and_no_step_is_tagged():
    definitions = build_defs([settings()])
    assert definitions.executor is None
    assert definitions.resolve_job_def("visits_refresh").executor_def.name == "multi_or_in_process_executor"
    assert not any(COMPUTE in step.op.tags for step in steps(definitions).values())


def test_one_table_with_compute_brings_the_router_for_its_job_and_for_a_single_asset():
    definitions = build_defs([settings("other"), settings(compute={"generation": {"cpus": 1}})])
    assert definitions.resolve_job_def("visits_refresh").executor_def.name == "dp_synth_executor"
    assert definitions.resolve_implicit_global_asset_job_def().executor_def.name == "dp_synth_executor"


@pytest.mark.parametrize("target", ["ray", "k8s"])
@pytest.mark.parametrize("stage", ["training", "checks"])
def test_a_ledger_in_a_file_is_refused_at_load_time_when_a_step_runs_elsewhere(target, stage, monkeypatch):
    table = settings(compute={stage: {"target": target}})
    monkeypatch.delenv("DP_SYNTH_LEDGER", raising=False)
    for url in ("", "sqlite:///ledger.db", "ledger.db"):
        with pytest.raises(InvalidInput, match=f"target {target} .* SQLite"):
            build_defs([table], ledger=url)
    build_defs([table], ledger=POSTGRES)
    monkeypatch.setenv("DP_SYNTH_LEDGER", POSTGRES)
    build_defs([table])


@pytest.mark.parametrize(
    ("compute", "stage", "executor", "refused"),
    [
        ({"training": {"target": "k8s"}}, "generator", "multiprocess", "run on k8s"),
        ({"training": {"target": "k8s"}}, "ingested", "multi_or_in_process_executor", "Nothing was read or charged"),
        ({"training": {"target": "k8s"}}, "published", "multiprocess", ""),
        ({"training": {"target": "k8s"}}, "ingested", "dp_synth_executor", ""),
        ({"training": {"target": "ray"}}, "generator", "ray", ""),
        ({"training": {"target": "k8s"}}, "generator", "execute_in_process_executor", ""),
        ({"executor": "celery"}, "published", "in_process", "run on celery"),
        ({"training": {"gpus": 1}}, "generator", "multiprocess", ""),
    ],
)
def test_what_an_executor_of_dagsters_own_would_run_elsewhere_than_its_table_says_is_refused(
    compute, stage, executor, refused
):
    compute = ComputeSettings.model_validate(compute)
    with pytest.raises(InvalidInput, match=refused) if refused else nullcontext():
        check_placed(compute, stage, executor, logging.getLogger("test"))


def test_a_step_that_gets_no_gpu_of_its_own_says_so_and_one_without_compute_says_nothing(caplog):
    gpu = ComputeSettings.model_validate({"training": {"gpus": 1}})
    check_placed(None, "generator", "multiprocess", logging.getLogger("test"))
    check_placed(gpu, "synthetic", "multiprocess", logging.getLogger("test"))
    assert caplog.text == ""
    check_placed(gpu, "generator", "multiprocess", logging.getLogger("test"))
    assert "gets none of its own here" in caplog.text


def test_where_a_table_runs_is_no_part_of_its_code_version():
    assert settings(compute={"training": {"gpus": 1}}).code_version() == settings().code_version()
