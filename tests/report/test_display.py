"""What a notebook shows of histories and claims."""

import re
from pathlib import Path

import dochistory as dh
from tests.support import T0, documents, trigger

ORDERS = trigger("<orders>")


def test_a_history_shows_its_triggers(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(documents(["a", "b"]), ORDERS, now=T0)
        shown = history._repr_html_()
        assert str(history_path) in shown
        assert ">&lt;orders&gt;</td>" in shown
    assert "closed" in history._repr_html_()


def test_a_claim_shows_its_verdicts(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(documents(["a"]), ORDERS, now=T0).complete()
        claim = history.begin(documents(["a", "b", "c"]), ORDERS, now=T0)
        shown = claim._repr_html_()
        plain = re.sub(r"<[^>]+>", " ", shown).split()
        assert " ".join(plain).endswith("NEW PROCESS R8 2 DUPLICATE DISCARD R9 1")
        assert "3 documents" in shown
        none = history.begin(documents(["a"]), ORDERS, now=T0)._repr_html_()
        assert "nothing to process" in none
