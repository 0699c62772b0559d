"""What a worker needs to know of a trigger, and which columns of a DataFrame a trigger looks at."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

import dochistory as dh

if TYPE_CHECKING:
    from dochistory import Trigger

_Place = TypeVar("_Place")

COLUMNS = {
    "messaging": ("uuid", "track_id", "event_id", "redelivery_count", "guaranteed"),
    "jms": ("uuid", "jms_message_id", "delivery_count", "persistent"),
}
"""The columns that a trigger of each kind looks at, ids first."""

IDS = {"uuid", "track_id", "event_id", "jms_message_id"}

FLAGS = {"guaranteed", "persistent"}


def settings_of(trigger: "Trigger") -> dict[str, Any]:
    """The trigger's settings as keyword arguments of `Trigger`; unlike a trigger they travel to other processes."""
    return {name: getattr(trigger, name) for name in trigger.FIELDS}


def columns_of(trigger: "Trigger", present: list[str], renamed: Mapping[str, str] | None) -> dict[str, str]:
    """Which of the `present` columns the trigger looks at: its own name of the column -> the name it has there.

    Args:
        trigger: the trigger.
        present: the names of the columns that there are.
        renamed: the trigger's name of a column -> the name it has in `present`, where they differ.

    Raises:
        SchemaError: [DH-SCHEMA] `renamed` names a column that is not there, one is there in another
            case, or there is no id column at all.
    """
    known = COLUMNS[trigger.kind]
    wanted = {name: name for name in known} | dict(renamed or {})
    if unknown := set(wanted) - set(known):
        raise dh.SchemaError(f"[DH-SCHEMA] a {trigger.kind} trigger has no column {_names(unknown)}: {_names(known)}")
    if missing := {there for there in (renamed or {}).values() if there not in present}:
        raise dh.SchemaError(f"[DH-SCHEMA] there is no column {_names(missing)} among {_names(present)}")
    check_case(wanted, present)
    found = {name: there for name, there in wanted.items() if there in present}
    if not IDS.intersection(found):
        ids = [name for name in known if name in IDS]
        raise dh.SchemaError(
            f"[DH-SCHEMA] none of the id columns {_names(ids)} is among {_names(present)}: "
            "say where the id is, as in columns={'uuid': 'my_id'}"
        )
    return found


def check_case(wanted: Mapping[str, str], present: Sequence[str]) -> None:
    """Refuse a column that differs from a wanted one by case alone: it would count in Spark, and be passed over here.

    Args:
        wanted: the name of what is looked at -> the column that holds it, if there is one.
        present: the names of the columns that there are.

    Raises:
        SchemaError: [DH-SCHEMA] there is such a column.
    """
    for name, there in wanted.items():
        if there in present:
            continue
        for other in present:
            if other.lower() == there.lower():
                raise dh.SchemaError(
                    f"[DH-SCHEMA] there is a column {other!r} and no {there!r}, and it would be passed over: "
                    f"rename it, or say that it is meant, as in columns={{{name!r}: {other!r}}}"
                )


def ids_of(found: Mapping[str, _Place]) -> list[_Place]:
    """Of what `columns_of` found, the names of the id columns, in the order of the key chain."""
    return [there for name, there in found.items() if name in IDS]


def types_of(found: Mapping[str, Any]) -> list[pa.DataType | None]:
    """The Arrow types in which these columns reach the engine; None where text and binary both go."""
    return [None if name in IDS else pa.bool_() if name in FLAGS else pa.int64() for name in found]


def _names(names: Any) -> str:
    return ", ".join(sorted(names) if isinstance(names, set) else names)
