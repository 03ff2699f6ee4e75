"""`email`, `username`, `uuid`, `ip`, `url`: what tells people and machines apart in a network, and belongs to nobody."""

from __future__ import annotations

import uuid

import numpy as np

from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.kinds.people import Surrogate, both_names
from dp_synth_pipeline.tabular.kinds.regenerated import Regenerated
from dp_synth_pipeline.tabular.kinds.surrogates import hashed, picked, slug, who

DOMAINS = ("example.com", "example.org", "example.net")
"""Domains that nobody can own (RFC 2606)."""


class Username(Surrogate):
    """User names: the row's first and last name, and its number."""

    name = "username"
    unique = True

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        first, last = both_names(column, rows)
        return [
            f"{slug(a)[:1]}{slug(b)}{n}" if slug(b) else f"user{n}" for a, b, n in zip(first, last, rows, strict=True)
        ]


class Email(Surrogate):
    """E-mail addresses: the row's first and last name, and its number, at a domain that nobody can own."""

    name = "email"
    unique = True

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        first, last = both_names(column, rows)
        hosts = [DOMAINS[i] for i in hashed(rows, f"host{who(column.name)}") % np.uint64(len(DOMAINS))]
        names = [".".join(filter(None, (slug(a), slug(b)))) or "person" for a, b in zip(first, last, strict=True)]
        return [f"{name}{n}@{host}" for name, n, host in zip(names, rows, hosts, strict=True)]


class Uuid(Regenerated):
    """UUIDs of version 4: 122 bits that are two hashes of the row's number."""

    name = "uuid"
    unique = True

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        left, right = hashed(rows, f"left {column.name}"), hashed(rows, f"right {column.name}")
        values = zip(left.tolist(), right.tolist(), strict=True)
        return [str(uuid.UUID(int=(a << 64) + b, version=4)) for a, b in values]


class Ip(Regenerated):
    """IPv4 addresses of private networks, which no machine on the internet has (RFC 1918)."""

    name = "ip"

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        numbers = hashed(rows, "ip").tolist()
        return [f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in numbers]


class Url(Surrogate):
    """Addresses of web pages, at a domain that nobody can own."""

    name = "url"

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        hosts = [DOMAINS[i] for i in hashed(rows, "url") % np.uint64(len(DOMAINS))]
        paths = picked(column.locale, "uri_path", rows)
        return [f"https://{host}/{path}/{n}" for host, path, n in zip(hosts, paths, rows, strict=True)]
