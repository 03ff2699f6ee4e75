"""What would fail for sure is refused by the settings, before anything is charged."""

from __future__ import annotations

from typing import Any

import pytest

from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.privacy.budget import LEAST_RELEASE, MOST_RELEASE, check_epsilon
from dp_synth_pipeline.synthesis.settings import MOST_ROWS


def settings(**changes: Any) -> TableSettings:
    return TableSettings(**{"table": "t", "source": "t.csv", "account": "a", "epsilon": 1.0, **changes})


@pytest.mark.parametrize("epsilon", [1e-9, LEAST_RELEASE / 2, MOST_RELEASE * 2, 1e6])
def test_an_epsilon_that_no_release_works_with_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match=r"epsilon of one release must lie between 0\.001 and 100, got"):
        settings(epsilon=epsilon)
    check_epsilon(epsilon)  # an account may still hold it


@pytest.mark.parametrize("epsilon", [LEAST_RELEASE, 1.0, MOST_RELEASE])
def test_an_epsilon_within_the_limits_is_taken(epsilon: float) -> None:
    assert settings(epsilon=epsilon).charge.epsilon == epsilon


@pytest.mark.parametrize(
    "asked",
    [
        {"rows": MOST_ROWS + 1},
        {"rows": 99999999999999999999},
        {"population": 10**30},
        {"unit": {"column": "u", "max_rows": 10**20}},
    ],
)
def test_numbers_that_no_machine_could_serve_are_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="less than or equal to"):
        settings(**asked)
