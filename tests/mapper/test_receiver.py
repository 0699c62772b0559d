"""Sending out: every row of the table M1 to M8, what ends a batch, transactions, the audit log."""

from __future__ import annotations

import datetime as dt
import pickle

import pyarrow as pa
import pytest

import dochistory as dh
from tests.mapper.support import T0, actions, errors, mapped, messages, pending, rules, statuses

QOS = ["BE", "EO", "EOIO"]


def leave_pending(mapper: dh.MessageIdMapper, *ids: str) -> None:
    """What a crash between step 3 and step 6 leaves."""
    assert rules(mapper.begin_send(messages(ids), now=T0)) == ["M1"] * len(ids)


def test_m1_new_message_is_pending_then_sent_then_mapped(mapper: dh.MessageIdMapper) -> None:
    send = mapper.begin_send(messages(["a"]), now=T0)
    assert (statuses(send), actions(send), rules(send)) == (["NEW"], ["PROCESS"], ["M1"])
    found = mapper.lookup(["a"]).to_pylist()[0]
    assert (found["found"], found["pending"], found["pending_since"]) == (False, True, T0)
    send.complete(["ext"])
    found = mapper.lookup(["a"]).to_pylist()[0]
    assert (found["found"], found["mapped_id"], found["pending"]) == (True, "ext", False)


def test_m2_a_message_that_was_sent_is_not_sent_again(mapper: dh.MessageIdMapper) -> None:
    mapper.begin_send(messages(["a"])).complete(["ext"])
    send = mapper.begin_send(messages(["a"]))
    assert (statuses(send), actions(send), rules(send)) == (["DUPLICATE"], ["SKIP"], ["M2"])
    assert send.verdicts["mapped_id"].to_pylist() == ["ext"]
    assert send.rows == []
    send.raise_pending()


def test_m2_removes_a_stale_pending_entry(mapper: dh.MessageIdMapper) -> None:
    leave_pending(mapper, "a")
    mapper.create(["a"], ["ext"])
    assert mapper.lookup(["a"])["pending"].to_pylist() == [True]
    assert rules(mapper.begin_send(messages(["a"]))) == ["M2"]
    found = mapper.lookup(["a"]).to_pylist()[0]
    assert (found["mapped_id"], found["pending"]) == ("ext", False)


def test_m3_what_is_pending_raises_and_stays(mapper: dh.MessageIdMapper) -> None:
    leave_pending(mapper, "a")
    for _ in range(2):
        send = mapper.begin_send(messages(["a", "b"], amount=[5, 7]))
        assert rules(send)[0] == "M3"
        assert (statuses(send)[0], actions(send)[0]) == ("IN_DOUBT", "RAISE")
        verdict = send.verdicts.to_pylist()[0]
        assert (verdict["audit"], verdict["retryable"], verdict["pending_since"]) == ("ERROR", False, T0)
        with pytest.raises(dh.PendingMessageError, match=r"\[DH-PENDING\] 1 of 2 messages") as raised:
            send.raise_pending()
        rows = raised.value.rows.to_pylist()
        assert [(row["id"], row["amount"], row["rule"]) for row in rows] == [("a", 5, "M3")]
        send.abort(definite=True)
    assert pending(mapper) == ["a"]


def test_raise_pending_raises_and_writes_nothing(mapper: dh.MessageIdMapper) -> None:
    leave_pending(mapper, "a")
    with pytest.raises(dh.PendingMessageError) as raised:
        mapper.begin_send(messages(["b", "a"]), raise_pending=True)
    assert raised.value.rows["id"].to_pylist() == ["a"]
    arrived = pickle.loads(pickle.dumps(raised.value))  # as in the parent of a pool of processes
    assert (str(arrived), arrived.rows) == (str(raised.value), raised.value.rows)
    assert pending(mapper) == ["a"]


def test_m4_the_policy_process_sends_it(history: dh.History, mapper: dh.MessageIdMapper) -> None:
    leave_pending(mapper, "a")
    send = history.mapper("jms-receiver", pending="process").begin_send(messages(["a"]))
    assert (statuses(send), actions(send), rules(send)) == (["NEW"], ["PROCESS"], ["M4"])
    assert send.verdicts["audit"].to_pylist() == ["WARNING"]
    assert pending(mapper) == ["a"], "it stays pending until it was sent"
    send.complete()
    assert mapped(mapper, ["a"]) == [None]


