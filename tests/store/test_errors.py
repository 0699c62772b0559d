"""Errors: one tree, a stable code in every text, and never a guess in place of one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dochistory as dh
from tests.store.processes import run
from tests.support import T0, documents, fresh_ids, status_of, trigger

TREE = [
    dh.LockedError,
    dh.CorruptError,
    dh.DescriptorsError,
    dh.FencedError,
    dh.FailedError,
    dh.ReadOnlyError,
    dh.OpenError,
    dh.SchemaError,
    dh.ConfigError,
    dh.TransactionError,
    dh.StateError,
    dh.StorageError,
    dh.ForkedError,
    dh.ClusterError,
]


@pytest.mark.parametrize("error", TREE)
def test_every_error_is_a_document_history_error(error: type[Exception]) -> None:
    assert issubclass(error, dh.DocHistoryError)
    assert issubclass(dh.DocHistoryError, Exception)


def test_a_resolvers_transient_error_is_no_error_of_ours() -> None:
    assert issubclass(dh.TransientError, Exception)
    assert not issubclass(dh.TransientError, dh.DocHistoryError)


def test_a_history_that_is_not_there_is_not_made_up(directory: Path) -> None:
    with pytest.raises(dh.OpenError, match=r"^\[DH-OPEN\].*orders\.history"):
        dh.open(directory)
    with pytest.raises(dh.OpenError):
        dh.open(directory, read_only=True)
    assert not directory.exists()


def test_only_open_advises_to_make_a_missing_history(directory: Path) -> None:
    with pytest.raises(dh.OpenError, match="create=True makes one"):
        dh.open(directory)
    for call in (lambda: dh.backup(directory, directory.with_name("copy")), lambda: dh.repair(directory)):
        with pytest.raises(dh.OpenError, match=r"^\[DH-OPEN\].*orders\.history: there is no history") as refused:
            call()
        assert "create=True" not in str(refused.value)


def test_directory_of_something_else_is_not_opened_as_history(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ada")
    with pytest.raises(dh.OpenError):
        dh.open(tmp_path)
    with pytest.raises(dh.OpenError):
        dh.open(tmp_path, create=True)
    assert [one.name for one in tmp_path.iterdir()] == ["letter.txt"]


def test_a_file_is_no_history(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_bytes(b"")
    with pytest.raises(dh.DocHistoryError):
        dh.open(file)
    with pytest.raises(dh.DocHistoryError):
        dh.open(file, create=True)


WRITES: dict[str, Callable[[dh.History], object]] = {
    "begin": lambda history: history.begin(documents(["a"]), trigger()),
    "complete": lambda history: history.complete(["a"], trigger()),
    "release": lambda history: history.release(["a"], trigger()),
    "purge": lambda history: history.purge(),
    "begin_one": lambda history: history.begin_one(uuid="a", redelivery_count=0, trigger=trigger()),
    "maintain": lambda history: history.maintain(trigger()),
    "mapper": lambda history: history.mapper("orders").create(["a"], ["b"]),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_reader_writes_nothing(directory: Path, write: str) -> None:
    with dh.open(directory, create=True) as history:
        history.begin(documents(["b"]), trigger())
    with dh.open(directory, read_only=True) as reader:
        with pytest.raises(dh.ReadOnlyError) as raised:
            WRITES[write](reader)
        assert str(raised.value) == f"[DH-READ-ONLY] the history at {reader.path} was opened read-only"
        assert status_of(reader, ["a", "b"]) == ["NEW", "IN_DOUBT"]


def test_invalid_limit_is_refused(directory: Path) -> None:
    with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\]"):
        dh.open(directory, create=True, lock_timeout="in a while")


IDS = fresh_ids(500)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history with entries of several days, a purge behind it, and entries not yet sealed."""
    directory = tmp_path_factory.mktemp("intact") / "intact.history"
    long = trigger(history_time_to_live="300 days")
    with dh.open(directory, create=True) as history:
        for day in range(1, 6):
            history.begin(documents(IDS[day * 80 : day * 80 + 80]), long, now=T0.replace(day=day)).complete()
        history.purge(now=T0)
        history.begin(documents([f"late {row}" for row in range(50)]), long, now=T0).complete(rows=range(25))
    return directory


