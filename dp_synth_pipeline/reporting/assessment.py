"""Drafts the answers to an assessment of an account, and is the one place that knows what answers which question.

Two questionnaires are known. One is a data protection impact assessment by article 35(7) of the GDPR. The other is the
pyramid of NIST SP 800-226 (March 2025), whose parts are its figure 1. What is outside of the guarantee is read from
`docs/threat-model.md`, so that page says it alone. No figure is computed here, and no row was looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.reporting.burndown import moment
from dp_synth_pipeline.reporting.statement_page import account as account_view
from dp_synth_pipeline.reporting.templates import render

FORMAT = "dp-synth/assessment/1"

SHOWN = 20
"""How many refusals and requests are told one by one, the newest; the governance report has all of them."""

AUDIENCE = (
    "Internal, like the governance report: it names people, runs and sources, so do not publish it. It was written from the "
    "ledger, the release cards and the project's definitions, and no row of a source was read for it. An answer whose place "
    "is a release card stands on that card, which is releasable."
)

Facts = Mapping[str, Any]
"""What `orchestration.governance.of_account` returns, with `anchors`: what was compared with the chain, in words."""


@dataclass(frozen=True)
class Answer:
    """What is known of one thing that is asked.

    Attributes:
        what: the thing, in a few words.
        told: the answer, a sentence each.
        where: the place that it stands in, which a reader can look up.
    """

    what: str
    told: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class Question:
    """One section of a questionnaire.

    Attributes:
        asks: what it asks, in our words.
        answered: what answers it, each from the facts.
        unanswered: what it asks that no ledger or card knows, a sentence each, after who can answer it.
        hazards: sections of NIST SP 800-226 whose hazards belong to it, as the threat model numbers them.
    """

    title: str
    asks: str
    answered: tuple[Callable[[Facts], Iterator[Answer]], ...]
    unanswered: tuple[tuple[str, str], ...]
    hazards: tuple[str, ...] = ()


def check(questionnaire: str) -> None:
    """Refuse a questionnaire that is none of `QUESTIONNAIRES`.

    Raises:
        InvalidInput: naming those that there are.
    """
    if questionnaire not in QUESTIONNAIRES:
        raise InvalidInput(
            f"there is no questionnaire {questionnaire!r}; write --for {' or --for '.join(QUESTIONNAIRES)}."
        )


def draft(questionnaire: str, facts: Facts) -> dict[str, Any]:
    """Return a questionnaire as far as the ledger and the cards answer it, JSON-ready.

    Args:
        questionnaire: one of `QUESTIONNAIRES`.

    Raises:
        InvalidInput: if there is no such questionnaire.
    """
    check(questionnaire)
    title, source, questions = QUESTIONNAIRES[questionnaire]
    return {
        "format": FORMAT,
        "for": questionnaire,
        "title": f"{title}: account {facts['account']}",
        "audience": AUDIENCE,
        "source": source,
        "account": facts["account"],
        "generated_at": facts["generated_at"],
        "head": facts["head"],
        "sections": [_section(question, facts) for question in questions],
    }


def to_markdown(drafted: Mapping[str, Any]) -> str:
    """Return a draft as Markdown of headings, lists and quotes, which word processors import."""
    return render("assessment.md.j2", d=drafted, generated=moment(drafted["generated_at"]))


def _section(question: Question, facts: Facts) -> dict[str, Any]:
    answers = [answer for answered in question.answered for answer in answered(facts)]
    answers += _hazards(question.hazards)
    return {
        "title": question.title,
        "asks": question.asks,
        "answers": [{"what": a.what, "told": list(a.told), "where": a.where} for a in answers if a.told],
        "unanswered": [{"by": who, "what": what} for who, what in question.unanswered],
    }


def _cards(facts: Facts) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each table's name and its newest card."""
    for table in facts["tables"]:
        if table["card"] is not None:
            yield table["table"], table["card"]


