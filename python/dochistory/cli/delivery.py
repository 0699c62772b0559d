"""The command `delivery`: the streams of guaranteed delivery, and settling one that is in doubt."""

import argparse
from typing import Any

from dochistory.cli import show
from dochistory.cli.context import Add, Context
from dochistory.cli.failures import CommandError, Exit
from dochistory.cli.names import known, near
from dochistory.cli.parser import add_group

_COLUMNS = (
    "stream",
    "log_received",
    "confirm_received",
    "rereceive_count",
    "receive_count",
    "time_received",
    "log_sent",
    "log_send",
    "confirm_sent",
    "resend_count",
    "send_count",
    "time_sent",
)
"""What a person gets to see, in this order; `--json` has all."""


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    ways = add_group(
        commands,
        "delivery",
        "show the streams of guaranteed delivery, or settle one that is in doubt",
        view="status",
        examples=["dochistory delivery", "dochistory delivery settle --stream feed --log-received 4711"],
    )
    shown = add(
        ways,
        "status",
        _status,
        "show each stream under the column names of SYSREMOTEUSER",
        examples=["dochistory delivery --stream feed"],
    )
    shown.add_argument("--stream", metavar="NAME", help="this stream only; all, if absent")
    settled = add(
        ways,
        "settle",
        _settle,
        "say how far a stream was applied that a crash left in doubt",
        "Only when no receiver of it runs.",
        examples=["dochistory delivery settle --stream feed --log-received 4711"],
    )
    settled.add_argument("--stream", metavar="NAME", help="the stream")
    settled.add_argument("--log-received", metavar="OFFSET", type=_offset, help="everything up to here was applied")


def _offset(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**64:
        raise argparse.ArgumentTypeError(f"{text!r} must be a log offset, from 0 to 2**64-1")
    return int(text)


def _no_stream(context: Context, name: str, streams: list[dict[str, Any]]) -> CommandError:
    names = [one["stream"] for one in streams]
    return CommandError(f"the history {context.place} has no stream {name!r}; it has {known(names)}{near(name, names)}")


def _status(context: Context) -> Exit:
    with context.open(read_only=True) as history:
        streams = history.delivery_status().to_pylist()
    if context.options.stream is not None:
        found = [one for one in streams if one["stream"] == context.options.stream]
        if not found:
            raise _no_stream(context, context.options.stream, streams)
        streams = found
    for one in streams:
        one["in_doubt_or_applying"] = _is_open(one)
    if context.json:
        print(show.as_json({"streams": streams}))
        return Exit.DONE
    rows = [[*(one[name] for name in _COLUMNS), _open_range(one)] for one in streams]
    columns = [*_COLUMNS, "in doubt, or being applied"]
    show.listing(columns, rows, "the history has no stream of guaranteed delivery")
    return Exit.DONE


def _settle(context: Context) -> Exit:
    stream, offset = context.options.stream, context.options.log_received
    if stream is None or offset is None:
        raise CommandError("no stream or offset given: pass --stream NAME --log-received OFFSET")
    with context.open(read_only=False) as history:
        streams = history.delivery_status().to_pylist()
        if stream not in [one["stream"] for one in streams]:
            raise _no_stream(context, stream, streams)
        inbox = history.delivery(stream)
        in_doubt = inbox.in_doubt().to_pylist()
        if in_doubt:
            inbox.settle(stream, offset)
    if context.json:
        print(show.as_json({"stream": stream, "log_received": offset, "settled": bool(in_doubt)}))
    elif in_doubt:
        print(f"stream {show.cell(stream)} goes on from {offset}")
    else:
        print(f"stream {show.cell(stream)} is not in doubt; nothing was changed")
    return Exit.DONE


def _is_open(stream: dict[str, Any]) -> bool:
    return stream["log_received"] is not None and stream["applying_upto"] > stream["log_received"]


def _open_range(stream: dict[str, Any]) -> str | None:
    return f"{stream['log_received']}..{stream['applying_upto']}" if _is_open(stream) else None
