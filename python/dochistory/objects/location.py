"""URLs of object stores: which store, which bucket, and what stands before every name in it."""

import os
import re
from dataclasses import dataclass
from typing import Literal, NoReturn

import dochistory as dh

Kind = Literal["s3", "gs", "az", "file"]

_KINDS: dict[str, Kind] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
    "file": "file",
}
SCHEMES = tuple(_KINDS)
"""The schemes of URLs that name a place in an object store."""

_AZURE_HOST = re.compile(r"(?P<account>[a-z0-9-]+)\.(?P<service>dfs|blob)\.(?P<domain>[a-z0-9.-]+)")


@dataclass(frozen=True)
class Location:
    """A place in an object store."""

    kind: Kind
    bucket: str
    """The bucket or container; empty for `file`."""
    prefix: str
    """What stands before every name, without slashes at its ends; may be empty, except for `file`."""
    account: str | None = None
    """Azure's account, where the URL names it: `abfss://container@account.dfs.core.windows.net/`."""
    domain: str | None = None
    """The domain of that account."""

    @property
    def url(self) -> str:
        """The location as a URL; equal for all spellings of the same place."""
        if self.kind == "file":
            return f"file:///{self.prefix}"
        where = self.bucket
        if self.account:
            where = f"{where}@{self.account}.dfs.{self.domain}"
        scheme = "abfss" if self.account else self.kind
        return f"{scheme}://{where}/{self.prefix}".rstrip("/")

    @property
    def endpoint(self) -> str | None:
        """Where Azure's account answers, if the URL names it and it is not in the public cloud."""
        if self.account is None or self.domain == "core.windows.net":
            return None
        return f"https://{self.account}.blob.{self.domain}"


def is_url(given: str | os.PathLike[str]) -> bool:
    """Whether this is a URL of an object store that can hold a history; a `file:` URL names a directory."""
    scheme, colon, rest = os.fspath(given).partition(":")
    # `pathlib` makes one slash of two.
    return bool(colon) and rest.startswith("/") and _KINDS.get(scheme.lower(), "file") != "file"


def parse(given: str | os.PathLike[str]) -> Location:
    """The place that a URL names.

    Raises:
        ConfigError: [DH-CONFIG] it names none.
    """
    text = os.fspath(given)
    scheme, colon, rest = text.partition(":")
    kind = _KINDS.get(scheme.lower())
    if not colon or not rest.startswith("/") or kind is None:
        _refuse(text, f"it must begin with {', '.join(f'{one}://' for one in SCHEMES[:-1])} or file:///")
    if re.search(r"[?#\x00-\x1f\x7f]", rest):
        _refuse(text, "a name may not contain '?', '#' or control characters; options belong into storage_options")
    # `pathlib` makes one slash of two.
    authority, _, path = rest.removeprefix("//" if rest.startswith("//") else "/").partition("/")
    if kind == "file":
        authority, path = "", rest.lstrip("/")
    prefix = path.rstrip("/")
    if prefix and any(part in ("", ".", "..") for part in prefix.split("/")):
        _refuse(text, "its path has an empty part, '.' or '..'")
    if kind == "file":
        if not prefix:
            _refuse(text, "it names no directory")
        return Location(kind, "", prefix)
    return _in_bucket(text, kind, authority, prefix)


def _in_bucket(text: str, kind: Kind, authority: str, prefix: str) -> Location:
    bucket, at, host = authority.partition("@")
    if ":" in authority:
        _refuse(text, "it may hold no password and no port: name the endpoint in storage_options")
    if not bucket:
        _refuse(text, "it names no bucket")
    if not at:
        return Location(kind, bucket, prefix)
    found = _AZURE_HOST.fullmatch(host.lower())
    if kind != "az" or found is None:
        _refuse(text, "only abfss://container@account.dfs.core.windows.net/… may name a host")
    return Location(kind, bucket, prefix, found["account"], found["domain"])


def _refuse(text: str, reason: str) -> NoReturn:
    # What stands before an @ may be a password.
    shown = re.sub(r"//[^/]*:[^/]*@", "//…@", text)
    raise dh.ConfigError(f"[DH-CONFIG] {shown!r} is no URL of an object store: {reason}")
