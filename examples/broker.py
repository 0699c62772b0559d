"""The demo's second act: 6,046 real mails through a broker, a receiver killed five times, everything published again.

`python -m examples.broker` takes a RabbitMQ of its own if `rabbitmq-server` is installed, and
otherwise SQS, as moto serves it on this machine. It ends with a table, a picture and a check. Its
exit status is 0 only if no mail was processed twice and none was lost. Its files stay under
`out/demo-broker`.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pyarrow.parquet as pq

import dochistory as dh
from dochistory.display import VERDICTS
from dochistory.receiving import Message

mpl.use("Agg")
from matplotlib import pyplot as plt

Mail = tuple[str | None, str]
"""A Message-ID and the content's hash."""

_KILLS = 5
_LEAVES = 10  # receivers that may be needed at the end
_QUEUE = "mails"
_TRIGGER = dh.Trigger("mails", history_time_to_live="30 days")
_LABELS = {"NEW": "NEW: processed", "DUPLICATE": "DUPLICATE: dropped", "IN_DOUBT": "IN DOUBT: in the audit log"}


@dataclass
class Broker:
    """A running broker with an empty queue."""

    name: str
    settings: dict[str, Any]
    """What a receiver needs to find it."""
    publish: Callable[[Sequence[Mail]], None]
    depth: Callable[[], int]
    """How many messages are not acknowledged."""


@contextlib.contextmanager
def rabbitmq() -> Iterator[Broker]:
    """A RabbitMQ with a quorum queue."""
    import pika
    from tests.servers.rabbitmq import server

    with server() as running:

        def channel() -> Any:
            return pika.BlockingConnection(pika.URLParameters(running.url)).channel()

        def publish(mails: Sequence[Mail]) -> None:
            one = channel()
            one.confirm_delivery()
            for key, body in mails:
                # Some are longer than the property message_id may be.
                properties = pika.BasicProperties(headers={"mail": key} if key else {}, delivery_mode=2)
                one.basic_publish("", _QUEUE, body.encode(), properties)
            one.connection.close()

        def depth() -> int:
            one = channel()
            waiting: int = one.queue_declare(_QUEUE, passive=True).method.message_count
            one.connection.close()
            return waiting

        first = channel()
        first.queue_declare(_QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        first.connection.close()
        yield Broker("RabbitMQ", {"kind": "rabbitmq", "url": running.url}, publish, depth)


@contextlib.contextmanager
def sqs() -> Iterator[Broker]:
    """SQS, as moto serves it."""
    import boto3
    from tests.servers.sqs import server

    with server() as endpoint:
        yield _on_sqs(boto3.client("sqs", endpoint_url=endpoint), endpoint)


def _on_sqs(client: Any, endpoint: str) -> Broker:
    queue = client.create_queue(QueueName=_QUEUE)["QueueUrl"]

    def publish(mails: Sequence[Mail]) -> None:
        for start in range(0, len(mails), 10):
            entries: list[dict[str, Any]] = []
            for at, (key, body) in enumerate(mails[start : start + 10]):
                given = {} if not key else {"id": {"DataType": "String", "StringValue": key}}
                entries.append({"Id": str(at), "MessageBody": body, "MessageAttributes": given})
            client.send_message_batch(QueueUrl=queue, Entries=entries)

    def depth() -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = client.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)

    return Broker("SQS (moto)", {"kind": "sqs", "endpoint": endpoint, "queue": queue}, publish, depth)


