"""The examples of the rules: where a stream stands, what arrives in each poll, and what comes of it."""

from __future__ import annotations

import dochistory as dh
from tests.delivery.support import applied, column, decisions, header, messages, with_epoch

FIRST, SECOND, THIRD = header(923200, 923357), header(923357, 942712), header(942712, 1119170)


def test_three_messages_in_order_are_applied_and_confirmed(history: dh.History) -> None:
    poll = history.delivery("s", start=923200).receive(messages([FIRST, SECOND, THIRD]))
    poll.commit()
    assert decisions(poll) == ["APPLY", "APPLY", "APPLY"]
    assert column(poll.confirmations, "confirm") == [1119170]


def test_last_of_three_arriving_first_is_held_then_released(history: dh.History) -> None:
    poll = history.delivery("s", start=923200).receive(messages([THIRD, FIRST, SECOND]))
    assert decisions(poll) == ["HOLD", "APPLY", "APPLY"]
    assert column(poll.decisions, "status") == ["NEW", "NEW", "NEW"]
    assert column(poll.decisions, "apply_rank") == [2, 0, 1]


def test_lost_message_is_requested_again_and_older_are_stale(history: dh.History) -> None:
    inbox = history.delivery("s", start=923200)
    polls = []
    resent = [header(923357, 942712, 0, 1), header(942712, 1119170, 0, 1)]
    for arrivals in ([FIRST, THIRD], [], [SECOND, THIRD], resent):
        poll = inbox.receive(messages(arrivals))
        poll.commit()
        polls.append(poll)
    assert [decisions(poll) for poll in polls] == [["APPLY", "HOLD"], [], ["STALE", "STALE"], ["APPLY", "APPLY"]]
    assert polls[1].resend_requests.to_pylist() == [{"stream": "s", "resend_epoch": 1, "resend_from": 923357}]
    assert [poll.resend_requests.num_rows for poll in polls] == [0, 1, 0, 0]


def test_messages_are_applied_only_once(history: dh.History) -> None:
    inbox = with_epoch(history, 942712, 1)
    poll = inbox.receive(messages([header(923357, 942712, 0, 1), header(942712, 1119170, 0, 1)]))
    assert decisions(poll) == ["DUPLICATE", "APPLY"]


def test_crash_restarts_an_unfinished_transaction_at_its_start(history: dh.History) -> None:
    parts = [header(942712, 942712, seq) for seq in range(3)]
    poll = history.delivery("s", start=942712).receive(messages(parts[:2]))
    assert (decisions(poll), applied(poll)) == (["PART", "PART"], [])
    poll.commit()
    poll = history.delivery("s").receive(messages([*parts, header(942712, 1119170, 3)]))
    assert decisions(poll) == ["PART", "PART", "PART", "APPLY"]
    assert applied(poll) == [(942712, 942712, 0), (942712, 942712, 1), (942712, 942712, 2), (942712, 1119170, 3)]


def test_a_message_over_what_is_applied_is_an_overlap(history: dh.History) -> None:
    poll = with_epoch(history, 942712, 1).receive(messages([header(923357, 1119170, 0, 1)]))
    assert decisions(poll) == ["OVERLAP"]
