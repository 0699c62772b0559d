"""What every entrance asks before Spark plans or runs anything: a DataFrame, a session, columns that suit a trigger."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructType,
)

import dochistory as dh
from dochistory import _checks
from dochistory.spark.settings import FLAGS, IDS, columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dochistory import Trigger

_IDS = (StringType, BinaryType, NullType)
_COUNTS = (ByteType, ShortType, IntegerType, LongType, NullType)
_FLAGS = (BooleanType, NullType)


def frame(name: str, given: Any) -> None:
    """Refuse anything but a DataFrame of Spark.

    Args:
        name: the name of the argument.
        given: the value.

    Raises:
        ConfigError: [DH-CONFIG] it is something else, such as a DataFrame of pandas.
    """
    # Spark Connect's is of another class, which needs packages of its own.
    if not hasattr(given, "sparkSession"):
        raise dh.ConfigError(
            f"[DH-CONFIG] {name} is a {_kind(given)}; needed is a DataFrame of Spark, as spark.createDataFrame makes it"
        )


def session(given: Any) -> None:
    """Refuse anything but a session of Spark.

    Raises:
        ConfigError: [DH-CONFIG] it is something else.
    """
    if not hasattr(given, "createDataFrame"):
        raise dh.ConfigError(f"[DH-CONFIG] spark is a {_kind(given)}; needed is a SparkSession")


def _kind(given: Any) -> str:
    """`list`, `pandas.DataFrame`: a value itself may be long."""
    package = type(given).__module__.partition(".")[0]
    return type(given).__name__ if package == "builtins" else f"{package}.{type(given).__name__}"


def columns(trigger: "Trigger", schema: StructType, renamed: Mapping[str, str] | None) -> dict[str, str]:
    """Which columns the trigger looks at: its own name of the column -> the name it has in the schema.

    Args:
        trigger: the trigger.
        schema: the columns that there are.
        renamed: the trigger's name of a column -> the name it has in the schema, where they differ.

    Raises:
        ConfigError: [DH-CONFIG] `trigger` is none, `schema` is none, or `renamed` is no mapping.
        SchemaError: [DH-SCHEMA] a column is missing, is there twice, or is of a type that cannot
            hold what it is to hold.
    """
    _checks.trigger(trigger)
    _checks.columns(renamed)
    if not isinstance(schema, StructType):
        raise dh.ConfigError(f"[DH-CONFIG] schema is a {_kind(schema)}; needed is a StructType, such as df.schema")
    found = columns_of(trigger, schema.names, renamed)
    for name, there in found.items():
        if schema.names.count(there) > 1:
            raise dh.SchemaError(f"[DH-SCHEMA] there are several columns {there!r}: rename all but one")
        _check_type(name, there, schema[there].dataType)
    return found


def are_free(frame: "DataFrame", names: Sequence[str]) -> None:
    """Refuse a DataFrame that has one of the columns that are to be added.

    Args:
        frame: the DataFrame.
        names: the columns to add.

    Raises:
        SchemaError: [DH-SCHEMA] it has, as Spark compares names.
    """
    if taken := _taken(frame, names):
        raise dh.SchemaError(f"[DH-SCHEMA] the column {', '.join(taken)} exists already: rename it or pass a prefix")


def names_differ(frame: "DataFrame") -> None:
    """Refuse a DataFrame two of whose columns Spark cannot tell from each other by name.

    Raises:
        SchemaError: [DH-SCHEMA] there are such, as Spark compares names.
    """
    is_exact = frame.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
    seen: dict[str, str] = {}
    for name in frame.columns:
        folded = name if is_exact else name.lower()
        if folded in seen:
            both = f"{seen[folded]!r} and {name!r}"
            raise dh.SchemaError(
                f"[DH-SCHEMA] Spark cannot tell the columns {both} from each other: rename or drop one"
            )
        seen[folded] = name


def free_prefix(frame: "DataFrame", names: Sequence[str]) -> str:
    """What to put before names of columns so that a DataFrame has none of them: nothing, or `verdict_`."""
    prefix = ""
    while _taken(frame, [prefix + name for name in names]):
        prefix += "verdict_"
    return prefix


def _taken(frame: "DataFrame", names: Sequence[str]) -> list[str]:
    """The columns that it has under one of these names."""
    if frame.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true":
        return [name for name in frame.columns if name in names]
    wanted = {name.lower() for name in names}
    return [name for name in frame.columns if name.lower() in wanted]


def _check_type(name: str, there: str, found: DataType) -> None:
    allowed: tuple[type[DataType], ...]
    if name in IDS:
        allowed, words = _IDS, "string, or UUIDs as 16 bytes of binary: cast it"
    elif name in FLAGS:
        allowed, words = _FLAGS, "boolean: cast it"
    else:
        allowed, words = _COUNTS, "tinyint, smallint, int or bigint: cast it"
    if not isinstance(found, allowed):
        called = "" if name == there else f" (the trigger's {name})"
        raise dh.SchemaError(f"[DH-SCHEMA] column {there!r}{called} is {found.simpleString()}; allowed is {words}")
