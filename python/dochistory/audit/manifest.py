"""The manifests of an audit log: the list of its files, which reveals a missing file.

    manifest-<n>.json    the newest counts: one line of JSON, and its CRC-32 in a second line

Each is published whole, under a new number. A writer makes its file durable first, and names it
then. A file that no manifest names yet is one of a writer that was killed in between, or of an
older package, and counts.
"""

import json
import re
import uuid
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import dochistory as dh
from dochistory import _files

_NAME = re.compile(r"manifest-(\d{16})\.json")
_FORMAT = 1

Ranges = tuple[tuple[int, int], ...]
"""Numbers of documents: first and last of each stretch."""


@dataclass(frozen=True)
class Named:
    """A file of the log."""

    name: str
    bytes: int
    numbers: Ranges
    """The documents it holds, or tells of; empty if nothing tells."""

    @property
    def rows(self) -> int:
        """The number of its documents."""
        return sum(last - first + 1 for first, last in self.numbers)


@dataclass(frozen=True)
class Manifest:
    """All files of a log at one moment."""

    log: str
    """The log's own id, which its files repeat."""
    number: int
    next_number: int
    next_event: int
    files: tuple[Named, ...]
    dropped: tuple[str, ...] = ()
    """Files that count no more, and may still be there."""

    def naming(self, added: Iterable[Named]) -> "Manifest":
        """The same log with more files."""
        return replace(self, files=(*self.files, *added))

    def without(self, names: Iterable[str]) -> "Manifest":
        """The same log without some files."""
        gone = set(names)
        kept = tuple(file for file in self.files if file.name not in gone)
        return replace(self, files=kept, dropped=tuple(sorted({*self.dropped, *gone})))


def new_id() -> str:
    """An id for a log."""
    return uuid.uuid4().hex


def path_of(directory: Path, number: int) -> Path:
    """The path of a manifest."""
    return directory / f"manifest-{number:016}.json"


def numbers_in(directory: Path) -> list[int]:
    """The numbers of the manifests in a directory, in order."""
    with _files.storage(directory):
        try:
            names = [path.name for path in directory.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def newest(directory: Path) -> Manifest | None:
    """The newest manifest; None if there is none.

    Raises:
        CorruptError: [DH-CORRUPT] it is damaged.
        OpenError: [DH-OPEN] a newer package wrote it.
    """
    while numbers := numbers_in(directory):
        path = path_of(directory, numbers[-1])
        with _files.storage(path):
            try:
                return decoded(path, path.read_bytes())
            except FileNotFoundError:
                continue  # a newer one took its place
    return None


def publish(directory: Path, manifest: Manifest) -> None:
    """Make a manifest the newest, under the lock; remove earlier ones."""
    path = path_of(directory, manifest.number)
    if not _files.publish(path, encoded(manifest)):
        raise dh.FencedError(
            f"[DH-FENCED] {path} exists already: the file system's locks do not exclude each other, or another log "
            "was put in this one's place"
        )
    with _files.storage(directory):
        for number in numbers_in(directory):
            if number < manifest.number:
                path_of(directory, number).unlink(missing_ok=True)


def encoded(manifest: Manifest, mark: str | None = None) -> bytes:
    """The bytes of a manifest; a mark makes those of one writer differ from all others."""
    content = {"format": _FORMAT, **asdict(manifest), **({"mark": mark} if mark else {})}
    line = json.dumps(content, ensure_ascii=False).encode()
    return b"%s\n%08x\n" % (line, zlib.crc32(line))


def decoded(path: Path | str, content: bytes) -> Manifest:
    """A manifest from its bytes.

    Raises:
        CorruptError: [DH-CORRUPT] it is damaged.
        OpenError: [DH-OPEN] a newer package wrote it.
    """
    line, _, rest = content.partition(b"\n")
    if rest != b"%08x\n" % zlib.crc32(line):
        raise dh.CorruptError(f"[DH-CORRUPT] {path}: this is not the manifest that was written")
    said: dict[str, Any] = json.loads(line)
    if said.pop("format") != _FORMAT:
        raise dh.OpenError(f"[DH-OPEN] {path}: a newer dochistory wrote this audit log: install a newer dochistory")
    said.pop("mark", None)
    files = tuple(
        Named(one["name"], one["bytes"], tuple((first, last) for first, last in one["numbers"]))
        for one in said.pop("files")
    )
    return Manifest(files=files, dropped=tuple(said.pop("dropped")), **said)


def ranges(numbers: Iterable[int]) -> Ranges:
    """Numbers as ranges."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def described(numbers: Ranges) -> str:
    """The first few ranges of numbers, for people."""
    said = [str(first) if first == last else f"{first} to {last}" for first, last in numbers[:5]]
    return ", ".join(said) + (", …" if len(numbers) > 5 else "")


def missing(file: Named) -> str:
    """The consequences of a missing file."""
    if not file.name.startswith("kept-"):
        return f"the file is lost; it described documents {described(file.numbers)}: repair says what that means"
    return f"the file is lost, and with it {file.rows} documents: {described(file.numbers)}"


def lost(path: Path | str, file: Named) -> dh.CorruptError:
    """The error for a missing file."""
    return dh.CorruptError(f"[DH-CORRUPT] {path}: {missing(file)}")


def stem(name: str) -> str:
    """The part of a file's name that says what it holds: without a bucket's numbers, and without the checksum."""
    return re.sub(r"(?:-\d{16}-[0-9a-f]{16})?-[0-9a-f]{8}\.parquet$", "", name)
