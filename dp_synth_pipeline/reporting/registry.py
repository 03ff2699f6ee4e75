"""Writes a release card as a record of the public Differential Privacy Deployments Registry.

A record agrees with `registry_schema.json`, which states the registry's schema in its form of July 2026. The registry is
github.com/opendp/deployments-registry-data, where a record is proposed as a pull request with one YAML file. It follows
Nanayakkara, Ghazi & Vadhan 2025, "Practitioners' Perspectives on a Differential Privacy Deployment Registry".

What only a person can say (who publishes, what for, of which region) is an option, or is marked `FILL_IN`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import ADD_REMOVE
from dp_synth_pipeline.privacy.events import SelectedTraining
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.reporting.card import CardFacts, ReleaseCard

FILL_IN = "TO BE FILLED IN"


@cache
def schema() -> dict[str, Any]:
    """Return the registry's schema, a JSON Schema of draft 7. It allows no field that it does not name."""
    return json.loads(files(__package__ or "").joinpath("registry_schema.json").read_text(encoding="utf-8"))


def words(section: str, field: str) -> list[str]:
    """Return the words that the registry knows for one field of a section; its maintainers add to them as needed."""
    sections = schema()["properties"]["deployment"]["properties"]
    return sections[section]["properties"][field]["enum"]


@dataclass(frozen=True)
class Curation:
    """What a card does not know of its deployment, because only a person does.

    Attributes:
        curator: who publishes.
        use: intended use.
        region: whom the data describe, or whose law applies.
        sector: one of `words("basic", "data_product_sector")`, or none.
        data_source: 'Dynamic' if new rows come in over time, else 'Static'; None while nobody said.
        authors: who filled in the record.

    Raises:
        InvalidInput: for a word that the registry does not know.
    """

    curator: str = FILL_IN
    use: str = FILL_IN
    region: str = FILL_IN
    sector: str | None = None
    data_source: str | None = None
    authors: tuple[str, ...] = (FILL_IN,)

    def __post_init__(self) -> None:
        for option, value, choices in (
            ("sector", self.sector, words("basic", "data_product_sector")),
            ("data source", self.data_source, words("deployment_model", "data_source_type")),
        ):
            if value is not None and value not in choices:
                raise InvalidInput(f"{option}: the registry knows {', '.join(choices)}; got {value!r}.")


def record(card: ReleaseCard, curation: Curation) -> dict[str, Any]:
    """Return a card as a record of the registry, a draft of tier 3.

    Raises:
        InvalidInput: if the release has no guarantee, so that it is no deployment of differential privacy.
    """
    f = card.facts
    if f.epsilon is None or f.delta is None:
        raise InvalidInput("this release has no privacy guarantee, so it is no deployment of differential privacy.")
    return {
        "url_slug": _slug(f.table, curation.curator, f.created[:4]),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(f, curation),
            "dp_variant": {
                "variant_name": "Approximate DP" if f.delta > 0 else "Pure DP",
                "data_domain": f"All tables with these columns: {', '.join(c['name'] for c in f.public)}.",
                "unprotected_quantities": _unprotected(f),
            },
            "privacy_loss": _loss(card),
            "deployment_model": _model(f, curation),
            "accounting": _accounting(f),
            "implementation": _implementation(f),
            "administrative": {
                "sources": FILL_IN,
                "notes": "\n".join(f"- {limit}" for limit in card.limits) + "\n",
                "registry_authors": list(curation.authors),
            },
        },
    }