def asked() -> list[str]:
    """Ids that are there, in both forms, and ids that are not."""
    return [*IDS, *(f"late {row}" for row in range(60))]


def damaged(content: bytes) -> Iterator[bytes]:
    """The file with a bit flipped, here and there; cut short; and with bytes at its end."""
    for place in sorted({len(content) * part // 23 for part in range(23)} | {8, 16, len(content) - 1}):
        if place < len(content):
            yield content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]
    for part in (0, 1, 2):
        yield content[: len(content) * part // 3]
    yield content + b"\0" * 64


def test_damage_is_reported_or_harmless_but_never_believed(intact: Path, tmp_path: Path) -> None:
    with dh.open(intact, read_only=True) as history:
        truth = status_of(history, asked())
    reported = 0
    names = sorted(one.relative_to(intact) for one in intact.rglob("*") if one.is_file() and one.stat().st_size > 0)
    for name in names:
        copy = tmp_path / "copy.history"
        for content in damaged((intact / name).read_bytes()):
            shutil.copytree(intact, copy)
            (copy / name).write_bytes(content)
            try:
                with dh.open(copy, read_only=True) as history:
                    seen = status_of(history, asked())
            except (dh.CorruptError, dh.OpenError):
                reported += 1
            else:
                wrong = [pair for pair in zip(seen, truth, strict=True) if pair[0] != pair[1]]
                assert wrong == [], f"{name} was damaged, and {wrong[0]} believed"
            shutil.rmtree(copy)
    assert reported > len(names)


def test_damage_is_told_with_its_file(intact: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.history"
    shutil.copytree(intact, copy)
    for one in copy.rglob("*"):
        if one.is_file() and one.stat().st_size > 0:
            one.write_bytes(bytes(byte ^ 0xFF for byte in one.read_bytes()))
    with (
        pytest.raises(dh.CorruptError, match=r"^\[DH-CORRUPT\].*copy\.history.*byte \d+"),
        dh.open(copy, read_only=True) as history,
    ):
        status_of(history, IDS)


def test_verifying_finds_damage(intact: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.history"
    shutil.copytree(intact, copy)
    # Behind a log's frames there is room, which says nothing.
    said = {one: one.read_bytes().rstrip(b"\0") for one in copy.rglob("*") if one.is_file()}
    largest = max(said, key=lambda one: len(said[one]))
    content = bytearray(largest.read_bytes())
    content[len(said[largest]) // 2] ^= 1
    largest.write_bytes(content)
    with pytest.raises(dh.CorruptError), dh.open(copy, read_only=True) as history:
        history.verify()


def test_failed_write_claims_nothing_and_stops_the_handle(directory: Path) -> None:
    dh.open(directory, create=True).close()
    lines = run(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        history = dh.open(sys.argv[1])
        history.begin(documents(["before"]), trigger()).complete()
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
        many = [f"order {row}" for row in range(20_000)]
        try:
            claim = history.begin(documents(many), trigger())
            print("claimed", claim.new.num_rows)
        except dh.DocHistoryError as refused:
            print("claimed 0")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        try:
            print("again", history.begin(documents(["after"]), trigger()).new.num_rows)
        except dh.DocHistoryError as refused:
            print(type(refused).__name__)
        with dh.open(sys.argv[1]) as reopened:
            print(*status_of(reopened, ["before"]), *set(status_of(reopened, many)))
            print(*statuses(reopened.begin(documents(["after"]), trigger()).verdicts))
        """,
        directory,
    )
    assert lines == ["claimed 0", "FailedError", "DUPLICATE NEW", "NEW"]
