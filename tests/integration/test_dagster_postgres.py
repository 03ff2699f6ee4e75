"""`dagster.postgres.yaml` with a real PostgreSQL: a run, its events and its pools."""

import os
import shutil
import uuid
from pathlib import Path

import dagster as dg
import psycopg
import pytest
import sqlalchemy as sa
from dagster._core.instance.config import PoolGranularity

SERVER = os.environ.get("DP_SYNTH_TEST_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432/test")
FILE = Path(__file__).parents[2] / "dagster_home/dagster.postgres.yaml"


@pytest.fixture
def database():
    """A new empty database, dropped afterwards."""
    name = f"dagster_{uuid.uuid4().hex[:12]}"
    try:
        server = psycopg.connect(SERVER, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError:
        pytest.skip("no PostgreSQL server; set DP_SYNTH_TEST_POSTGRESQL")
    with server:
        server.execute(f"create database {name}")
        yield name
        server.execute(f"drop database {name} with (force)")


@dg.op(pool="gpu")
def learn(context):
    context.log.info("learnt")


@dg.job
def refresh():
    learn()


def test_dagster_loads_the_file_and_a_runs_events_land_in_postgresql(database, tmp_path, monkeypatch):
    server = sa.make_url(SERVER)
    facts = {
        "HOST": server.host or "127.0.0.1",
        "PORT": str(server.port or 5432),
        "USER": server.username or "postgres",
        "PASSWORD": server.password or "unused",
        "DB": database,
    }
    for name, value in facts.items():
        monkeypatch.setenv(f"DAGSTER_PG_{name}", value)
    shutil.copy(FILE, tmp_path / "dagster.yaml")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        pools = instance.get_concurrency_config().pool_config
        assert (pools.default_pool_limit, pools.pool_granularity) == (1, PoolGranularity.OP)
        assert instance.telemetry_enabled is False
        assert instance.run_monitoring_enabled
        assert type(instance.run_coordinator).__name__ == "QueuedRunCoordinator"
        instance.event_log_storage.set_concurrency_slots("gpu", 4)
        result = refresh.execute_in_process(instance=instance)
        assert result.success
        assert instance.event_log_storage.get_concurrency_info("gpu").slot_count == 4
    with psycopg.connect(SERVER.rsplit("/", 1)[0] + f"/{database}") as reader:
        kinds = reader.execute(
            "select dagster_event_type from event_logs where run_id = %s", [result.run_id]
        ).fetchall()
        (run,) = reader.execute("select status from runs where run_id = %s", [result.run_id]).fetchone()
    assert run == "SUCCESS"
    assert {"STEP_START", "STEP_SUCCESS"} <= {kind for (kind,) in kinds}
    assert not list(tmp_path.rglob("*.db"))  # nothing fell back to SQLite
