"""A process that receives from a broker: tests start it, kill it, and start it again.

`python -m tests.brokers.receiver_process '{"broker": "rabbitmq", "history": …, "effects": …, …}'`.
The service writes a line to the file of effects, in one write: what a killed process had begun is
there whole, or not at all.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import time
from typing import Any

import dochistory as dh
from dochistory.receiving import Message
from tests.support import trigger

POISON = b"poison"
"""A message that kills the process."""


class Service:
    """Writes down what it processes."""

    def __init__(self, effects: str, takes: float) -> None:
        self._file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._takes = takes

    def __call__(self, message: Message) -> None:
        if message.body == POISON:
            os._exit(77)
        if self._takes:
            time.sleep(self._takes)
        os.write(self._file, f"{message.id}\n".encode())


def receiver(settings: dict[str, Any]) -> Any:
    """The receiver of these settings."""
    service = Service(settings["effects"], settings.get("takes", 0))
    of = trigger("orders", **settings.get("trigger", {}))
    history, where, more = settings["history"], settings["where"], settings.get("more", {})
    if settings["broker"] == "rabbitmq":
        from dochistory import rabbitmq

        return rabbitmq.Receiver(history, of, where, service, **more)
    if settings["broker"] == "aio_rabbitmq":
        from dochistory import aio_rabbitmq

        async def in_loop(message: Message) -> None:
            service(message)

        return aio_rabbitmq.Receiver(history, of, where, in_loop, **more)
    if settings["broker"] == "kafka":
        from dochistory import kafka

        return kafka.Receiver(history, of, [where], service, id=kafka.header("id"), **more)
    if settings["broker"] == "kafka_share":
        from dochistory import kafka, kafka_share

        return kafka_share.Receiver(history, of, [where], service, id=kafka.header("id"), **more)
    if settings["broker"] == "stomp":
        from dochistory import stomp

        at = [tuple(one) for one in more.pop("brokers")]
        return stomp.Receiver(history, of, where, service, id=stomp.header("order"), brokers=at, **more)
    from dochistory import sqs

    return sqs.Receiver(history, of, where, service, id=sqs.attribute("id"), **more)


def main() -> None:
    """Receive until SIGTERM."""
    one = receiver(json.loads(sys.argv[1]))
    # One write: receivers share a log, and an unbuffered `print` writes each of its arguments.
    os.write(sys.stdout.fileno(), f"receiving {os.getpid()}\n".encode())
    try:
        if inspect.iscoroutinefunction(one.run):
            asyncio.run(one.run())
        else:
            one.run()
    except dh.DocHistoryError as error:
        print(error, flush=True)
        sys.exit(3)


if __name__ == "__main__":
    main()
