"""When a cached profile is reused: only while its facts hold and the ledger knows who paid for it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Threshold
from dp_synth_pipeline.synthesis import profile_cache
from dp_synth_pipeline.synthesis.run_state import LATER, dump_schema, load_schema
from dp_synth_pipeline.tabular.kinds import Kind
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Column, TableSchema

COUNT, HISTOGRAMS = DiscreteLaplace(25.0, 1), (DiscreteGaussian(30.0, 1, 3), Threshold(1e-9))
PROFILE = TableProfile(
    600, 600, "row", (ColumnProfile("city", Kind.CATEGORY, ("Rome", "Oslo"), (0.7, 0.3)),), (COUNT, *HISTOGRAMS)
)
SCHEMA = '{"columns": []}'


def settings(**changes) -> TableSettings:
    facts = {"table": "people", "source": "people.parquet", "account": "people", "epsilon": 1.0}
    return TableSettings(**{**facts, **changes})


def reserve(ledger, account="people", key="k"):
    return ledger.reserve(
        account, key=key, epsilon=1.0, delta=1e-5, own_delta=5e-9, table="people", run_id="r", code_version="c"
    )


@pytest.fixture
def ledger(tmp_path):
    book = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    for name in ("people", "others"):
        book.open_account(name, epsilon=5.0, delta=1e-5, why="test")
    return book


@pytest.fixture
def kept(tmp_path, ledger):
    """A folder with a cached profile, and the release that was charged for it."""
    release = reserve(ledger)
    ledger.start(release.id, "row count", [COUNT])
    ledger.start(release.id, "profile", HISTOGRAMS)
    folder = tmp_path / "people"
    profile_cache.keep(folder, PROFILE, release, profile_cache.facts(settings(), release, SCHEMA))
    return folder, release


def found(kept, ledger, account="people", schema=SCHEMA, **changes):
    folder, release = kept
    return profile_cache.find(
        folder, account, profile_cache.facts(settings(**changes), release, schema), paying(ledger)
    )


def paying(ledger):
    return lambda release: ledger.entries(release_id=release)


def test_the_profile_of_a_charged_release_is_reused_while_its_facts_hold(kept, ledger):
    cached, why_not = found(kept, ledger)
    assert cached is not None
    assert cached.profile == PROFILE
    assert why_not == ""
    assert cached.origin.release == kept[1].id
    assert cached.origin.epsilon == accountant.epsilon(PROFILE.events, 1e-5)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"schema": '{"columns": [1]}'}, "another schema"),
        ({"unit": {"column": "p", "max_rows": 2}}, "another unit and max_rows"),
        ({"population": 600}, "another population"),
        ({"account": "others"}, "charged to account people"),
    ],
)
def test_a_profile_of_other_facts_or_another_account_is_not_reused(kept, ledger, changes, told):
    cached, why_not = found(kept, ledger, **changes)
    assert cached is None
    assert told in why_not


BORN = (Column("born", Kind.DATE, "date32[day]"),)


def test_another_format_of_a_csv_is_no_reason_to_measure_it_again(kept, ledger):
    """Formats shape what is written; a profile kept before there were any is as good."""
    folder, release = kept
    before = (
        TypeAdapter(TableSchema)
        .dump_json(
            TableSchema(BORN),
            exclude={"order": True, "columns": {0: set(LATER)}},
        )
        .decode()
    )
    schemas = [dump_schema(TableSchema((replace(BORN[0], format=f),))) for f in (None, "%d.%m.%Y", "%m/%d/%Y")]
    assert schemas[0] == before
    profile_cache.keep(folder, PROFILE, release, profile_cache.facts(settings(), release, before))
    assert all(found(kept, ledger, schema=text)[0] is not None for text in schemas)
    assert [load_schema(text)["born"].format for text in schemas] == [None, "%d.%m.%Y", "%m/%d/%Y"]


def test_a_declared_format_says_how_cells_are_read_so_another_one_is_another_profile(kept, ledger):
    folder, release = kept
    declared = [settings(columns={"born": {"format": f}}) for f in ("%d/%m/%Y", "%m/%d/%Y")]
    schemas = [dump_schema(TableSchema((replace(BORN[0], format=f),))) for f in ("%d/%m/%Y", "%m/%d/%Y")]
    facts = [profile_cache.facts(s, release, text) for s, text in zip(declared, schemas, strict=True)]
    profile_cache.keep(folder, PROFILE, release, facts[0])
    assert profile_cache.find(folder, "people", facts[0], paying(ledger))[0] is not None
    other = profile_cache.find(folder, "people", facts[1], paying(ledger))
    assert other == (None, "another schema than the cached profile's")


def test_a_profile_measured_under_another_relation_is_not_reused(kept, ledger):
    folder, release = kept
    wanted = profile_cache.facts(settings(), replace(release, relation="replace-one"), SCHEMA)
    found = profile_cache.find(folder, "people", wanted, paying(ledger))
    assert found == (None, "another relation than the cached profile's")


def test_a_profile_that_this_ledger_did_not_charge_is_not_reused(kept, tmp_path):
    other = Ledger.open(f"sqlite:///{tmp_path / 'other' / 'ledger.db'}")
    other.open_account("people", epsilon=5.0, delta=1e-5, why="test")
    cached, why_not = found(kept, other)
    assert cached is None
    assert "no charge" in why_not


def test_a_profile_whose_release_never_started_one_is_not_reused(kept, ledger):
    folder, _ = kept
    empty = reserve(ledger, key="other")
    profile_cache.keep(folder, PROFILE, empty, profile_cache.facts(settings(), empty, SCHEMA))
    assert found(kept, ledger)[0] is None


def test_a_profile_of_more_than_was_charged_is_not_reused(kept, ledger):
    folder, release = kept
    finer = replace(PROFILE, events=(COUNT, DiscreteGaussian(3.0, 1, 3), Threshold(1e-9)))
    profile_cache.keep(folder, finer, release, profile_cache.facts(settings(), release, SCHEMA))
    assert found(kept, ledger)[0] is None


def test_a_profile_charged_to_another_account_than_its_facts_say_is_not_reused(kept, ledger):
    folder, _ = kept
    facts = json.loads((folder / profile_cache.FACTS).read_text())
    (folder / profile_cache.FACTS).write_text(json.dumps(facts | {"account": "others"}))
    assert found(kept, ledger, account="others")[0] is None


def test_an_edited_a_torn_and_a_missing_profile_are_not_reused(kept, ledger):
    folder, _ = kept
    (folder / profile_cache.PROFILE).write_text(PROFILE.to_json().replace("Rome", "Roma"))
    assert "not the one that was released" in found(kept, ledger)[1]
    (folder / profile_cache.PROFILE).unlink()
    assert "no cached profile" in found(kept, ledger)[1]
    (folder / profile_cache.FACTS).write_text("{")
    assert found(kept, ledger)[0] is None


def test_a_profile_that_a_person_renews_is_not_reused_and_says_who_asked(kept, ledger):
    folder, _ = kept
    profile_cache.renew(folder, "drift")
    cached, why_not = found(kept, ledger)
    assert cached is None
    assert "asked for a new profile" in why_not
    assert profile_cache.read(folder).origin.renew["why"] == "drift"


def test_renewing_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no cached profile"):
        profile_cache.renew(tmp_path, "drift")
