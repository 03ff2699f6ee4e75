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


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"plan": "weekly"}, "plan"),
        ({"reuse_profile": False}, "reuse_profile"),
        ({"training": {"method": "autoregressive"}}, "autoregressive"),
        ({"training": {"rake": False}}, "rake"),
        ({"columns": {"note": {"kind": "text", "max_length": 80}}}, "kind: text"),
        (
            {"privacy": "none", "account": None, "epsilon": None, "public": {"why": "open", "by": "Ana"}},
            "privacy: none",
        ),
    ],
)
def test_a_refresh_remembers_only_where_there_is_something_to_combine(asked: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=f"refresh: remember: it does not go with .*{why}"):
        settings(refresh={"remember": True}, **asked)
    settings(**asked)


def test_the_epsilon_of_a_refresh_that_goes_on_is_checked_like_every_other() -> None:
    with pytest.raises(ValueError, match="remember: true"):
        settings(refresh={"epsilon": 0.5})
    with pytest.raises(ValueError, match=r"between 0\.001 and 100"):
        settings(refresh={"remember": True, "epsilon": 1e-9})
    cut = {"column": "city", "values": ["Rome", "Oslo"]}
    with pytest.raises(ValueError, match="refresh: epsilon: it does not go with partitions"):
        settings(refresh={"remember": True, "epsilon": 0.5}, partitions=cut)
    with pytest.raises(ValueError, match=r"report_epsilon: it is a part of epsilon = 0\.1"):
        settings(refresh={"remember": True, "epsilon": 0.1}, validation={"report_epsilon": 0.05})


def test_a_table_does_not_remember_unless_somebody_says_so() -> None:
    assert not settings().refresh.remember
