"""Puts figures into plain words, the same on every page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.ledger.entry import EVERY

if TYPE_CHECKING:
    from dp_synth_pipeline.ledger.entry import Request
    from dp_synth_pipeline.synthesis.expected_quality import Quality, Shape
    from dp_synth_pipeline.validation.fidelity import Fidelity
    from dp_synth_pipeline.validation.related_figures import RelatedFigures

VERDICTS = {
    "excellent": "Excellent. Hard to tell from the real table, in every column and every pair looked at.",
    "good": "Good. The synthetic table follows the real one closely.",
    "fair": "Fair. Totals of single columns hold; look at the weak places below before relying on details.",
    "poor": "Poor. Do not draw conclusions from this table without looking at the weak places below.",
}


NO_SUM = (
    "Epsilons of several releases do not add up: what adds up is divergence, and turning its sum into one ε costs a "
    "constant, once. “Why do the epsilons not add up?” in `dp-synth docs faq` says more."
)
"""What stands beside an ε that a Rényi filter's divergence converts to."""

THRESHOLDS = ("all pairs, on average", "the worst column", "the worst pair")
"""What the verdict looks at, in the order of `Fidelity.gaps`."""


def verdict(fidelity: Fidelity | RelatedFigures) -> dict[str, Any]:
    """Return the verdict as a word and a sentence, and each figure behind it with the limits of each word."""
    from dp_synth_pipeline.validation.fidelity import VERDICTS as LIMITS

    head, _, explanation = VERDICTS[fidelity.verdict].partition(". ")
    lines = []
    for i, (figure, gap) in enumerate(zip(THRESHOLDS, fidelity.gaps, strict=True)):
        limits = {word: limit[i] for word, limit in LIMITS.items()}
        reached = next((word for word, bound in limits.items() if gap <= bound), "poor")
        lines.append({"what": figure, "gap": max(gap, 0.0), "reached": reached, "limits": limits})
    return {"word": fidelity.verdict, "head": head, "rest": explanation, "lines": lines}


def without_empty(figures: Fidelity) -> str:
    """Say what the verdict would be without the columns of which no value was released; nothing if that is the same."""
    empty = figures.empty
    if not empty or len(empty) == len(figures.columns) or (word := figures.without(empty).verdict) == figures.verdict:
        return ""
    what, holds = ("It", "holds") if len(empty) == 1 else ("They", "hold")
    return (
        f"No value of {', '.join(empty)} is frequent enough to be released. {what} {holds} nulls alone here; without, the "
        f"verdict is {word}."
    )


def request(asked: Request) -> str:
    """Say in one sentence who asks a second person for what, on which terms, and what for."""
    terms = asked.facts
    if asked.act == "reserved":
        blocks = f", blocks {', '.join(found)}" if (found := json.loads(terms["blocks"])) else ""
        what = f"for a release of table {terms['table']}{blocks}, code {terms['code_version']},"
    elif asked.act == "planned":
        what = f"for plan {terms['name']}, {terms['times']} times,"
    elif asked.act == "charged by hand":
        what = "for a charge by hand"
    else:
        alone = 1.0 if terms["approve_above"] is None else terms["approve_above"]
        quotas = f" and quotas {', '.join(found)}" if (found := terms.get("quotas")) else ""
        what = f"to be {asked.act}, with one person deciding {percent(alone)} alone{quotas},"
    takes = f", {percent(asked.share)} of the account" if asked.share else ""
    at = f"ε {terms['epsilon']:.4g}, δ {scientific(terms['delta'])}{takes}"
    return (
        f"{asked.who} asks account {asked.account} {what} at {at}. "
        f"For: {asked.why or 'nobody said'}. Terms {asked.terms_hash[:12]}."
    )


def quota(told: Mapping[str, Any]) -> str:
    """Say in one sentence what one requester, or one purpose, may take of an account, and who took how much of that.

    Args:
        told: what the ledger says of a quota: `by`, `name`, `share`, `epsilon` and `taken`.

    Example:
        >>> quota({"by": "requester", "name": "ana", "share": 0.25, "epsilon": 1.234, "taken": {"ana": 0.2}})
        'Requester ana may take at most 25 % of it, which is at most ε 1.234, and took 20.0 %.'
    """
    whose = f"{told['by'].capitalize()} {told['name']}"
    if told["name"] == EVERY:
        whose = f"Each {told['by']} that has no quota of its own"
    most = f"{whose} may take at most {100 * told['share']:g} % of it, which is at most ε {at_most(told['epsilon'])}"
    if told["name"] != EVERY:
        return f"{most}, and took {percent(sum(told['taken'].values()))}."
    took = [f"{name or 'what names none'} took {percent(part)}" for name, part in told["taken"].items()]
    return f"{most}{': ' if took else ''}{', '.join(took)}."


