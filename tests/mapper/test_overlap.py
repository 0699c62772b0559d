"""Senders that overlap: an end speaks of its own attempt, and of nothing that somebody else sent or decided."""

from __future__ import annotations

import datetime as dt
from typing import Literal

import pyarrow.compute as pc
import pytest

import dochistory as dh
from tests.mapper.support import errors, mapped, messages, pending, rules, statuses


def overtaken(mapper: dh.MessageIdMapper) -> tuple[dh.MapperSend, dh.MapperSend]:
    """A begins x, somebody decides that it is to be sent, B begins it, too."""
    first = mapper.begin_send(messages(["x"]))
    assert errors(mapper.resolve(["x"], "process")) == [None]
    second = mapper.begin_send(messages(["x"]))
    assert (rules(first), rules(second)) == (["M1"], ["M4"])
    return first, second


def next_rule(mapper: dh.MessageIdMapper, id_: str = "x") -> str:
    return rules(mapper.begin_send(messages([id_])))[0]


def test_an_abort_leaves_what_another_sender_mapped(mapper: dh.MessageIdMapper) -> None:
    first, second = overtaken(mapper)
    second.complete(["from-b"])
    first.abort(definite=True)
    assert mapped(mapper, ["x"]) == ["from-b"]
    assert next_rule(mapper) == "M2"


def test_an_abort_leaves_what_another_sender_has_under_way(mapper: dh.MessageIdMapper) -> None:
    first, second = overtaken(mapper)
    first.abort(definite=True)
    assert pending(mapper) == ["x"]
    assert next_rule(mapper) == "M3"
    second.complete(["from-b"])
    assert (mapped(mapper, ["x"]), next_rule(mapper)) == (["from-b"], "M2")


def test_an_abort_leaves_a_sender_that_the_channel_let_begin(history: dh.History) -> None:
    mapper = history.mapper("out", pending="process")
    first = mapper.begin_send(messages(["x"]))
    second = mapper.begin_send(messages(["x"]))
    assert rules(second) == ["M4"]
    first.abort(definite=True)
    assert pending(mapper) == ["x"]
    assert next_rule(history.mapper("out")) == "M3"
    second.abort(definite=True)
    assert pending(mapper) == []


@pytest.mark.parametrize(("decision", "rule"), [("duplicate", "M5"), ("process", "M4"), ("error", "M1")])
def test_an_abort_leaves_what_was_decided_by_hand(
    mapper: dh.MessageIdMapper, decision: Literal["error", "process", "duplicate"], rule: str
) -> None:
    send = mapper.begin_send(messages(["x"]))
    mapper.resolve(["x"], "duplicate")
    mapper.resolve(["x"], decision)
    send.abort(definite=True)
    assert next_rule(mapper) == rule, "a decision that was taken back leaves the id as it was"


def test_an_abort_leaves_what_was_acted_on_as_sent(mapper: dh.MessageIdMapper) -> None:
    send = mapper.begin_send(messages(["x"]))
    mapper.resolve(["x"], "duplicate")
    assert next_rule(mapper) == "M5"
    send.abort(definite=True)
    assert (mapped(mapper, ["x"]), next_rule(mapper)) == ([None], "M2")


def test_an_abort_leaves_what_was_mapped_by_hand(mapper: dh.MessageIdMapper) -> None:
    send = mapper.begin_send(messages(["x", "y"]))
    assert errors(mapper.create(["x", "y"], ["by hand", "gone again"])) == [None, None]
    assert errors(mapper.remove(["y"])) == [None]
    send.abort(definite=True)
    assert mapped(mapper, ["x"]) == ["by hand"]
    assert mapper.lookup(["x", "y"])["pending"].to_pylist() == [False, False]
    assert rules(mapper.begin_send(messages(["x", "y"]))) == ["M2", "M1"]


def test_abort_after_a_purge_keeps_later_begins(mapper: dh.MessageIdMapper) -> None:
    first = mapper.begin_send(messages(["x"]))
    mapper.purge(dt.datetime.now(dt.UTC) + dt.timedelta(days=400), include_pending=True, force=True)
    second = mapper.begin_send(messages(["x"]))
    assert rules(second) == ["M1"]
    first.abort(definite=True)
    assert pending(mapper) == ["x"]
    second.abort(definite=True)
    assert next_rule(mapper) == "M1"


def test_a_rerun_is_not_ended_by_who_began_before(mapper: dh.MessageIdMapper) -> None:
    first = mapper.begin_send(messages(["x"]), transaction=("app", 1))
    second = mapper.begin_send(messages(["x"]), transaction=("app", 1), on_replay="rerun")
    assert rules(second) == ["M1"]
    first.abort(definite=True)
    assert pending(mapper) == ["x"]
    second.complete(["ext"])
    assert mapper.stats()["transactions"] == {"app": (1, True)}


