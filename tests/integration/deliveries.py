"""A run whose steps a test delivers one by one, as a queue does."""

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import create_execution_plan, execute_plan_iterator

from tests.integration.conftest import Bench


class Deliveries:
    """One run whose steps are executed as a Celery task executes them: each by itself, as often as it is delivered."""

    def __init__(self, bench: Bench, **changes) -> None:
        self.job = InMemoryJob(bench.definitions(**changes).resolve_job_def("people_refresh"))
        self.instance = bench.instance
        self.quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        whole = create_execution_plan(self.job, self.quiet)
        self.run = self.instance.create_run_for_job(
            self.job.get_definition(), execution_plan=whole, run_config=self.quiet
        )

    def __call__(self, link: str) -> dg.DagsterEvent:
        """Deliver one link's step; return its last word."""
        plan = create_execution_plan(self.job, self.quiet, step_keys_to_execute=[f"people__{link}"])
        events = execute_plan_iterator(plan, self.job, self.run, self.instance, run_config=self.quiet)
        return next(e for e in reversed(list(events)) if e.is_step_success or e.is_step_failure)

    def well(self, *links: str) -> None:
        """Deliver these links' steps in turn, and say what went wrong with the first that fails."""
        for link in links:
            last = self(link)
            assert last.is_step_success, f"{link}: {last.step_failure_data.error_display_string}"
