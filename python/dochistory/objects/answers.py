"""What a failed request says: status, the store's own code, and whether it may have had an effect.

The client of obstore hands on a text. All that is read from that text is read here.
"""

import re
from dataclasses import dataclass
from typing import Literal

Effect = Literal["none", "unknown"]

_STATUS = re.compile(r"status code: (\d{3})|\bstatus: (\d{3})")
_CODE = re.compile(r"<Code>\s*(\w+)\s*</Code>|\"(?:code|reason|error)\":\s*\"(\w+)\"")
_SAID = re.compile(
    # Behind a line break Azure has the number of the request, and the time.
    r"<Message>\s*(.*?)\s*(?:(?:\\n|\n).*?)?</Message>|\"(?:message|error_description)\":\s*\"(.*?)\"",
    re.DOTALL,
)
_DETAIL = re.compile(r"<AuthenticationErrorDetail>\s*(.*?)\s*</AuthenticationErrorDetail>", re.DOTALL)
_OF_BATCH = re.compile(r"Bulk delete request failed for key .*?: (.*?) \(code: (\d{3})\)")
"""Azure's client deletes by a request for many, even one: an answer within its answer, without a code of the store."""
_KIND = re.compile(r"\bkind: (Connect|Timeout|Interrupted|Decode|Request|Unknown)\b")
_SYSTEM = re.compile(r"message: \"([^\"]+)\"|error: \"([^\"]+)\"")

_CONFLICT = 409
"""The status of a request in whose way another one was. It tells nothing of what is stored: the other
may have failed, too, and this may be the second copy of a request that was stored."""
_EXISTS = "BlobAlreadyExists"
"""The code by which Azure says, with that status, that a name is in use; others say it by a condition."""
_AGAIN = {"RequestTimeout", "SlowDown", "InternalError", "NoSuchUpload"}
"""Codes of requests that may work later. An upload is gone, too, where it was completed without an answer."""
_MISSING = {"NoSuchKey", "BlobNotFound", "notFound"}
"""Codes by which a store says that an object is not there."""
_LATER = {408, 425, 429}
"""Statuses of requests that may work later, and had no effect."""
_NEVER = 501
"""The status of a request that the store does not know."""
REPEATED = "Repeated"
"""The kind of a list that has no end."""


@dataclass(frozen=True)
class Answer:
    """A failed request, as far as its text tells."""

    status: int | None
    """The status of the answer; None without one."""
    code: str
    """The store's own code, such as `NoSuchBucket`; may be empty."""
    said: str
    """The store's or the system's own words; may be empty."""
    kind: str
    """Where a request without an answer failed: `Connect`, `Timeout`, …; may be empty."""
    text: str
    """The first line of all that is known."""
    is_missing: bool
    is_refused: bool
    """Whether the name was in use, or another condition failed."""
    detail: str = ""
    """What Azure adds about credentials that it refuses; may be empty."""

    @property
    def effect(self) -> Effect:
        """Whether the request can have changed something."""
        if self.status is None:
            return "none" if self.kind == "Connect" or self.is_redirect or "builder error" in self.text else "unknown"
        is_conflict = self.status == _CONFLICT and not self.is_refused
        is_unknown = self.is_fault or is_conflict or self.code in _AGAIN - {"SlowDown"}
        return "unknown" if is_unknown else "none"

    @property
    def is_fault(self) -> bool:
        """Whether the store, or something on the way to it, has failed."""
        return self.status is not None and self.status >= 500 and self.status != _NEVER

    @property
    def is_refusal(self) -> bool:
        """Whether the store did not want to answer: mostly the client's credentials are not good."""
        return self.status in (400, 401, 403)

    @property
    def is_redirect(self) -> bool:
        """Whether the store sends the client elsewhere, and does not say where: S3, if the region is wrong."""
        return self.status in (301, 307) or "redirect without LOCATION" in self.text

    @property
    def is_beyond(self) -> bool:
        """Whether a range was asked for that begins where the object ends, or behind."""
        return self.status == 416 or "Requested range was invalid" in self.text

    @property
    def may_pass(self) -> bool:
        """Whether the same request may work later."""
        if self.status is None:
            return bool(self.kind) and "dns error" not in self.text and "builder error" not in self.text
        if self.is_fault or self.status in _LATER or self.code in _AGAIN:
            return True
        return self.status == _CONFLICT and not self.is_refused


def read(error: Exception) -> Answer:
    """What the error of a request says."""
    text = str(error)
    of_batch = _OF_BATCH.search(text)
    status = of_batch[2] if of_batch else _first(_STATUS, text)
    code = _first(_CODE, text)
    name = type(error).__name__
    number = int(status) if status else None
    # obstore takes every conflict for a name that is in use.
    refused = name in ("AlreadyExistsError", "PreconditionError") and (number != _CONFLICT or code == _EXISTS)
    first = text.split("\n\nDebug source")[0]
    return Answer(
        status=number,
        code=code,
        said=" ".join(
            (_first(_OF_BATCH, text) or _first(_SAID, text) or _first(_SYSTEM, text)).replace("\\n", " ").split()
        ),
        kind=_first(_KIND, text),
        text=" ".join(first.split()) if "dns error" not in text else f"dns error: {first}",
        # Gateways answer 404 for keys, users and addresses that they do not know, too.
        is_missing=isinstance(error, FileNotFoundError) and (not status or code in _MISSING or of_batch is not None),
        is_refused=refused,
        detail=" ".join(_first(_DETAIL, text).split()),
    )


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return next((group for group in found.groups() if group), "") if found else ""
