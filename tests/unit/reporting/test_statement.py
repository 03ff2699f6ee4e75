"""The privacy account statement."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest

from dp_synth_pipeline.privacy.events import DiscreteGaussian, DiscreteLaplace, Gaussian, SubsampledGaussian, Threshold
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.reporting.burndown import layout
from dp_synth_pipeline.reporting.statement_page import at_least, render_statement

START = datetime(2026, 1, 5, 6, tzinfo=UTC)
EVENTS = {
    "row count": [DiscreteLaplace(40.0)],
    "profile": [DiscreteGaussian(62.5, 4, 24), Threshold(1e-7)],
    "marginals": [Gaussian(3.0, 105)],
    "training": [SubsampledGaussian(3.2, 0.0116479231, 640)],
}


def iso(days: float) -> str:
    return (START + timedelta(days=days)).isoformat()


def release(i: int, **changes: Any) -> dict[str, Any]:
    entries = [
        {
            "id": f"entry-{i}-{j}",
            "mechanism": name,
            "events": [e.to_dict() for e in events],
            "cost_share": 0.01,
            "steps_started": 640 if name == "training" else 0,
            "state": "settled",
        }
        for j, (name, events) in enumerate(EVENTS.items())
    ]
    return {
        "id": f"release-{i}",
        "table": "clinic_visits",
        "state": "settled",
        "run_id": f"run-{i}",
        "code_version": "0.3.0",
        "who": "worker",
        "reserved_at": iso(i),
        "ended_at": iso(i + 0.1),
        "epsilon": 0.7,
        "delta": 1e-6,
        "final_epsilon": 0.68,
        "final_delta": 1e-6,
        "charged_share": 0.06,
        "fingerprint": f"hmac-{i}",
        "entries": entries,
        **changes,
    }


def account(releases: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return {
        "name": "clinic",
        "unit": "patient_id",
        "max_rows": 4,
        "relation": "add-remove",
        "epsilon": 6.0,
        "delta": 1e-5,
        "rule": "filter",
        "order": 5.0,
        "opened_at": iso(0),
        "who": "Amelie Vogt",
        "why": "DPIA 2025-88",
        "epsilon_spent": 2.71828,
        "epsilon_left": 3.14159,
        "cost_limit": 3_747_000_000,
        "cost_spent": 1_600_000_000,
        "cost_held": 0,
        "delta_limit": 9 * 10**11,
        "delta_spent": 10**11,
        "history": [
            {"at": iso(0), "left_share": 1, "what": "opened", "who": "Amelie Vogt", "why": ""},
            {"at": iso(10), "left_share": 0.5, "what": "release of clinic_visits", "who": "worker", "why": "weekly"},
            {"at": iso(20), "left_share": 0.8, "what": "raise", "who": "Amelie Vogt", "why": "board decision 17"},
        ],
        "forecast": None,
        "releases": releases,
        **changes,
    }


def page(*accounts: dict[str, Any], **more: Any) -> str:
    return render_statement(
        {"generated_at": iso(30), "head": "9f3c77aa", "verified": True, "accounts": list(accounts), **more}
    )


def words(html: str) -> str:
    """The page as it reads: no tags, no styles, single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<style>.*?</style>", "", html))).split())


def test_the_page_loads_nothing_from_any_network_and_runs_no_script() -> None:
    html = page(account([release(1)]))
    assert "http" not in html.replace("http-equiv", "")
    assert "default-src 'none'" in html
    assert not re.search(r"<(script|link|img|iframe|object|form)\b|url\(|@import|\bsrc=", html)


def test_what_people_wrote_is_escaped_everywhere() -> None:
    evil = "<script>alert(1)</script>"
    event = {"kind": evil, evil: evil}
    entry = {"id": evil, "mechanism": evil, "events": [event], "state": evil, "steps_started": 1}
    texts = ("id", "table", "run_id", "code_version", "who", "reserved_at")
    releases = [
        release(i, **dict.fromkeys(texts, evil), state=s, entries=[entry]) for i, s in enumerate([evil, "started"])
    ]
    moves = [{"at": iso(i), "left_share": 0.5, "what": evil, "who": evil, "why": evil} for i in range(2)]
    bad = account(
        releases, **dict.fromkeys(("name", "unit", "relation", "opened_at", "who", "why"), evil), history=moves
    )
    html = page(bad, bad, head=evil, generated_at=evil)
    assert "<script" not in html
    assert html.count("&lt;script&gt;") > 30


def test_every_release_and_every_entry_is_shown_with_who_when_run_code_and_parameters() -> None:
    releases = [release(i) for i in range(30)]
    text = words(page(account(releases)))
    for r in releases:
        assert all(re.search(rf"{re.escape(r[k])}\b", text) for k in ("id", "run_id"))
        assert all(re.search(rf"{e['id']}\b", text) for e in r["entries"])
    assert text.count("sample_rate = 0.0116479231") == text.count("640 of 640 steps started") == 30
    assert "5 Jan 2026, 06:00 UTC" in text
    assert "0.3.0" in text


