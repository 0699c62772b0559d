"""Exactly-once processing of documents by triggers, on a durable history of their ids."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dochistory._native import *  # noqa: F403
from dochistory._native import open_ as open  # noqa: A004
from dochistory.errors import RolledBack as RolledBack

if TYPE_CHECKING:
    from dochistory import spark as spark


def __getattr__(name: str) -> Any:
    if name == "spark":  # only when asked for: it imports PySpark
        return import_module("dochistory.spark")
    raise AttributeError(f"module 'dochistory' has no attribute {name!r}")
