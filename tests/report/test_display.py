"""What a notebook shows of histories and claims."""

from pathlib import Path

import dochistory as dh
from tests.support import T0, documents, trigger

ORDERS = trigger("<orders>")


def test_a_history_shows_its_triggers(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(documents(["a", "b"]), ORDERS, now=T0)
        shown = history._repr_html_()
        assert str(history_path) in shown
        assert "<td>&lt;orders&gt;</td><td>2</td>" in shown
    assert "closed" in history._repr_html_()


def test_a_claim_shows_its_verdicts(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(documents(["a"]), ORDERS, now=T0).complete()
        claim = history.begin(documents(["a", "b", "c"]), ORDERS, now=T0)
        shown = claim._repr_html_()
        assert "<td>NEW</td><td>PROCESS</td><td>R8</td><td>2</td>" in shown
        assert "<td>DUPLICATE</td><td>DISCARD</td><td>R9</td><td>1</td>" in shown
        assert "3 documents" in shown
        none = history.begin(documents(["a"]), ORDERS, now=T0)._repr_html_()
        assert "nothing to process" in none
