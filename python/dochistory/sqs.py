"""Amazon SQS: receives a queue's messages, each processed once. Needs boto3 (`pip install dochistory[sqs]`).

```python
from dochistory import sqs

sqs.Receiver("orders.history", trigger, "https://sqs…/orders", ship, id=sqs.attribute("id")).run()
```

`docs/sqs.md` says which id, which acknowledgement, and what happens on failure.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import boto3
import botocore.config
import botocore.exceptions

import dochistory as dh
from dochistory import _durations
from dochistory._adapter import Adapter, most_held
from dochistory._message_ids import Ids
from dochistory.brokers import single
from dochistory.once import OnError
from dochistory.receiving import LOGGER, Message, Service, Settled, Settlement

__all__ = ["Message", "Receiver", "attribute", "deduplication_id"]

_MOST = 10
"""The maximum number of messages of one call, by SQS."""

_LONGEST = 43_200
"""The maximum visibility in seconds, by SQS."""

_AGAIN = 5.0
"""After how many seconds a dead letter is sent again that its queue did not take."""

_PATIENCE = botocore.config.Config(connect_timeout=5, read_timeout=5, retries={"total_max_attempts": 1})
"""A receive waits for a second, and the receiver tries again by itself: boto3 waits for minutes, even at the end."""

_ERRORS = (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError)
_MISTAKES = (
    botocore.exceptions.ParamValidationError,
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.NoRegionError,
    botocore.exceptions.EndpointConnectionError,
)
_BUSY = (408, 429)
"""Statuses of a refusal that ends by itself."""


class _CallFailed(botocore.exceptions.BotoCoreError):  # type: ignore[misc]
    """A call failed outside of boto3."""

    fmt = "{why}"


Received = Mapping[str, Any]
"""A message as boto3 returns it."""


def attribute(name: str) -> Callable[[Received], object]:
    """The id is in a message attribute, which the sender sets: the same after a redelivery and after a resend.

    Args:
        name: the attribute's name.

    Returns:
        callable: for `Receiver(id=…)`.
    """

    def of(received: Received) -> object:
        found = received.get("MessageAttributes", {}).get(name, {})
        return found.get("StringValue")

    return of


def deduplication_id(received: Received) -> object:
    """The id is a FIFO queue's `MessageDeduplicationId`: the same after a redelivery and after a resend.

    Args:
        received: a message as boto3 returns it.

    Returns:
        str: the id; None in a queue that is not FIFO.
    """
    return received.get("Attributes", {}).get("MessageDeduplicationId")


class Receiver(Adapter):
    """Receives the messages of a queue, processes each once, and deletes it.

    Args:
        history: the directory of the history, or the URL of its bucket.
        trigger: whose messages they are; used as `serial`, unless `in_batch` is set.
        queue: the queue's URL.
        service: a plain function, called with each `Message` that is NEW.
        id: called with the message as boto3 returns it; answers its id: `attribute(name)`,
            `deduplication_id`, or your own. There is no default: a resend gets a new `MessageId`.
        client: a client of boto3 for SQS; if absent, `boto3.client("sqs")` that waits 5 s for an
            answer.
        visibility: how long a message stays invisible to others, in seconds or as a duration ("5
            minutes"); up to 12 hours. It is prolonged as long as the message is held here.
        most: the maximum number of messages that are held. If absent, 100; 10 where the trigger
            limits the count: what goes back at a stop counts as a delivery.
        dead_letter_queue: the URL of the queue for dead letters, standard or FIFO. Without it they
            become visible again, and the queue's own redrive policy moves them.
        on_error: what becomes of a message whose service raises.
        claim_ahead: claim as many messages as are likely to be processed in this time, in seconds
            or as a duration ("1 s").
        **settings: further settings of `Consumer`; for a bucket `storage_options`, `cache`.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense.
    """

    def __init__(
        self,
        history: str | os.PathLike[str],
        trigger: dh.Trigger,
        queue: str,
        service: Service,
        *,
        id: Callable[[Received], object],  # noqa: A002 - what everybody calls it
        client: Any = None,
        visibility: float | str | timedelta = 60,
        most: int | None = None,
        dead_letter_queue: str | None = None,
        on_error: OnError = "in_doubt",
        claim_ahead: float | str | timedelta = 0.05,
        **settings: Any,
    ) -> None:
        invisible = _durations.seconds("visibility", visibility, least=1)
        if invisible != int(invisible) or invisible > _LONGEST:
            raise dh.ConfigError(
                f"[DH-CONFIG] visibility is {visibility!r}; allowed are whole seconds from 1 to {_LONGEST}"
            )
        held = most_held("most", most, trigger, 100)
        super().__init__(
            history, trigger, service, on_error=on_error, claim_ahead=claim_ahead, most=held, settings=settings
        )
        self.queue = queue
        self._ids = Ids(id, lambda received: str(received.get("MessageId")))
        self._client = boto3.client("sqs", config=_PATIENCE) if client is None else client
        self._visibility = int(invisible)
        self._most = held
        self._dead_letters = dead_letter_queue
        self._lock = threading.Lock()
        self._held: dict[str, float] = {}  # receipt handle -> until when it is invisible
        self._to_settle: list[tuple[Message, Settlement]] = []
        self._unsent: list[Message] = []  # dead letters that their queue did not take
        self._send_again_at = 0.0
        self._threads: list[threading.Thread] = []
        self._is_over = threading.Event()

    def _receive(self) -> None:
        # Receiving waits for messages; what keeps others from getting them must not wait for that.
        keeper = threading.Thread(target=self._keep, name="dochistory-sqs", daemon=True)
        keeper.start()
        self._threads.append(keeper)
        try:
            self._receive_some()
        except _ERRORS as error:
            if _is_mistake(error):
                raise
            logging.getLogger(LOGGER).warning("%s: %s", self.queue, error)
        while not self.is_stopping:
            self._reconnecting(self._receive_some, _ERRORS, self.queue)

    def _receive_some(self) -> None:
        room = min(_MOST, self._most - len(self._held))
        if room < 1:
            self._worker.stopping.wait(0.02)
            return
        start = time.monotonic()
        answer = self._call(
            "receive_message",
            QueueUrl=self.queue,
            MaxNumberOfMessages=room,
            WaitTimeSeconds=1,
            VisibilityTimeout=self._visibility,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        arrived = []
        for received in answer.get("Messages", ()):
            found, damage = self._ids.of(received)
            count = single.sqs(received.get("Attributes", {}).get("ApproximateReceiveCount"))
            body, handle = received.get("Body", "").encode(), received["ReceiptHandle"]
            arrived.append(Message(found, body, count, received, handle, damage))
            with self._lock:
                self._held[handle] = start + self._visibility
        if arrived:
            self._worker.put(arrived)

    def _call(self, name: str, **arguments: Any) -> Any:
        """Call the queue; what fails in the client is one of `_ERRORS`."""
        try:
            return getattr(self._client, name)(**arguments)
        except _ERRORS:
            raise
        except Exception as error:
            # The source of the credentials has errors of its own; expired ones are a RuntimeError.
            raise _CallFailed(why=f"{name}: {type(error).__name__}: {error}") from error

    def _keep(self) -> None:
        """Tell the queue what was settled, and prolong what is held."""
        try:
            self._keep_on()
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self._worker.fail(error)

    def _keep_on(self) -> None:
        due = time.monotonic() + self._visibility / 3
        while not self._is_over.wait(0.02):
            self._flush()
            if time.monotonic() >= due:
                due = time.monotonic() + self._visibility / 3
                self._prolong()

    def _prolong(self) -> None:
        with self._lock:
            handles = [*self._held]
        for some in _tens(handles):
            now = time.monotonic()
            failed = self._change(some, self._visibility)
            with self._lock:
                for handle in some:
                    if handle in self._held and handle not in failed:
                        self._held[handle] = now + self._visibility

    def _change(self, handles: Sequence[str], seconds: int) -> set[str]:
        """Change how long messages are invisible; answers those for which that failed."""
        entries = [
            {"Id": str(at), "ReceiptHandle": handle, "VisibilityTimeout": seconds} for at, handle in enumerate(handles)
        ]
        try:
            answer = self._call("change_message_visibility_batch", QueueUrl=self.queue, Entries=entries)
        except _ERRORS as error:
            logging.getLogger(LOGGER).warning("%s: %s", self.queue, error)
            return set(handles)
        return {handles[int(one["Id"])] for one in answer.get("Failed", ())}

    def _settle(self, settled: Settled) -> None:
        with self._lock:
            self._to_settle.extend(settled)

    def _flush(self) -> None:
        with self._lock:
            settled, self._to_settle = self._to_settle, []
        deleted = [message.tag for message, how in settled if how is Settlement.ACKNOWLEDGE]
        returned = [message.tag for message, how in settled if how is Settlement.RETURN]
        letters = [message for message, how in settled if how is Settlement.DEAD_LETTER]
        if self._dead_letters is None:
            returned += [message.tag for message in letters]
        else:
            deleted += self._send_dead_letters(self._dead_letters, letters)
        for some in _tens(deleted):
            self._delete(some)
        for some in _tens(returned):
            self._change(some, 0)
        with self._lock:
            for handle in deleted + returned:
                self._held.pop(handle, None)

    def _delete(self, handles: Sequence[str]) -> None:
        entries = [{"Id": str(at), "ReceiptHandle": handle} for at, handle in enumerate(handles)]
        try:
            self._call("delete_message_batch", QueueUrl=self.queue, Entries=entries)
        except _ERRORS as error:  # they come again, and are duplicates
            logging.getLogger(LOGGER).warning("%s: %s", self.queue, error)

    def _send_dead_letters(self, queue: str, letters: Sequence[Message]) -> list[str]:
        """Send these, and those that were not taken before if it is time; answers what may be deleted.

        A letter that is not taken stays here, invisible: returned, it would only run again.
        """
        if time.monotonic() >= self._send_again_at:
            letters, self._unsent = [*self._unsent, *letters], []
        sent = []
        for message in letters:
            try:
                self._call("send_message", QueueUrl=queue, **_letter(message, queue))
            except _ERRORS as error:
                log = logging.getLogger(LOGGER)
                log.warning("%s: a dead letter is not taken, and sent again in %.0f s: %s", queue, _AGAIN, error)
                self._unsent.append(message)
                self._send_again_at = time.monotonic() + _AGAIN
            else:
                sent.append(message.tag)
        return sent

    def _is_current(self, message: Message) -> bool:
        return self._held.get(message.tag, 0.0) > time.monotonic()

    def _keep_alive(self) -> None:
        time.sleep(0.02)

    def _leave(self, left: Sequence[Message]) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        self._flush()
        self._settle([(message, Settlement.RETURN) for message in [*left, *self._unsent]])
        self._flush()


def _is_mistake(error: Exception) -> bool:
    """Whether it would only fail again: no such queue, no right to read it, no endpoint."""
    if isinstance(error, botocore.exceptions.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = error.response.get("Error", {}).get("Code", "")
        is_busy = status in _BUSY or "Throttl" in code or code.endswith("OverLimit")
        return 400 <= status < 500 and not is_busy
    return isinstance(error, _MISTAKES)


def _letter(message: Message, queue: str) -> dict[str, Any]:
    """A message as its dead letter is sent: a FIFO queue wants a group and an id, others keep none."""
    given = {
        name: {key: value for key, value in one.items() if key in ("DataType", "StringValue", "BinaryValue")}
        for name, one in message.raw.get("MessageAttributes", {}).items()
    }
    letter: dict[str, Any] = {"MessageBody": message.raw["Body"], "MessageAttributes": given}
    own = message.raw.get("Attributes", {})
    deduplication = own.get("MessageDeduplicationId")
    if queue.endswith(".fifo"):
        letter["MessageGroupId"] = own.get("MessageGroupId", "dead-letters")
        letter["MessageDeduplicationId"] = deduplication or message.raw["MessageId"]
    elif deduplication is not None and len(given) < _MOST:  # of attributes SQS allows as many
        given["MessageDeduplicationId"] = {"DataType": "String", "StringValue": deduplication}
    return letter


def _tens(handles: Sequence[str]) -> Iterator[Sequence[str]]:
    return (handles[at : at + _MOST] for at in range(0, len(handles), _MOST))
