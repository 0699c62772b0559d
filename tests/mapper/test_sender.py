"""Taking in: every row of the table N1 to N5, and what belongs to a unit of work."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh
from tests.mapper.support import actions, errors, listed, mapped, messages, rules, statuses


def incoming(*ids: str | None, **columns: list[object]) -> pa.RecordBatch:
    return messages(ids, message_id=[f"ours-{number}" for number in range(len(ids))], **columns)


def test_n1_best_effort_is_not_checked_and_not_mapped(mapper: dh.MessageIdMapper) -> None:
    mapper.create(["a"], ["before"])
    with mapper.unit_of_work() as unit:
        taken = unit.take(incoming("a", "b"), qos="BE")
        assert (statuses(taken), actions(taken), rules(taken)) == (["NEW"] * 2, ["PROCESS"] * 2, ["N1"] * 2)
    assert mapped(mapper, ["a", "b"]) == ["before", False]


def test_n2_a_new_message_is_mapped_within_the_unit(mapper: dh.MessageIdMapper) -> None:
    with mapper.unit_of_work() as unit:
        taken = unit.take(incoming("a", "b"))
        assert (statuses(taken), actions(taken), rules(taken)) == (["NEW"] * 2, ["PROCESS"] * 2, ["N2"] * 2)
        assert mapped(mapper, ["a"]) == [False], "not before the unit commits"
    assert mapped(mapper, ["a", "b"]) == ["ours-0", "ours-1"]


def test_messages_that_were_taken_say_what_they_are(mapper: dh.MessageIdMapper) -> None:
    with mapper.unit_of_work() as unit:
        taken = unit.take(incoming("a", "b", "a"))
        assert repr(taken) == '<MapperTaken "jms-receiver": 2 of 3 messages to process>'
        taken.fail([1])
        assert repr(taken) == '<MapperTaken "jms-receiver": 1 of 3 messages to process>'


def test_what_failed_stays_failed_behind_a_failure(mapper: dh.MessageIdMapper) -> None:
    with mapper.unit_of_work() as unit:
        taken = unit.take(incoming("c", "d", "e"), qos="EOIO")
        taken.fail([1])
        taken.fail([0])
        assert rules(taken) == ["N4", "N4", "N4+queue"]
        assert taken.audit["arrived_as"].to_pylist() == ["c", "d"]
    assert listed(mapper) == {}


def test_a_copy_of_what_waits_from_the_start_waits(mapper: dh.MessageIdMapper) -> None:
    with mapper.unit_of_work() as unit:
        taken = unit.take(incoming(None, "d", "d", qos=["EOIO", "EOIO", "EO"]))
        assert rules(taken) == ["N+no id", "N4+queue", "N2+hold"]
    assert listed(mapper) == {}


def test_n3_received_message_is_skipped_and_audited_on_the_first(mapper: dh.MessageIdMapper) -> None:
    with mapper.unit_of_work() as unit:
        unit.take(incoming("a"))
    with mapper.unit_of_work() as unit:
        taken = unit.take(messages(["a", "b"], message_id=["late", "new"]))
        assert (statuses(taken), actions(taken), rules(taken)) == (
            ["DUPLICATE", "NEW"],
            ["SKIP", "PROCESS"],
            ["N3", "N2"],
        )
        assert taken.verdicts["mapped_id"].to_pylist() == ["ours-0", None]
        record = taken.audit.to_pylist()[0]
        assert (record["id"], record["arrived_as"], record["level"]) == ("ours-0", "a", "SUCCESS")
    assert listed(mapper) == {"a": "ours-0", "b": "new"}


def test_n3_the_same_id_twice_in_a_unit_is_taken_once(mapper: dh.MessageIdMapper) -> None:
    with mapper.unit_of_work() as unit:
        taken = unit.take(incoming("a", "b", "a"))
        assert rules(taken) == ["N2", "N2", "N3+batch"]
        assert taken.verdicts["mapped_id"].to_pylist() == [None, None, "ours-0"]
        later = unit.take(messages(["b", "c"], message_id=["x", "y"]))
        assert rules(later) == ["N3", "N2"]
        assert later.verdicts["mapped_id"].to_pylist() == ["ours-1", None]
    assert listed(mapper) == {"a": "ours-0", "b": "ours-1", "c": "y"}


def test_n4_a_failure_before_the_commit_rolls_everything_back(mapper: dh.MessageIdMapper) -> None:
    def work() -> None:
        with mapper.unit_of_work() as unit:
            unit.take(incoming("a", "b"))
            mapper.create(["in"], ["the unit"], transactional=True)
            mapper.create(["by"], ["itself"])
            raise OSError("the database is down")

    with pytest.raises(OSError, match="the database is down"):
        work()
    assert listed(mapper) == {"by": "itself"}, "what is not transactional survives a roll-back"
    with mapper.unit_of_work() as unit:
        assert rules(unit.take(incoming("a", "b"))) == ["N2", "N2"]


def test_n4_single_messages_fail_and_hold_their_queues(mapper: dh.MessageIdMapper) -> None:
    batch = incoming("a", "b", "c", "d", "a", qos=["EOIO", "EOIO", "EOIO", "EO", "EO"], queue=["q", "q", "r", "q", "q"])
    with mapper.unit_of_work() as unit:
        taken = unit.take(batch)
        assert rules(taken) == ["N2", "N2", "N2", "N2", "N3+batch"]
        taken.fail([0])
        assert rules(taken) == ["N4", "N4+queue", "N2", "N2", "N2+hold"]
        assert (statuses(taken)[:2], actions(taken)[:2]) == (["FAILED", None], ["RAISE", "HOLD"])
        assert taken.rows == [2, 3]
        with pytest.raises(dh.StateError, match="row 1"):
            taken.fail([1])
    assert listed(mapper) == {"c": "ours-2", "d": "ours-3"}


def test_n4_a_copy_called_a_duplicate_keeps_its_first(mapper: dh.MessageIdMapper) -> None:
    unit = mapper.unit_of_work()
    taken = unit.take(incoming("a", "b", "c", qos=["EOIO", "EOIO", "EO"], queue=["q", "q", "q"]))
    copies = unit.take(incoming("b"))
    assert rules(copies) == ["N3"]
    for row in (1, 0):
        with pytest.raises(dh.StateError, match=r"row 1: a copy of it was taken later.*roll back the unit"):
            taken.fail([row])
    assert (rules(taken), taken.rows) == (["N2", "N2", "N2"], [0, 1, 2])
    taken.fail([2])
    unit.commit()
    assert listed(mapper) == {"a": "ours-0", "b": "ours-1"}


def test_n5_committed_message_is_a_duplicate_in_any_process(path: Path) -> None:
    with dh.open(path, create=True) as history, history.mapper("in").unit_of_work() as unit:
        unit.take(incoming("a"))
    with dh.open(path) as history, history.mapper("in").unit_of_work() as unit:
        assert rules(unit.take(incoming("a"))) == ["N3"]


def test_without_an_id_nothing_can_be_checked(mapper: dh.MessageIdMapper) -> None:
    with mapper.unit_of_work() as unit:
        taken = unit.take(incoming(None, "a"))
        assert (statuses(taken), actions(taken)) == (["IN_DOUBT", "NEW"], ["RAISE", "PROCESS"])
    assert listed(mapper) == {"a": "ours-1"}


def test_changes_of_mappings_join_the_unit(mapper: dh.MessageIdMapper) -> None:
    mapper.create(["a", "b"], ["1", "2"])
    with mapper.unit_of_work() as unit:
        assert errors(mapper.create(["c", "a"], ["3", "x"], transactional=True)) == [None, "EXISTS"]
        assert errors(mapper.update(["a", "c", "z"], ["4", "5", "6"], transactional=True)) == [None, None, "NOT_FOUND"]
        assert errors(mapper.remove(["b", "b"], transactional=True)) == [None, "NOT_FOUND"], "as without a unit"
        assert errors(mapper.update(["z", "z", "a", "a"], ["1"] * 4, transactional=True)) == [
            "NOT_FOUND",
            "NOT_FOUND",
            None,
            "EXISTS",
        ]
        assert errors(unit.create(["b"], ["7"])) == [None]
        assert errors(unit.create(["d"], ["8"])) == [None]
        assert errors(unit.remove(["d"])) == [None]
        assert listed(mapper) == {"a": "1", "b": "2"}
    assert listed(mapper) == {"a": "1", "b": "7", "c": "5"}


def test_a_unit_is_needed_to_be_joined_and_ends_once(mapper: dh.MessageIdMapper) -> None:
    with pytest.raises(dh.StateError, match="no unit of work"):
        mapper.create(["a"], transactional=True)
    unit = mapper.unit_of_work()
    unit.take(incoming("a"))
    assert unit.commit() == 1
    with pytest.raises(dh.StateError, match="over"):
        unit.commit()
    with pytest.raises(dh.StateError, match="over"):
        unit.take(incoming("b"))
    unit.roll_back()
    with mapper.unit_of_work() as early:
        early.take(incoming("b"))
        early.roll_back()
    assert listed(mapper) == {"a": "ours-0"}


def test_a_unit_that_somebody_overtook_without_one_does_nothing(mapper: dh.MessageIdMapper) -> None:
    unit = mapper.unit_of_work()
    unit.take(incoming("a", "b"))
    mapper.create(["a"], ["by hand"])
    with pytest.raises(dh.StateError, match=r"\"a\" was mapped"):
        unit.commit()
    assert listed(mapper) == {"a": "by hand"}


def test_mirror_entries_are_part_of_the_unit(history: dh.History) -> None:
    mapper = history.mapper("m", mirror=True)
    with mapper.unit_of_work() as unit:
        unit.take(incoming("a"))
        assert mapped(mapper, ["ours-0"]) == [False]
    assert mapped(mapper, ["a", "ours-0"]) == ["ours-0", "a"]
