"""Where a history is, and how it is opened there: a directory, or a bucket with what a client needs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import dochistory as dh
from dochistory import _checks, _durations, _existing, objects
from dochistory.objects.options import StorageOptions


@dataclass(frozen=True)
class Place:
    """The place of a history."""

    name: str
    """The absolute path of a directory, without links, or the URL of a bucket; all spellings of one place are one."""
    directory: Path | None
    """The directory; None for a bucket."""
    how: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The arguments of `open` that are for a bucket."""

    @classmethod
    def of(
        cls,
        history: "dh.History | str | os.PathLike[str]",
        storage_options: Mapping[str, Any] | None = None,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int | None = None,
    ) -> Self:
        """The place of a history.

        Raises:
            OpenError: [DH-OPEN] the URL names neither a directory of this machine nor a bucket.
            ConfigError: [DH-CONFIG] the options make no sense, or are for a bucket and this is
                none.
        """
        if isinstance(history, dh.History):
            named: str | os.PathLike[str] = history.url or history.path
        else:
            _checks.place("history", history)
            named = history
        if objects.is_url(named):
            StorageOptions(storage_options)  # what makes no sense is better said now than at the first document
            how = {"storage_options": storage_options, "cache": cache, "cache_bytes": cache_bytes}
            return cls(objects.parse(named).url, None, how)
        if storage_options or cache is not None or cache_bytes is not None:
            raise dh.ConfigError(
                "[DH-CONFIG] storage_options, cache and cache_bytes are for the URL of a bucket, and this is none"
            )
        directory = dh.local_path(named).resolve()
        return cls(str(directory), directory)

    def open(self, *, create: bool = False, **how: Any) -> dh.History:
        """Open the history. One that is made is warned of."""
        if create:
            return _existing.or_made(self.name, lambda make: dh.open(self.name, create=make, **self.how, **how))
        return dh.open(self.name, **self.how, **how)

    def need_directory(self) -> Path:
        """The directory.

        Raises:
            StateError: [DH-STATE] it is a bucket.
        """
        if self.directory is None:
            raise dh.StateError(
                f"[DH-STATE] the history at {self.name} is in a bucket, which holds no directory: ask for url"
            )
        return self.directory

    def figures(self, state: str | os.PathLike[str] | None = None) -> Path:
        """Where figures about the history are kept: its directory; for a bucket, a directory of this machine.

        Args:
            state: for a bucket, the directory of the state; that of the machine, if absent.

        Raises:
            ConfigError: [DH-CONFIG] `state` is given, and it is no bucket.
        """
        if self.directory is None:
            return _durations.state_at(state) / f"history-{_durations.file_name(self.name)}"
        if state:
            raise dh.ConfigError(
                f"[DH-CONFIG] state is for the URL of a bucket, and {self.name} is a directory: leave it out"
            )
        return self.directory
