"""dochistory itself, through its public Python API."""

from typing import Any

import numpy as np
import pyarrow as pa

import dochistory as dh
from benches.peers.base import Peer
from benches.stores import TRIGGER, fill
from benches.workload import COMPLETED, PROCESSING, Bytes

CODES = {"NEW": 0, "DUPLICATE": COMPLETED, "IN_DOUBT": PROCESSING}


class Own(Peer):
    """All six columns, exact look-ups and the in-batch check included."""

    note = "six columns, one thread"
    takes_threads = True
    history: dh.History

    @staticmethod
    def version() -> str:
        return str(dh.__version__)

    def build(self) -> None:
        fill(self.directory / "history", self.workload)

    def open(self) -> None:
        self.history = dh.open(self.directory / "history")

    def close(self) -> None:
        self.history.close()

    def classify(self, documents: pa.RecordBatch) -> Any:
        return self.history.classify(documents, TRIGGER, threads=self.threads)

    def classify_as_bytes(self, documents: pa.RecordBatch) -> Any:
        return self.history.classify_codes(documents, TRIGGER)

    def codes(self, answer: Any) -> Bytes:
        status = answer.column("status")
        by_index = np.array([CODES[value] for value in status.dictionary.to_pylist()], dtype=np.uint8)
        found: Bytes = by_index[status.indices.to_numpy()]
        return found

    def begin(self, documents: pa.RecordBatch) -> Any:
        return self.history.begin(documents, TRIGGER, now=self.workload.now, threads=self.threads)

    def complete(self, begun: Any) -> None:
        begun.complete()

    def purge(self, day: int) -> None:
        self.history.purge(TRIGGER, now=self.workload.day(day) + TRIGGER.history_time_to_live)


PEERS = {"dochistory": Own}
