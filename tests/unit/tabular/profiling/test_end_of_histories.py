"""Where histories end together is found by noisy counts of last rows, and where they do not, nothing is said."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.schema import TableSchema
from tests.unit.tabular.snapshots import take

PERSONS, NOISE = 4000, 20.0
DAY = 86_400_000_000


def end(last: pa.Array, folder: Path, noise: float = NOISE) -> float | None:
    """Return where the histories of persons of whom each has a last row are said to end."""
    table = pa.table({"score": np.arange(len(last)) % 7, "seen": last, "seen: the last": last})
    taken = take(table, folder)
    schema = replace(TableSchema(taken.schema.columns[:1]), order=taken.schema["seen"])
    plan = ProfilePlan(None, noise, 1e-6, population=len(last))
    return measure.measure(taken.path, schema, plan, len(last), Odometer(plan.histogram_events(schema))).end


def years(persons: int = PERSONS) -> np.ndarray:
    """Last years, of which one in eight is the year in which the data were taken."""
    rng = np.random.default_rng()
    return np.where(rng.random(persons) < 0.125, 2019, rng.integers(1950, 2019, persons))


def test_the_year_in_which_many_histories_end_is_found_to_the_year(tmp_path: Path) -> None:
    found = [end(pa.array(years()), tmp_path) for _ in range(5)]
    assert found.count(2019) >= 3, "one in 24 said nothing"


def test_days_and_moments_are_found_to_a_part_of_a_month(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    days = 19_000 - np.where(rng.random(PERSONS) < 0.7, rng.exponential(4, PERSONS), rng.uniform(0, 360, PERSONS))
    for last, unit in (
        (pa.array(days.astype(np.int32), pa.date32()), 1),
        (pa.array((days * DAY).astype(np.int64), pa.timestamp("us")), DAY),
    ):
        folder = tmp_path / str(unit)
        folder.mkdir()
        found = [end(last, folder) for _ in range(5)]
        near = [each for each in found if each is not None and 18_995 <= each / unit <= 19_015]
        assert len(near) >= 3, "18,999 to 19,011 in 24 runs, of which one said nothing"


@pytest.mark.parametrize("shape", ["thin", "wide", "few"])
def test_where_histories_end_at_no_time_together_nothing_is_said(tmp_path: Path, shape: str) -> None:
    rng = np.random.default_rng()
    last = {
        "thin": rng.exponential(300, PERSONS).astype(int),
        "wide": np.abs(rng.normal(2000, 300, PERSONS)).astype(int),
        "few": years(60),
    }[shape]
    assert end(pa.array(last), tmp_path) is None


def test_the_end_is_read_back_and_a_profile_of_an_earlier_version_has_none() -> None:
    profile = TableProfile(10, 10, "row", (), (), end=0.0)
    assert TableProfile.from_json(profile.to_json()) == profile
    assert '"end"' not in replace(profile, end=None).to_json()
