"""The requests that a history makes of an object store.

Every request is bounded in time and in attempts. One that may have had an effect is never repeated
blindly: the client looks first.
"""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

import dochistory as dh
from dochistory.objects import answers, failures, transfer
from dochistory.objects.answers import Answer
from dochistory.objects.location import Location
from dochistory.objects.options import StorageOptions
from dochistory.objects.retries import Retries

T = TypeVar("T")
Outcome = Literal["created", "exists"]


_user: int | None = None
"""The first process that made a request."""


@dataclass(frozen=True)
class Stored:
    """An object in a listing."""

    name: str
    size: int
    changed_us: int
    """When it was stored, by the store's clock: microseconds since 1970."""


class _GoneError(Exception):
    """An object is not there any more."""


class AttemptError(Exception):
    """One attempt failed. Never leaves this package."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.text)
        self.answer = answer


class ObjectClient:
    """A place in an object store. Safe to use from several threads."""

    def __init__(
        self, location: Location, options: StorageOptions, connect: Callable[[Retries | None], Any], retries: Retries
    ) -> None:
        self.location = location
        self._options = options
        self._connect = connect
        self._retries = retries
        self._lock = threading.Lock()
        self._store = connect(None)
        self.audit: Any = None
        """What `dochistory.audit` knows of the log there."""
        self._folder = f"{location.prefix}/" if location.prefix and location.kind != "file" else ""

    def __repr__(self) -> str:
        return f"ObjectClient({self.location.url!r}, {self._options!r})"

    def put_new(self, name: str, content: bytes) -> Outcome:
        """Store an object under a name that is free.

        Args:
            name: the name below this place.
            content: what to store. No other writer may store the same bytes under this name: by
                them the client recognises its own object after an answer was lost.

        Raises:
            ObjectStoreError: the request failed; whether the object is there is not known.
        """
        failed: Answer | None = None
        for _ in self._retries.rounds():
            try:
                return self._tried_new(name, content, is_first=failed is None)
            except AttemptError as error:
                failed = error.answer
            if not failed.may_pass and failed.effect == "none":
                break
            if failed.effect == "unknown" and (there := self._seen(name)) is not None:
                return "created" if there == content else "exists"
        raise self._error(f"create {name}", failed)

    def _tried_new(self, name: str, content: bytes, *, is_first: bool) -> Outcome:
        outcome = self.put_new_once(name, content)
        if outcome == "created" or is_first:
            return outcome
        # An earlier attempt may have stored what is in the way.
        there = self._once(lambda store: self._read(store, name))
        if there is None:
            raise AttemptError(_GONE)
        return "created" if there == content else "exists"

    def put_new_once(self, name: str, content: bytes) -> Outcome:
        """One attempt of `put_new`, of which nothing is known if it fails.

        Raises:
            AttemptError: the attempt failed.
        """

        def put(store: Any) -> None:
            import obstore

            obstore.put(store, self._folder + name, content, mode="create", use_multipart=False)

        try:
            self._once(put)
        except AttemptError as error:
            if error.answer.is_refused:
                return "exists"
            raise
        return "created"

    def put(self, name: str, content: bytes) -> None:
        """Store an object, whatever stands under that name.

        Raises:
            ObjectStoreError: the request failed; which object is there is not known.
        """

        def put(store: Any) -> None:
            import obstore

            obstore.put(store, self._folder + name, content, use_multipart=False)

        self._repeated(f"put {name}", put)

    def get(self, name: str) -> bytes | None:
        """An object's bytes; None if there is none.

        Raises:
            ObjectStoreError: the request failed.
        """
        return self._repeated(f"get {name}", lambda store: self._read(store, name))

    def get_range(self, name: str, start: int, length: int) -> bytes | None:
        """A part of an object's bytes, shorter where the object ends; None if there is no object.

        Raises:
            ObjectStoreError: the request failed.
        """

        def read(store: Any) -> bytes | None:
            import obstore

            try:
                return bytes(obstore.get_range(store, self._folder + name, start=start, length=length))
            except obstore.exceptions.BaseError as error:
                if answers.read(error).is_beyond:
                    return b""
                raise

        if length == 0:
            return b"" if self.look(name) else None
        return self._repeated(f"get {name}", lambda store: _none_if_missing(lambda: read(store)))

    def look(self, name: str) -> Stored | None:
        """Size and time of an object; None if there is none.

        Raises:
            ObjectStoreError: the request failed.
        """

        def head(store: Any) -> Stored | None:
            import obstore

            try:
                return self._stored(obstore.head(store, self._folder + name))
            except FileNotFoundError:
                # Answers to HEAD have no body, so they do not say what is not there: the object, or its bucket.
                if self._read(store, name) is None:
                    return None
                raise
            except obstore.exceptions.BaseError as error:
                if answers.read(error).is_refusal:
                    obstore.get_range(store, self._folder + name, start=0, length=1)  # says why
                raise

        return self._repeated(f"look at {name}", head)

    def put_file(self, name: str, path: str | Path) -> Outcome:
        """Store a file under a name that is free, as `put_new` does.

        A file that is larger than `transfer.WHOLE` is stored in parts, and its name must be one
        that nobody else uses: stores do not create objects of parts if absent.

        Raises:
            ObjectStoreError: a request failed; whether the object is there is not known.
            OSError: the file cannot be read.
        """
        with Path(path).open("rb") as file:
            if transfer.is_whole(file):
                return self.put_new(name, file.read())
            if self._has_whole(name, file):
                return "exists"
            try:
                # The upload of all parts may take longer than a request is tried. So each part is tried again.
                self._repeated(
                    f"put {name}",
                    lambda _store: transfer.put(self._connect(self._retries), self._folder + name, file),
                )
            except dh.ObjectStoreError:
                # Its end may have been stored without an answer, and does not work twice.
                with suppress(dh.ObjectStoreError):
                    if self._has_whole(name, file):
                        return "created"
                raise
        return "created"

    def _has_whole(self, name: str, file: IO[bytes]) -> bool:
        there = self.look(name)
        return there is not None and there.size == os.fstat(file.fileno()).st_size

    def get_file(self, name: str, path: str | Path, size: int | None = None) -> bool:
        """Write an object's bytes into a file, in parts side by side; answers whether there is an object.

        Args:
            name: the object.
            path: the file, which is made or replaced.
            size: the bytes that the object should have: a small one is then fetched by one request.

        Raises:
            ObjectStoreError: a request failed. The file may hold a part.
            OSError: the file cannot be written.
        """
        if size is not None and size <= transfer.PART:
            content = self.get(name)
            if content is not None:
                whole = memoryview(content)
                transfer.get(lambda start, length: whole[start : start + length], len(whole), Path(path))
            return content is not None
        found = self.look(name)
        if found is None:
            return False

        def part(start: int, length: int) -> Any:
            def read(store: Any) -> Any:
                import obstore

                return obstore.get_range(store, self._folder + name, start=start, length=length)

            some = self._repeated(f"get {name}", lambda store: _none_if_missing(lambda: read(store)))
            if some is None:
                raise _GoneError
            return some

        try:
            transfer.get(part, found.size, Path(path))
        except _GoneError:
            return False  # it was collected meanwhile
        return True

    def list(self, prefix: str = "", after: str | None = None) -> Sequence[Stored]:
        """The objects whose names begin with a prefix, in no order.

        Args:
            prefix: how the names begin.
            after: only names behind this one.

        Raises:
            ObjectStoreError: a request failed.
        """
        # obstore's prefixes end where a part of the path does.
        folder = self._folder + prefix.rpartition("/")[0]

        def listed(store: Any) -> Sequence[Stored]:
            import obstore

            offset = None if after is None else self._folder + after
            found: dict[str, Stored] = {}
            for batch in obstore.list(store, folder or None, offset=offset):
                for one in map(self._stored, batch):
                    if one.name in found:
                        raise AttemptError(_ENDLESS)
                    found[one.name] = one
            return list(found.values())

        found = self._repeated(f"list {prefix}*", listed)
        return [one for one in found if one.name.startswith(prefix)]

    def delete(self, name: str) -> None:
        """Remove an object; one that is not there is fine.

        Raises:
            ObjectStoreError: the request failed; whether the object is there is not known.
        """

        def delete(store: Any) -> None:
            import obstore

            _none_if_missing(lambda: obstore.delete(store, self._folder + name))

        self._repeated(f"delete {name}", delete)

    def _read(self, store: Any, name: str) -> bytes | None:
        import obstore

        return _none_if_missing(lambda: bytes(obstore.get(store, self._folder + name).bytes()))

    def _seen(self, name: str) -> bytes | None:
        """What stands under a name; None as well if that cannot be told."""
        try:
            return self._once(lambda store: self._read(store, name))
        except AttemptError:
            return None

    def _stored(self, meta: Any) -> Stored:
        name = meta["path"].removeprefix(self._folder)
        return Stored(name, meta["size"], int(meta["last_modified"].timestamp() * 1_000_000))

    def _repeated(self, operation: str, request: Callable[[Any], T]) -> T:
        """A request that may be sent any number of times."""
        failed: Answer | None = None
        for _ in self._retries.rounds():
            try:
                return self._once(request)
            except AttemptError as error:
                failed = error.answer
            if not failed.may_pass:
                break
        raise self._error(operation, failed)

    def _once(self, request: Callable[[Any], T]) -> T:
        """One attempt; a second one with new credentials if the first used some that may have expired."""
        _refuse_forked()
        store = self._store
        answer = _attempt(store, request)
        if isinstance(answer, Answer) and failures.may_be_stale(answer) and self._renewed(store):
            answer = _attempt(self._store, request)
        if isinstance(answer, Answer):
            raise AttemptError(answer)
        return answer

    def _renewed(self, used: Any) -> bool:
        """Whether there may be newer credentials than those of a store that was used."""
        if self._options.names("access_key", "secret", "token", "sas"):
            return False
        with self._lock:
            if self._store is used:
                self._store = self._connect(None)
        return True

    def _error(self, operation: str, answer: Answer | None) -> dh.ObjectStoreError:
        return failures.error(operation, self.location, self._options, answer or _GONE)


def _refuse_forked() -> None:
    """Obstore makes requests in threads of its own, for good; without them a request never ends.

    Raises:
        ForkedError: [DH-FORKED] those threads are the parent's.
    """
    global _user
    process = os.getpid()
    if _user is None:
        _user = process
    elif _user != process:
        raise dh.ForkedError(
            f"[DH-FORKED] process {_user} had used object storage before this process was forked off, and obstore "
            "cannot work here: start processes by spawn (or forkserver), or fork before the first use of a bucket"
        )


def _attempt(store: Any, request: Callable[[Any], T]) -> T | Answer:
    from obstore import exceptions

    try:
        return request(store)
    except exceptions.BaseError as error:
        return answers.read(error)
    except FileNotFoundError as error:
        return answers.read(error)


def _none_if_missing(request: Callable[[], T]) -> T | None:
    try:
        return request()
    except FileNotFoundError as error:
        if answers.read(error).is_missing:
            return None
        raise


_GONE = Answer(None, "", "an object was in the way, and then it was not there", "Interrupted", "", False, False)
"""An earlier attempt, or somebody else, stored the object, and it was deleted since."""

_ENDLESS = Answer(None, "", "names that it had listed come again", answers.REPEATED, "", False, False)
"""A store that answers a part of a list repeatedly would be asked without end."""
