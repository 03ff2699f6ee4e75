"""The restricted report."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from dp_synth_pipeline.reporting import report, templates
from dp_synth_pipeline.reporting.report import ReportMeta, render_report
from dp_synth_pipeline.synthesis.settings import ValidationSettings
from dp_synth_pipeline.tabular.constraints import holds
from dp_synth_pipeline.tabular.schema import Kind, build
from dp_synth_pipeline.validation import fidelity
from dp_synth_pipeline.validation.checks import CheckResult
from dp_synth_pipeline.validation.figures import MOST_PANELS, measure
from dp_synth_pipeline.validation.pair_shares import MOST_PAIRS
from dp_synth_pipeline.validation.panels import panel
from dp_synth_pipeline.validation.rows_per_unit import rows_per_unit
from tests.unit.validation.tables import good, schema


def page(real: pd.DataFrame, synthetic: pd.DataFrame, columns, **meta) -> str:
    return render_report(measure(real, synthetic, columns), ReportMeta("clinic", **meta))


@pytest.fixture(scope="module")
def html() -> str:
    failed = CheckResult("age__nulls", False, False, "age", "10.0% of age is null.")
    return page(good().to_pandas(), good(1).to_pandas(), schema(), epsilon=2.5, delta=1e-5, checks=[failed])


def section(html: str, title: str) -> str:
    """Return a section of the page without its markup."""
    found = re.search(rf"<h2>{title}</h2>(.*?)(?=<h2>)", html, flags=re.S)
    assert found is not None, title
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", found[1])).split())


def test_the_report_says_that_it_is_restricted_and_holds_real_rows(html: str) -> None:
    head = html[: html.index("<h1>")]
    assert "RESTRICTED" in head
    assert "Holds real rows" in head


def test_the_report_loads_nothing_and_runs_nothing(html: str) -> None:
    assert not re.search(r"<script|(src|href|action)\s*=|https?:|@import|url\(", html)
    assert "default-src 'none'" in html


@pytest.mark.parametrize(("columns", "categories"), [(9, 0), (150, 75)])
def test_a_page_is_small_enough_to_be_sent(columns: int, categories: int) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            f"a_rather_long_name_{i}": rng.choice([f"value {k}" for k in range(12)], 300)
            if i < categories
            else rng.normal(size=300)
            for i in range(columns)
        }
    )
    kinds = {n: pa.string() if i < categories else pa.float64() for i, n in enumerate(frame)}
    html = page(frame, frame, build(kinds))
    assert len(html.encode()) < 2_000_000
    assert html.count('<figure class="panel">') == min(columns, MOST_PANELS)
    assert ("worst of 150 columns are drawn" in html) == (columns == 150)


def test_a_table_with_a_line_for_each_column_ends_somewhere_and_says_so(html: str, monkeypatch) -> None:
    assert "Tables with a line for each column" not in html
    monkeypatch.setitem(report.LIMITS, "lines", 2)
    short = page(good().to_pandas(), good(1).to_pandas(), schema())
    assert "show 2 of 9 columns" in short
    assert section(short, "Columns, worst first").count(" %") == 4


def test_every_figure_can_be_read_without_seeing_it(html: str) -> None:
    assert html.count("<h1") == 1
    assert '<html lang="en">' in html
    for figure in re.findall(r"<svg.*?>", html):
        assert 'role="img"' in figure
        assert "aria-label" in figure
    assert all('scope="' in th for th in re.findall(r"<th(?!ead)[^>]*>", html))
    heat = re.findall(r'<table class="heat.*?</table>', html, flags=re.S)
    assert heat
    assert all("<caption>" in t and t.count('scope="col"') and t.count('scope="row"') for t in heat)
    assert html.count("<summary>Numbers</summary>") == html.count('<svg class="columns"')


def test_ten_rows_of_each_table_stand_under_one_heading(html: str) -> None:
    told = section(html, "Rows, side by side")
    assert told.index("Real rows") < told.index("Synthetic rows")
    rows = re.search(r'<table class="samples">.*?</table>', html, flags=re.S)
    assert rows is not None
    assert len(re.findall(r"<tr><td>", rows[0])) == 20


def test_no_real_row_stands_on_a_page_that_may_hold_none() -> None:
    real = good().to_pandas().assign(sector="a_real_sector", price=77.77)
    figures = measure(real, good(1).to_pandas(), schema())
    html = render_report(replace(figures, samples=figures.samples.without_real()), ReportMeta("clinic"))
    assert "Holds real rows" not in html
    told = section(html, "Rows, side by side")
    assert "No real row is shown" in told
    assert "a_real_sector" not in told
    assert "77.77" not in told
    assert "a_real_sector" in section(render_report(figures, ReportMeta("clinic")), "Rows, side by side")


def test_relation_has_one_meaning_and_one_figure_for_each_pair() -> None:
    figures = measure(good().to_pandas(), good(1).to_pandas(), schema())
    html = render_report(figures, ReportMeta("clinic"))
    assert not re.search(r"Pearson's r of|Cram|correlation ratio", html)
    assert html.count("<b>Relation</b> is the contingency coefficient") == 1
    worst = figures.fidelity.worst_pairs[0]
    real, synthetic = figures.relations.of(worst.left, worst.right)
    told = section(html, "Two columns at a time")
    assert f"{worst.left} \u00d7 {worst.right} {worst.distance:.3f} {real:.2f} {synthetic:.2f}" in told


def test_the_worst_pairs_are_drawn_real_beside_synthetic(html: str) -> None:
    figures = re.findall(r'<figure class="box pairplot">.*?</figure>', html, flags=re.S)
    assert len(figures) == MOST_PAIRS
    assert all("Real: % of the rows" in f and "Synthetic: % of the rows" in f for f in figures)


def test_rules_that_synthetic_rows_break_can_be_pasted() -> None:
    rng = np.random.default_rng(0)
    start = rng.integers(0, 1000, 400)
    real = pd.DataFrame({"start": start, "end": start + rng.integers(0, 30, 400)})
    synthetic = real.assign(end=real["end"].sample(frac=1, random_state=1).to_numpy())
    html = page(real, synthetic, build({"start": pa.int64(), "end": pa.int64()}))
    block = re.search(r"<pre><code>(.*?)</code></pre>", html, flags=re.S)
    assert block is not None
    pasted = yaml.safe_load(unescape(block[1]))
    assert build({"start": pa.int64(), "end": pa.int64()}, pasted["columns"])["end"].after == "start"
    assert "end: {after: start} all 400" in section(html, "Rules you may want")
    assert "Rules you may want" not in page(real, real, build({"start": pa.int64(), "end": pa.int64()}))


def test_formulas_that_synthetic_rows_break_can_be_pasted() -> None:
    rng = np.random.default_rng(0)
    real = pd.DataFrame({"unit price": rng.integers(1, 50, 400), "count": rng.integers(1, 9, 400)})
    real["total"] = real["unit price"] * real["count"]
    synthetic = real.assign(total=real["total"].sample(frac=1, random_state=1).to_numpy())
    columns = build(dict.fromkeys(real, pa.int64()))
    html = page(real, synthetic, columns)
    pasted = yaml.safe_load(unescape(section_code(html, "Formulas you may want")))
    (rule,) = ValidationSettings(**pasted["validation"]).parsed_rules
    assert holds(rule, pa.Table.from_pandas(real)).all()
    assert rule.text + " all 400" in unescape(section(html, "Formulas you may want"))
    assert "Formulas you may want" not in page(real, real, columns)


def section_code(html: str, heading: str) -> str:
    block = re.search(rf"{heading}</h\d>.*?<pre><code>(.*?)</code></pre>", html, flags=re.S)
    assert block is not None
    return block[1]


def test_rows_per_unit_are_told_where_a_unit_has_several() -> None:
    figures = measure(good().to_pandas(), good(1).to_pandas(), schema())
    units = rows_per_unit("patient <id>", pd.Series([1, 1, 2]), pd.Series([1, 2, 3]))
    html = render_report(figures, ReportMeta("clinic", max_rows=4), units=units)
    told = section(html, "Rows per patient &lt;id&gt;")
    assert "Each synthetic row is a patient <id> of its own." in told
    assert "1.5 on average, of at most 4 that take part" in told
    assert "1 50.0 % 100.0 % 2 50.0 % 0 %" in told
    unnamed = render_report(figures, ReportMeta("clinic"), units=rows_per_unit("patient", pd.Series([1, 1, 2]), None))
    assert "The synthetic table names no patient" in section(unnamed, "Rows per patient")
    assert "Rows per" not in render_report(figures, ReportMeta("clinic"))


def test_the_headline_holds_verdict_accuracy_rows_and_epsilon(html: str) -> None:
    for text in (
        "Accuracy",
        "columns, pairs, triples:",
        "2.5",
        "10⁻⁵",
        "400",
        "Weakest columns",
        "Weakest pairs",
        "age__nulls",
    ):
        assert text in html


def test_the_verdict_states_its_limits(html: str) -> None:
    head = html.split("Weakest columns")[0]
    for figures in ("excellent up to 0.01, good 0.03, fair 0.08", "good 0.06", "good 0.15"):
        assert figures in head


def test_the_verdict_says_what_it_would_be_without_a_column_that_is_empty() -> None:
    head = page(good().to_pandas(), good(1).to_pandas().assign(sector=None), schema()).split("Weakest columns")[0]
    assert "No value of sector is frequent enough to be released." in head
    assert "frequent enough" not in page(good().to_pandas(), good(1).to_pandas(), schema())


def test_the_three_worst_columns_and_pairs_come_before_everything_else() -> None:
    synthetic = good(1).to_pandas().assign(sector="north", amount=0.0, member=True)
    top = page(good().to_pandas(), synthetic, schema()).split('class="tiles"')[0]
    assert set(re.findall(r'<span class="name">(\w+)</span>', top)) == {"sector", "amount", "member"}
    assert len(re.findall(r'<span class="name">\w+ \u00d7 \w+</span>', top)) == 3


def test_groups_predictions_relations_rare_and_missing_values_have_their_places() -> None:
    frame = pd.concat([good(i).to_pandas() for i in range(4)], ignore_index=True)
    figures = measure(frame, frame, schema(), predict="member", sensitive=["sector"])
    html = render_report(figures, ReportMeta("clinic"))
    for text in (
        "sector: north",
        "Which columns go together",
        "Missing together",
        "Rare values",
        "numbers in either end",
    ):
        assert text in html
    assert "Can member be predicted as well?" in html
    assert "Can synthetic rows be told from real ones?" in html
    assert "difference 0.000" in html


def test_every_learned_column_has_a_panel_whose_shares_sum_to_one(html: str) -> None:
    panels = measure(good().to_pandas(), good(1).to_pandas(), schema()).panels
    assert {p.name for p in panels} == {c.name for c in schema().learned}
    assert html.count('<figure class="panel">') == len(panels)
    for one in panels:
        assert sum(one.real) == pytest.approx(1, abs=1e-4) == sum(one.synthetic)
        assert len(one.labels) == len(set(one.labels)) == len(one.real) == len(one.synthetic)


def test_hostile_names_and_values_are_escaped() -> None:
    name, value = "<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>"
    frame = pd.DataFrame({name: [value, "b"] * 20, "n": range(40)})
    html = page(frame, frame, build({name: pa.string(), "n": pa.int64()}))
    assert name not in html
    assert "<img" not in html
    assert "&lt;img" in html


def test_a_table_of_one_column_has_a_report_without_pairs() -> None:
    frame = pd.DataFrame({"n": [1.5, None, 2.5] * 10})
    html = page(frame, frame, build({"n": pa.float64()}))
    assert "Two columns at a time" not in html
    assert "Missing values" in html


@pytest.mark.parametrize("column", ["age", "sector", "joined", "member"])
def test_a_column_of_nulls_alone_is_drawn(column: str) -> None:
    real = good().to_pandas()
    real[column] = None
    assert "RESTRICTED" in page(real, good().to_pandas(), schema())


def test_a_long_tail_is_gathered_in_an_end_bar() -> None:
    one = build({"x": pa.float64()})["x"]
    values = pd.Series([*range(1000), 1e9], dtype=float)
    bars = panel(one, values, values, 0.0)
    assert one.kind is Kind.DECIMAL
    assert len(bars.labels) < 40
    assert bars.labels[-1].endswith("and over")


def test_the_squares_of_a_very_wide_table_show_some_columns_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    html = page(good().to_pandas(), good(1).to_pandas(), schema())
    assert "The squares show" not in html
    monkeypatch.setattr(fidelity, "MOST_COLUMNS", 4)
    html = page(good().to_pandas(), good(1).to_pandas(), schema())
    assert "The squares show 4 of 9 columns" in html
    squares = re.findall(r'<table class="heat">\s*<caption>(?:Distance|Relation).*?</table>', html, flags=re.S)
    assert len(squares) == 4
    assert all(square.count('scope="row"') == square.count('scope="col"') == 4 for square in squares)
    assert html.count('<figure class="panel">') == 9, "every column has its own chart"


def test_a_number_with_a_long_label_has_a_line_of_its_own_on_a_narrow_screen() -> None:
    """Numbers do not wrap, so two long labels on one line of 390 px would lie upon each other."""
    folder = Path(templates.__file__).parent
    pattern = r'<td class="([^"]*number[^"]*)" data-label="([^"]{17,})"'
    found = [match for page in folder.glob("*.j2") for match in re.findall(pattern, page.read_text(encoding="utf-8"))]
    assert found, "the rules of the report have such labels"
    assert all("full" in classes.split() for classes, _ in found), found
    assert ".stack td.number.full { display: flex;" in (folder / "page.css").read_text(encoding="utf-8")
