"""Work for Spark's Python workers that says what is missing where they lack this package.

What a worker is sent names functions and classes of this package, which it imports before anything
of ours runs. So it is sent as bytes, with a function that needs nothing and opens them.
"""

from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle


class Shipped:
    """A function of this package, for a worker that may lack the package."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        """What the function answers."""
        return self._function(*arguments)

    def __reduce__(self) -> Any:
        """What travels in its stead."""
        return packed(self._function)


class Travelling:
    """An object of this package that pickles as `packed`, and so must not do so twice."""

    def __init__(self, kind: type, content: dict[str, Any]) -> None:
        self._made_of = kind, content

    def __reduce__(self) -> Any:
        """How it is made where it arrives."""
        return _made, self._made_of


def _made(kind: type, content: dict[str, Any]) -> Any:
    made: Any = object.__new__(kind)
    made.__dict__.update(content)
    return made


def iterating(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function of batches, for `mapInArrow`."""
    shipped = Shipped(function)

    def run(batches: Any) -> Any:
        yield from shipped(batches)

    return run


def packed(thing: Any) -> Any:
    """How to pickle a thing so that opening it says what is missing."""
    return _opener(), (cloudpickle.dumps(thing),)


def _opener() -> Callable[[bytes], Any]:
    # A function within a function travels as its code; one of a module travels as its name.
    def opened(content: bytes) -> Any:
        import pickle
        import platform
        import sys

        try:
            import dochistory as _  # noqa: F401
        except ModuleNotFoundError as error:
            if error.name != "dochistory":
                raise
            raise ModuleNotFoundError(
                f"[DH-SPARK] the Python of this executor ({sys.executable} on {platform.node()}) has no package "
                "dochistory: call dochistory.spark.ship(spark) before anything else, or install it there",
                name="dochistory",
            ) from None
        return pickle.loads(content)  # noqa: S301 - what the driver sent

    return opened