def receive(settings: dict[str, Any]) -> None:
    """Receive until SIGTERM: the process that is killed."""
    effects = os.open(settings["effects"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def process(message: Message) -> None:
        time.sleep(0.0003)
        os.write(effects, f"{json.dumps(message.id)}\n".encode())

    receiver: Any
    if settings["kind"] == "rabbitmq":
        from dochistory import rabbitmq as adapter

        receiver = adapter.Receiver(
            settings["history"],
            _TRIGGER,
            _QUEUE,
            process,
            url=settings["url"],
            id=lambda delivered: delivered[1].headers.get("mail"),
        )
    else:
        import boto3

        from dochistory import sqs as queues

        receiver = queues.Receiver(
            settings["history"],
            _TRIGGER,
            settings["queue"],
            process,
            id=queues.attribute("id"),
            client=boto3.client("sqs", endpoint_url=settings["endpoint"]),
            visibility=3,
        )
    receiver.run()


class Act:
    """The receivers, one after the other, and what became of the mails by each."""

    def __init__(self, work: Path, broker: Broker) -> None:
        self.history, self._effects, self._log = work / "mails.history", work / "effects", work / "log"
        self._broker = broker
        self._before: Counter[str] = Counter()
        self.runs: list[tuple[str, Counter[str]]] = []
        """The name of each run, and its verdicts."""

    def start(self) -> subprocess.Popen[bytes]:
        """A receiver in a process of its own."""
        given = {**self._broker.settings, "history": str(self.history), "effects": str(self._effects)}
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "examples.broker", "--receive", json.dumps(given)]
            return subprocess.Popen(command, stderr=log)

    def ended(self, name: str) -> None:
        """Count what came since the last run."""
        now: Counter[str] = Counter()
        for row in dh.Statistics(self.history).counts().to_pylist():
            now[str(row["status"])] += row["count"]
        self.runs.append((name, now - self._before))
        self._before = now

    def ran(self) -> list[str | None]:
        """The ids that were processed, each time."""
        return [json.loads(line) for line in self._effects.read_text().splitlines()] if self._effects.exists() else []

    def kill_after(self, mails: int) -> None:
        """Run a receiver, and kill it once a number of mails were processed."""
        one = self.start()
        while len(self.ran()) < mails:
            if one.poll() is not None:
                raise RuntimeError(f"the receiver ended:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.01)
        one.kill()
        one.wait()
        print(f"   killed with SIGKILL after {len(self.ran()):,} mails", flush=True)
        self.ended(f"kill {len(self.runs) + 1}")

    def finish(self, name: str) -> None:
        """Run a receiver until the queue is empty, and stop it with SIGTERM.

        Right after a kill the queue looks empty, too. A receiver that was stopped before it was up,
        or that returned mails, has a successor.
        """
        for _ in range(_LEAVES):
            one = self.start()
            self._wait_until_idle()
            one.terminate()
            status = one.wait(30)
            time.sleep(0.5)
            if status not in (0, -signal.SIGTERM):
                break
            if status == 0 and not self._broker.depth():
                self.ended(name)
                return
        raise RuntimeError(f"the receiver did not leave cleanly:\n{self._log.read_text()[-2000:]}")

    def _wait_until_idle(self) -> None:
        """Wait until the queue is empty, and nothing was processed or decided for a second."""
        before = None
        while (now := (self._broker.depth(), len(self.ran()), self._log.stat().st_size)) != before or now[0]:
            before = now
            time.sleep(1)


def wrong(act: Act, mails: Sequence[Mail]) -> list[str]:
    """What is not as the rules demand."""
    ran = Counter(act.ran())
    with dh.open(act.history) as history:
        history.audit.reconcile()
        kept = history.audit.list()
        usable = {key for key, _ in mails if key and len(key) <= 96}
        in_doubt = set(kept["key"].to_pylist())
    found = [f"{key} was processed {times} times" for key, times in ran.items() if times > 1]
    found += [f"{key} is lost" for key in sorted(usable - set(ran) - in_doubt)]
    found += [f"{key} was processed, and has no usable id" for key in ran if key not in usable]
    unusable = sum(1 for key, _ in mails if key not in usable)
    rules = Counter(kept["rule"].to_pylist())
    if (there := rules["R3"] + rules["R4"]) < 2 * unusable:
        found.append(f"{there} mails without a usable id are in the audit log, of {2 * unusable} that came")
    cut = len(usable - set(ran))
    print(f"\n{len(ran):,} mails were processed, each once. {cut:,} wait for a person: a kill cut them off.")
    print(f"{unusable:,} have no id that can be remembered (R3, R4): they are in the audit log, too.")
    return found


def draw(act: Act, broker: str, path: Path) -> None:
    """Draw a bar for each run of a receiver."""
    figure, axes = plt.subplots(figsize=(9, 4), dpi=130)
    bottoms = [0] * len(act.runs)
    for status, colour in VERDICTS.items():
        counts = [verdicts[status] for _, verdicts in act.runs]
        axes.bar([name for name, _ in act.runs], counts, bottom=bottoms, color=colour, label=_LABELS[status])
        bottoms = [bottom + count for bottom, count in zip(bottoms, counts, strict=True)]
    axes.set_ylabel("deliveries")
    axes.set_title(f"{broker}: a receiver killed {_KILLS} times, and everything published again", loc="left")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight")
    plt.close(figure)


def main() -> int:
    """Play the act; the exit status."""
    parser = argparse.ArgumentParser(prog="demo-broker", description=__doc__)
    parser.add_argument("--broker", choices=["rabbitmq", "sqs"], help="RabbitMQ if it is installed, else SQS")
    parser.add_argument("--mails", type=int, default=6_046, help="how many mails; all, if absent")
    parser.add_argument("--work", type=Path, default=Path("out/demo-broker"), help="a directory to create again")
    parser.add_argument("--picture", type=Path, default=Path("out/demo-broker.png"), help="where to draw the picture")
    parser.add_argument("--receive", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        receive(json.loads(options.receive))
        return 0
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    os.environ["DOCHISTORY_STATE"] = str(options.work / "state")
    table = pq.read_table(Path(__file__).parent / "data" / "mail_2002.parquet", columns=["message_id", "sha256"])
    columns = (table[name].to_pylist()[: options.mails] for name in ("message_id", "sha256"))
    mails: list[Mail] = list(zip(*columns, strict=True))
    kind = options.broker or ("rabbitmq" if shutil.which("rabbitmq-server") else "sqs")
    started = time.monotonic()
    with rabbitmq() if kind == "rabbitmq" else sqs() as broker:
        act = Act(options.work, broker)
        print(f"1. {broker.name}: {len(mails):,} mails of 2002 are published, and a receiver starts.", flush=True)
        broker.publish(mails)
        for kill in range(_KILLS):
            act.kill_after(len(mails) * (kill + 1) // (_KILLS + 2))
        print("2. A last receiver takes the rest.", flush=True)
        act.finish("the rest")
        print("3. Everything is published again.", flush=True)
        broker.publish(mails)
        act.finish("again")
    for name, verdicts in act.runs:
        shown = ", ".join(f"{status} {verdicts[status]:,}" for status in VERDICTS if verdicts[status])
        print(f"   {name:10} {shown}")
    faults = wrong(act, mails)
    draw(act, broker.name, options.picture)
    print(f"Picture: {options.picture}    Everything the demo wrote: {options.work}")
    if faults:
        print("\nWRONG:", *faults, sep="\n  ")
        return 1
    print(f"Every figure is what the rules demand. {time.monotonic() - started:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
