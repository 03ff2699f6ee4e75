"""Reports how far a long stage is to a terminal, a notebook or Dagster's log, in public facts only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Listens to stages."""

    def report(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Take note that `done` of `total` parts of a stage are done."""

    def log(self, message: str) -> None:
        """Take note of a decision."""

    def warn(self, message: str) -> None:
        """Tell a person what is surely not meant, or came out empty; in public and released facts only."""

    def wait(self, stage: str, why: str) -> None:
        """Take note that a stage waits, and what for."""


class Silent:
    """Listens to nothing."""

    def report(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Say nothing."""

    def log(self, message: str) -> None:
        """Say nothing."""

    def warn(self, message: str) -> None:
        """Say nothing."""

    def wait(self, stage: str, why: str) -> None:
        """Say nothing."""


def unheard(*_: object) -> None:
    """Take a report that nobody listens to."""


def with_epsilon(report: Callable[..., None], epsilon: Callable[[int], float]) -> Callable[[int, int], None]:
    """Add to a callback what was spent when so many steps are done, worked out every tenth of the way."""
    tenth, note = -1, ""

    def reporting(done: int, steps: int) -> None:
        nonlocal tenth, note
        if done and 10 * done // steps > tenth:
            tenth = 10 * done // steps
            note = f"epsilon so far {epsilon(done):.3g}"
        report(done, steps, note)

    return reporting
