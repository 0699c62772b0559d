"""moto, whose create-if-absent looks first and writes then, so that two may win. Here one comes at a time."""

import threading
from functools import wraps
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

_CREATES = threading.Lock()


def _one_at_a_time(put: Any) -> Any:
    @wraps(put)
    def alone(*given: Any, **named: Any) -> Any:
        with _CREATES:
            return put(*given, **named)

    return alone


if __name__ == "__main__":
    setattr(S3Response, "put_object", _one_at_a_time(S3Response.put_object))  # noqa: B010
    main()