def test_a_replay_under_one_claim_is_not_ended_by_the_first(mapper: dh.MessageIdMapper) -> None:
    first = mapper.begin_send(messages(["x"]), transaction=("app", 1))
    mapper.resolve(["x"], "process")
    second = mapper.begin_send(messages(["x"]), transaction=("app", 1))
    assert (rules(second), second.id) == (["M4"], first.id)
    first.abort(definite=True)
    assert next_rule(mapper) == "M3"


@pytest.mark.parametrize("definite", [True, False])
def test_what_was_sent_late_is_mapped_whatever_others_say(mapper: dh.MessageIdMapper, definite: bool) -> None:
    first, second = overtaken(mapper)
    first.complete(["from-a"])
    assert mapper.lookup(["x"])["pending"].to_pylist() == [True], "the other sender is still under way"
    second.abort(definite=definite)
    assert mapped(mapper, ["x"]) == ["from-a"]
    assert mapper.lookup(["x"])["pending"].to_pylist() == [not definite]
    assert next_rule(mapper) == "M2"
    assert mapper.lookup(["x"])["pending"].to_pylist() == [False], "a left-over pending entry goes"


def test_doubt_of_another_sender_outlives_a_mapping(mapper: dh.MessageIdMapper) -> None:
    first, _ = overtaken(mapper)
    first.complete(["from-a"])
    mapper.remove(["x"])
    assert next_rule(mapper) == "M3", "the second send may have arrived"


def test_the_first_mapping_stands_when_both_were_sent(mapper: dh.MessageIdMapper) -> None:
    first, second = overtaken(mapper)
    second.complete(["from-b"])
    first.complete(["from-a"])
    assert mapped(mapper, ["x"]) == ["from-b"]


def test_a_mapping_to_nothing_gets_the_id_it_lacks(mapper: dh.MessageIdMapper) -> None:
    send = mapper.begin_send(messages(["x"]))
    mapper.resolve(["x"], "duplicate")
    assert next_rule(mapper) == "M5"
    send.complete(["ext"])
    assert mapped(mapper, ["x"]) == ["ext"]


def test_a_mapping_is_kept_as_long_as_any_sender_asked(history: dh.History) -> None:
    mapper = history.mapper("out", pending="process")
    now = dt.datetime.now(dt.UTC)
    first, second = (mapper.begin_send(messages(["x"]), persist_until="1 day") for _ in range(2))
    first.complete(["from-a"], persist_until=now + dt.timedelta(days=9))
    second.complete(["from-b"], persist_until=now + dt.timedelta(days=2))
    assert mapper.lookup(["x"])["persist_until"].to_pylist() == [now + dt.timedelta(days=9)]


def test_a_message_that_waits_gives_back_what_was_decided(mapper: dh.MessageIdMapper) -> None:
    mapper.begin_send(messages(["x"])).abort()
    mapper.resolve(["x"], "process")
    send = mapper.begin_send(messages(["w", "x"]), qos="EOIO")
    assert rules(send) == ["M1", "M4"]
    send.abort([0], definite=True)
    assert rules(send) == ["M1>failed", "M7"]
    assert next_rule(mapper) == "M4", "nobody has acted on the decision yet"


def test_a_message_that_waits_stays_so_for_its_batch(mapper: dh.MessageIdMapper) -> None:
    send = mapper.begin_send(messages(["w", "x"]), qos="EOIO")
    send.abort([0])
    other = mapper.begin_send(messages(["x"]))
    assert rules(other) == ["M1"], "what waits is not pending"
    send.complete(["late"], rows=[0])
    assert (rules(send), send.rows) == (["M1", "M7"], [])
    other.complete(["ext"])
    assert mapped(mapper, ["w", "x"]) == ["late", "ext"]


@pytest.mark.parametrize("definite", [True, False])
def test_a_copy_of_what_was_aborted_is_not_sent(mapper: dh.MessageIdMapper, definite: bool) -> None:
    send = mapper.begin_send(messages(["x", "x", "y"]))
    assert rules(send) == ["M1", "M1+batch", "M1"]
    send.abort([0], definite=definite)
    assert rules(send) == (["M1>failed", "M1+hold", "M1"] if definite else ["M1>unknown", "M1+batch", "M1"])
    assert send.rows == [2]
    assert statuses(send)[1] == (None if definite else "IN_DOUBT")
    assert pending(mapper) == (["y"] if definite else ["x", "y"])
    with pytest.raises(dh.StateError, match="row 1"):
        send.complete(["ext"], rows=[1])
    assert next_rule(mapper) == ("M1" if definite else "M3")


def test_a_copy_of_what_waits_from_the_start_is_not_sent(mapper: dh.MessageIdMapper) -> None:
    ids, qos = [None, "d", "d", "d"], ["EOIO", "EOIO", "EO", "EOIO"]
    send = mapper.begin_send(messages(ids, qos=qos, queue=["q", "q", "q", "r"]))
    assert rules(send) == ["M8", "M7", "M1+hold", "M1+hold"]
    assert (send.rows, pending(mapper)) == ([], [])
    assert next_rule(mapper, "d") == "M1"


