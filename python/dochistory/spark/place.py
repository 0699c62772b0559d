"""Where a history is: a directory that all machines see, or a bucket that all of them reach."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import dochistory as dh
from dochistory import _existing, objects
from dochistory.spark import kept
from dochistory.spark.same_bucket import BucketSight, Given, cache_of_machine
from dochistory.spark.same_directory import Sight

if TYPE_CHECKING:
    from dochistory import History


def _named(history: "History | str | os.PathLike[str]") -> str:
    if isinstance(history, dh.History):
        return history.url or str(Path(history.path).absolute())
    if not isinstance(history, str | os.PathLike):
        raise dh.ConfigError(
            f"[DH-CONFIG] history is a {type(history).__name__}; needed is a history, its directory, or its URL"
        )
    return os.fspath(history)


@dataclass(frozen=True)
class Place:
    """A history's place, and how it is opened there."""

    path: str
    """The absolute path of a directory, or the URL of a bucket."""
    given: Given = field(default_factory=Given)
    """What the driver and the workers open a bucket with."""
    cache: str | None = None
    history: "History | None" = field(default=None, compare=False)
    """The history, where it is open already."""

    @classmethod
    def of(
        cls,
        history: "History | str | os.PathLike[str] | Place",
        storage_options: Mapping[str, Any] | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> "Place":
        """The place of a history.

        Args:
            history: the history, its directory, or its URL.
            storage_options: for a bucket: credentials, region, endpoint and the like, for the
                workers and for what this process opens.
            cache: for a bucket: the directory of each machine that keeps what was fetched.

        Raises:
            OpenError: [DH-OPEN] the URL names neither a directory nor a bucket.
            ConfigError: [DH-CONFIG] `history` is none and names none, the options make no sense, or
                they are for a bucket and this is none.
        """
        if isinstance(history, Place):
            return history
        opened = history if isinstance(history, dh.History) else None
        named = _named(history)
        if objects.is_url(named):
            return cls(named, Given(storage_options), None if cache is None else os.fspath(cache), opened)
        if storage_options or cache is not None:
            raise dh.ConfigError(
                "[DH-CONFIG] storage_options and cache are for the URL of a bucket, and this is a directory"
            )
        return cls(str(dh.local_path(named)), history=opened)

    @property
    def is_bucket(self) -> bool:
        """Whether it is a bucket."""
        return objects.is_url(self.path)

    @property
    def shown(self) -> str:
        """The place for people: what stands before an @ of a URL may be a password."""
        return re.sub(r"//[^/]*:[^/]*@", "//…@", self.path) if self.is_bucket else self.path

    def open(self, **how: Any) -> "History":
        """Open the history, whether or not it is open already."""
        if how.pop("create", False):
            return _existing.or_made(self.shown, lambda make: self._open(create=make, **how))
        with _existing.needed():
            return self._open(**how)

    def _open(self, **how: Any) -> "History":
        if not self.is_bucket:
            return dh.open(self.path, **how)
        cache = self.cache or cache_of_machine()
        return dh.open(self.path, storage_options=self.given.options, cache=cache, **how)

    def take(self, *, create: bool = False) -> "History":
        """The open history; else one that `put_back` ends: in a bucket one that an earlier call has left, if any."""
        if self.history is not None:
            return self.history
        opened = self.open(create=create)
        return kept.in_place_of(opened, self) if self.is_bucket else opened

    def put_back(self, history: "History", *, failed: bool) -> None:
        """The end of `take`: one in a bucket is kept, unless something failed with it."""
        if history is self.history:
            return
        if self.is_bucket and not failed and not history.closed:
            kept.keep(self, history)
        else:
            history.close()

    @contextmanager
    def opened(self, *, create: bool = False) -> "Iterator[History]":
        """The history, for one call."""
        history = self.take(create=create)
        try:
            yield history
        except BaseException:
            self.put_back(history, failed=True)
            raise
        self.put_back(history, failed=False)

    def sight(self, history: "History", trigger: str | None) -> Sight | BucketSight:
        """What travels to the workers, so that they open the same history."""
        if self.is_bucket:
            return BucketSight.of(history, self.path, self.given, self.cache)
        return Sight.of(history, trigger)

    def holding(self, history: "History") -> Self:
        """The same with the history open."""
        return type(self)(self.path, self.given, self.cache, history)

    def closed(self) -> Self:
        """The same for a process that opens the history itself."""
        return type(self)(self.path, self.given, self.cache)
