"""A report of a history: one self-contained HTML page.

```python
from dochistory import report

with dh.open("orders.history", read_only=True) as history:
    page = report.html(report.gather(history, journal="journal/"))
```
"""

from dochistory.report.gather import gather
from dochistory.report.model import Doubt, Kept, Partition, Report, TriggerReport, Verdicts
from dochistory.report.page import html

__all__ = ["Doubt", "Kept", "Partition", "Report", "TriggerReport", "Verdicts", "gather", "html"]