def test_m5_the_policy_duplicate_takes_it_as_sent(history: dh.History, mapper: dh.MessageIdMapper) -> None:
    leave_pending(mapper, "a")
    send = history.mapper("jms-receiver", pending="duplicate").begin_send(messages(["a"]))
    assert (statuses(send), actions(send), rules(send)) == (["DUPLICATE"], ["SKIP"], ["M5"])
    assert send.verdicts["audit"].to_pylist() == ["INFO"]
    assert (mapped(mapper, ["a"]), pending(mapper)) == ([None], [])
    assert rules(mapper.begin_send(messages(["a"]))) == ["M2"]


def test_m6_best_effort_is_never_checked_and_never_written(mapper: dh.MessageIdMapper) -> None:
    mapper.begin_send(messages(["a"])).complete()
    leave_pending(mapper, "b")
    send = mapper.begin_send(messages(["a", "b", "c", None]), qos="BE")
    assert (statuses(send), actions(send), rules(send)) == (["NEW"] * 4, ["PROCESS"] * 4, ["M6"] * 4)
    send.complete(["1", "2", "3", "4"])
    assert (mapped(mapper, ["a", "b", "c"]), pending(mapper)) == ([None, False, False], ["b"])


def test_m7_only_the_queue_of_a_message_in_doubt_waits(mapper: dh.MessageIdMapper) -> None:
    leave_pending(mapper, "b")
    batch = messages(
        ["a", "b", "c", "d", "e"], qos=["EOIO", "EOIO", "EOIO", "EOIO", "EO"], queue=["q", "q", "q", "r", "q"]
    )
    send = mapper.begin_send(batch)
    assert rules(send) == ["M1", "M3", "M7", "M1", "M1"]
    assert (statuses(send)[2], actions(send)[2]) == (None, "HOLD")
    assert pending(mapper) == ["a", "b", "d", "e"], "what waits is not pending"


def test_m7_a_failure_holds_the_rest_of_its_queue(mapper: dh.MessageIdMapper) -> None:
    batch = messages(["a", "b", "c"], queue=["q", "q", "r"])
    for definite, rule in ((True, "M1>failed"), (False, "M1>unknown")):
        send = mapper.begin_send(batch, qos="EOIO")
        assert rules(send) == ["M1", "M1", "M1"]
        send.abort([0], definite=definite)
        assert rules(send) == [rule, "M7", "M1"]
        assert pending(mapper) == (["c"] if definite else ["a", "c"])
        assert send.rows == [2]
        send.abort([2], definite=True)
    assert rules(mapper.begin_send(batch, qos="EOIO")) == ["M3", "M7", "M1"]


def test_a_queue_is_that_of_one_batch(mapper: dh.MessageIdMapper) -> None:
    mapper.begin_send(messages(["a"], queue=["q"]), qos="EOIO")
    assert rules(mapper.begin_send(messages(["a", "b"], queue=["q", "q"]), qos="EOIO")) == ["M3", "M7"]
    assert rules(mapper.begin_send(messages(["b"], queue=["q"]), qos="EOIO")) == ["M1"], "the source keeps the order"


def test_messages_without_a_queue_are_in_one_queue(mapper: dh.MessageIdMapper) -> None:
    send = mapper.begin_send(messages(["a", "b"]), qos="EOIO")
    send.abort([0], definite=True)
    assert rules(send) == ["M1>failed", "M7"]


@pytest.mark.parametrize("id_", [None, "", "x" * 65_536])
def test_m8_without_an_id_nothing_can_be_checked(mapper: dh.MessageIdMapper, id_: str | None) -> None:
    send = mapper.begin_send(messages([id_, "a"]))
    assert (statuses(send), actions(send), rules(send)) == (["IN_DOUBT", "NEW"], ["RAISE", "PROCESS"], ["M8", "M1"])
    assert pending(mapper) == ["a"]


def test_the_same_id_twice_in_a_batch_is_sent_once(mapper: dh.MessageIdMapper) -> None:
    send = mapper.begin_send(messages(["a", "a", "a"]))
    assert rules(send) == ["M1", "M1+batch", "M1+batch"]
    send.abort([0], definite=True)
    assert rules(send) == ["M1>failed", "M1+hold", "M1+hold"], "no copy takes the place of what failed by itself"
    assert pending(mapper) == []
    again = mapper.begin_send(messages(["a"]))
    again.complete(["ext"])
    assert mapped(mapper, ["a"]) == ["ext"]


