"""URIs of sources and targets: which part names the table, and how one is shown without its secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from dp_synth_pipeline.errors import InvalidInput

_FILES = ("file", "demo", "duckdb", "delta")
"""Schemes whose URIs hold paths and never a user."""

_SECRET = re.compile(r"(?i)\b(\w*(?:pass|pwd|token|secret|credential|key)\w*)=[^&\s]*")


def shown(uri: str) -> str:
    """Return a URI without user, password and parameters other than the table; paths of files stay as they are.

    Where the form leaves doubt about what is secret, less is shown rather than more.

    Example:
        >>> shown("postgresql://ann:secret@db.example/clinic?table=public.visits&sslpassword=x")
        'postgresql://db.example/clinic?table=public.visits'
        >>> shown("duckdb:///lake/a@b.duckdb?table=t")
        'duckdb:///lake/a@b.duckdb?table=t'
    """
    match = re.match(r"([A-Za-z][\w+.-]+):/*", uri)
    if match is None or match.group(1).lower() in _FILES:
        return _SECRET.sub(r"\1=***", uri)
    place, _, query = uri[match.end() :].partition("?")
    scheme = f"{match.group(1)}://"
    if "@" in query or "#" in place:  # a password with an unescaped ? or #: what follows may be a part of it
        return f"{scheme}..."
    table = [piece for piece in query.split("&") if piece.startswith("table=")]
    return scheme + place.rpartition("@")[2] + (f"?{table[0]}" if table else "")


@dataclass(frozen=True)
class Address:
    """A table behind a driver.

    Attributes:
        uri: what a person wrote, secrets included: for the driver's eyes only.
        table: the table's parts, `(name,)` up to `(catalog, schema, name)`.
        options: the URI's other parameters, secrets included.
    """

    uri: str
    table: tuple[str, ...]
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    @property
    def shown(self) -> str:
        """The URI without its secrets."""
        return shown(self.uri)

    @property
    def user(self) -> tuple[str | None, str | None]:
        """User and password, decoded."""
        parts = urlsplit(self.uri)
        return tuple(None if p is None else unquote(p) for p in (parts.username, parts.password))  # type: ignore[return-value]

    @property
    def host(self) -> str:
        """The host or account, without its port."""
        return urlsplit(self.uri).netloc.rpartition("@")[2]

    @property
    def path(self) -> tuple[str, ...]:
        """The parts of the path, decoded: database, schema."""
        return tuple(unquote(p) for p in urlsplit(self.uri).path.split("/") if p)

    @property
    def without_table(self) -> str:
        """The URI as the engine's own clients understand it, secrets included."""
        place, _, query = self.uri.partition("?")
        rest = "&".join(p for p in query.split("&") if p and not p.startswith("table="))
        return f"{place}?{rest}" if rest else place


def split(uri: str, form: str) -> Address:
    """Take a URI apart.

    Raises:
        InvalidInput: if it names no table, or cannot be taken apart; `form` is what it should look like.
    """
    try:
        query = dict(parse_qsl(urlsplit(uri).query))
    except ValueError:
        raise InvalidInput(f"{shown(uri)} is not a URI. The form is {form}.") from None
    name = query.pop("table", "")
    if not name or not all(name.split(".")):
        raise InvalidInput(f"{shown(uri)} names no table. The form is {form}.")
    return Address(uri, tuple(name.split(".")), query)