def test_releases_are_listed_newest_first_whatever_order_they_come_in() -> None:
    html = page(account([release(i) for i in (3, 1, 2)]))
    assert re.findall(r"<dd>release-(\d)", html) == ["3", "2", "1"]


def test_the_promise_is_said_in_the_words_of_the_release_card_for_all_releases_together() -> None:
    text = words(page(account([])))
    start, rest = wording.meaning(6.0, 1e-5, "patient_id", 4).split("this table", 1)
    assert f"{start}everything this account ever releases{rest}" in text


def test_another_neighbouring_relation_changes_the_promise() -> None:
    assert "with these values" in page(account([], relation="replace-one"))


def test_what_was_spent_is_rounded_up_and_what_is_left_down() -> None:
    text = words(page(account([])))
    assert "everything so far is at most ε 2.719" in text
    assert "one further release could have at most ε 3.141" in text
    assert "spent 42.8 %" in text  # 42.70 %


SHARE = {"used": 0.3333, "set_aside": 0.0, "fits_more": 2, "last_epsilon": 2.0}


def test_the_share_of_the_account_leads_and_epsilons_follow_with_why_they_do_not_add_up() -> None:
    text = words(page(account([], **SHARE)))
    assert "Used 34 % of the account" in text
    assert "Fits 2 more like the last (ε 2)" in text
    assert text.index("Used 34 %") < text.index("As epsilons") < text.index("do not add up")
    assert "do not add up" not in words(page(account([], **SHARE, epsilon_spent=0.0)))
    both = words(page(account([], **SHARE), account([], name="other", **SHARE)))
    assert both.index("34 %") < both.index("ε 6")


@pytest.mark.parametrize(
    ("used", "word"), [(0.0, "open"), (0.9, "open"), (0.91, "low"), (0.9999, "low"), (1.0, "exhausted")]
)
def test_the_state_of_an_account_follows_from_its_share(used: float, word: str) -> None:
    assert f"clinic {word}" in words(page(account([], **{**SHARE, "used": used})))


@pytest.mark.parametrize("x", [2.49999, 0.123456, 12.3456, 1e-5 * 1.23456, 7.0, 1234.56])
def test_what_is_left_is_never_shown_as_more_than_it_is(x: float) -> None:
    shown = at_least(x)
    mantissa, _, power = shown.replace(",", "").partition(" \u00d7 10")
    value = float(mantissa) * 10 ** int(power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) or 0)
    assert 0.99 * x < value <= x * (1 + 1e-9)


@pytest.mark.parametrize(
    ("verified", "told"),
    [(True, "The ledger verifies"), (False, "The ledger does not verify"), (None, "Not verified for this page")],
)
def test_the_page_says_whether_the_ledger_was_verified_and_at_which_head(verified: bool | None, told: str) -> None:
    text = words(page(account([]), verified=verified))
    assert told in text
    assert ("DOES NOT VERIFY" in text) is (verified is False)
    assert "9f3c77aa" in text


def test_an_open_reservation_stands_out_with_the_command_that_settles_it() -> None:
    stuck = release(1, state="started", final_epsilon=None, ended_at=None, charged_share=None)
    stuck["entries"][3] |= {"state": "started", "steps_started": 200}
    text = words(page(account([stuck, release(2), release(3)])))
    assert text.count("dp-synth ledger settle") == 1
    assert "dp-synth ledger settle entry-1-3 --at-mark --why …" in text
    assert "2 later releases were reserved since" in text
    assert "29 days ago" in text
    assert "200 of 640 steps started" in text


def test_a_reservation_of_which_nothing_started_is_to_be_voided_not_settled() -> None:
    text = words(page(account([release(1, state="reserved", final_epsilon=None, entries=[])])))
    assert "ledger settle" not in text
    assert "dp-synth ledger void release-1 --why" in text


def test_settled_and_voided_releases_ask_for_nothing() -> None:
    text = words(page(account([release(1), release(2, state="voided", final_epsilon=None, entries=[])])))
    assert "open reservation" not in text.replace("held by open reservations", "")
    assert "it was voided before anything read the source" in text


def test_an_exhausted_account_says_so() -> None:
    spent = {"epsilon_left": 0.0, "cost_spent": 3_747_000_000, "epsilon_spent": 6.0}
    text = words(page(account([release(1)], **spent)))
    assert "clinic exhausted" in text
    assert "every request is refused before the source is read" in text
    assert "could have at most ε 0." in text
    assert "exhausted" not in words(page(account([release(1)])))


def test_a_plan_is_exhausted_when_its_delta_is_gone() -> None:
    assert "clinic exhausted" in words(page(account([], rule="plan", order=None, delta_spent=9 * 10**11)))


