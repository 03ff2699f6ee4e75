"""Celery as a job's executor: what the YAML becomes, what is refused, and that an attempt has one first delivery."""

import sys
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster._core.execution.plan.state import KnownExecutionState
from pydantic import ValidationError

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.executors.compute import CELERY, ComputeSettings
from dp_synth_pipeline.orchestration.executors.placing import executor_of
from tests.unit.orchestration.test_executor_compute import POSTGRES, settings, steps

pytest.importorskip("dagster_celery", reason="the extra celery is not installed")

URL = "redis://someone:a-password@queue/0"
QUEUED = {"executor": "celery", "broker": URL, "backend": URL}


def test_the_jobs_executor_and_the_locations_are_celerys_with_the_broker_of_the_yaml():
    tables = [settings(compute={**QUEUED, "training": {"gpus": 1}}), settings("other", compute=QUEUED)]
    definitions = build_defs(tables, ledger=POSTGRES)
    job = definitions.resolve_job_def("visits_refresh").executor_def
    assert job is definitions.executor is definitions.resolve_job_def("other_refresh").executor_def
    assert definitions.resolve_implicit_global_asset_job_def().executor_def is job
    assert job.name == "celery"
    given = job.apply_config_mapping({}).value["config"]
    assert (given["broker"], given["backend"]) == (URL, URL)


def test_steps_with_gpus_go_to_the_gpu_queue_and_a_queue_may_be_named():
    compute = {**QUEUED, "training": {"gpus": 1}, "checks": {"queue": "slow"}}
    found = steps(build_defs([settings(compute=compute)], ledger=POSTGRES))
    queues = {name.split("__")[1]: step.op.tags[CELERY] for name, step in found.items() if CELERY in step.op.tags}
    assert queues["generator"] == "gpu"
    assert set(queues.values()) == {"gpu", "slow"}
    assert "ingested" not in queues


def test_a_ledger_in_a_file_is_refused_at_load_time(monkeypatch):
    monkeypatch.delenv("DP_SYNTH_LEDGER", raising=False)
    for compute in (QUEUED, {"executor": "celery"}):
        with pytest.raises(InvalidInput, match=r"executor celery .* SQLite"):
            build_defs([settings(compute=compute)], ledger="sqlite:///ledger.db")


@pytest.mark.parametrize("other", [{"training": {"gpus": 1}}, {"executor": "celery", "broker": "redis://other/0"}])
def test_two_executors_in_one_location_are_refused_without_showing_a_password(other):
    with pytest.raises(InvalidInput, match="executor: celery and another") as refused:
        build_defs([settings(compute=QUEUED), settings("other", compute=other)], ledger=POSTGRES)
    assert "password" not in str(refused.value)


@pytest.mark.parametrize(
    ("compute", "told"),
    [
        ({"broker": URL}, "goes with executor: celery"),
        ({**QUEUED, "training": {"target": "ray"}}, "got a target for training"),
        ({"executor": "dask"}, "executor"),
        ({"generation": {"workers": 2}}, "generation is one process"),
        ({"training": {"workers": 2, "gpus": 1}}, "a GPU of its own"),
    ],
)
def test_what_does_not_fit_together_is_refused_without_showing_a_password(compute, told):
    with pytest.raises(ValidationError, match=told) as refused:
        ComputeSettings(**compute)
    assert "a-password" not in str(refused.value)
    assert "a-password" not in repr(ComputeSettings(**QUEUED))


def test_training_has_a_process_for_each_gpu_or_as_many_as_are_declared():
    asked = {None: 1, 0.5: 1, 1: 1, 2: 2}
    for gpus, processes in asked.items():
        training = {"target": "ray", **({} if gpus is None else {"gpus": gpus})}
        assert ComputeSettings(training=training).training.processes == processes
    assert ComputeSettings(training={"workers": 3}).training.processes == 3


def test_without_the_extra_the_refusal_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dagster_celery", None)
    with pytest.raises(InvalidInput, match=r"pip install 'dp-synth-pipeline\[celery\]'"):
        executor_of(ComputeSettings(executor="celery", broker="redis://nobody/0"))


def test_only_the_first_delivery_of_an_attempt_is_told_to_go_on_and_a_retry_is_another_attempt():
    from dp_synth_pipeline.orchestration.executors.celery_worker import first_delivery

    @dg.op
    def step() -> None: ...

    @dg.job
    def one() -> None:
        step()

    with dg.DagsterInstance.ephemeral() as instance:
        run = instance.create_run_for_job(one)

        def deliver(retries: int, key: str = "step") -> bool:
            known = KnownExecutionState(previous_retry_attempts={key: retries})
            asked = SimpleNamespace(run_id=run.run_id, step_keys_to_execute=[key], known_state=known)
            return first_delivery(instance, asked)  # type: ignore[arg-type]

        assert [deliver(0), deliver(0), deliver(1), deliver(1), deliver(0)] == [True, False, True, False, False]
        assert deliver(0, "another")
        dropped = [e for e in instance.all_logs(run.run_id) if "delivered before" in e.get_dagster_event().message]
        assert [e.step_key for e in dropped] == ["step"] * 3
