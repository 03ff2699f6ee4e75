"""A URI is shown without its secrets, whatever its form."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources import source
from dp_synth_pipeline.tabular.sources.warehouse import address
from dp_synth_pipeline.tabular.sources.warehouse.address import shown
from dp_synth_pipeline.targets import sink

SECRET = "hunter2"


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://ann:hunter2@db/clinic?table=t",
        "postgresql://hunter2@db/clinic?table=t",
        "postgresql://ann:a@hunter2@db/clinic?table=t",
        "postgresql://ann:a/hunter2@db/clinic?table=t",
        "postgresql://ann:a?hunter2@db/clinic?table=t",
        "postgresql://ann:hunter2?a@db/clinic?table=t",
        "postgresql://ann:hunter2#a@db/clinic?table=t",
        "postgresql://db/clinic?password=a@hunter2&table=t",
        "postgresql://db/clinic?table=t&sslpassword=hunter2",
        "postgresql:ann:hunter2@db/clinic",
        "postgresql:/ann:hunter2@db/clinic",
        "POSTGRESQL://ann:hunter2@db/clinic",
        "snowflake://ann:hunter2@org-acct/d/s?table=t&token=hunter2",
        "bigquery://p/d?table=t&credentials=/hunter2.json",
        "s3://key:hunter2@bucket/x.parquet",
        "mysql+pymysql://ann:hunter2@db/clinic",
        "host=db user=ann password=hunter2 dbname=clinic",
        "duckdb:///x.duckdb?table=t&encryption_key=hunter2",
    ],
)
def test_no_secret_is_shown_and_no_refusal_repeats_it(uri):
    assert SECRET not in shown(uri)
    for asked in (source.parse, sink.check_writable):
        assert SECRET not in said(asked, uri)


def said(asked: Callable[[str], object], uri: str) -> str:
    try:
        return repr(asked(uri))
    except InvalidInput as refused:
        return str(refused)


@pytest.mark.parametrize(
    "uri", ["a@b.csv", "data/*.parquet", "duckdb:///a@b/x.duckdb?table=s.t", "demo://rand_hie", "delta:///lake/a@b"]
)
def test_what_holds_no_secret_is_shown_as_it_is(uri):
    assert shown(uri) == uri


def test_an_address_tells_its_parts_to_the_driver_and_none_of_them_to_a_reader():
    found = address.split("postgresql://ann:p%40ss@db:5432/clinic?table=public.visits&sslmode=require", "form")
    assert found.table == ("public", "visits")
    assert found.user == ("ann", "p@ss")
    assert found.host == "db:5432"
    assert found.path == ("clinic",)
    assert found.options == {"sslmode": "require"}
    assert found.without_table == "postgresql://ann:p%40ss@db:5432/clinic?sslmode=require"
    assert "p%40ss" not in repr(found)
    assert "ann" not in repr(found)


@pytest.mark.parametrize(
    "uri", ["postgresql://db/clinic", "postgresql://db/clinic?table=", "postgresql://db/c?table=a..b"]
)
def test_a_uri_without_a_table_is_refused_with_the_form(uri):
    with pytest.raises(InvalidInput, match=r"names no table\. The form is FORM"):
        address.split(uri, "FORM")
