"""The restricted report of related tables."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.reporting.related_report import render_related
from dp_synth_pipeline.reporting.report import ReportMeta
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation.related_figures import RelatedFigures, measure_related
from dp_synth_pipeline.validation.related_frames import RelatedFrame
from dp_synth_pipeline.validation.suggested_rules import SuggestedRule
from tests.integration.clinic import clinic
from tests.unit.validation.databases import RELATIONS, as_real, as_synthetic, schemas

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def figures(tmp_path_factory) -> RelatedFigures:
    folder, real, drawn = tmp_path_factory.mktemp("page"), clinic(300), clinic(300)
    drawn["visits"]["ward"] = np.random.default_rng(1).permutation(drawn["visits"]["ward"])
    frames = as_real(real, folder / "real"), as_synthetic(drawn, folder / "drawn")
    return measure_related(RELATIONS, schemas(real, folder / "schemas"), *frames)


@pytest.fixture(scope="module")
def html(figures) -> str:
    return render_related(figures, ReportMeta("clinic", epsilon=3.0, delta=1e-5, unit="patient_id"))


def test_the_page_is_restricted_loads_nothing_and_runs_nothing(html: str) -> None:
    head = html[: html.index("<h1>")]
    assert "RESTRICTED" in head
    assert "Holds real rows" in head
    assert not re.search(r"<script|(src|href|action)\s*=|https?:|@import|url\(", html)
    assert "default-src 'none'" in html


def test_the_page_begins_with_the_verdict_of_all_tables_and_the_weakest_places(html: str, figures) -> None:
    assert f'<section class="verdict {figures.verdict}">' in html
    first = html[: html.index("<h2>The tables</h2>")]
    assert "ward \u00d7 ward" in first
    assert "visits, before and after" in first


def test_the_page_has_histories_what_is_across_tables_and_each_table_as_by_itself(html: str) -> None:
    titles = re.findall(r'<h2 class="part">(.*?)</h2>', html)
    assert titles == ["Histories", "Across tables", "patients", "visits", "drugs", "How to read this"]
    assert re.findall(r'<h3 class="history">(.*?)</h3>', html) == [
        "visits, for each row of patients",
        "drugs, for each row of visits",
        "visits beside patients",
        "drugs beside visits",
        "drugs beside patients",
        "Numbers of rows of a person, jointly",
    ]
    assert html.count("<h3>Rows, side by side</h3>") == 3
    assert "Name one under" not in html  # a database has no `validation`
    assert "validation:" not in html


def test_no_rule_is_offered_for_pasting_since_none_is_kept_in_drawing(figures) -> None:
    rule = SuggestedRule("other: {after: score}", 100, 0.2, 0.3, 0.4, 1.0)
    visits = replace(figures.tables["visits"], rules=[rule])
    told = render_related(replace(figures, tables={**figures.tables, "visits": visits}), ReportMeta("clinic"))
    assert "after: score" not in unescape(told)


def test_a_column_s_line_says_how_often_it_stays_as_it_was(html: str, figures) -> None:
    step = next(s for s in figures.histories[0].steps if s.pair.left == "ward")
    assert step.stays_real == 1
    line = re.search(r'<tr><td class="name">ward</td>.*?</tr>', html[html.index("Histories") :])
    assert line is not None
    assert "100.0 %" in line[0]
    assert f"{100 * step.stays_synthetic:.1f} %" in line[0]


def test_every_figure_can_be_read_without_seeing_it(html: str) -> None:
    assert html.count("<h1") == 1
    assert all('role="img"' in figure and "aria-label" in figure for figure in re.findall(r"<svg.*?>", html))
    assert all('scope="' in th for th in re.findall(r"<th(?!ead)[^>]*>", html))
    assert html.count("<summary>Numbers</summary>") == html.count('<svg class="columns"')


def test_ten_wide_tables_stay_small_enough_to_be_sent() -> None:
    rng = np.random.default_rng(1)
    names = [f"table_{i}" for i in range(10)]

    def wide(table: int, rows: int) -> pd.DataFrame:
        values = [f"a rather long value {k}" for k in range(12)]
        return pd.DataFrame(
            {
                f"a_rather_long_name_{table}_{i}": rng.choice(values, rows) if i % 2 else rng.normal(size=rows)
                for i in range(50)
            }
        )

    tables = [Related(names[0], key="key"), *(Related(n, None, names[0], "key", max_rows=3) for n in names[1:])]
    frames = []
    for _ in range(2):
        parent = np.sort(rng.integers(0, 100, 150))
        frames.append(
            {
                n: RelatedFrame(wide(i, 150 if i else 100), parent if i else None, parent if i else np.arange(100))
                for i, n in enumerate(names)
            }
        )
    schema = {
        n: build({c: pa.string() if i % 2 else pa.float64() for i, c in enumerate(f.rows)})
        for n, f in frames[0].items()
    }
    html = render_related(measure_related(Relations(tables), schema, *frames), ReportMeta("wide"))
    assert len(html.encode()) < 2_000_000
    assert html.count('<h2 class="part">table_') == 10
