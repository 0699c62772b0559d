"""Stores of every format version stay readable; a newer version is refused by name."""

import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh
from tests.golden import make

ARCHIVES = sorted((Path(make.__file__).parent).glob("v*.tar.gz"))
EXPECTED = (
    [(key, "R9") for key in make.COMPLETED + make.IN_LOG]
    + [(key, "R11") for key in make.PROCESSING]
    + [(key, "R8") for key in make.RELEASED + make.UNKNOWN]
)


@pytest.fixture(params=ARCHIVES, ids=lambda archive: archive.name)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store as an earlier build left it."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "golden.history"


def rules(history: dh.History) -> list[tuple[str, str]]:
    keys = [key for key, _ in EXPECTED]
    return list(zip(keys, history.classify(pa.table({"uuid": keys}), make.ORDERS)["rule"].to_pylist(), strict=True))


def test_there_is_a_golden_store() -> None:
    assert ARCHIVES


def test_golden_store_keeps_log_version_and_next_log_has_mark(golden: Path, request: pytest.FixtureRequest) -> None:
    def versions() -> set[tuple[int, bool]]:
        heads = [log.read_bytes()[:64] for log in golden.glob("triggers/*/log-*")]
        return {(int.from_bytes(head[8:12], "little"), any(head[48:56])) for head in heads}

    found = {"v4.tar.gz": (2, True), "v5.tar.gz": (3, True)}
    made = next((version for name, version in found.items() if name in request.node.name), (1, False))
    assert versions() == {made}
    with dh.open(golden) as history:
        history.begin(pa.table({"uuid": make.UNKNOWN[:1]}), make.ORDERS, now=make.NOW)
        assert len(versions()) == 1
        history.unpin(make.ORDERS, history.pin(make.ORDERS))
    # A store that holds no batch whose rows are known stays in the version before.
    assert versions() == {max(made, (2, True))}
    assert [name.read_text() for name in golden.glob("known/triggers-*")] == ["orders"]


def test_a_golden_store_gives_its_verdicts(golden: Path) -> None:
    with dh.open(golden, read_only=True) as history:
        assert rules(history) == EXPECTED
        assert history.verify() > 0


def test_a_golden_store_can_be_written(golden: Path) -> None:
    with dh.open(golden) as history:
        history.begin(pa.table({"uuid": make.UNKNOWN}), make.ORDERS, now=make.NOW).complete()
        history.maintain(all=True)
        last = dict.fromkeys(make.UNKNOWN, "R9")

        assert rules(history) == [(key, last.get(key, rule)) for key, rule in EXPECTED]
        with pytest.raises(dh.TransactionError):
            history.begin(pa.table({"uuid": ["x"]}), make.ORDERS, now=make.NOW, transaction=("stream", 6))


def test_golden_store_knows_its_last_batch_or_looks_up_each_row(golden: Path, request: pytest.FixtureRequest) -> None:
    keys = [*make.COMPLETED, *make.PROCESSING, *make.RELEASED]
    with dh.open(golden) as history:

        def begin(ids: list[str]) -> dh.Claim:
            return history.begin(pa.table({"uuid": ids}), make.ORDERS, now=make.NOW, transaction=("stream", 7))

        if "v5.tar.gz" in request.node.name:
            with pytest.raises(dh.TransactionError, match=f"{len(keys)} then, 1 now"):
                begin(make.UNKNOWN[:1])
            again = begin(keys[::-1])
        else:
            again = begin([*keys[::-1], make.UNKNOWN[0]])
            assert again.verdicts["rule"].to_pylist()[-1] == "R8"
        known = ["R8"] * len(make.RELEASED) + ["R11"] * len(make.PROCESSING) + ["R9"] * len(make.COMPLETED)
        assert (again.replay, again.verdicts["rule"].to_pylist()[: len(keys)]) == ("unfinished", known)


