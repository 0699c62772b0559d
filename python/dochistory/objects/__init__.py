"""Object storage: URLs, options, a client with the few requests that a history makes, and a check of a store.

`dochistory[objects]` brings `obstore`, which this package needs once a URL is used. Nothing here
imports it before.
"""

from dochistory.objects.client import ObjectClient, Stored
from dochistory.objects.location import SCHEMES, Location, is_url, parse
from dochistory.objects.open import open_client
from dochistory.objects.options import StorageOptions
from dochistory.objects.promises import ROUNDS, Report, check, quick_check

__all__ = [
    "ROUNDS",
    "SCHEMES",
    "Location",
    "ObjectClient",
    "Report",
    "StorageOptions",
    "Stored",
    "check",
    "is_url",
    "open_client",
    "parse",
    "quick_check",
]
