"""The audit log: complete documents in doubt, until somebody decides about them.

```python
claim = history.begin(documents, trigger, audit=True)       # what is in doubt is kept before this returns
history.audit.list(state="open")                            # a table: number, time, trigger, key, rule, message, ...
history.audit.show(17)["document"]                          # all its columns, the payload too
history.audit.resolve([17], "process", note="asked the shop: never shipped")
with history.audit.resubmit(trigger) as again:              # everything that is to be processed
    service(again.documents)
```

The states of a document:

    open ──► process ──► resubmitting ──► resubmitted
      │         │             └──► cut_off: begun, and nobody knows how far it came; decide again
      └─────────┴──────► duplicate: it was processed after all, and is never resubmitted

A resubmission is a transaction of the history. The history decides how it ended; the log only
copies that. So a crash at any point leaves a document open (nothing was begun), cut off, or
resubmitted, and never both or neither.
"""

from dochistory.audit.log import APPLICATION, ENTRIES, OPEN, SETTLED, AuditLog, Decision, State
from dochistory.audit.repairing import repair
from dochistory.audit.resubmission import Resubmission

__all__ = [
    "APPLICATION",
    "ENTRIES",
    "OPEN",
    "SETTLED",
    "AuditLog",
    "Decision",
    "Resubmission",
    "State",
    "repair",
]