def test_a_golden_store_has_its_mapper(golden: Path, request: pytest.FixtureRequest) -> None:
    with dh.open(golden) as history:
        if "v1.tar.gz" in request.node.name:
            assert history.mappers() == []
            return
        mapper = history.mapper("jms")
        figures = mapper.stats()
        assert (figures["files"] >= 3, figures["later_entries"] > 0, figures["log_entries"] > 0) == (True, True, True)
        for _ in range(2):
            found = mapper.lookup([*make.MAPPED, make.MAPPED_TO_NOTHING, *make.PENDING, *make.GONE])
            assert found["mapped_id"].to_pylist() == [*make.MAPPED.values(), None, None, None, None, None]
            assert found["found"].to_pylist() == [True] * 5 + [False] * 4
            assert found["pending"].to_pylist() == [False] * 5 + [True] * 2 + [False] * 2
            assert mapper.stats()["transactions"] == {"stream": (3, False)}
            mapper.maintain(all=True)


def test_a_golden_store_has_pending_ids_that_end(golden: Path, request: pytest.FixtureRequest) -> None:
    with dh.open(golden) as history:
        if "v1.tar.gz" in request.node.name:
            assert history.mappers() == []
            return
        mapper = history.mapper("jms")
        sends = [mapper.begin_send(pa.table({"id": make.PENDING}), now=make.NOW)]
        assert sends[0].verdicts["rule"].to_pylist() == ["M3"] * len(make.PENDING)
        for _ in range(2):
            mapper.resolve(make.PENDING, "process")
            sends.append(mapper.begin_send(pa.table({"id": make.PENDING}), now=make.NOW))
            assert sends[-1].verdicts["rule"].to_pylist() == ["M4"] * len(make.PENDING)
        sends[1].abort(definite=True)
        assert mapper.lookup(make.PENDING)["pending"].to_pylist() == [True] * len(make.PENDING)
        sends[2].abort(definite=True)
        assert mapper.lookup(make.PENDING)["pending"].to_pylist() == [False] * len(make.PENDING)


def test_a_golden_store_has_its_streams(golden: Path, request: pytest.FixtureRequest) -> None:
    with dh.open(golden) as history:
        if not request.node.name.endswith(("[v3.tar.gz]", "[v4.tar.gz]", "[v5.tar.gz]")):
            assert history.delivery_status().num_rows == 0
            return
        figures = history.stats()["delivery"]
        assert all(figures[side]["files"] >= 1 and figures[side]["log_entries"] > 0 for side in ("received", "sent"))
        for _ in range(2):
            found = {row["stream"]: row for row in history.delivery_status().to_pylist()}
            received = {name: (row["log_received"], row["applying_upto"]) for name, row in found.items()}
            sent = found["remote1"]
            assert received.pop("remote1") == (None, None)
            assert received == make.RECEIVED
            assert (found["feed"]["receive_count"], found["feed"]["time_received"]) == (3, make.NOW)
            assert tuple(sent[name] for name in ("send_count", "log_sent", "resend_count", "confirm_sent")) == make.SENT
            assert (sent["publisher"], sent["time_sent"]) == ("main", make.NOW)
            history._shards.maintain_values(all=True)
        assert make.poll(history, "half-way", "(0-100-250-0)", batch=3).replay == "unfinished"
        with pytest.raises(dh.TransactionError):
            make.poll(history, "untouched", batch=2)
        history.delivery("half-way").settle("half-way", 100)
        again = make.poll(history, "half-way", "(0-100-250-0)", "(0-250-260-0)", batch=4)
        assert again.decisions["decision"].to_pylist() == ["APPLY", "APPLY"]
        again.commit()
        assert history.delivery_out("remote1", publisher="main").build([300, 400])["header"].to_pylist() == [
            "(1-0000000300-0000000400-0)"
        ]


@pytest.mark.parametrize("name", ["HISTORY", "manifest-*", "segment-*", "filter-*", "log-*"])
def test_a_file_of_a_newer_version_is_refused_by_name(golden: Path, name: str) -> None:
    file = max(golden.rglob(name))
    content = bytearray(file.read_bytes())
    content[8:12] = (9).to_bytes(4, "little")
    file.write_bytes(content)

    refused = pytest.raises(dh.OpenError, match=rf"{file.name}: written in format version 9.*newer dochistory")
    with refused, dh.open(golden) as history:
        rules(history)
