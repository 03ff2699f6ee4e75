"""A refresh remembers what its own account paid for and what was released, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.model.marginals import storage
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals
from dp_synth_pipeline.model.marginals.remembering import Memory
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.synthesis import generator_files, memory, profile_cache
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.run_state import dump_schema
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular import schema as schema_lib
from dp_synth_pipeline.tabular.profiling.profile import TableProfile

LAYOUT = Layout((2, 3), ((0, 1),))
MEASURED = Marginals(LAYOUT, np.arange(6) * 100.0, 2.0, 1500)
KNOWN = Memory.begun(MEASURED)
SCHEMA = dump_schema(schema_lib.build({"flag": pa.bool_(), "word": pa.string()}))
PROFILE = TableProfile(1000, 1000, "row", (), (Gaussian(20.0),))
REMEMBER = {"remember": True, "epsilon": 0.25}


class Place:
    """A ledger and a store with the releases of one table."""

    def __init__(self, folder: Path) -> None:
        self.ledger, self.store = Ledger.open(str(folder / "ledger.db")), Store(folder / "store")
        self.ledger.open_account("people", epsilon=20.0, delta=1e-5, why="test")
        self.ledger.open_account("others", epsilon=20.0, delta=1e-5, why="test")

    def begun(self, key: str, **changes) -> Release:
        """A release whose profile is there: what it measured was charged."""
        terms = {"table": "t", "source": "t.csv", "account": "people", "epsilon": 1.0, "refresh": REMEMBER, **changes}
        release = Release.reserve(ReleaseSettings(**terms), self.ledger, self.store, key=key, run_id=key)
        path = release.restricted / "profile.json"
        path.write_text(PROFILE.to_json())
        release.state = release.state.with_(profile=path, profile_release="first").reading(SCHEMA, "", 0)
        return release

    def measured(self, key: str, *earlier: str, **changes) -> Release:
        """A release that measured its marginals and keeps what it knows."""
        release = self.begun(key, **changes)
        release.charge("marginals", [Gaussian(9.0)])
        self.know(release, *earlier)
        return release

    @staticmethod
    def know(release: Release, *earlier: str) -> None:
        memory.keep(KNOWN, release.restricted)
        release.state = release.state.with_(remembered=list(earlier) or None)

    def released(self, key: str, *earlier: str, **changes) -> Release:
        """A release that is settled, and lies where it may leave."""
        release = self.measured(key, *earlier, **changes)
        self.ledger.settle(release.id)
        self.put(release)
        return release

    @staticmethod
    def put(release: Release, given_by: str = "") -> None:
        folder = release.folder / generator_files.FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(memory.waiting(release.restricted), folder / generator_files.MEMORY)
        facts = {"release": release.id, **memory.facts(release.state, release.restricted, given_by)}
        (folder / generator_files.DESCRIBED).write_text(json.dumps({"facts": facts}))


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def find(release: Release) -> tuple[memory.Remembered | None, str]:
    return memory.find(release.protection, release.folder, release.state)


def found(place: Place, **changes) -> tuple[str, ...] | None:
    remembered, _ = find(place.begun("next", **changes))
    return None if remembered is None else remembered.releases


def test_what_was_released_and_paid_for_is_remembered_as_it_was(place):
    first = place.released("1")
    second = place.released("2", first.id)
    remembered, why = find(place.begun("next"))
    assert remembered is not None
    assert (remembered.releases, remembered.last, why) == ((first.id, second.id), second.id, "")
    assert remembered.memory.layout == LAYOUT
    assert np.array_equal(remembered.memory.shares, KNOWN.shares)
    assert remembered.memory.rows == KNOWN.rows


def test_codes_that_are_given_with_rows_must_mean_what_they_meant_too(place):
    first = place.measured("1")
    place.ledger.settle(first.id)
    place.put(first, "what patients are")
    release = place.begun("next")
    remembered, _ = memory.find(release.protection, release.folder, release.state, "what patients are")
    assert remembered is not None
    for other in ("", "what patients are now"):
        found = memory.find(release.protection, release.folder, release.state, other)
        assert found == (None, memory.OTHER_CODES)


def test_nothing_is_remembered_by_who_does_not_ask(place):
    place.released("1")
    assert found(place, refresh={}) is None


def test_a_release_that_is_not_settled_is_not_remembered(place):
    place.put(place.measured("1"))
    assert found(place) is None


def test_a_release_that_was_voided_is_not_remembered(place):
    release = place.begun("1")
    place.know(release)
    place.ledger.void(release.id, "test")
    place.put(release)
    assert found(place) is None


def test_a_release_that_was_settled_for_a_reason_let_nothing_out_and_is_not_remembered(place):
    release = place.measured("1")
    place.ledger.settle(release.id, why="it crashed", who="test")
    place.put(release)
    assert found(place) is None


def test_another_accounts_release_is_not_remembered(place):
    place.released("1")
    assert found(place, account="others") is None


def test_another_tables_release_is_not_remembered(place):
    release = place.released("1")
    there = place.store.releasable("u")
    shutil.copytree(release.folder / generator_files.FOLDER, there / generator_files.FOLDER)
    assert found(place, table="u") is None


def test_nothing_is_remembered_through_a_release_that_nobody_knows(place):
    place.released("1", "0" * 32)
    assert found(place) is None


def test_what_was_deleted_is_not_remembered(place):
    first = place.released("1")
    (first.folder / generator_files.FOLDER / generator_files.MEMORY).unlink()
    assert found(place) is None


def test_what_lies_beside_another_releases_generator_is_not_remembered(place):
    first, second = place.released("1"), place.released("2")
    folder = first.folder / generator_files.FOLDER
    described = {"release": second.id, **memory.facts(first.state, first.restricted)}
    (folder / generator_files.DESCRIBED).write_text(json.dumps({"facts": described}))
    assert found(place) is None


def test_other_numbers_than_were_released_are_not_remembered(place):
    first = place.released("1")
    storage.save_memory(first.folder / generator_files.FOLDER / generator_files.MEMORY, KNOWN.updated(MEASURED))
    assert found(place) is None


def test_a_file_that_cannot_be_read_is_no_memory(place):
    first = place.released("1")
    (first.folder / generator_files.FOLDER / generator_files.MEMORY).write_bytes(b"\x08")
    assert found(place) is None


def test_other_columns_begin_anew_and_say_so(place):
    place.released("1")
    release = place.begun("next")
    release.state = release.state.reading(dump_schema(schema_lib.build({"flag": pa.bool_()})), "", 0)
    assert find(release) == (None, memory.OTHER_CODES)


def cached(place: Place, release: str, account: str = "people") -> None:
    text = PROFILE.to_json()
    origin = profile_cache.Origin(account, release, {}, profile_cache._digest(text), 1.0, 1e-6, "2026-01-01")
    folder = place.store.releasable("t")
    (folder / profile_cache.PROFILE).write_text(text)
    profile_cache._write(folder, origin)


def test_a_refresh_that_goes_on_asks_for_its_own_epsilon_and_every_other_for_the_tables(place):
    assert place.begun("a").record.epsilon == 1.0, "nothing was released yet"
    place.released("1")
    assert place.begun("b").record.epsilon == 1.0, "there is no profile to go on with"
    cached(place, "first")
    assert place.begun("c").record.epsilon == 0.25
    assert place.begun("d", refresh={"remember": True}).record.epsilon == 1.0
    assert place.begun("e", account="others").record.epsilon == 1.0
    cached(place, "another")
    assert place.begun("f").record.epsilon == 1.0, "codes of another profile mean other values"
    cached(place, "first")
    profile_cache.renew(place.store.releasable("t"), "test")
    assert place.begun("g").record.epsilon == 1.0, "a person asked for a new profile"
