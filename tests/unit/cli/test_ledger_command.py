"""What `dp-synth ledger` tells a person: the share first, which ledger, and what a raise would give before it is made."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from dp_synth_pipeline import cli
from dp_synth_pipeline.cli import forecasting, terminal
from dp_synth_pipeline.cli import ledger as command
from dp_synth_pipeline.errors import ApprovalNeeded, InvalidInput, LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger, tables
from dp_synth_pipeline.orchestration.forecasts import Scheduled
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.synthesis.expected_quality import Shape, expected
from dp_synth_pipeline.tabular.kinds import Kind
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from tests.unit.ledger.stores import ask, sealed

Asked = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DAGSTER_HOME", "DP_SYNTH_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def asked(home: Path) -> Asked:
    """Runs `dp-synth ledger …` on the ledger of a home of its own."""
    app = cli.application({"ledger"})
    return lambda *words, code=0: run(app, words, code)


def run(app: object, words: tuple[object, ...], code: int) -> Result:
    result = CliRunner().invoke(app, ["ledger", *map(str, words)])  # type: ignore[arg-type]
    assert result.exit_code == code or (code == 2 and result.exception is not None), result.output
    return result


@pytest.fixture
def book(home: Path) -> Ledger:
    return Ledger.open(str(home / "ledger.db"))


def spent_once(book: Ledger, name: str = "once") -> None:
    """Open an account as `--open-account` does, and spend it."""
    book.open_account(name, epsilon=2.0, delta=1e-5, rule="plan", why="opened for one release by dp-synth synthesize")
    release = ask(book, name, "k", epsilon=2.0, delta=1e-5)
    book.start(release.id, "training", (Gaussian(4.0),))
    book.settle(release.id)


def test_a_fresh_account_is_not_used_and_says_nothing_of_what_is_left(asked: Asked) -> None:
    said = asked("open", "people", "--epsilon", 6, "--delta", 1e-5).output
    assert "0 % used; nothing was released yet" in said
    shown = asked("show", "people").output
    assert " 0 % " in shown
    assert "5.5" not in said + shown


def test_a_balance_leads_with_the_share_and_ends_with_epsilons_and_why_they_do_not_add_up(
    asked: Asked, book: Ledger
) -> None:
    book.open_account("people", epsilon=6.0, delta=1e-5)
    ask(book, "people", "k", epsilon=3.0, delta=1e-5, own_delta=5e-9)
    shown, share = asked("show", "people").output, book.share("people")
    assert f"{share.percent} used; fits {share.more} more like the last (ε 3)" in shown
    assert shown.index("% used") < shown.index("As epsilons") < shown.index("do not add up")
    facts = json.loads(asked("show", "--json").stdout)
    assert facts["ledger"] == str(book.place)
    assert facts["accounts"][0]["used"] == share.used
    assert facts["accounts"][0]["balance"]["epsilon_spent"] > 3


def test_a_large_budget_is_said_once_when_it_is_opened_raised_or_asked_for(asked: Asked) -> None:
    loud = "has a large budget: ε = 6. e^ε is 404"
    assert asked("open", "people", "--epsilon", 6, "--delta", 1e-5).output.count(f"Account people {loud}") == 1
    assert asked("open", "quiet", "--epsilon", 2, "--delta", 1e-5).output.count("large budget") == 0
    assert asked("can", "people", "--epsilon", 4).output.count("Such a release has a large budget: ε = 4") == 1
    assert "large budget" not in asked("can", "people", "--epsilon", 1).output
    assert "large budget" not in asked("can", "people", "--epsilon", 4, "--json").output
    assert "large budget: ε = 20." in asked("raise", "people", "--epsilon", 20, "--why", "test", "--yes").output


@pytest.mark.parametrize("words", [("show",), ("verify",), ("history",), ("show", "nobody")])
def test_each_command_and_each_error_names_the_ledger_once(
    asked: Asked, book: Ledger, home: Path, words: tuple[str, ...]
) -> None:
    said = asked(*words, code=2 if "nobody" in words else 0)
    assert said.stderr.replace("\n", "").count(f"Ledger: {home / 'ledger.db'}") == 1
    assert "default" not in said.stderr


def test_a_ledger_that_nobody_named_is_said_to_be_the_default(
    asked: Asked, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DP_SYNTH_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    asked("open", "people", "--epsilon", 1, "--ledger", home / "other.db")
    assert "neither DAGSTER_HOME nor DP_SYNTH_LEDGER is set" in asked("open", "people", "--epsilon", 1).stderr
    assert "neither" not in asked("show", "--ledger", home / "other.db").stderr


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("verify",),
        ("history",),
        ("can", "people", "--epsilon", 1),
        ("forecast", "people", "--epsilon", 1),
        ("export",),
        ("raise", "people", "--epsilon", 9, "--why", "w"),
    ],
    ids=lambda words: words[0],
)
def test_a_question_about_a_ledger_that_is_not_there_makes_none(
    asked: Asked, home: Path, words: tuple[str, ...]
) -> None:
    said = asked(*words, "--ledger", home / "typo.db", code=2)
    assert "there is no ledger at" in str(said.exception)
    assert "dp-synth ledger open NAME" in str(said.exception)
    assert not list(home.iterdir())


@pytest.mark.parametrize("words", [("show",), ("show", "people", "--json")])
def test_an_edited_ledger_is_shown_and_then_said_to_be_one(book: Ledger, words: tuple[str, ...]) -> None:
    book.open_account("people", epsilon=6.0, delta=1e-5)
    ask(book, "people", "k")
    with book._store.locked() as conn:
        conn.execute(sa.update(tables.account).values(cost_held=0))
    result = CliRunner().invoke(cli.application({"ledger"}), ["ledger", *words])
    assert "people" in result.stdout
    assert isinstance(result.exception, LedgerCorrupted)


def test_tables_fit_eighty_columns_with_every_number_whole(asked: Asked, book: Ledger) -> None:
    name = "a_protected_data_set_with_a_long_name"
    book.open_account(name, epsilon=123.456, delta=1.25e-7, unit="the_patient_identifier", max_rows=4)
    terms = {"unit": "the_patient_identifier", "max_rows": 4, "table": "quarterly_admissions_by_ward"}
    releases = [ask(book, name, f"k{n}", delta=1e-8, **terms) for n in range(12)]
    book.start(releases[-1].id, "training", (Gaussian(60.0),))
    for words in (("show",), ("show", name), ("history",)):
        drawn = [line for line in asked(*words).stdout.splitlines() if line.startswith(("│", "┃", "┏", "└"))]
        assert drawn
        assert max(map(len, drawn)) <= 80
        assert not any("…" in line for line in drawn)
    text = asked("show", name).stdout
    assert "ε 123.456," in text
    assert "1.2e-07" in text
    assert len(re.findall(r"│ [0-9a-f]{12} │ \d{4}-\d\d-\d\d │", text)) == 12
    assert "│ 14 │" in asked("history").stdout


def test_a_raise_says_what_fits_before_and_after_and_then_it_does(asked: Asked, book: Ledger) -> None:
    book.open_account("p", epsilon=2.0, delta=1e-5, rule="plan")
    ask(book, "p", "k", epsilon=1.0, delta=1e-6)
    said = asked("raise", "p", "--epsilon", 4, "--why", "more people agreed").output
    assert re.search(r"Now: .* 50 % used; fits 1 more .* After: .* 25 % used; fits 3 more ", said.replace("\n", " "))
    for n in range(3):
        ask(book, "p", f"l{n}", epsilon=1.0, delta=1e-6)
    assert book.share("p").used == 1


def test_a_raise_that_helps_nothing_is_refused_with_the_way_out_and_nothing_is_recorded(
    asked: Asked, book: Ledger
) -> None:
    spent_once(book)
    before = sealed(book)
    said = asked("raise", "once", "--epsilon", 4, "--why", "w", code=2)
    assert "would help nothing, so it was not recorded: its delta is used up" in str(said.exception)
    assert sealed(book) == before
    assert "--delta 2e-05" in str(said.exception)
    asked("raise", "once", "--epsilon", 4, "--delta", 2e-5, "--why", "w")
    assert "ask of each release at most what is new of it: --delta 1e-05" in str(said.exception)
    assert ask(book, "once", "l", epsilon=2.0, delta=1e-5).state == "reserved"


@pytest.mark.parametrize("answer", ["n\n", "y\n"])
def test_on_a_terminal_a_raise_is_made_only_once_a_person_says_so(
    asked: Asked, book: Ledger, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    book.open_account("p", epsilon=2.0, delta=1e-5)
    monkeypatch.setattr(command, "on_terminal", lambda: True)
    app = cli.application({"ledger"})
    CliRunner().invoke(app, ["ledger", "raise", "p", "--epsilon", "4", "--why", "w"], input=answer)
    assert book.account("p").epsilon == (4 if answer == "y\n" else 2)
    asked("raise", "p", "--epsilon", 5, "--why", "w", "--yes")
    assert book.account("p").epsilon == 5


def test_whether_a_release_fits_is_asked_as_a_table_asks_it(asked: Asked, book: Ledger) -> None:
    book.open_account("f", epsilon=3.0, delta=1e-5)
    ask(book, "f", "k", epsilon=0.1, delta=1e-5, own_delta=5e-7)  # the delta of thresholds is gone
    refused = asked("can", "f", "--epsilon", 0.5, code=3).output
    assert "Rényi" not in refused
    assert "(--verbose says by which rule.)" in refused
    assert "Rényi" in asked("can", "f", "--epsilon", 0.5, "--verbose", code=3).output
    facts = json.loads(asked("can", "f", "--epsilon", 0.5, "--json", code=3).stdout)
    assert (facts["fits"], facts["account"], facts["ledger"]) == (0, "f", str(book.place))
    assert "Rényi" in facts["details"]
    book.open_account("g", epsilon=3.0, delta=1e-5)
    fits = json.loads(asked("can", "g", "--epsilon", 0.5, "--json").stdout)["fits"]
    for n in range(fits):
        ask(book, "g", f"k{n}", epsilon=0.5, delta=1e-5, own_delta=5e-9)
    assert json.loads(asked("can", "g", "--epsilon", 0.5, "--json", code=3).stdout)["fits"] == 0


def test_what_leaves_the_ledger_says_first_how_much_is_used(asked: Asked, book: Ledger) -> None:
    book.open_account("p", epsilon=2.0, delta=1e-5, rule="plan")
    ask(book, "p", "k", epsilon=1.0, delta=1e-6)
    for form in ("json", "csv", "html"):
        assert "p: [#####.....] 50 % used; fits 1 more like the last (ε 1)" in asked("export", "--format", form).stderr
    balance = json.loads(asked("export").stdout)["accounts"][0]["balance"]
    assert (balance["used"], balance["fits_more"], balance["last_epsilon"]) == (0.5, 1, 1.0)
    assert "epsilon_left" in balance


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("the ledger is gone.", "The ledger is gone."),
        ("max_rows must be 1.", "max_rows must be 1."),
        ("--out o.txt: no.", "--out o.txt: no."),
        ("", ""),
    ],
)
def test_an_error_begins_as_a_sentence_does(text: str, told: str) -> None:
    assert terminal.sentence(text) == told


def test_the_password_of_a_server_is_not_named() -> None:
    from dp_synth_pipeline.ledger.place import parse

    shown = str(parse("postgresql+psycopg://ada:CANARY@server/ledger?sslpassword=CANARY"))
    assert shown == "postgresql+psycopg://ada:***@server/ledger"


def clinic(asked: Asked, book: Ledger) -> str:
    """Open an umbrella and two members on the command line, and release from one of them; return all that was said."""
    said = asked("open", "clinic", "--umbrella", "--unit", "patient_id", "--epsilon", 4).output
    said += asked("open", "visits", "--epsilon", 3, "--under", "clinic", "--max-rows", 30).output
    said += asked("open", "drugs", "--epsilon", 3, "--under", "clinic").output
    release = ask(book, "visits", "k", unit="patient_id", max_rows=30, table="visits")
    book.start(release.id, "training", (Gaussian(20.0),))
    return said


def test_an_umbrella_is_opened_and_joined_and_shown_with_the_shares_of_its_members(asked: Asked, book: Ledger) -> None:
    said = " ".join(clinic(asked, book).split())
    assert "Opened umbrella clinic: epsilon 4, delta 1e-05, unit patient_id, add-remove, Rényi order 8." in said
    assert "under umbrella clinic." in said
    assert book.account("drugs").max_rows == 4
    shown = " ".join(asked("show", "clinic").output.split())
    taken, (release,) = book.taken("clinic"), book.releases("visits")
    assert (
        f"visits │ {100 * taken['visits']:.1f} %" in shown.replace("|", "│")
        or f"{100 * taken['visits']:.1f} %" in shown
    )
    assert "at most 30 rows" in shown
    assert release.id[:12] in shown, "by the id that settle takes"
    assert "Open" not in shown, "what is open is ended where it was begun"
    member = " ".join(asked("show", "visits").output.split())
    assert "Under umbrella clinic: " in member
    assert f"{book.share('clinic')}" in member
    facts = {a["name"]: a for a in json.loads(asked("show", "--json").stdout)["accounts"]}
    assert (facts["visits"]["under"], facts["clinic"]["umbrella"]) == ("clinic", True)
    assert facts["clinic"]["members"] == taken


def test_can_answers_for_the_umbrella_too(asked: Asked, book: Ledger) -> None:
    clinic(asked, book)
    assert "Under umbrella clinic" in asked("can", "drugs", "--epsilon", 1).output
    asked("charge", "clinic", "--event", "gaussian:noise_multiplier=1.4", "--why", "a study")
    no = " ".join(asked("can", "drugs", "--epsilon", 2.2, code=3).output.split())
    assert "No. Umbrella 'clinic' refuses this release of its member 'drugs'" in no


def test_a_charge_by_hand_is_made_from_json_and_told_in_history(asked: Asked, book: Ledger) -> None:
    clinic(asked, book)
    event = '{"kind": "gaussian", "noise_multiplier": 8}'
    said = asked("charge", "visits", "--event", event, "--why", "OpenDP query, 3 May", "--who", "Ana").output
    assert "Charged visits and umbrella clinic by hand: epsilon" in said
    for account in ("visits", "clinic"):
        assert "charged by hand: OpenDP query, 3 May, says Ana" in asked("history", account).output
    assert "Charged by hand" in asked("show", "visits").output
    wrong = asked("charge", "visits", "--event", '{"kind": "gaussian"', "--why", "w", code=2)
    assert "expected a JSON object" in str(wrong.exception)
    before = sealed(book)
    event = '{"kind": "gaussian", "noise_multiplier": 0.5}'
    assert "This charge by hand is refused" in str(
        asked("charge", "visits", "--event", event, "--why", "w", code=2).exception
    )
    assert sealed(book) == before


@pytest.mark.parametrize("words", [("open", "--help"), ("charge", "--help")])
def test_the_help_teaches_umbrellas_and_charges_by_hand(asked: Asked, words: tuple[str, ...]) -> None:
    text = " ".join(asked(*words).output.split())
    assert {"open": "--under clinic", "charge": "OpenDP query, 3 May"}[words[0]] in text


def test_anchors_are_signed_and_compared_on_the_command_line(asked: Asked, book: Ledger, home: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / "key")], check=True)
    (home / "allowed").write_text(f"ana {(home / 'key.pub').read_text()}")
    place = ("--to", home / "anchors.jsonl", "--key", home / "key")
    book.open_account("people", epsilon=3.0, delta=1e-5)
    assert "Anchored the chain at journal row 1" in asked("anchor", *place).output
    compared = ("verify", "--anchors", home / "anchors.jsonl")
    assert "all 1 anchors, each signed as it must be" in asked(*compared, "--signers", home / "allowed").output
    line = json.loads((home / "anchors.jsonl").read_text())
    (home / "anchors.jsonl").write_text(json.dumps(line | {"length": 2}))
    result = CliRunner().invoke(cli.application({"ledger"}), ["ledger", *map(str, compared)])
    assert isinstance(result.exception, LedgerCorrupted)
    assert result.exception.exit_code == 4


def test_a_large_charge_waits_is_listed_and_is_approved_on_the_command_line(asked: Asked, book: Ledger) -> None:
    asked("open", "people", "--epsilon", 3, "--approve-above", 0.25)
    assert "more than 25 % of it needs a second person; 0 asked for" in asked("show", "people").output
    assert "Nothing waits" in asked("requests").output
    with pytest.raises(ApprovalNeeded) as waits:
        ask(book, "people", "k", epsilon=2.0, purpose="waiting times")
    (request,) = book.requests()
    assert waits.value.exit_code == 3
    told = asked("requests", "people").output
    assert f"{request.id[:12]} waiting: {request.who} asks account people for a release of table adult" in told
    assert "at ε 2, δ 10⁻⁶, 48.4 % of the account. For: waiting times." in told
    own = CliRunner().invoke(
        cli.application({"ledger"}), ["ledger", "approve", request.id[:12], "--why", "w", "--by", request.who]
    )
    assert isinstance(own.exception, InvalidInput)
    assert "Approved by Ana" in asked("approve", request.id[:12], "--why", "agreed", "--by", "Ana").output
    ask(book, "people", "k", epsilon=2.0, purpose="waiting times")
    assert "Nothing waits" in asked("requests").output
    (done,) = json.loads(asked("requests", "--all", "--json").stdout)["requests"]
    assert (done["state"], done["terms"]["epsilon"], done["approved_by"]) == ("used", 2.0, "Ana")
    assert "Approved by Ana on" in asked("requests", "--all").output


def test_an_account_is_amended_on_the_command_line_and_loosened_by_two(asked: Asked, book: Ledger) -> None:
    asked("open", "people", "--epsilon", 3)
    word = ("--why", "w", "--who", "Bob")
    assert "at most 10 % of it at a time" in asked("amend", "people", "--approve-above", 0.1, *word).output
    loosen = ["ledger", "raise", "people", "--epsilon", "9", *word]
    assert isinstance(CliRunner().invoke(cli.application({"ledger"}), loosen).exception, ApprovalNeeded)
    assert "Bob asks account people to be raised, with one person deciding 10.0 % alone" in asked("requests").output
    asked("approve", book.requests()[0].id, "--why", "w", "--by", "Ana")
    assert "Raised people to epsilon 9" in asked(*loosen[1:]).output


def test_quotas_are_given_shown_and_amended_on_the_command_line(
    asked: Asked, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ana")
    asked("open", "people", "--epsilon", 3, "--quota", "requester=*:0.1")
    word = ("--why", "w", "--who", "Bob")
    told = asked("amend", "people", "--quota", "requester=ana:0.05", "--quota", "purpose=tests [x]:0", *word).output
    assert "Amended people: quotas purpose=tests [x]:0.0, requester=*:0.1, requester=ana:0.05." in told
    ask(book, "people", "one")
    shown = asked("show", "people").output
    assert "Purpose tests [x] may take at most 0 % of it, which is at most ε 0, and took 0 %." in shown
    assert "Requester ana may take at most 5 % of it, which is at most ε 1.0" in shown
    assert "and took 3.7 %." in shown
    assert "Each requester that has no quota of its own may take at most 10 % of it" in shown
    (account,) = json.loads(asked("show", "people", "--json").stdout)["accounts"]
    assert [q["quota"] for q in account["quotas"]][-1] == "requester=ana:0.05"
    assert account["quotas"][-1]["taken"]["ana"] == pytest.approx(0.0371, rel=0.01)
    refused = CliRunner().invoke(cli.application({"ledger"}), ["ledger", "can", "people", "--epsilon", "1"])
    assert refused.exit_code == 3
    assert "Quota requester=ana:0.05 of account 'people' refuses this" in refused.output
    nothing = CliRunner().invoke(cli.application({"ledger"}), ["ledger", "amend", "people", *word])
    assert isinstance(nothing.exception, InvalidInput)
    asked("amend", "people", "--approve-above", 0.5, *word)
    loosen = ["ledger", "amend", "people", "--quota", "requester=ana:0.2", *word]
    assert isinstance(CliRunner().invoke(cli.application({"ledger"}), loosen).exception, ApprovalNeeded)
    assert "alone and quotas purpose=tests [x]:0.0, requester=*:0.1, requester=ana:0.2" in asked("requests").output


def test_what_is_asked_about_is_said_to_be_poor_with_what_would_help(asked: Asked, book: Ledger) -> None:
    book.open_account("people", epsilon=6.0, delta=1e-5)
    said = asked("can", "people", "--epsilon", 0.5, "--rows", 8000, "--columns", 15).output
    told = expected(Shape(8000, 15), 0.5, 1e-5)
    assert f"single columns about {told.one_way:.2g} off, pairs of columns about {told.two_way:.2g}" in flat(said)
    assert "pairs of columns will be far off; 2 times the rows or ε 1 would bring that to 0.1" in flat(said)
    assert "Poor" not in asked("can", "people", "--epsilon", 2.5, "--rows", 44000, "--columns", 15).output
    assert "Expected" not in asked("can", "people", "--epsilon", 0.5).output
    facts = json.loads(asked("can", "people", "--epsilon", 0.5, "--rows", 8000, "--columns", 15, "--json").stdout)
    assert facts["expected"] == {"one_way": told.one_way, "two_way": told.two_way}


def test_what_is_expected_counts_the_rows_of_a_unit_and_the_relation_of_the_account(asked: Asked, book: Ledger) -> None:
    book.open_account("visits", epsilon=6.0, delta=1e-6, unit="patient_id", max_rows=4, relation="replace-one")
    said = asked("can", "visits", "--epsilon", 2, "--rows", 90000, "--columns", 10).output
    told = expected(Shape(90000, 10, 4), 2.0, 1e-6, "replace-one")
    assert f"pairs of columns about {told.two_way:.2g}" in flat(said)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--rows", 0, "--columns", 15), "--rows"),
        (("--rows", -5, "--columns", 15), "--rows"),
        (("--rows", 10, "--columns", 1), "--columns"),
        (("--rows", 10), "--rows and --columns together"),
        (("--columns", 10), "--rows and --columns together"),
        (("--like", "nobody"), "no release in"),
        (("--rows", 10, "--columns", 2, "--like", "people"), "by --like NAME alone"),
        (("--like", ""), "by --like NAME alone"),
    ],
)
def test_mistakes_about_a_table_are_said_and_nothing_is_expected(
    asked: Asked, book: Ledger, words: tuple[object, ...], why: str
) -> None:
    book.open_account("people", epsilon=6.0, delta=1e-5)
    result = asked("can", "people", "--epsilon", 1, *words, code=2)
    assert why in flat(f"{result.output} {result.exception}")
    assert "Expected of" not in result.output


def was_released(home: Path, table: str, rows: int) -> Shape:
    """Put a generator of six columns into a home's store; return what it tells of its table."""
    columns = tuple(ColumnProfile(f"c{i}", Kind.CATEGORY, ("x", "y"), (0.5, 0.5)) for i in range(6))
    folder = home / "store/releasable" / table / "generator"
    folder.mkdir(parents=True)
    (folder / "profile.json").write_text(TableProfile(rows - 100, rows, "row", columns).to_json())
    (folder / "generator.json").write_text(json.dumps({"facts": {"release": "3f9c2b71d004"}}))
    return Shape(rows, 6, cells=2.0)


