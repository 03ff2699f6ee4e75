"""What is made of real rows fails in silence: its owner finds why beside the rows, and nobody else hears of it."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dp_synth_pipeline.errors import DpSynthError, InvalidInput
from dp_synth_pipeline.reporting import quality_report

CANARY = "SECRET-CELL"


def release(folder: Path, *, guaranteed: bool = True) -> Any:
    return SimpleNamespace(restricted=folder, protection=SimpleNamespace(guaranteed=guaranteed))


def failing(error: Exception) -> Any:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize("error", [ValueError(CANARY), MemoryError(CANARY), DpSynthError(CANARY)], ids=repr)
def test_what_fails_over_real_rows_is_told_to_their_owner_alone(
    error: Exception, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        assert quality_report.unless_failed(release(tmp_path), failing(error)) is None
    (details,) = tmp_path.iterdir()
    assert details.name == "report-failed.txt"
    assert details.stat().st_mode & 0o777 == 0o600
    assert f"{type(error).__name__}: {CANARY}" in details.read_text()
    assert "Traceback" in details.read_text()
    assert CANARY not in "".join(capfd.readouterr()) + caplog.text


def test_what_does_not_fail_is_returned_and_leaves_no_file(tmp_path: Path) -> None:
    assert quality_report.unless_failed(release(tmp_path), lambda: 7) == 7
    assert not [*tmp_path.iterdir()]


def test_numbers_too_large_to_square_warn_nobody(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> float:
        warnings.warn(CANARY, RuntimeWarning, stacklevel=1)
        return float((np.array([1e300, -1.0]) ** 2).sum() - np.log(np.array([0.0]))[0])

    with warnings.catch_warnings(record=True) as seen, np.errstate(all="warn"):
        warnings.simplefilter("always")
        assert quality_report.unless_failed(release(tmp_path), work) == np.inf
    assert not seen
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("guaranteed", [True, False])
def test_what_is_public_is_refused_as_ever(guaranteed: bool, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        quality_report.unless_failed(release(tmp_path, guaranteed=guaranteed), failing(InvalidInput("no such file")))
    assert not [*tmp_path.iterdir()]


def test_without_a_guarantee_whatever_was_raised_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=CANARY):
        quality_report.unless_failed(release(tmp_path, guaranteed=False), failing(ValueError(CANARY)))
    assert not [*tmp_path.iterdir()]