def test_message_that_certainly_failed_is_new_else_in_doubt(mapper: dh.MessageIdMapper) -> None:
    send = mapper.begin_send(messages(["a", "b"]))
    send.abort([0], definite=True)
    send.abort([1])
    assert statuses(send) == ["FAILED", "IN_DOUBT"]
    assert rules(mapper.begin_send(messages(["a", "b"]))) == ["M1", "M3"]


def test_who_learns_later_what_happened_can_still_say_so(mapper: dh.MessageIdMapper) -> None:
    send = mapper.begin_send(messages(["a", "b"]))
    send.abort([0, 1])
    send.complete(["ext"], rows=[0])
    send.abort([1], definite=True)
    assert mapped(mapper, ["a", "b"]) == ["ext", False]
    assert pending(mapper) == []


def test_ends_are_said_once_and_again(mapper: dh.MessageIdMapper) -> None:
    send = mapper.begin_send(messages(["a", "b", "c"]))
    send.complete(["1"], rows=[0])
    send.complete(["other"], rows=[0])
    assert mapped(mapper, ["a"]) == ["1"], "again changes nothing"
    twice = mapper.begin_send(messages(["d"]))
    twice.complete(["first", "second"], rows=[0, 0])
    assert mapped(mapper, ["d"]) == ["first"]
    send.complete(["2", "3"])
    assert mapped(mapper, ["a", "b", "c"]) == ["1", "2", "3"]
    with pytest.raises(dh.StateError, match="row 0"):
        send.abort([0], definite=True)
    with pytest.raises(dh.StateError, match="row 7"):
        send.complete(rows=[7])
    skipped = mapper.begin_send(messages(["a"]))
    with pytest.raises(dh.StateError, match="sent before"):
        skipped.complete(rows=[0])


def test_single_ids_are_decided_for_one_arrival(mapper: dh.MessageIdMapper) -> None:
    leave_pending(mapper, "a", "b", "c")
    assert errors(mapper.resolve(["a", "x"], "process")) == [None, "NOT_PENDING"]
    assert errors(mapper.resolve(["b"], "duplicate")) == [None]
    assert mapper.lookup(["a", "b", "c"])["resolved"].to_pylist() == ["process", "duplicate", None]
    send = mapper.begin_send(messages(["a", "b", "c"]))
    assert rules(send) == ["M4", "M5", "M3"]
    again = mapper.begin_send(messages(["a", "b", "c"]))
    assert rules(again) == ["M3", "M2", "M3"], "its end is unknown again, so it is in doubt again"
    mapper.resolve(["c"], "process")
    mapper.resolve(["c"], "error")
    assert rules(mapper.begin_send(messages(["c"]))) == ["M3"]


def test_everything_that_is_to_be_audited_has_a_record(history: dh.History, mapper: dh.MessageIdMapper) -> None:
    leave_pending(mapper, "b")
    send = mapper.begin_send(messages(["a", "b", None]), now=T0 + dt.timedelta(hours=1))
    found = send.audit.to_pylist()
    assert [(row["id"], row["level"], row["rule"], row["row"]) for row in found] == [
        ("b", "ERROR", "M3", 1),
        (None, "ERROR", "M8", 2),
    ]
    assert found[0]["channel"] == "jms-receiver"
    assert found[0]["time"] == T0 + dt.timedelta(hours=1)
    assert "message b: pending" in found[0]["text"]
    assert "2024-03-10T12:00:00.000000Z" in found[0]["text"], "since when"
    other = history.mapper("jms-receiver", pending="process").begin_send(messages(["b"]))
    assert other.audit["level"].to_pylist() == ["WARNING"]


def test_a_batch_that_comes_again_under_its_transaction_is_known(mapper: dh.MessageIdMapper) -> None:
    batch, under = messages(["a", "b"]), ("app", 17)
    first = mapper.begin_send(batch, transaction=under)
    assert (rules(first), first.replay) == (["M1", "M1"], "first")
    first.complete(["1"], rows=[0])
    again = mapper.begin_send(batch, transaction=under)
    assert (rules(again), again.replay, again.id) == (["M2", "M3"], "unfinished", first.id)
    rerun = mapper.begin_send(batch, transaction=under, on_replay="rerun")
    assert (rules(rerun), rerun.replay) == (["M2", "M1"], "unfinished")
    rerun.complete(["2"])
    done = mapper.begin_send(batch, transaction=under, on_replay="rerun")
    assert (rules(done), done.replay) == (["M2", "M2"], "finished")
    assert mapper.stats()["transactions"] == {"app": (17, True)}
    with pytest.raises(dh.TransactionError, match="comes after its batch 17"):
        mapper.begin_send(batch, transaction=("app", 16))


