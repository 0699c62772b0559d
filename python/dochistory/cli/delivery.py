"""The command `delivery`: the streams of guaranteed delivery, and settling one that is in doubt."""

from typing import Any

from dochistory.cli import show
from dochistory.cli.context import Context
from dochistory.cli.failures import CommandError, Exit

ACTIONS = ("status", "settle")

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


def delivery(context: Context) -> Exit:
    """Show streams, or settle one."""
    return _settle(context) if context.options.action == "settle" else _status(context)


def _status(context: Context) -> Exit:
    with context.open(read_only=True) as history:
        streams = history.delivery_status().to_pylist()
    if context.options.stream is not None:
        streams = [one for one in streams if one["stream"] == context.options.stream]
        if not streams:
            raise CommandError(f"the history {context.history_path} has no stream {context.options.stream!r}")
    for one in streams:
        one["in_doubt_or_applying"] = _is_open(one)
    if context.json:
        print(show.as_json({"streams": streams}))
        return Exit.DONE
    rows = [[*(one[name] for name in _COLUMNS), _open_range(one)] for one in streams]
    show.table("", [*_COLUMNS, "in doubt, or being applied"], rows)
    return Exit.DONE


def _settle(context: Context) -> Exit:
    stream, offset = context.options.stream, context.options.log_received
    if stream is None or offset is None:
        raise CommandError("no stream or offset given: pass --stream NAME --log-received OFFSET")
    with context.open(read_only=False) as history:
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
