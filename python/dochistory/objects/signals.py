"""Exceptions that the handler of a signal raises while a client of an object store is at work."""

import signal
from types import TracebackType


def is_of_handler(error: BaseException) -> bool:
    """Whether the handler of a signal of this process raised this."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {code for one in handlers if (code := _code_of(one)) is not None}
    at: TracebackType | None = error.__traceback__
    while codes and at is not None:
        if at.tb_frame.f_code in codes:
            return True
        at = at.tb_next
    return False


def _code_of(handler: object) -> object:
    called = getattr(handler, "__func__", handler)  # of a method
    return getattr(called, "__code__", None)
