"""Nothing is published that nobody paid for, or that is not the file which was drawn."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.synthesis.publication import Publication
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.sampling import sealed
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store


@pytest.fixture
def release(tmp_path) -> Release:
    """A release that is reserved, and a file that was drawn under it."""
    ledger = Ledger.open(str(tmp_path / "ledger.db"))
    ledger.open_account("people", epsilon=2.0, delta=1e-5, why="test")
    source, target = str(tmp_path / "t.csv"), str(tmp_path / "o.parquet")
    settings = ReleaseSettings(table="t", source=source, account="people", epsilon=1.0, target=target)
    made = Release.reserve(settings, ledger, Store(tmp_path / "store"), key="k", run_id="r")
    rows = tmp_path / "synthetic.parquet"
    pq.write_table(pa.table({"a": [1, 2]}), rows)
    made.state = made.state.with_(synthetic=rows, seal=made.protection.seal(sealed(made.id, rows)))
    return made


def settle(release: Release) -> None:
    release.charge("toy", [Gaussian(20.0)])
    release.protection.settle(release.id, delta=1e-5)


def test_what_is_paid_for_and_drawn_is_published(release, tmp_path):
    settle(release)
    release.run(Publication())
    assert pq.read_table(tmp_path / "o.parquet").to_pydict() == {"a": [1, 2]}
    assert release.state.facts.published


def test_what_nobody_paid_for_is_not_published(release, tmp_path):
    with pytest.raises(ReleaseStateError, match="reserved, not settled"):
        release.run(Publication())
    assert not (tmp_path / "o.parquet").exists()


def test_a_file_that_was_changed_since_is_not_published(release, tmp_path):
    settle(release)
    pq.write_table(pa.table({"a": [3]}), release.state.path("synthetic"))
    with pytest.raises(ReleaseStateError, match="was changed"):
        release.run(Publication())
    assert not (tmp_path / "o.parquet").exists()


def test_a_target_that_is_the_source_is_not_written(release, tmp_path):
    settle(release)
    pq.write_table(pa.table({"a": [9]}), tmp_path / "t.csv")
    (tmp_path / "o.parquet").symlink_to(tmp_path / "t.csv")
    with pytest.raises(InvalidInput, match="source itself"):
        release.run(Publication())
    assert pq.read_table(tmp_path / "t.csv").to_pydict() == {"a": [9]}