@pytest.mark.parametrize("definite", [True, False])
def test_what_was_tried_keeps_its_verdict_and_record(mapper: dh.MessageIdMapper, definite: bool) -> None:
    send = mapper.begin_send(messages(["c", "d", "e", "f", "e"], qos=["EOIO"] * 4 + ["EO"]))
    assert rules(send) == ["M1", "M1", "M1", "M1", "M1+batch"]
    send.abort([1], definite=definite)
    assert rules(send)[1:4] == ["M1>failed" if definite else "M1>unknown", "M7", "M7"]
    send.abort([0])
    assert rules(send)[:4] == ["M1>unknown", "M1>failed" if definite else "M1>unknown", "M7", "M7"]
    assert send.audit.filter(pc.equal(send.audit["id"], "d"))["level"].to_pylist() == ["ERROR"]
    assert pending(mapper) == (["c"] if definite else ["c", "d"])


def test_what_was_sent_stays_sent_behind_a_failure(mapper: dh.MessageIdMapper) -> None:
    send = mapper.begin_send(messages(["c", "d", "e", "d"], qos=["EOIO", "EOIO", "EOIO", "EO"]))
    send.complete(["ext"], rows=[1])
    send.abort([0])
    assert rules(send) == ["M1>unknown", "M1", "M7", "M1+batch"]
    send.complete(["ext"], rows=[1])
    assert mapped(mapper, ["c", "d", "e"]) == [False, "ext", False]


def test_a_copy_of_what_waits_is_not_sent(mapper: dh.MessageIdMapper) -> None:
    batch = messages(["w", "x", "x"], qos=["EOIO", "EOIO", "EO"])
    send = mapper.begin_send(batch)
    assert rules(send) == ["M1", "M1", "M1+batch"]
    send.abort([0], definite=True)
    assert rules(send) == ["M1>failed", "M7", "M1+hold"]
    assert pending(mapper) == []
    assert rules(mapper.begin_send(batch)) == ["M1", "M1", "M1+batch"]


def test_a_copy_of_a_message_that_failed_is_not_mapped(mapper: dh.MessageIdMapper) -> None:
    batch = messages(["x", "y", "x"], message_id=["1", "2", "3"])
    with mapper.unit_of_work() as unit:
        taken = unit.take(batch)
        assert rules(taken) == ["N2", "N2", "N3+batch"]
        taken.fail([0])
        assert rules(taken) == ["N4", "N2", "N2+hold"]
        assert taken.verdicts["action"].to_pylist() == ["RAISE", "PROCESS", "HOLD"]
        assert taken.verdicts["mapped_id"].to_pylist() == [None, None, None]
        assert taken.rows == [1]
    assert mapped(mapper, ["x", "y"]) == [False, "2"]
    with mapper.unit_of_work() as unit:
        assert rules(unit.take(batch)) == ["N2", "N3", "N3+batch"]


def test_a_copy_of_a_message_that_waits_is_not_mapped(mapper: dh.MessageIdMapper) -> None:
    batch = messages(["w", "x", "x"], message_id=["1", "2", "3"], qos=["EOIO", "EOIO", "EO"])
    with mapper.unit_of_work() as unit:
        taken = unit.take(batch)
        taken.fail([0])
        assert rules(taken) == ["N4", "N4+queue", "N2+hold"]
    assert mapped(mapper, ["w", "x"]) == [False, False]


def test_a_message_that_failed_can_be_taken_again_in_its_unit(mapper: dh.MessageIdMapper) -> None:
    with mapper.unit_of_work() as unit:
        taken = unit.take(messages(["x"], message_id=["first"]))
        taken.fail([0])
        again = unit.take(messages(["x"], message_id=["again"]))
        assert rules(again) == ["N2"]
        taken.fail([0])
    assert mapped(mapper, ["x"]) == ["again"], "a failure speaks of what it was said of"


def test_a_failure_leaves_what_was_mapped_by_hand_in_the_unit(mapper: dh.MessageIdMapper) -> None:
    with mapper.unit_of_work() as unit:
        taken = unit.take(messages(["x", "y"], message_id=["1", "2"]))
        unit.remove(["x"])
        unit.create(["x"], ["by hand"])
        unit.update(["y"], ["other"])
        taken.fail([0, 1])
    assert mapped(mapper, ["x", "y"]) == ["by hand", False], "y was never mapped but by what failed"


def test_a_failure_gives_back_a_removal_in_its_unit(mapper: dh.MessageIdMapper) -> None:
    mapper.create(["x"], ["old"])
    with mapper.unit_of_work() as unit:
        unit.remove(["x"])
        taken = unit.take(messages(["x"], message_id=["new"]))
        assert rules(taken) == ["N2"]
        unit.update(["x"], ["newer"])
        taken.fail([0])
    assert mapped(mapper, ["x"]) == [False]
