"""Makes command line options of a model's fields, and holds those that commands on a single file share."""

from __future__ import annotations

import copy
import functools
import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from rich.console import Console

from dp_synth_pipeline.cli import terminal
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.privacy.budget import check_delta, check_epsilon
from dp_synth_pipeline.synthesis.store import ledger_url

if TYPE_CHECKING:
    from dp_synth_pipeline.orchestration.settings import AnySettings, TableSettings

ONCE = "opened for one release by dp-synth "
"""How the reason of an account begins that a command opened for its own release."""


class Options(BaseModel):
    """A group of options: each field is one, with its description as help."""

    model_config = ConfigDict(frozen=True)


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that offers an option for each field of the `Options` that its parameters are annotated with."""
    signature = inspect.signature(command, eval_str=True)
    groups = {p.name: p.annotation for p in signature.parameters.values() if _is_group(p.annotation)}
    own_parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values() if p.name not in groups]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        group_values = {name: group(**{f: values.pop(f) for f in group.model_fields}) for name, group in groups.items()}
        command(**values, **group_values)

    field_parameters = [_option(name, field) for group in groups.values() for name, field in group.model_fields.items()]
    parameters = sorted([*own_parameters, *field_parameters], key=lambda p: p.default is not p.empty)
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return wrapper


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Options)


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    flags = [f"--{name.rstrip('_').replace('_', '-')}"]
    minimum = next((constraint.ge for constraint in field.metadata if hasattr(constraint, "ge")), None)
    option = typer.Option(*flags, help=field.description, min=minimum)
    default = inspect.Parameter.empty if field.is_required() else field.get_default(call_default_factory=True)
    kind: Any = Annotated[field.annotation, option]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


class UnitOptions(Options):
    """Whose presence is hidden, and which columns take no part."""

    unit: str | None = Field(
        default=None, description="Column that names a person, if one has several rows; row: if nobody has."
    )
    max_rows: int = Field(default=4, ge=1, description="With --unit: rows kept per person.")
    exclude: list[str] | None = Field(default=None, description="Leave this column out; may be repeated.")

    def settings(self, declared_columns: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the settings that these amount to, beside declared columns."""
        excluded = {name: {"kind": "excluded"} for name in self.exclude or ()}
        unit = self.unit if self.unit in (None, "row") else {"column": self.unit, "max_rows": self.max_rows}
        return {**({"unit": unit} if unit else {}), "columns": (declared_columns or {}) | excluded}


class AccountOptions(Options):
    """Who pays, and where that is kept."""

    account: str | None = Field(default=None, description="The account to charge; default: the file's name.")
    delta: float | None = Field(
        default=None, description="Default: 1 / N^1.2, at most the account's, and 1e-5 if it is opened here."
    )
    open_account: bool = Field(
        default=False, description="Open the account for exactly this one release, if it does not exist."
    )
    ledger: str = Field(default="", description="SQLite path or PostgreSQL URL; default: $DP_SYNTH_LEDGER.")

    @property
    def url(self) -> str:
        """Where the ledger is."""
        return self.ledger or ledger_url()


class SetOptions(Options):
    """Settings that have no option of their own."""

    set_: list[str] | None = Field(
        default=None,
        description="KEY=VALUE for a setting without an option of its own, such as training.max_epochs=10; may be repeated. "
        "dp-synth docs training has those of training.",
    )

    def over(self, facts: dict[str, Any], *, replace: bool) -> dict[str, Any]:
        """Return settings with those that are set here among them.

        Args:
            facts: settings by name, a mapping for a group of them.
            replace: whether what is set goes before what `facts` say; else saying it twice is refused.

        Raises:
            InvalidInput: if one is no KEY=VALUE, or is said already.
        """
        merged = copy.deepcopy(facts)
        for text in self.set_ or ():
            key, _, value = text.partition("=")
            *groups, name = key.strip().split(".")
            place = merged
            for group in groups:
                place = place.setdefault(group, {}) if isinstance(place, dict) else None
            if not (value and name and isinstance(place, dict)):
                raise InvalidInput(f"--set {text}: expected KEY=VALUE, such as training.max_epochs=10.")
            if name in place and not replace:
                raise InvalidInput(
                    f"--set {key}: the command has an option for it, --{name.replace('_', '-')}; use that."
                )
            place[name] = parsed_value(f"--set {key}", value)
        return merged


