"""From a URL and options to a client."""

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import dochistory as dh
from dochistory.objects import credentials
from dochistory.objects.client import ObjectClient
from dochistory.objects.location import Location, parse
from dochistory.objects.options import StorageOptions, is_ours, refuse_unknown
from dochistory.objects.retries import Retries

_LOOPBACK = ("http://127.0.0.1", "http://localhost", "http://[::1]")


def open_client(
    url: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | StorageOptions | None = None,
    *,
    retries: Retries | None = None,
) -> ObjectClient:
    """A client of the place that a URL names. Sends no request.

    Args:
        url: `s3://bucket/path`, `gs://…`, `az://…`,
            `abfss://container@account.dfs.core.windows.net/path`.
        storage_options: credentials, region, endpoint and the like, by the names of delta-rs and
            Polars; what is absent comes from the environment or from the machine's role.
        retries: bounds of the attempts at one request.

    Raises:
        ConfigError: [DH-CONFIG] the URL or an option makes no sense.
        ObjectStoreError: [DH-EXTRA] obstore is not installed.
    """
    location = parse(url)
    options = storage_options if isinstance(storage_options, StorageOptions) else StorageOptions(storage_options)
    if find_spec("obstore") is None:
        raise dh.ObjectStoreError(
            f"[DH-EXTRA] {location.url}: object storage needs the package obstore: pip install 'dochistory[objects]'"
        )
    return ObjectClient(location, options, lambda own: _connected(location, options, own), retries or Retries())


def check_name(name: str) -> None:
    """Refuse an option that no store takes.

    Raises:
        ConfigError: [DH-CONFIG] there is no such option; the error says which one is near.
    """
    if is_ours(name) or find_spec("obstore") is None:
        return
    from obstore import exceptions, store

    makers: tuple[Callable[..., Any], ...] = (store.S3Store, store.GCSStore, store.AzureStore)
    for make in makers:
        try:
            make("bucket", config={name: "x"})
        except exceptions.UnknownConfigurationKeyError:
            continue
        except (exceptions.BaseError, ValueError):
            pass  # it lacks something else
        return
    refuse_unknown(name)


def _connected(location: Location, options: StorageOptions, retries: Retries | None) -> Any:
    """A store of obstore that tries each request once, or within these bounds."""
    from obstore import exceptions, store

    if location.kind == "file":
        return store.LocalStore(f"/{location.prefix}", mkdir=True)
    given: dict[str, Any] = {
        "config": _config(location, options),
        "client_options": _client_options(location, options),
        "retry_config": retries.of_client() if retries else {"max_retries": 0},
        "credential_provider": credentials.provider(location, options),
    }
    refused: Exception
    try:
        if location.kind == "s3":
            return store.S3Store(location.bucket, **given)
        if location.kind == "gs":
            return store.GCSStore(location.bucket, **given)
        return store.AzureStore(location.bucket, **given)
    except exceptions.UnknownConfigurationKeyError as error:
        refused = error
    except (exceptions.BaseError, ValueError) as error:
        refused = error
    # Outside of `except`: what the error holds besides its text may be secret.
    return _refused(location, options, refused)


def _refused(location: Location, options: StorageOptions, error: Exception) -> Any:
    said = str(error).split("\n\n")[0]
    for name in options:
        if f"'{name}'" in said:
            refuse_unknown(name)
    if "Missing" in said:
        raise dh.ObjectStoreError(
            f"[DH-CREDENTIALS] {location.url}: the credentials are not whole ({said}): set what is missing in the "
            "environment or in storage_options"
        )
    more = next((f": {advice}" for words, advice in _ADVICE.items() if words in said), "")
    raise dh.ConfigError(options.redacted(f"[DH-CONFIG] storage_options for {location.url}: {said}{more}"))


_ADVICE = {
    "Account must be specified": "name it by azure_storage_account_name, or in the URL "
    "(abfss://container@account.dfs.core.windows.net/…)",
    "variant `external_account`": "the client does not take such credentials: give it credential_provider="
    "obstore.auth.google.GoogleCredentialProvider()",
}
"""What to do about options of which the client only says what is wrong."""


def _config(location: Location, options: StorageOptions) -> dict[str, str]:
    config = options.for_store()
    if location.kind == "s3":
        # One object a request: stores other than Amazon's answer requests for many in their own ways.
        config["aws_disable_bulk_delete"] = "true"
    if location.kind == "az":
        if location.account:
            config.setdefault("azure_storage_account_name", location.account)
        if location.endpoint and not options.names("endpoint"):
            config["azure_storage_endpoint"] = location.endpoint
    return config


def _client_options(location: Location, options: StorageOptions) -> dict[str, Any]:
    client: dict[str, Any] = {"timeout": "30s", "connect_timeout": "5s", **options.for_client()}
    if "allow_http" not in client and _endpoint(location, options).startswith(_LOOPBACK):
        client["allow_http"] = True
    return client


def _endpoint(location: Location, options: StorageOptions) -> str:
    given = [value for name, value in options.for_store().items() if "endpoint" in name or "base_url" in name]
    variables = {
        "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        "az": ("AZURE_STORAGE_ENDPOINT",),
        "gs": ("GOOGLE_BASE_URL",),
    }
    given += [os.environ[name] for name in variables.get(location.kind, ()) if name in os.environ]
    return given[0] if given else ""