def to_yaml(card: ReleaseCard, curation: Curation) -> str:
    """Return the record as YAML in the registry's style: blocks for long texts, never folded."""
    import yaml

    class Plain(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Plain.add_representer(str, text)
    return yaml.dump(record(card, curation), Dumper=Plain, sort_keys=False, allow_unicode=True, width=float("inf"))


def _slug(*parts: str) -> str:
    """Name a record as the registry does: a dash for each run of what is no letter or digit, and one between parts."""
    return "-".join(re.sub(r"\W+", "-", part.lower()) for part in parts).replace("_", "-")


def _basic(f: CardFacts, curation: Curation) -> dict[str, Any]:
    description = f.description or f"A synthetic copy of the table {f.table}: {f.rows:,} rows in {f.columns} columns."
    sector = {} if curation.sector is None else {"data_product_sector": curation.sector}
    return {
        "name": f.table,
        "data_curators": [curation.curator],
        "description": description,
        "intended_use": curation.use,
        "data_product_type": "Synthetic data",
        "data_product_region": curation.region,
        **sector,
        "publication_date": f.created[:10],
    }


def _unprotected(f: CardFacts) -> str:
    lines = [
        f"- {c['name']}: {', '.join(f'{k} {v}' for k, v in c['declared'].items())}" for c in f.public if c["declared"]
    ]
    lines = [f"- Declared public by {f.declared_by or 'a person'}:", *(f"  {line}" for line in lines)] if lines else []
    types = "- The names of all columns, and their storage types unless a mechanism below measured them."
    return "\n".join([types, *lines]) + "\n"


def _loss(card: ReleaseCard) -> dict[str, Any]:
    f = card.facts
    adjacent = "one unit more or less" if f.relation == ADD_REMOVE else "one unit with other values"
    most = f", at most {f.most_rows}" if f.most_rows > 1 else ""
    whose = "One row" if f.unit == "row" else f"All rows with one value of {f.unit}{most}"
    account = (
        f" It is charged to an account with a limit of epsilon {f.account_epsilon:g} at delta {f.account_delta:g} on "
        f"everything ever released from the data; epsilon {wording.at_most(f.account_spent_epsilon)} of it was spent "
        f"after this release."
        if f.account_epsilon is not None and f.account_delta is not None and f.account_spent_epsilon is not None
        else ""
    )
    return {
        "privacy_unit": "Row-level" if f.unit == "row" else f"User-level ({f.unit})",
        "privacy_unit_details": f"{whose}. Adjacent tables differ in {adjacent} ({f.relation}).",
        "privacy_parameters": {"epsilon": f.epsilon, "delta": f.delta},
        "privacy_parameters_details": f"{card.meaning}{account}",
    }


def _model(f: CardFacts, curation: Curation) -> dict[str, Any]:
    source = {} if curation.data_source is None else {"data_source_type": curation.data_source}
    return {
        "model_name": "Central",
        "actors": "The curator reads the table and keeps the ledger. Everybody else sees the synthetic table, and this "
        "record.",
        "release_type": "Many releases",
        "release_type_details": f"Further releases are admitted by this rule: {f.account_rule or FILL_IN}.",
        **source,
        "access_type": "Non-interactive",
        "access_type_details": "A reader queries the published rows, and no query of a reader reaches the source.",
    }


def _accounting(f: CardFacts) -> dict[str, str]:
    by = "their Rényi curves" if _chosen_privately(f) else "a privacy loss distribution"
    return {
        "post_processing": "Rows are drawn from a generator that was released with noise, and may be weighted by noisy "
        "marginals that were released with it.",
        "composition": f"The mechanisms of a release are composed by {by}; releases of one account "
        "by a filter at a fixed Rényi order, or as declared shares.",
    }


def _chosen_privately(f: CardFacts) -> bool:
    """Say whether the release is the best of several trainings."""
    return any(m["event"].get("kind") == SelectedTraining.kind for m in (*f.mechanisms, *f.reused))


def _implementation(f: CardFacts) -> dict[str, str]:
    mechanisms = [f"- {m['stage']}: {wording.mechanism(m['event'])} `{m['event']}`" for m in f.mechanisms]
    mechanisms += [f"- {m['stage']} (charged to an earlier release): {wording.mechanism(m['event'])}" for m in f.reused]
    software = [f"- Software: {f.software}, settings {f.code_version}."] if f.software else []
    private = "Some hyperparameters were chosen on the rows, by a charged selection. The others"
    subject = private if _chosen_privately(f) else "Hyperparameters"
    return {
        "preprocessing_and_hyperparameter_tuning": "Bounds, categories, null rates and the number of units are measured "
        f"by charged mechanisms, or were declared public. {subject} are defaults, or settings that a "
        f"person wrote. How that person chose them: {FILL_IN}.",
        "mechanisms": "\n".join([*mechanisms, *software, "- Running times are not protected."]) + "\n",
        "justification": FILL_IN,
    }
