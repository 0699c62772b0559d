"""Services: a plain function or a coroutine function, and nothing whose work begins after it returned."""

import functools
import inspect
from typing import Any

import dochistory as dh


def is_async(service: object, name: str = "the service") -> bool:
    """Whether a call answers a coroutine; of partials and of objects, too.

    Args:
        service: what is to be called.
        name: what to call it in an error.

    Returns:
        bool: whether its calls are to be awaited.

    Raises:
        ConfigError: [DH-CONFIG] it cannot be called, or is a generator function.
    """
    if not callable(service):
        raise dh.ConfigError(f"[DH-CONFIG] {name} is {service!r}; allowed is a function")
    called = _called(service)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise dh.ConfigError(
            f"[DH-CONFIG] {name} {_named(service)} is a generator function (it has a yield): calling it runs nothing, "
            "and its documents would be completed before their work; let it return when the work is done"
        )
    return inspect.iscoroutinefunction(called)


def check_plain(service: object) -> None:
    """A service of a receiver that awaits nothing.

    Args:
        service: what is to be called.

    Raises:
        ConfigError: [DH-CONFIG] it is no plain function.
    """
    if is_async(service):
        raise dh.ConfigError(
            f"[DH-CONFIG] the service {_named(service)} is a coroutine function (async def), which this receiver does "
            "not await: give it a plain function, or receive RabbitMQ's messages with dochistory.aio_rabbitmq"
        )


def check_ended(returned: Any) -> None:
    """A service has returned: its work must have ended, for it is completed next.

    Args:
        returned: what it returned; a coroutine or generator is closed.

    Raises:
        ConfigError: [DH-CONFIG] it is an awaitable or a generator, whose work has not ended.
    """
    if returned is None or not (
        inspect.isawaitable(returned) or inspect.isgenerator(returned) or inspect.isasyncgen(returned)
    ):
        return
    if inspect.iscoroutine(returned) or inspect.isgenerator(returned):
        returned.close()
    raise dh.ConfigError(
        f"[DH-CONFIG] the service returned a {type(returned).__name__}, whose work has not ended, so it counts as "
        "failed: let it return when the work is done; where coroutines are allowed, give the async def itself, and "
        "await what it calls"
    )


def check_awaitable(returned: object) -> None:
    """A service of coroutines was called.

    Args:
        returned: what the call answered.

    Raises:
        ConfigError: [DH-CONFIG] it cannot be awaited.
    """
    if not inspect.isawaitable(returned):
        raise dh.ConfigError(
            f"[DH-CONFIG] the service returned a {type(returned).__name__}, which cannot be awaited, so it counts as "
            "failed: give an async def; dochistory.rabbitmq takes plain functions"
        )


def _called(service: Any) -> Any:
    """The function that a call runs."""
    while isinstance(service, functools.partial):
        service = service.func
    return service if inspect.isroutine(service) or inspect.isclass(service) else type(service).__call__


def _named(service: Any) -> str:
    while isinstance(service, functools.partial):
        service = service.func
    return str(getattr(service, "__qualname__", type(service).__qualname__))
