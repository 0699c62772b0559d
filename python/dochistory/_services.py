"""Services: a plain function or a coroutine function, and nothing whose work begins after it returned."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import dochistory as dh

P = ParamSpec("P")
T = TypeVar("T")

_PLAIN = "give it a plain function, which may call asyncio.run"


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


def plain(
    service: Callable[P, T], name: str = "the service", *, what: str | None = None, instead: str = _PLAIN
) -> Callable[P, T]:
    """The service, where nothing awaits it: each call checks that its work has ended.

    Args:
        service: what is to be called.
        name: what to call it in an error.
        what: which one it is, in an error; its own name, if absent.
        instead: what to do instead of giving a coroutine function.

    Raises:
        ConfigError: [DH-CONFIG] it is no plain function.
    """
    if is_async(service, name):
        raise dh.ConfigError(
            f"[DH-CONFIG] {name} {what or _named(service)} is a coroutine function (async def), which nothing here "
            f"awaits: {instead}"
        )

    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        returned = service(*args, **kwargs)
        check_ended(returned, name)
        return returned

    return called


def check_ended(returned: Any, name: str = "the service") -> None:
    """A service has returned: its work must have ended, for it is completed next.

    Args:
        returned: what it returned; a coroutine or generator is closed.
        name: what to call it in an error.

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
        f"[DH-CONFIG] {name} returned a {type(returned).__name__}, whose work has not ended, so it counts as "
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