def test_finished_transaction_after_a_purge_sends_nothing(mapper: dh.MessageIdMapper) -> None:
    mapper.begin_send(messages(["a"]), transaction=("app", 1), now=T0).complete(now=T0)
    mapper.purge(T0 + dt.timedelta(days=31))
    assert mapped(mapper, ["a"]) == [False]
    assert rules(mapper.begin_send(messages(["a"]), transaction=("app", 1))) == ["M2"]
    assert rules(mapper.begin_send(messages(["a"]), transaction=("app", 2))) == ["M1"]


def test_transaction_ends_only_with_nothing_waiting_or_in_doubt(mapper: dh.MessageIdMapper) -> None:
    leave_pending(mapper, "b")
    batch = messages(["a", "b"])
    mapper.begin_send(batch, transaction=("app", 1)).complete()
    assert mapper.stats()["transactions"] == {"app": (1, False)}
    mapper.resolve(["b"], "process")
    again = mapper.begin_send(batch, transaction=("app", 1))
    assert rules(again) == ["M2", "M4"]
    again.complete()
    assert mapper.stats()["transactions"] == {"app": (1, True)}


@pytest.mark.parametrize("kind", ["batch", "table", "reader"])
def test_verdicts_come_as_messages_came(mapper: dh.MessageIdMapper, kind: str) -> None:
    table = pa.table({"number": ["a", "b"], "how": ["EO", None]})
    given = {"batch": table.to_batches()[0], "table": table, "reader": table.to_reader()}[kind]
    send = mapper.begin_send(given, columns={"id": "number", "qos": "how"})
    assert isinstance(send.verdicts, pa.RecordBatch if kind == "batch" else pa.Table)
    assert send.new.to_pylist() == table.to_pylist()
    assert send.verdicts.schema.names == [
        "status",
        "action",
        "rule",
        "found",
        "mapped_id",
        "pending_since",
        "reason",
        "audit",
        "retryable",
    ]


def test_other_messages_under_a_number_are_refused_or_looked_up(mapper: dh.MessageIdMapper) -> None:
    first = mapper.begin_send(messages(["a", "b"]), transaction=("app", 5), now=T0)
    with pytest.raises(dh.TransactionError, match="was begun, and did not end, with other rows"):
        mapper.begin_send(messages(["a", "b", "c"]), transaction=("app", 5), on_replay="rerun")
    first.complete()
    for other in (["a"], ["a", "b", "c"], ["b", "b"], ["a", None], []):
        with pytest.raises(dh.TransactionError, match=r"^\[DH-TRANSACTION\] .* was completed with other rows"):
            mapper.begin_send(messages(other), transaction=("app", 5))
    assert mapped(mapper, ["a", "b", "c"]) == [None, None, False]
    again = mapper.begin_send(messages(["b", "a"]), transaction=("app", 5))
    assert (again.replay, rules(again)) == ("finished", ["M2", "M2"])
    looked_up = mapper.begin_send(messages(["c", "a"]), transaction=("app", 5), on_other_rows="look_up")
    assert (looked_up.replay, rules(looked_up)) == ("first", ["M1", "M2"])
    looked_up.complete(["ext"])
    again = mapper.begin_send(messages(["a", "c"]), transaction=("app", 5))
    assert (again.replay, mapped(mapper, ["c"])) == ("finished", ["ext"])
    with pytest.raises(dh.ConfigError, match="on_other_rows"):
        mapper.begin_send(messages(["a"]), on_other_rows="skip")  # type: ignore[arg-type]


def test_the_same_messages_stay_sent_after_a_purge(mapper: dh.MessageIdMapper) -> None:
    sent = mapper.begin_send(messages(["a", "b"]), transaction=("app", 5), now=T0)
    sent.complete(["ext", None], persist_until=T0)
    mapper.purge(T0 + dt.timedelta(days=40))
    assert mapped(mapper, ["a"]) == [False]
    again = mapper.begin_send(messages(["b", "a"]), transaction=("app", 5))
    assert (again.replay, rules(again)) == ("finished", ["M2", "M2"])


def test_ids_that_are_too_long_are_told_apart(mapper: dh.MessageIdMapper) -> None:
    mapper.begin_send(messages(["a", "x" * 70_000]), transaction=("app", 5)).complete()
    assert mapper.begin_send(messages(["x" * 70_000, "a"]), transaction=("app", 5)).replay == "unfinished"
    with pytest.raises(dh.TransactionError):
        mapper.begin_send(messages(["y" * 70_000, "a"]), transaction=("app", 5))