def _of_cards(facts: Facts, what: str, field: str, told: Callable[[Mapping[str, Any]], list[str]]) -> Iterator[Answer]:
    """Yield an answer for each card that has one."""
    for name, card in _cards(facts):
        yield Answer(f"{what} of table {name}", tuple(told(card)), f"release card of {name}: {field}")


def _sources(facts: Facts) -> Iterator[Answer]:
    named = [f"{s['name']}, from which {_listed(s['tables'])} is made." for s in facts["sources"]]
    yield Answer("Person-level sources", tuple(named), "governance report: Sources")


def _tables(facts: Facts) -> Iterator[Answer]:
    told = []
    for table in facts["tables"]:
        card, made = table["card"], f"Made from it: {_listed(table['downstream'])}."
        if card is None:
            told.append(f"{table['table']}: no release card of it lies in this store. {made}")
            continue
        cards = len(table["cards"])
        parts = f" It is the newest of {cards} partitions, each of which has a card." if cards > 1 else ""
        about = card["description"] or "A synthetic table."
        size = f"{card['rows']:,} synthetic rows in {wording.counted(card['columns'], 'column')}"
        told.append(f"{table['table']}: {about} {size}, released on {moment(card['created'])}.{parts} {made}")
    yield Answer("What is made of them", tuple(told), "release card, and governance report: Released tables")


def _columns(facts: Facts) -> Iterator[Answer]:
    yield from _of_cards(
        facts, "Columns", "public", lambda card: [f"{c['name']} ({c['kind']}, {c['storage']})" for c in card["public"]]
    )


def _purposes(facts: Facts) -> Iterator[Answer]:
    yield from _of_cards(facts, "What the table is for", "intended_use", lambda card: card["intended_use"])
    yield from _of_cards(facts, "What it is not for", "out_of_scope", lambda card: card["out_of_scope"])
    counts = Counter(r["purpose"] or "no purpose was named" for r in facts["releases"])
    told = tuple(f"{purpose}: {wording.counted(n, 'release')}." for purpose, n in counts.items())
    yield Answer("Purposes on record", told, "ledger export: purpose of each release")


def _requesters(facts: Facts) -> Iterator[Answer]:
    counts = Counter(r["who"] for r in facts["releases"])
    told = tuple(f"{who}: {wording.counted(n, 'release')}." for who, n in counts.items())
    yield Answer("Who had it released", told, "ledger export: who of each release")


def _schedule(facts: Facts) -> Iterator[Answer]:
    told = []
    for account in facts["accounts"]:
        known = account["forecast"] or {}
        told += [
            f"{s['table']} is refreshed at {s['cron']} (UTC) once a person starts that schedule; it asks for {s['asks']}."
            for s in known.get("schedules", ())
        ]
        if view := account_view(account, facts["generated_at"])["forecast"]:
            told.append(f"{view['fits']} of {view['planned']} planned refreshes fit account {account['name']}.")
    if not facts["lineage"]:
        told = ["Not known: no project was named."]
    yield Answer("Schedule", tuple(told) or ("None: a person starts each release.",), "the project's definitions")


def _steps(facts: Facts) -> Iterator[Answer]:
    def told(card: Mapping[str, Any]) -> list[str]:
        rows = [(m, "") for m in card["mechanisms"]]
        rows += [(m, " (charged to an earlier release)") for m in card["reused"]]
        return [f"{m['stage']}{when}: {wording.mechanism(m['event'])} Entry {m['entry']}." for m, when in rows]

    yield from _of_cards(facts, "What was done to the rows", "mechanisms", told)


def _unit(facts: Facts) -> Iterator[Answer]:
    told = []
    for a in facts["accounts"]:
        whom = "one row" if a["unit"] == "row" else f"all rows of one {a['unit']}"
        most = f", at most {a['max_rows']} of them" if a["max_rows"] > 1 else ""
        rows = (
            " Whoever has several rows is protected for each of them by itself, and not for all together."
            if a["unit"] == "row"
            else ""
        )
        told.append(f"Account {a['name']} hides {whom}{most}; the neighbouring relation is {a['relation']}.{rows}")
    yield Answer("Whom it protects", tuple(told), "release card: unit, unit_max_rows, relation")