def percent(share: float) -> str:
    """Write a share of rows, with a decimal where it matters.

    Example:
        >>> percent(0.69384), percent(0.0004), percent(0.0)
        ('69.4 %', '0.04 %', '0 %')
    """
    if share == 0:
        return "0 %"
    return f"{100 * share:.1f} %" if share >= 0.001 else f"{100 * share:.2g} %"


def scientific(x: float) -> str:
    """Write a very small or large number for a person.

    Example:
        >>> scientific(1e-5), scientific(2.68e-6), scientific(0.25)
        ('10⁻⁵', '2.68 × 10⁻⁶', '0.25')
    """
    if x == 0 or not math.isfinite(x) or 0.001 <= abs(x) < 1e6:
        return f"{x:,.4g}" if abs(x) < 1000 or not math.isfinite(x) else f"{x:,.0f}"
    mantissa, _, power = f"{x:.3g}".partition("e") if "e" in f"{x:.3g}" else f"{x:.2e}".partition("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    mantissa = f"{float(mantissa):.3g}"
    return f"10{raised}" if mantissa == "1" else f"{mantissa} \u00d7 10{raised}"


def odds_bound(epsilon: float) -> float:
    """Return e^epsilon, the most that the odds of any one unit's presence can change; infinite if beyond float64."""
    return math.exp(epsilon) if epsilon < 700 else math.inf


def meaning(
    epsilon: float,
    delta: float,
    unit: str,
    max_rows: int = 1,
    what: str = "this table",
    right_guess: float | None = None,
) -> str:
    """Say what an (epsilon, delta) promises about one privacy unit, in words.

    What is said holds of (epsilon, delta)-DP as it is defined. A factor on the odds that fails with probability delta only
    would be more: P[privacy loss > epsilon] may be many times delta.

    Args:
        what: what is read, in words.
        right_guess: the chance of a right guess from the whole trade-off; None where that is not known, and (epsilon, delta)
            alone bound it.
    """
    bound = odds_bound(epsilon)
    reached = f"By ε and δ alone, someone who was half sure {_reached(_right_guess(epsilon, delta))}."
    if right_guess is not None:
        reached = f"Someone who was half sure {_reached(right_guess)}."
    whom = "one given row"
    if unit != "row":
        whom = f"the rows of one given {unit}{f' (at most {max_rows})' if max_rows > 1 else ''}"
    return (
        f"Whatever somebody concludes from {what}, whatever else they know, has "
        f"at most {at_most(bound, 3)} times the probability, plus {scientific(delta)}, that it would have if {whom} were "
        f"not in the source; and the other way round. {reached}"
    )


def _right_guess(epsilon: float, delta: float) -> float:
    """Return the largest chance that (epsilon, delta) alone leaves somebody to guess right who was half sure."""
    bound = odds_bound(epsilon)
    return (bound + delta) / (1 + bound) if math.isfinite(bound) else 1.0


def _reached(right_guess: float) -> str:
    """Say how often somebody guesses right who was half sure whether one unit was in the source."""
    right = at_most_percent(right_guess)
    return f"guesses right with a probability of at most {right}" if right != "100 %" else "may become all but certain"


HIGH = 3.0
"""The largest epsilon that Syngen calls high protection. A convention: above it, what an epsilon allows is said aloud."""


def large(what: str, epsilon: float, delta: float) -> str:
    """Say in words that an epsilon is large, and what it allows; empty up to `HIGH`.

    Args:
        what: what has that epsilon, such as "Account patients".
    """
    if epsilon <= HIGH:
        return ""
    return (
        f"{what} has a large budget: ε = {epsilon:g}. e^ε is {at_most(odds_bound(epsilon), 3)}, and by ε "
        f"and δ = {scientific(delta)} alone, someone who was half sure whether one given privacy unit is in the source "
        f"{_reached(_right_guess(epsilon, delta))}. dp-synth docs choosing weighs it."
    )


def at_most_percent(share: float) -> str:
    """Write the upper bound of a probability in percent, rounded up, so that what is shown still holds.

    Example:
        >>> at_most_percent(0.92471), at_most_percent(0.00007811), at_most_percent(1.0)
        ('92.5 %', '0.00782 %', '100 %')
    """
    if share >= 0.01:
        return f"{min(math.ceil(1000 * share - 1e-9) / 10, 100):g} %"
    return f"{at_most(100 * share, 3)} %"


def trade_off(figures: dict[str, Any]) -> list[str]:
    """Say what an attacker on one privacy unit reaches at most beside the right guess of `meaning`, a sentence each.

    Args:
        figures: what `privacy.tradeoff.TradeOff.figures` returned.
    """
    surer = "; ".join(
        f"at least {percent(s['belief'])} sure in at most {at_most_percent(s['chance'])} of cases"
        for s in figures["surer"]
    )
    return [
        f"What is released can make someone who was half sure {surer}.",
        f"No attacker does better than one who sees the answer through Gaussian noise with μ = {at_most(figures['mu'])}: at "
        f"a false-positive rate of x the true-positive rate is at most Φ(Φ⁻¹(x) + μ) + {scientific(figures['slack'])}.",
    ]


def delta_times(delta: float, units: int) -> str:
    """Say how large a delta is beside the number of privacy units, as it was declared or counted with noise."""
    return (
        f"δ times the number of privacy units, about {units:,}, is {at_most(delta * units, 3)}. It should lie far below 1: "
        f"a release that shows each unit in full with a probability of δ would keep its promise."
    )


def at_most(x: float, digits: int = 4) -> str:
    """Write an upper bound with few digits, rounded up, so that what is shown still holds.

    Example:
        >>> at_most(2.4973), at_most(2.51), at_most(12.149, 3)
        ('2.498', '2.51', '12.2')
    """
    if x <= 0 or not math.isfinite(x):
        return f"{x:g}"
    step = 10.0 ** (math.floor(math.log10(x)) - digits + 1)
    rounded = math.ceil(x / step - 1e-9) * step
    if rounded >= 1e6 or rounded < 0.001:
        return scientific(rounded)
    return f"{rounded:,.{digits}g}" if rounded < 1000 else f"{rounded:,.0f}"


def mechanism(event: dict[str, Any]) -> str:
    """Say what one privacy event did, in words."""
    kind, get = event.get("kind"), event.get
    if kind == "discrete_laplace":
        moved = get("sensitivity", 1)
        subject = "A count" if moved == 1 else f"A sum of counts, moved by at most {moved:,} by one unit,"
        return f"{subject} with two-sided geometric noise of scale {get('scale'):.4g}."
    if kind == "discrete_gaussian":
        return f"{counted(get('count', 1), 'histogram')} with discrete Gaussian noise of {get('scale'):.4g} rows."
    if kind == "gaussian":
        times = f"noise of {get('noise_multiplier'):.4g} times the sensitivity"
        return f"{counted(get('count', 1), 'sum')} with Gaussian {times}."
    if kind == "subsampled_gaussian":
        return (
            f"DP-SGD: {get('steps'):,} steps, each on a Poisson sample that holds a unit with probability "
            f"{get('sample_rate'):.4g}, noise multiplier {get('noise_multiplier'):.4g}."
        )
    if kind == "selected_training":
        return (
            f"The best of a secret number of trainings, {get('mean'):.4g} of them on average, by a noisy mean loss. Each is "
            f"DP-SGD of {get('steps'):,} steps on Poisson samples that hold a unit with probability "
            f"{get('sample_rate'):.4g}, noise multiplier {get('noise_multiplier'):.4g}; the loss has "
            f"{get('score_noise_multiplier'):.4g}."
        )
    if kind == "threshold":
        chance = scientific(get("delta", 0))
        return f"Rare values withheld by a threshold; one held by a single unit shows with probability {chance}."
    return f"{kind}."


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as '1 account' and '2 accounts'."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(shape: Shape, table: str = "") -> str:
    """Say how large a table is, after its name if that is given."""
    return f"{f'{table}, ' if table else ''}{shape.rows:,} rows and {shape.columns} columns"


def distances(quality: Quality) -> str:
    """Say how far off a release is expected to be."""
    return f"single columns about {quality.one_way:.2g} off, pairs of columns about {quality.two_way:.2g}."


def poor(quality: Quality, rows: int | None, epsilon: float | None) -> str:
    """Say that a release will be poor, and how many times the rows, or which epsilon, would bring it to what is not."""
    from dp_synth_pipeline.synthesis.expected_quality import FACTORS, POOR

    told = [f"{rows} times the rows"] if rows else []
    told += [f"ε {epsilon:g}"] if epsilon else []
    ways = f"{' or '.join(told)} would bring that to {POOR:g}."
    if not told:
        ways = f"neither {FACTORS[-1]} times the rows nor any ε worth naming would bring that to {POOR:g}."
    return (
        f"Poor: about {quality.two_way:.2g}, so that pairs of columns will be far off; {ways} Declared columns and "
        f"categories are free, and columns that nobody needs can be left out."
    )
