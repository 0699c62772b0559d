"""`storage_options`, by the names that users of delta-rs and Polars know; secrets stay in here."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import dochistory as dh

_CLIENT = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "root_certificate",
    "timeout",
    "user_agent",
}
"""Options of the HTTP client."""

_OF_OTHERS = {
    "allow_unsafe_rename",
    "aws_s3_allow_unsafe_rename",
    "aws_s3_locking_provider",
    "conditional_put",
    "aws_conditional_put",
    "copy_if_not_exists",
    "aws_copy_if_not_exists",
    "delta_dynamo_table_name",
    "max_retries",
    "retry_timeout",
}
"""What delta-rs takes besides. It has no meaning here, and the same options serve both."""

_SHOWN = re.compile(
    r"(aws_|azure_storage_|azure_|google_)?"
    r"(region|default_region|endpoint(_url)?(_s3)?|base_url|account_name|profile|bucket|container_name|use_emulator"
    r"|virtual_hosted_style_request|s3_express|skip_signature|allow_http|allow_invalid_certificates"
    r"|connect_timeout|timeout|pool_\w+|user_agent)"
)
"""Options whose values may be printed. Everything else is taken for a secret."""

_USUAL = (
    *("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_region", "aws_endpoint_url"),
    *("aws_profile", "aws_virtual_hosted_style_request", "aws_server_side_encryption", "aws_sse_kms_key_id"),
    *("azure_storage_account_name", "azure_storage_account_key", "azure_storage_sas_key", "azure_storage_endpoint"),
    *("azure_storage_client_id", "azure_storage_client_secret", "azure_storage_tenant_id"),
    *("google_service_account", "google_service_account_key", "google_application_credentials"),
    "google_base_url",
    *("credential_provider", "allow_http", "timeout", "connect_timeout"),
)


class StorageOptions:
    """Options of one store. Neither its text nor its pickled form shows a secret: it cannot be pickled."""

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, str] = {}
        self._provider: Callable[[], Any] | None = None
        self._profile: str | None = None
        for name, value in (given or {}).items():
            self._take(name, value)

    def _take(self, name: Any, value: Any) -> None:
        if not isinstance(name, str):
            _refuse(f"its names are texts, and {type(name).__name__} is none")
        known = name.lower()
        if value is None:
            return
        if known == "credential_provider":
            if not callable(value):
                _refuse("credential_provider must be a function that answers credentials")
            self._provider = value
            return
        if isinstance(value, bool):
            value = str(value).lower()
        if not isinstance(value, str | int | float):
            _refuse(f"the value of {name} must be text, not {type(value).__name__}")
        if self._values.get(known, str(value)) != str(value):
            _refuse(f"{known} is given twice, with different values")
        if known == "aws_profile":
            self._profile = str(value)
        elif known not in _OF_OTHERS:
            self._values[known] = str(value)

    @property
    def provider(self) -> Callable[[], Any] | None:
        """A function that answers credentials, and when they expire."""
        return self._provider

    @property
    def profile(self) -> str | None:
        """The profile of AWS's files that names the credentials."""
        return self._profile

    def for_store(self) -> dict[str, str]:
        """What the store's client takes, secrets included."""
        return {name: value for name, value in self._values.items() if name not in _CLIENT}

    def for_client(self) -> dict[str, Any]:
        """What the HTTP client takes."""
        found: dict[str, Any] = {name: self._values[name] for name in _CLIENT if name in self._values}
        return {name: value == "true" if value in ("true", "false") else value for name, value in found.items()}

    def names(self, *words: str) -> bool:
        """Whether an option contains one of these words in its name."""
        return any(word in name for name in self._values for word in words)

    def redacted(self, text: str) -> str:
        """The text without the values of secrets, and without signatures."""
        for name, value in self._values.items():
            if len(value) >= 4 and not _SHOWN.fullmatch(name):
                text = text.replace(value, "…")
        return _SIGNED.sub(r"\1…", text)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __repr__(self) -> str:
        shown = {name: value if _SHOWN.fullmatch(name) else "…" for name, value in sorted(self._values.items())}
        if self._profile:
            shown["aws_profile"] = self._profile
        if self._provider is not None:
            shown["credential_provider"] = "…"
        return f"StorageOptions({ {name: _without_user(value) for name, value in shown.items()} })"

    def __reduce__(self) -> NoReturn:
        raise TypeError("storage options may hold secrets, so they are not pickled")


_SIGNED = re.compile(
    r"(?i)\b((?:sig|x-amz-signature|x-amz-security-token|x-amz-credential|x-goog-signature)=)[^&\s\"']+"
)


def is_secret(name: str) -> bool:
    """Whether the value of an option may not be shown."""
    return not _SHOWN.fullmatch(name.lower())


def is_ours(name: str) -> bool:
    """Whether an option is taken here, whatever the store's client takes."""
    return name.lower() in {*_CLIENT, *_OF_OTHERS, "credential_provider"}


def refuse_unknown(name: str) -> NoReturn:
    """Say that an option is not known.

    Raises:
        ConfigError: [DH-CONFIG] always.
    """
    near = difflib.get_close_matches(name.lower(), _USUAL, 1)
    _refuse(f"there is no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _without_user(text: str) -> str:
    return re.sub(r"//[^/@]*@", "//…@", text)


def _refuse(reason: str) -> NoReturn:
    raise dh.ConfigError(f"[DH-CONFIG] storage_options: {reason}")