def _limits(facts: Facts) -> Iterator[Answer]:
    """Yield the promise of each account over all its releases, and what of it is used."""
    for a in facts["accounts"]:
        view = account_view(a, facts["generated_at"])
        under = f"It is under umbrella {view['under']}, which each release charges too." if view["under"] else ""
        members = [f"Member {name} took {part} of it." for name, part in view["members"]]
        told = [
            f"The limit is ε {view['epsilon']} at δ {view['delta']} for everything it ever releases.",
            view["promise"],
        ]
        told += [f"{view['used']} of it is used. {view['footnote']}", under, *members]
        what = f"{'Umbrella' if view['is_umbrella'] else 'Account'} {a['name']}, over all releases"
        yield Answer(what, tuple(filter(None, map(str.strip, told))), f"dp-synth ledger show {a['name']}")


def _parameters(facts: Facts) -> Iterator[Answer]:
    """Yield the promise of each table, and what an attacker reaches at most by its own trade-off."""

    def told(card: Mapping[str, Any]) -> list[str]:
        if card["epsilon"] is None:
            return ["There is none."]
        cost = f"ε = {wording.at_most(card['epsilon'])} at δ = {wording.scientific(card['delta'])}"
        return [
            f"{cost}, for all that the table shows.",
            card["derived"]["meaning"],
            card["derived"]["added"],
            *card["derived"]["statements"],
        ]

    for answer in _of_cards(facts, "The guarantee", "epsilon, delta, trade_off", told):
        yield Answer(answer.what, tuple(filter(None, answer.told)), answer.where)


def _decisions(facts: Facts) -> Iterator[Answer]:
    told = [
        f"{moment(a['opened_at'])}: {a['who'] or 'somebody'} opened {a['name']}, ε {a['epsilon']:g}: "
        f"{a['why'] or 'no reason given'}."
        for a in facts["accounts"]
    ]
    told += [
        f"{moment(r['at'])}: {r['who']} raised {r['account']} from ε {r['from'][0]:g} to {r['to'][0]:g}: {r['why']}."
        for r in facts["raises"]
    ]
    yield Answer("Why so much may be released, and who decided", tuple(told), "governance report: Limits raised")


def _outside_of_cards(facts: Facts) -> Iterator[Answer]:
    """Yield what each card says it does not promise, such as left-out rows and the pretrained models that write texts."""
    yield from _of_cards(facts, "Limits", "limits", lambda card: card["derived"]["limits"])


def _declared(facts: Facts) -> Iterator[Answer]:
    def told(card: Mapping[str, Any]) -> list[str]:
        by = f" by {card['declared_by']}" if card["declared_by"] else ""
        return [
            f"{c['name']}: {', '.join(c['declared'])}, declared public{by} and published as it stands."
            for c in card["public"]
            if c["declared"]
        ]

    yield from _of_cards(facts, "Declared without a charge, so not protected,", "public", told)


def _without_guarantee(facts: Facts) -> Iterator[Answer]:
    told = [f"{name} was released with privacy: none, on a person's word." for name in facts["without_guarantee"]]
    told = told or ["None that this store and ledger know of."]
    yield Answer("Tables of the same sources without a guarantee", tuple(told), "governance report: Released tables")


def _by_hand(facts: Facts) -> Iterator[Answer]:
    told = [
        f"{moment(r['at'])}: {r['who']} charged ε {wording.at_most(r['final_epsilon'])} to {r['account']}: {r['why']}."
        for r in facts["by_hand"]
    ]
    yield Answer("What other tools released", tuple(told), "governance report: Charged by hand")


def _concerns(facts: Facts) -> Iterator[Answer]:
    told = [f"{c['where']}: {c['what']}." for c in facts["concerns"]] or ["Nothing."]
    yield Answer("What the governance report says to look into", tuple(told), "governance report: its first box")


