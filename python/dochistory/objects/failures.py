"""Failed requests as sentences: what is wrong, where, and what to do. Each begins with a stable code."""

from collections.abc import Callable
from dataclasses import dataclass

import dochistory as dh
from dochistory.objects import answers
from dochistory.objects.answers import Answer
from dochistory.objects.location import Location
from dochistory.objects.options import StorageOptions

_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired", "AuthenticationExpired"}
_NOT_KNOWN = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidSecurity", "AuthenticationFailed"}
_NOT_KNOWN |= {
    "NoAuthenticationInformation",
    "InvalidAuthenticationInfo",
    "MissingSecurityHeader",
    "AuthorizationFailure",
    "XAdminUserNotFound",
    # Of servers that give tokens (RFC 6749).
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "unauthorized_client",
}
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "InvalidBucketName", "InvalidResourceName"}
_REGION = {
    "PermanentRedirect",
    "TemporaryRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
}
_CLOCK = {"RequestTimeTooSkewed", "RequestInTheFuture"}
_CLOCK_SAID = ("date header", "reasonable timeframe")
"""Words of Azure, and of Google's server of tokens, about a time that is this machine's."""
_EXPIRED_SAID = ("not valid in the specified time frame", "expiry time", "token is expired")
"""Words of Azure about a SAS or a token, for which it has no code of their own."""


def error(operation: str, location: Location, options: StorageOptions, answer: Answer) -> dh.ObjectStoreError:
    """The exception of a request that failed.

    Args:
        operation: what was tried, as a verb and its object: `put commit-7`.
        location: where.
        options: the options, whose secrets no sentence may hold.
        answer: what came back.
    """
    reason, code = explained(answer)
    sentence = f"[{code}] cannot {operation} at {location.url}: {reason}"
    return dh.ObjectStoreError(options.redacted(sentence))


def explained(answer: Answer) -> tuple[str, str]:
    """The reason with what to do about it, and its code."""
    for known in _KNOWN:
        if known.applies(answer):
            return f"{known.reason} ({_said(answer)}): {known.advice}", known.code
    if answer.effect == "none":
        return f"{_said(answer)}; nothing was changed", "DH-OBJECTS"
    return f"{_said(answer)}; the request may have had an effect, and nothing was acknowledged: try again", "DH-OBJECTS"


def may_be_stale(answer: Answer) -> bool:
    """Whether new credentials may help. A 401 does not tell what is wrong with a token; it may be its age."""
    return _is_expired(answer) or answer.status == 401


def _is_expired(answer: Answer) -> bool:
    return answer.code in _EXPIRED or _has(answer.detail, _EXPIRED_SAID)


def _is_of_clock(answer: Answer) -> bool:
    return answer.code in _CLOCK or _has(answer.detail, _CLOCK_SAID) or _has(answer.said, _CLOCK_SAID)


def _has(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text.lower() for word in words)


def _is_outside(answer: Answer) -> bool:
    # Azurite has the same code for a wrong key, with other words.
    return answer.code == "AuthorizationFailure" and "not authorized to perform this operation" in answer.said


def _said(answer: Answer) -> str:
    if answer.status is None:
        return answer.said or answer.text
    # Other details are of signatures.
    detail = answer.detail if _has(answer.detail, _EXPIRED_SAID + _CLOCK_SAID) else ""
    words = ": ".join(part for part in (answer.code, answer.said, detail) if part)
    return f"the store answers {answer.status}" + (f" ({words})" if words else "")


def _of_metadata_server(answer: Answer) -> bool:
    return any(place in answer.text for place in ("169.254.169.254", "169.254.170.2", "metadata.google.internal"))


def _no_credentials(answer: Answer) -> bool:
    has_no_secret = answer.status is None and "Missing" in answer.text.split(":")[-1]
    return _of_metadata_server(answer) or has_no_secret


def _is_plain_http(answer: Answer) -> bool:
    return "BadScheme" in answer.text or "builder error" in answer.text


def _no_object_store(answer: Answer) -> bool:
    return answer.status in (400, 404, 405, 501) and not answer.code and not answer.is_missing


@dataclass(frozen=True)
class _Known:
    """A kind of failure, and what to do about it."""

    code: str
    applies: Callable[[Answer], bool]
    reason: str
    advice: str


_KNOWN = (
    _Known(
        "DH-CLOCK",
        _is_of_clock,
        "this machine's clock and the store's are too far apart",
        "set this machine's clock (NTP), and try again",
    ),
    _Known(
        "DH-CREDENTIALS",
        _is_expired,
        "the credentials have expired",
        "renew them, or use some that renew themselves: an instance role, a profile, or a credential_provider",
    ),
    _Known(
        "DH-CREDENTIALS",
        _no_credentials,
        "there are no credentials",
        "set them in the environment or in storage_options, or give this machine a role",
    ),
    _Known(
        "DH-FORBIDDEN",
        _is_outside,
        "the storage account does not let this machine in",
        "allow its network in the account's firewall (Networking), or use a private endpoint",
    ),
    _Known(
        "DH-CREDENTIALS",
        lambda answer: answer.code in _NOT_KNOWN or answer.status == 401,
        "the store does not accept the credentials",
        "check key, secret and token in storage_options or the environment",
    ),
    _Known(
        "DH-BUCKET",
        lambda answer: answer.code in _NO_BUCKET,
        "there is no such bucket or container",
        "create it, or correct the URL; a history never creates one",
    ),
    _Known(
        "DH-REGION",
        lambda answer: answer.code in _REGION or answer.is_redirect,
        "the bucket is in another region than the one that was asked",
        "set aws_region to the region of the bucket",
    ),
    _Known(
        "DH-FORBIDDEN",
        lambda answer: answer.status == 403,
        "the store does not allow that",
        "allow to get, put, delete and list below this URL; without the right to list (s3:ListBucket) S3 answers so "
        "even for a name that merely is not there",
    ),
    _Known(
        "DH-ENDPOINT",
        _is_plain_http,
        "the endpoint speaks plain HTTP",
        "use https, or allow it with allow_http=true in storage_options",
    ),
    _Known(
        "DH-ENDPOINT",
        lambda answer: answer.kind == "Connect",
        "nobody answers at the endpoint",
        "check aws_endpoint_url (azure_storage_endpoint, google_base_url), the region, and the network",
    ),
    _Known(
        "DH-ENDPOINT",
        _no_object_store,
        "what answers at the endpoint is no object store",
        "check aws_endpoint_url (azure_storage_endpoint, google_base_url)",
    ),
    _Known(
        "DH-STORE",
        lambda answer: answer.kind == answers.REPEATED,
        "the store lists the same objects repeatedly",
        "what lists so has no end: use another store, or another version of it",
    ),
    _Known(
        "DH-MISSING",
        lambda answer: answer.is_missing,
        "there is no such object",
        "something else deletes below this URL, perhaps a lifecycle rule: exempt this prefix from it",
    ),
)
