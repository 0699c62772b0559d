"""The Parquet files that `load` takes, some at a time: each once, and all with the same columns."""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql.types import StructType

import dochistory as dh

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Files:
    """The files below a path.

    Args:
        session: the session that reads them.
        path: a file, a directory, or a pattern.
        looked_at: the columns that `load` takes, where they are there.

    Raises:
        SchemaError: [DH-SCHEMA] files differ in the type of a column that is looked at.
    """

    def __init__(self, session: "SparkSession", path: str, looked_at: Collection[str]) -> None:
        self._session = session
        self._path = path
        whole = session.read.parquet(path)
        self.names = _names(whole)
        self._schema = self._merged(whole.schema, {name.lower() for name in looked_at})

    def _merged(self, of_one: StructType, looked_at: set[str]) -> StructType:
        """The columns of all files: Spark infers them from one, and a file need not have what others have."""
        try:
            return self._session.read.option("mergeSchema", "true").parquet(self._path).schema
        except Exception:  # noqa: BLE001 - Spark has an error type for each of its clients
            types: dict[str, tuple[str, str]] = {}
            for name in self.names:
                for field in self._session.read.parquet(_escaped(name)).schema:
                    there = field.dataType.simpleString()
                    other, where = types.setdefault(field.name, (there, name))
                    if other != there and field.name.lower() in looked_at:
                        raise dh.SchemaError(
                            f"[DH-SCHEMA] column {field.name} is {other} in {where}, and {there} in {name}: "
                            "load files of one kind each by itself"
                        ) from None
            return StructType([field for field in of_one if field.name.lower() in looked_at])

    def steps(self, files_a_step: int) -> "list[DataFrame]":
        """The files, some at a time, with the columns that only the names of their directories tell."""
        groups = [self.names[n : n + files_a_step] for n in range(0, len(self.names), files_a_step)]
        return [self._read(group) for group in groups]

    def _read(self, names: list[str]) -> "DataFrame":
        reader = self._session.read.schema(self._schema)
        if any(f"/{field.name}=" in names[0] for field in self._schema):
            reader = reader.option("basePath", self._path)
        step = reader.parquet(*map(_escaped, names))
        if _names(step) != names:
            raise dh.SchemaError(f"[DH-SCHEMA] Spark reads other files than {', '.join(names[:5])}: rename them")
        return step


def _names(frame: "DataFrame") -> list[str]:
    # Spark tells them as URLs, and takes them as paths.
    return sorted(unquote(file) for file in frame.inputFiles())


def _escaped(name: str) -> str:
    """A path that Spark takes as it is: it reads some characters as a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", name)
