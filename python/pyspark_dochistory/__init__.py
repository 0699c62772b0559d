"""Tells Spark of the data source `dochistory`.

Spark imports every package whose name begins with `pyspark_`, in a process of its own, to see what
data sources there are. So this one imports nothing but what Spark has imported already;
`dochistory.spark` has the rest.
"""

from typing import Any

try:
    from pyspark.sql.datasource import DataSource
except ImportError as error:
    from dochistory.spark import compat

    raise compat.needs('the format "dochistory"', "4.0") from error
from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """The format `dochistory`: `dochistory.spark.source` reads it, `dochistory.spark.sink` writes it."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "dochistory"

    def schema(self) -> str:
        """The columns of the table that the options ask for."""
        from dochistory.spark import source

        return source.schema(self.options)

    def reader(self, schema: StructType) -> Any:
        """Reads that table."""
        from dochistory.spark import source

        return source.Reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Records the documents of a DataFrame."""
        from dochistory.spark import sink

        return sink.writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002, N802 - Spark's words
        """Records the documents of a stream. Every mode of output adds: nothing is ever taken back."""
        from dochistory.spark import sink

        return sink.stream_writer(self.options, schema)
