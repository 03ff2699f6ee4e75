"""Imports what this package uses of Dagster beyond its public names. Look here first when a new Dagster is out.

Each name here has no public form in the oldest version that is supported. Nothing else imports a private module of it.
"""

from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.errors import DagsterUserCodeProcessError
from dagster._core.events import EngineEventData
from dagster._core.execution.context.compute import current_execution_context
from dagster._core.execution.context.system import StepExecutionContext
from dagster._core.execution.retries import RetryMode, get_retries_config
from dagster._core.executor.step_delegating import (
    CheckStepHealthResult,
    StepDelegatingExecutor,
    StepHandler,
    StepHandlerContext,
)
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    AUTO_MATERIALIZE_TAG,
    AUTOMATION_CONDITION_TAG,
    BACKFILL_ID_TAG,
    MAX_RETRIES_TAG,
    PARTITION_NAME_TAG,
)
from dagster._grpc.types import ExecuteStepArgs
from dagster._serdes import unpack_value
from dagster._utils.schedules import is_valid_cron_string, schedule_execution_time_iterator
from dagster.components.definitions import LazyDefinitions as LazyDefs
from dagster_shared.check import CheckError
from dagster_shared.error import SerializableErrorInfo
from dagster_shared.utils.config import discover_config_file
from dagster_shared.yaml_utils.source_position import SourcePositionTree

__all__ = [
    "ASSET_PARTITION_RANGE_END_TAG",
    "ASSET_PARTITION_RANGE_START_TAG",
    "AUTOMATION_CONDITION_TAG",
    "AUTO_MATERIALIZE_TAG",
    "BACKFILL_ID_TAG",
    "MAX_RETRIES_TAG",
    "PARTITION_NAME_TAG",
    "CheckError",
    "CheckStepHealthResult",
    "DagsterUserCodeProcessError",
    "EngineEventData",
    "ExecuteStepArgs",
    "InstanceRef",
    "LazyDefs",
    "RetryMode",
    "SerializableErrorInfo",
    "SourcePositionTree",
    "StepDelegatingExecutor",
    "StepExecutionContext",
    "StepHandler",
    "StepHandlerContext",
    "UnresolvedAssetJobDefinition",
    "current_execution_context",
    "discover_config_file",
    "get_retries_config",
    "is_valid_cron_string",
    "schedule_execution_time_iterator",
    "unpack_value",
]