def test_an_account_without_releases_has_a_page() -> None:
    history = [{"at": iso(0), "left_share": 1, "what": "opened", "who": "Amelie Vogt", "why": ""}]
    html = page(account([], history=history))
    assert "nothing was released from this account" in html
    assert "<svg" not in html


def test_two_hundred_releases_stay_under_one_megabyte() -> None:
    history = [{"at": iso(i), "left_share": 1 - i / 200, "what": "release of clinic_visits"} for i in range(200)]
    html = page(account([release(i) for i in range(200)], history=history))
    assert len(html.encode()) < 1_000_000
    assert html.count("<dd>release-") == 200


@pytest.mark.parametrize(
    "accounts", [[], [{}], [{"releases": [{}]}], [{"releases": [{"entries": [{"events": [{}]}]}]}]]
)
def test_only_the_accounts_are_required(accounts: list[dict[str, Any]]) -> None:
    assert "Privacy account statement" in render_statement({"accounts": accounts})


def test_an_event_whose_parameters_are_missing_is_still_named() -> None:
    entry = {"id": "e", "mechanism": "m", "events": [{"kind": "gaussian"}]}
    assert "gaussian." in page(account([release(1, entries=[entry])]))


def test_several_accounts_are_summed_up_on_top_with_links() -> None:
    html = page(account([], name="one"), account([], name="two"))
    assert all(f'href="#account-{i}"' in html and f'id="account-{i}"' in html for i in (1, 2))


def test_the_forecast_names_the_day_of_exhaustion() -> None:
    forecast = {"dates": [iso(37 + 7 * i) for i in range(5)], "fits": 3, "first_refused": iso(58)}
    text = words(page(account([release(1)], forecast=forecast)))
    assert "3 of the 5 planned releases fit." in text
    assert "first refusal 4 Mar 2026" in text
    fits = {"dates": forecast["dates"], "fits": 5, "first_refused": None}
    assert "All 5 planned releases fit." in words(page(account([release(1)], forecast=fits)))


def test_the_burn_down_steps_down_at_releases_up_at_raises_and_ends_today() -> None:
    chart = layout(account([])["history"], None, iso(40))
    assert chart is not None
    assert chart["line"] == "M0 0H250V50H500V20H1000"
    assert [up["path"] for up in chart["raises"]] == ["M500 50V20"]
    assert chart["now"] is None


def test_the_burn_down_puts_planned_dates_on_the_axis_beyond_today() -> None:
    forecast = {"dates": [iso(60), iso(80), iso(100)], "fits": 2, "first_refused": iso(100)}
    chart = layout(account([])["history"], forecast, iso(40))
    assert chart is not None
    assert chart["line"].endswith("H400")
    assert (chart["fits"], chart["refused"]) == ("M600 100h0M800 100h0", "M1000 100h0")
    assert chart["out"] == {"x": 100.0, "day": "15 Apr 2026"}


@pytest.mark.parametrize("days", [0.01, 1, 3.9, 4, 9, 30, 74, 75, 200, 400, 900, 4000, 20_000])
def test_a_burn_down_of_any_length_has_a_few_dates_on_its_axis(days: float) -> None:
    history = [{"at": iso(0), "left_share": 1}, {"at": iso(days), "left_share": 0}]
    chart = layout(history, None, None)
    assert chart is not None
    assert 1 <= len(chart["ticks"]) <= 5
    assert all(0 <= t["x"] <= 100 for t in chart["ticks"])


def test_a_raise_and_its_reason_are_told_outside_the_chart_too() -> None:
    assert "Raised 25 Jan 2026, 06:00 UTC by Amelie Vogt: board decision 17" in words(page(account([])))


def test_an_umbrella_is_shown_with_what_its_members_took_and_its_open_releases_end_where_they_began() -> None:
    running = [{"id": "entry-run", "mechanism": "training", "events": [], "state": "started"}]
    mirror = release(
        1, state="started", mirrors="the-members-release", entries=[{**running[0], "id": "mirrored-entry"}]
    )
    umbrella = account([mirror], umbrella=True, members={"visits": 0.25, "drugs": 0.5}, max_rows=0)
    text = words(page(umbrella, account([release(2, state="started", entries=running)], name="visits", under="clinic")))
    assert "drugs 50 %, visits 25 %" in text
    assert "Each release of this account is also charged to umbrella clinic" in text
    assert "the-members-release" in text
    assert "settle entry-run --at-mark" in text
    assert "settle mirrored-entry" not in text
    assert "2 accounts, 1 release," in text, "a mirror is no release of its own"


def test_a_charge_by_hand_is_shown_with_its_reason() -> None:
    charge = release(1, table="(by hand)", by_hand=True, why="OpenDP query, 3 May", run_id="", code_version="")
    text = words(page(account([charge])))
    assert "(by hand)" in text
    assert "OpenDP query, 3 May" in text
