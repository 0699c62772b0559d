"""The arguments that both receivers of RabbitMQ share."""

from typing import Any
from urllib.parse import urlsplit

import dochistory as dh
from dochistory import _checks

_MOST = 65_535
"""The largest prefetch: AMQP has 16 bits for it. 0 would be no limit."""


def check(url: Any, prefetch: Any) -> None:
    """Refuse what no connection can be made with.

    Args:
        url: where the broker is; only text is looked at.
        prefetch: the maximum number of deliveries without an acknowledgement.

    Raises:
        ConfigError: [DH-CONFIG] it is not an AMQP URL, or not a number from 1 to 65,535.
    """
    _checks.count("prefetch", prefetch, most=_MOST)
    if not isinstance(url, str):
        return
    try:
        parts = urlsplit(url)
        is_amqp = parts.scheme in ("amqp", "amqps") and (parts.port or 1) > 0
    except ValueError:  # the port is no number
        is_amqp = False
    if not is_amqp:
        # Not the URL itself: it may hold a password.
        raise dh.ConfigError(
            "[DH-CONFIG] url is not an AMQP URL; allowed is such as amqp://user:password@host:5672/vhost"
        )
