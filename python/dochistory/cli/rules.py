"""Codes of rules that a user types."""

import re
from collections.abc import Iterable

from dochistory.cli.failures import CommandError
from dochistory.cli.names import known, near
from dochistory.report.rules import RULES


def check_rule(rule: str | None, there: Iterable[str]) -> None:
    """Refuse a rule that there is not.

    Args:
        rule: what the user typed, such as `R11` or `R10>S3`; None without the option.
        there: the rules that are recorded where the command looks.

    Raises:
        CommandError: a part of it is no rule's code.
    """
    if rule is None:
        return
    codes = {code for one in (*RULES, *there) for code in (one, *re.split("[>+]", one))}
    unknown = [code for code in re.split("[>+]", rule) if code not in codes]
    if unknown:
        raise CommandError(f"there is no rule {unknown[0]!r}, but {known(codes)}{near(unknown[0], codes)}")
