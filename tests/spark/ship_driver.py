"""What `test_ship.py` runs in a process of its own: a driver that has the package, with workers that lack it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main(package: str, history: Path) -> None:
    # Not by PYTHONPATH, which workers would inherit.
    sys.path.insert(0, package)
    import dochistory as dh
    from dochistory.spark import compat

    trigger = dh.Trigger("orders")
    with dh.open(history, create=True) as opened:
        opened.begin(dh_documents(["done"]), trigger).complete()
    spark = dh.spark.session("ship")
    df = spark.createDataFrame([("done",), ("fresh",)], "uuid string").repartition(2)
    before = {
        "udf": _failed(lambda: dh.spark.classify(df, history, trigger).collect()),
        "map": _failed(lambda: dh.spark.classify(df, history, trigger, "map").collect()),
        "claim": _failed(lambda: dh.spark.claim(df, history, trigger)),
        "load": _failed(lambda: dh.spark.load(df, history, trigger)),
        "delivery": _failed(lambda: dh.spark.delivery(history, print, application="a")(_messages(spark), 0)),
    }
    if compat.has_table_functions():
        df.createOrReplaceTempView("documents")
        dh.spark.register_table(spark, "classified", history, trigger, df.schema)
        before["table"] = _failed(lambda: spark.sql("SELECT * FROM classified(TABLE(documents))").collect())
    dh.spark.ship(spark)
    found = {how: _statuses(dh.spark.classify(df, history, trigger, how)) for how in ("udf", "map")}
    where = df.mapInArrow(_origin, "uuid string").first()
    spark.stop()
    print(json.dumps({"before": before, "origin": where.uuid if where else "", **found}))


def _failed(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whichever it is, its text is what the test looks at
        return str(error)
    return ""


def _messages(spark: Any) -> Any:
    return spark.sql("SELECT 's' AS stream, X'00' AS header")


def dh_documents(ids: list[str]) -> Any:
    import pyarrow as pa

    return pa.record_batch({"uuid": ids})


def _statuses(df: Any) -> dict[str, str]:
    return {row.uuid: row.status for row in df.collect()}


def _origin(batches: Any) -> Any:
    import pyarrow as pa

    import dochistory

    for _ in batches:
        yield pa.record_batch({"uuid": [str(dochistory.__file__)]})


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
