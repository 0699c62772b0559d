"""Storage options: known names, and secrets that never show."""

import logging
import pickle
import traceback
from typing import Any

import pytest

import dochistory as dh
from dochistory import objects
from dochistory.objects import credentials
from tests.objects.conftest import QUICK, Through
from tests.servers.fault_proxy import FaultProxy, Say
from tests.servers.objects import Server

SECRETS = {
    "aws_access_key_id": "AKIDSECRETKEY",
    "AWS_SECRET_ACCESS_KEY": "shh-1-secret",
    "aws_session_token": "shh-2-token",
}
SHOWN = {"aws_region": "eu-west-1", "aws_endpoint_url": "http://user:shh-3@127.0.0.1:9"}


def is_clean(text: str) -> bool:
    return not any(value in text for value in [*SECRETS.values(), "shh"])


def test_the_text_of_options_shows_no_secret() -> None:
    options = objects.StorageOptions({**SECRETS, **SHOWN, "azure_storage_sas_key": "sig=shh", "something_new": "shh"})
    text = repr(options)
    assert is_clean(text)
    assert "eu-west-1" in text
    assert "aws_secret_access_key" in text


def test_options_are_not_pickled() -> None:
    with pytest.raises(TypeError, match="secrets"):
        pickle.dumps(objects.StorageOptions(SECRETS))


def test_a_client_and_its_errors_show_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = objects.open_client("s3://bucket/x", {**SECRETS, "aws_endpoint_url": "http://127.0.0.1:9"}, retries=QUICK)
    assert is_clean(repr(client))
    with pytest.raises(dh.ObjectStoreError) as caught:
        client.get("x")
    whole = "".join(traceback.format_exception(caught.value))
    assert is_clean(whole)
    assert is_clean(caplog.text)
    assert chain(caught.value) == [caught.value]


def chain(error: BaseException | None) -> list[BaseException]:
    """An error and all that hangs on it, hidden or not."""
    return [] if error is None else [error, *chain(error.__cause__), *chain(error.__context__)]


def test_a_secret_that_the_store_repeats_is_taken_out(through: Through, proxy: FaultProxy) -> None:
    said = "the key shh-1-secret and ?sig=abc%2Fdef&x=1 X-Amz-Signature=0123 are wrong"
    proxy.choose = lambda _request: Say(403, "SignatureDoesNotMatch", said)
    with pytest.raises(dh.ObjectStoreError, match=r"\[DH-CREDENTIALS\]") as caught:
        through(aws_secret_access_key="shh-1-secret").get("x")
    for secret in ("shh-1-secret", "abc%2Fdef", "0123"):
        assert secret not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"aws_acces_key_id": "x"}, "there is no option 'aws_acces_key_id'; did you mean 'aws_access_key_id'?"),
        ({"region": 1.5, "REGION": 2}, "region is given twice"),
        ({"aws_region": ["x"]}, "the value of aws_region must be text, not list"),
        ({"credential_provider": "x"}, "credential_provider must be a function"),
        ({7: "x"}, "its names are texts"),
    ],
)
def test_a_wrong_option_is_named(options: dict[Any, Any], said: str) -> None:
    with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] storage_options: ") as caught:
        objects.open_client("s3://bucket/x", options)
    assert said in str(caught.value)


def test_names_of_delta_and_polars_are_known(s3: Server, place: str) -> None:
    given = {name.upper(): value for name, value in s3.options.items()}
    of_delta = {"AWS_S3_ALLOW_UNSAFE_RENAME": "true", "allow_http": True, "AWS_S3_LOCKING_PROVIDER": "dynamodb"}
    client = objects.open_client(place, {**given, **of_delta})
    assert client.put_new("x", b"1") == "created"
    short = {name.removeprefix("aws_"): value for name, value in s3.options.items()}
    assert objects.open_client(place, short).get("x") == b"1"


def test_the_environment_serves_as_well(s3: Server, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.options.items():
        monkeypatch.setenv(name.upper(), value)
    client = objects.open_client(place)
    assert client.put_new("x", b"1") == "created"


def test_half_of_the_credentials_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "only")
    with pytest.raises(dh.ObjectStoreError, match=r"\[DH-CREDENTIALS\] .* not whole"):
        objects.open_client("s3://bucket/x")


def test_a_profile_of_aws_gives_credentials(s3: Server, place: str, tmp_path: Any) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[shop]\naws_access_key_id = loopback\naws_secret_access_key = loopback-secret\n"
    )
    options = {"aws_profile": "shop", "aws_endpoint_url": s3.options["aws_endpoint_url"], "aws_region": "us-east-1"}
    assert objects.open_client(place, options).put_new("x", b"1") == "created"
    with pytest.raises(dh.ObjectStoreError, match=r"\[DH-CREDENTIALS\] the profile 'other' of AWS"):
        objects.open_client(place, {**options, "aws_profile": "other"})


def test_no_profile_is_asked_where_a_key_is_given(s3: Server) -> None:
    location = objects.parse("s3://bucket/x")
    assert credentials.provider(location, objects.StorageOptions(s3.options)) is None


def test_without_obstore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr("dochistory.objects.open.find_spec", lambda name: importlib.util.find_spec(f"{name}_is_absent"))
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-EXTRA\] .*pip install 'dochistory\[objects\]'"):
        objects.open_client("s3://bucket/x")