def _attackers(_: Facts) -> Iterator[Answer]:
    """Yield for each attacker of the threat model what does not hold against them."""
    for section in re.split(r"^## ", _threat_model(), flags=re.MULTILINE)[1:]:
        title, text = section.split("\n", 1)
        for found in re.findall(r"^\*\*Does not hold\.(.+?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL):
            yield Answer(
                f"Outside of the guarantee: {title[0].lower()}{title[1:]}",
                (_plain(found),),
                "dp-synth docs threat-model",
            )


def _hazards(sections: tuple[str, ...]) -> list[Answer]:
    """Return the hazards of some sections of NIST SP 800-226 as the threat model answers them."""
    lines = re.findall(r"^\| ([\d.]+) \| (.+?) \| (.+?) \| (.+?) \|$", _threat_model(), re.MULTILINE)
    return [
        Answer(f"Hazard (§ {section}): {_plain(hazard)}", _done(done, lacking), "dp-synth docs threat-model")
        for section, hazard, done, lacking in lines
        if section in sections
    ]


def _done(done: str, lacking: str) -> tuple[str, ...]:
    told = {"What is done: ": _plain(done), "What is not: ": _plain(lacking)}
    return tuple(f"{how}{text}" for how, text in told.items() if len(text) > 1)  # a dash where nothing is to be said


@cache
def _threat_model() -> str:
    return files("dp_synth_pipeline").joinpath("docs/threat-model.md").read_text(encoding="utf-8")


def _plain(text: str) -> str:
    """Return Markdown as one line without links and marks."""
    linked = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    return " ".join(re.sub(r"\*\*|`|(?<!\w)\*|\*(?!\w)", "", linked).split())


def _verified(facts: Facts) -> Iterator[Answer]:
    verdict = "The ledger verifies" if facts["verified"] else "THE LEDGER DOES NOT VERIFY. Stop all runs on it"
    told = [f"{verdict}: its chain, every cost and every balance were computed again. Head {facts['head'][:16]}."]
    for table in facts["tables"]:
        if table["cards"]:
            count, problems = wording.counted(len(table["cards"]), "card"), table["card_problems"]
            verdict = f"does NOT agree with it: {_listed(problems)}" if problems else "agrees with it"
            told.append(f"Of {table['table']}, {count} was compared with the ledger, and {verdict}.")
    yield Answer("Whether the record is whole", tuple(told), "dp-synth ledger verify, dp-synth card verify")
    anchors = (
        facts.get("anchors")
        or "None were compared: name the file with --anchors, if the ledger's head is kept elsewhere."
    )
    yield Answer("Anchors", (anchors,), "dp-synth ledger verify --anchors")


def _second_person(facts: Facts) -> Iterator[Answer]:
    told = []
    for a in facts["accounts"]:
        view = account_view(a, facts["generated_at"])
        alone = (
            f"A charge of more than {view['alone']} needs a second person."
            if view["alone"]
            else "One person decides alone."
        )
        told += [f"{a['name']}: {alone}", *(f"{a['name']}: {quota}" for quota in view["quotas"])]
    for r in facts["requests"][-SHOWN:]:
        approved = (
            f"approved by {r['approved_by']}: {r['approved_why']}" if r["approved_by"] else "approved by nobody yet"
        )
        told.append(f"{moment(r['asked_at'])}: {r['in_words']} It is {r['state']}, {approved}.")
    yield Answer("Second persons and quotas", tuple(told), "governance report: Asked of a second person")


def _refusals(facts: Facts) -> Iterator[Answer]:
    told = ["Not known: a refusal stands in Dagster's event log, and DAGSTER_HOME is not set."]
    if facts["event_log"]:
        told = [f"{wording.counted(len(facts['refused']), 'release')} refused, before any row was read."]
        for refusal in facts["refused"][:SHOWN]:
            first, *_ = refusal["why"].splitlines() or [""]
            told.append(f"{moment(refusal['at'])}, {refusal['table']}: {first or 'no reason is on record'}")
    yield Answer("Refusals", tuple(told), "governance report: Runs refused")


def _kept(facts: Facts) -> Iterator[Answer]:
    told = []
    for table in facts["tables"]:
        name, kept = table["table"], table["kept"]
        if kept is None:
            told.append(f"{name}: whoever wrote this may not look into its restricted folder.")
        elif not kept:
            told.append(f"{name}: no real rows lie in the restricted folder.")
        else:
            dates = [moment(k["expires"]) if k["expires"] else "the next refresh" for k in kept]
            told.append(f"{name}: {wording.counted(len(kept), 'folder')} of real rows, kept until {_listed(dates)}.")
    yield Answer("What is kept of real rows here", tuple(told), "store/restricted; retention_days and dp-synth purge")


def _checks(facts: Facts) -> Iterator[Answer]:
    def told(card: Mapping[str, Any]) -> list[str]:
        failed = [c["description"] for c in card["checks"] if not c["passed"]]
        passed = f"{len(card['checks']) - len(failed)} of {wording.counted(len(card['checks']), 'check')} passed."
        return [passed, *(f"Failed or warned: {description}" for description in failed)]

    yield from _of_cards(facts, "Checks", "checks", told)


def _audits(facts: Facts) -> Iterator[Answer]:
    def told(card: Mapping[str, Any]) -> list[str]:
        found = [f"{a['name']}: {'passed' if a['passed'] else 'FAILED'}." for a in card["audit"]]
        attacked = card["one_run_audit"]
        if attacked:
            proved = f"an ε of at least {attacked['epsilon']:.3g} where {attacked['claimed']:.3g} is claimed"
            found.append(f"The last one-run audit proved {proved}.")
        return found or ["None: no noisy step was audited."]

    yield from _of_cards(facts, "Audits of training", "audit, one_run_audit", told)


def _quality(facts: Facts) -> Iterator[Answer]:
    def told(card: Mapping[str, Any]) -> list[str]:
        figures = [
            f"Accuracy of {title}: {100 * card['accuracy'][way]:.1f} %, a charged figure."
            for title, way in (("single columns", "accuracy_one"), ("pairs of columns", "accuracy_two"))
            if way in card["accuracy"]
        ]
        return figures or [card["derived"]["quality"]]

    yield from _of_cards(facts, "Quality", "accuracy", told)


def _readers(facts: Facts) -> Iterator[Answer]:
    told = [
        f"{t['table']}: real rows are read outside of its chain by {_listed(t['reads_rows'])}."
        for t in facts["tables"]
        if t["reads_rows"]
    ]
    none = "No asset of this project reads real rows outside of a table's chain."
    told = told or [none if facts["lineage"] else "Not known: no project was named."]
    yield Answer("Who reads real rows", tuple(told), "governance report: Released tables")


def _listed(names: list[str], none: str = "nothing in this project") -> str:
    return ", ".join(names) or none


CONTROLLER, OFFICER, ENGINEER = "the controller", "the data protection officer", "whoever runs the pipeline"
EVALUATOR = "whoever evaluates"

DPIA = (
    Question(
        "(a) The processing and its purposes",
        "What is done with which data, what for, by whom and how often?",
        (_sources, _tables, _columns, _purposes, _requesters, _schedule, _steps),
        (
            (CONTROLLER, "the legal basis, and the legitimate interest where that is the basis."),
            (CONTROLLER, "whose data these are, how they were collected, and which of them are of a special category."),
            (CONTROLLER, "who receives the synthetic tables, and whether one of them leaves the European Economic Area."),
        ),
    ),
    Question(
        "(b) Necessity and proportionality",
        "Is it needed for that purpose, and is no more done than that?",
        (_unit, _limits, _parameters, _decisions),
        (
            (CONTROLLER, "why the purpose needs these data, and why fewer columns, rows or releases would not do."),
            (CONTROLLER, "why a synthetic table does, and what the real one would have been used for."),
            (CONTROLLER, "whether the privacy unit is a person, and whether the limit on ε is low enough for these data."),
            (CONTROLLER, "how people are informed, and how they object or have their data erased at the source."),
        ),
    ),
    Question(
        "(c) Risks to the people in the data",
        "What may happen to them, from this processing and in spite of the guarantee?",
        (_outside_of_cards, _declared, _without_guarantee, _by_hand, _concerns, _attackers),
        (
            (CONTROLLER, "how likely and how severe each of these is for the people in the data."),
            (CONTROLLER, "what harm conclusions about groups may do, which the guarantee does not hide."),
        ),
    ),
    Question(
        "(d) Measures against them",
        "What is done about those risks, and what shows that it is done?",
        (_verified, _second_person, _refusals, _kept, _checks, _audits),
        (
            (ENGINEER, "encryption at rest, backups, and who may open the source, the store and the ledger with its key."),
            (ENGINEER, "how long the source itself is kept."),
            (OFFICER, "their advice (article 35(2))."),
            (CONTROLLER, "the views of the people concerned, or why they were not asked (article 35(9))."),
            (CONTROLLER, "whether what remains is acceptable, and when this is looked at again."),
        ),
    ),
)  # fmt: skip

NIST = (
    Question(
        "Top: the privacy parameters ε and δ",
        "How strong is the guarantee, over this table and over all releases?",
        (_parameters, _limits, _without_guarantee, _by_hand),
        ((EVALUATOR, "whether that ε is small enough for these data."),),
        ("2.2", "2.3", "2.5", "2.6"),
    ),
    Question(
        "Top: the unit of privacy",
        "Whose data count as one, and which tables are neighbours?",
        (_unit,),
        ((EVALUATOR, "whether one value of that column is one person."),),
        ("2.4",),
    ),
    Question(
        "Middle: algorithms and correctness",
        "Do the mechanisms give what is claimed?",
        (_steps, _audits, _verified, _outside_of_cards),
        ((EVALUATOR, "a review by a third party; none is on record here."),),
        ("3", "3.4", "3.5", "3.6", "3.7"),
    ),
    Question(
        "Middle: utility",
        "Is what comes out of use?",
        (_purposes, _quality, _checks),
        ((EVALUATOR, "the restricted quality report, whose figures look at real rows and stand in no export."),),
    ),
    Question(
        "Middle: bias",
        "Is it of use to all groups alike?",
        (),
        ((EVALUATOR, "the figures by group of a sensitive column; they stand in the restricted quality report."),),
        ("3.3",),
    ),
    Question(
        "Bottom: side channels",
        "What is told beside the output?",
        (),
        ((EVALUATOR, "who else computes on the machine, and may measure time."),),
        ("4.3",),
    ),
    Question(
        "Bottom: trust models",
        "Who is trusted with the real rows, and who may ask for releases?",
        (_requesters, _second_person, _refusals, _readers),
        ((EVALUATOR, "whether those who are trusted deserve it."),),
        ("4.1", "4.2"),
    ),
    Question(
        "Bottom: access control",
        "Who can reach the real rows where they are stored?",
        (_kept, _concerns),
        ((ENGINEER, "encryption at rest, backups, and who may open the source, the store and the ledger with its key."),),
        ("4.4",),
    ),
    Question(
        "Bottom: data collection exposure",
        "Who saw the data when they were collected, and had so many to be?",
        (_sources, _columns),
        ((CONTROLLER, "how the rows were collected, who saw them, and why each column was needed."),),
        ("4.5",),
    ),
)  # fmt: skip

QUESTIONNAIRES: dict[str, tuple[str, str, tuple[Question, ...]]] = {
    "dpia": (
        "Data protection impact assessment, draft",
        "GDPR, article 35(7): https://eur-lex.europa.eu/eli/reg/2016/679/oj. Questions are in our words.",
        DPIA,
    ),
    "nist": (
        "Evaluation by the differential privacy pyramid",
        "NIST SP 800-226, March 2025: https://doi.org/10.6028/NIST.SP.800-226. Each part relies on those below it. "
        "Questions and hazards are in our words, under the numbers of sections that docs/threat-model.md explains.",
        NIST,
    ),
}
"""By the word on the command line: what it is called, where it comes from, and what it asks."""
