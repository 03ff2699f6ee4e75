"""The restricted report."""

from __future__ import annotations

import json
import re

import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.reporting.panels import panel
from dp_synth_pipeline.reporting.report import ReportMeta, render_report
from dp_synth_pipeline.tabular.schema import Kind, build
from dp_synth_pipeline.validation import fidelity
from dp_synth_pipeline.validation.checks import CheckResult
from dp_synth_pipeline.validation.figures import measure
from tests.unit.validation.tables import good, schema


def page(real: pd.DataFrame, synthetic: pd.DataFrame, columns, **meta) -> str:
    return render_report(measure(real, synthetic, columns), real, synthetic, columns, ReportMeta("clinic", **meta))


@pytest.fixture(scope="module")
def html() -> str:
    failed = CheckResult("age__nulls", False, False, "age", "10.0% of age is null.")
    return page(good().to_pandas(), good(1).to_pandas(), schema(), epsilon=2.5, delta=1e-5, checks=[failed])


def without_plotly(html: str) -> str:
    """Return the page without its longest script."""
    return html.replace(max(re.findall(r"<script>.*?</script>", html, flags=re.S), key=len), "")


def charts(html: str) -> dict:
    found = re.search(r'<script id="charts" type="application/json">(.*?)</script>', html, flags=re.S)
    assert found is not None
    return json.loads(found.group(1))


def test_the_report_says_that_it_is_restricted(html: str) -> None:
    assert without_plotly(html).index("RESTRICTED") < without_plotly(html).index("<h1>")


def test_the_report_loads_nothing_from_any_network(html: str) -> None:
    rest = without_plotly(html)
    assert not re.search(r"(src|href)\s*=\s*[\"']?\s*(https?:)?//", rest)
    assert "http://" not in rest
    assert "https://" not in rest
    assert "@import" not in rest
    assert "default-src 'none'" in rest
    assert html.count("plotly.js v") == 1


def test_the_headline_holds_verdict_accuracy_rows_and_epsilon(html: str) -> None:
    rest = without_plotly(html)
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
        assert text in rest


def test_the_verdict_states_its_limits(html: str) -> None:
    head = without_plotly(html).split("Weakest columns")[0]
    for figures in ("excellent up to 0.01, good 0.03, fair 0.08", "good 0.06", "good 0.15"):
        assert figures in head


def test_the_three_worst_columns_and_pairs_come_before_everything_else() -> None:
    synthetic = good(1).to_pandas().assign(sector="north", amount=0.0, member=True)
    top = without_plotly(page(good().to_pandas(), synthetic, schema())).split('class="tiles"')[0]
    assert set(re.findall(r'<span class="name">(\w+)</span>', top)) == {"sector", "amount", "member"}
    assert len(re.findall(r'<span class="name">\w+ \u00d7 \w+</span>', top)) == 3


def test_groups_predictions_relations_rare_and_missing_values_have_their_places() -> None:
    frame = pd.concat([good(i).to_pandas() for i in range(4)], ignore_index=True)
    figures = measure(frame, frame, schema(), predict="member", sensitive=["sector"])
    html = render_report(figures, frame, frame, schema(), ReportMeta("clinic"))
    rest = without_plotly(html)
    for text in (
        "sector: north",
        "Which columns go together",
        "Missing together",
        "Rare values",
        "numbers in either end",
    ):
        assert text in rest
    assert "Can member be predicted as well?" in rest
    assert "Can synthetic rows be told from real ones?" in rest
    assert charts(html)["relation_difference"]["cells"][0][1] == 0


def test_every_learned_column_has_a_panel_whose_shares_sum_to_one(html: str) -> None:
    panels = charts(html)["panels"]
    assert {p["name"] for p in panels} == {c.name for c in schema().learned}
    for one in panels:
        assert sum(one["real"]) == pytest.approx(1, abs=1e-4) == sum(one["synthetic"])
        assert len(one["labels"]) == len(set(one["labels"])) == len(one["real"]) == len(one["synthetic"])


def test_hostile_names_and_values_are_escaped() -> None:
    name, value = "<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>"
    frame = pd.DataFrame({name: [value, "b"] * 20, "n": range(40)})
    html = page(frame, frame, build({name: pa.string(), "n": pa.int64()}))
    assert name not in html
    assert "<img" not in without_plotly(html)
    assert charts(html)["panels"]


def test_a_table_of_one_column_has_a_report_without_pairs() -> None:
    frame = pd.DataFrame({"n": [1.5, None, 2.5] * 10})
    html = without_plotly(page(frame, frame, build({"n": pa.float64()})))
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
    found = charts(html)
    for square in ("distance", "relation_real", "relation_synthetic", "relation_difference"):
        assert len(found[square]["names"]) == len(found[square]["cells"]) == 4
    assert len(found["panels"]) == 9, "every column has its own chart"
