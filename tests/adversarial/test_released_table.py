"""An attack on the released table alone: whole releases of a small table, with a worst-case row and without it.

It is the weakest of the audits and the one nearest to what is published. `benchmarks/audit.py --table` makes the releases.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "audit.py"


def attacked(epsilon: float, releases: int) -> dict[str, float]:
    command = [
        sys.executable,
        str(PROGRAM),
        "--table",
        "--json",
        "--epsilon",
        str(epsilon),
        "--releases",
        str(releases),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(("epsilon", "releases"), [(1.0, 200), (8.0, 200)])
def test_the_released_table_proves_no_more_than_was_claimed(epsilon: float, releases: int) -> None:
    found = attacked(epsilon, releases)
    assert found["trials"] == 2 * releases
    assert found["of any mechanism"] <= epsilon


@pytest.mark.slow
@pytest.mark.nightly
def test_the_attack_is_not_blind() -> None:
    """With little noise the row's values come out more often than without the row, though chance hides many."""
    assert attacked(60.0, 100)["of any mechanism"] > 0