def parsed_value(option: str, text: str) -> Any:
    """Return a value as YAML would have it.

    Raises:
        InvalidInput: if it is none, naming the option.
    """
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise InvalidInput(f"{option}: its value is no YAML; quote it as YAML would have it.") from None


def checked(**facts: Any) -> TableSettings:
    """Return the settings that options amount to; raise InvalidInput naming the option that is wrong."""
    from dp_synth_pipeline.orchestration.settings import TableSettings
    from dp_synth_pipeline.synthesis.section import said

    if facts.get("epsilon") is not None:
        check_epsilon(facts["epsilon"])
    if facts.get("delta", "auto") != "auto":
        check_delta(facts["delta"])
    try:
        return TableSettings(**facts)
    except ValidationError as error:
        first = error.errors()[0]
        place, unknown = first["loc"], first["type"] == "extra_forbidden"  # no option has a name that no setting has
        within = len(place) > 1 or unknown
        option = "--schema: " if place[:1] == ("columns",) else "--set " if within else "--" if place else ""
        raise InvalidInput(option + said(error, TableSettings)) from None


LEDGER_VARIABLES = ("DP_SYNTH_LEDGER", "DP_SYNTH_HOME", "DAGSTER_HOME")
"""What says where the ledger is if no option does, in this order."""


def opened(url: str = "", *, create: bool = False) -> Ledger:
    """Open the ledger that a command uses, and say on standard error which one that is: there may be several.

    Args:
        url: what the command's `--ledger` says; empty for the one that the environment names, or the one at home.
        create: make it if it is missing, for what opens accounts or spends; a question never makes an empty one.

    Raises:
        InvalidInput: if there is none and none is to be made.
        LedgerCorrupted, LedgerUnavailable: if it cannot be used.
    """
    book = Ledger.open(url or ledger_url(), create=create)
    is_default = not url and not any(map(os.environ.get, LEDGER_VARIABLES))
    why = (
        " (the default in this user's home, since neither DAGSTER_HOME nor DP_SYNTH_LEDGER is set)"
        if is_default
        else ""
    )
    terminal.console(stderr=True).print(f"Ledger: {book.place}{why}", style="dim", soft_wrap=True)
    return book


def open_once(book: Ledger, settings: AnySettings, command: str, console: Console) -> None:
    """Open the account for exactly one release of these settings, unless it exists.

    One that was opened like this before, and of which nothing was ever charged, is opened anew with the terms asked now:
    input that could not be read must not fix them for ever.
    """
    from dp_synth_pipeline.synthesis.settings import DEFAULT_DELTA

    account, epsilon = settings.charge
    delta = DEFAULT_DELTA if settings.delta == "auto" else float(settings.delta)
    unit = settings.privacy_unit
    terms = {"epsilon": float(epsilon), "delta": delta, "unit": str(unit), "max_rows": unit.max_rows}
    record = next((a for a in book.accounts() if a.name == account), None)
    if record is not None:
        has_same_terms = {name: getattr(record, name) for name in terms} == terms
        if has_same_terms or not (record.why.startswith(ONCE) and book.untouched(account)):
            return
    book.open_account(account, **terms, rule="plan", why=f"{ONCE}{command} --open-account", anew=record is not None)
    console.print(
        f"Opened account {account} for this one release, which spends all of it: epsilon {epsilon:g}, delta {delta:g}.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    terminal.say_large(f"Account {account}", epsilon, delta, console)
