"""Exceptions that the handler of a signal raises while a client of an object store is at work."""

import signal
from types import TracebackType


def is_of_handler(at: TracebackType | None) -> bool:
    """Whether the handler of a signal of this process raised what came this way."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {code for one in handlers if (code := _code_of(one)) is not None}
    while codes and at is not None:
        if at.tb_frame.f_code in codes:
            return True
        at = at.tb_next
    return False


def _code_of(handler: object) -> object:
    called = getattr(handler, "__func__", handler)  # of a method
    return getattr(called, "__code__", None)