def test_a_released_table_or_release_says_its_own_rows_and_columns(asked: Asked, book: Ledger, home: Path) -> None:
    book.open_account("people", epsilon=6.0, delta=1e-5)
    told = expected(was_released(home, "people", 1000), 1.0, 1e-5)
    for name in ("people", "3f9c"):
        said = flat(asked("can", "people", "--epsilon", 1, "--like", name).output)
        assert f"of 1,000 rows and 6 columns: single columns about {told.one_way:.2g} off" in said
    assert "released are: people" in str(asked("can", "people", "--epsilon", 1, "--like", "visits", code=2).exception)


def test_a_forecast_of_a_project_says_how_far_off_each_table_that_was_released_will_be(
    asked: Asked, book: Ledger, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weekly = [
        Scheduled("people", "0 3 * * 1", 0.2),
        Scheduled("visits", "0 3 * * 1", 0.05, later=0.05, first=0.5),
        Scheduled("3f9c", "0 3 * * 1", 0.1),  # never released, though a release's id begins so
    ]
    monkeypatch.setattr(forecasting, "current_project", lambda: None)
    monkeypatch.setattr(forecasting.forecasts, "scheduled", lambda *_, **__: {"clinic": weekly})
    book.open_account("clinic", epsilon=30.0, delta=1e-5)
    told = expected(was_released(home, "people", 1000), 0.2, 1e-5)
    was_released(home, "visits", 5000)
    said = flat(asked("forecast", "--days", 60).output)
    assert f"of people, 1,000 rows and 6 columns: single columns about {told.one_way:.2g} off" in said
    assert "Expected of visits, 5,000 rows and 6 columns that stay as they are" in said
    assert said.count("Expected of") == 2


def test_a_release_for_a_purpose_is_asked_about_under_its_quota(asked: Asked, book: Ledger) -> None:
    book.open_account("people", epsilon=6.0, delta=1e-5, quotas=["purpose=testing:0.3"])
    free, bounded = (
        json.loads(asked("can", "people", "--epsilon", 1, "--json", *words).stdout)["fits"]
        for words in ((), ("--purpose", "testing"))
    )
    assert 0 < bounded < free
    assert "Quota purpose=testing:0.3" in asked("can", "people", "--epsilon", 3, "--purpose", "testing", code=3).output


def flat(text: str) -> str:
    """Return a text without the line ends that a terminal of 80 columns makes."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (("people",), "--epsilon"),
        (("--epsilon", 1), "an account"),
        ((), "an account"),
    ],
)
def test_an_assumed_schedule_says_what_it_lacks_and_nothing_else(
    asked: Asked, book: Ledger, words: tuple[object, ...], missing: str
) -> None:
    book.open_account("people", epsilon=6.0, delta=1e-5)
    said = str(asked("forecast", *words, "--every", "0 3 * * 1", code=2).exception)
    assert said.startswith(f"--every also needs {missing}: dp-synth ledger forecast ACCOUNT --every '0 3 * * 1'")


def test_a_drift_is_said_of_refreshes_that_remember_and_of_a_table_that_is_said(asked: Asked, book: Ledger) -> None:
    book.open_account("year", epsilon=6.0, delta=1e-5, why="test")
    words = ("forecast", "year", "--every", "0 3 1 * *", "--days", 120, "--rows", 8000, "--columns", 15)
    assert "pairs move by 0.01 from each" in flat(asked(*words, "--remember", "--drift", 0.01).output)
    assert "write --remember too" in str(asked(*words, "--drift", 0.01, code=2).exception)
    assert "from 0 to 1" in str(asked(*words, "--remember", "--drift", 3, code=2).exception)


def test_an_account_of_another_unit_is_opened_anew_until_it_is_charged(asked: Asked, book: Ledger) -> None:
    asked("open", "people", "--epsilon", 6)
    other = ("open", "people", "--epsilon", 5, "--unit", "patient_id")
    said = str(asked(*other, code=2).exception)
    assert "It protects one row, and one patient_id was asked for." in said
    assert "dp-synth ledger open people --anew, with all of its terms, replaces them" in said
    assert "unit patient_id" in asked(*other, "--anew", "--why", "a person has many rows").output
    terms = book.account("people")
    assert (terms.unit, terms.max_rows, terms.epsilon) == ("patient_id", 4, 5.0)
    asked("charge", "people", "--event", "gaussian:noise_multiplier=4", "--why", "a query")
    for words in ((), ("--anew",)):
        said = str(asked("open", "people", "--epsilon", 6, *words, code=2).exception)
        assert "It protects one patient_id, and one row was asked for." in said
        assert "--anew" not in said
    assert book.account("people") == terms
    assert "Verified 1 account" in asked("verify").output
