"""Where credentials come from, when no option holds them, and how they are renewed.

The client of obstore renews those of an instance role, of a web identity (IRSA) and of a container
by itself. Profiles of AWS, with SSO or roles that are assumed, need boto3.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dochistory as dh
from dochistory.objects.location import Location
from dochistory.objects.options import StorageOptions

_AGAIN = timedelta(minutes=5)
"""How long credentials of boto3 are used before it is asked again. It renews its own 15 minutes before they expire."""

_OF_AWS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def provider(location: Location, options: StorageOptions) -> Callable[[], Any] | None:
    """What answers credentials; None if the client of obstore finds them.

    Raises:
        ObjectStoreError: [DH-EXTRA] a profile is named, and boto3 is not installed.
        ObjectStoreError: [DH-CREDENTIALS] the profile has none.
    """
    if options.provider is not None or location.kind != "s3":
        return options.provider
    profile = options.profile or os.environ.get("AWS_PROFILE")
    if options.names("access_key", "secret", "token", "role_arn", "skip_signature"):
        return None
    if options.profile is None and any(name in os.environ for name in _OF_AWS):
        return None
    if profile is None and not _has_files():
        return None
    if find_spec("boto3") is None:
        if profile is None:
            return None
        raise dh.ObjectStoreError(f"[DH-EXTRA] the profile {profile!r} of AWS needs boto3: pip install boto3")
    return _of_profile(profile)


def _has_files() -> bool:
    named = os.environ.get("AWS_SHARED_CREDENTIALS_FILE")
    return (Path(named) if named else Path.home() / ".aws" / "credentials").is_file()


def _of_profile(profile: str | None) -> Callable[[], Any]:
    import boto3.session
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    said = "it holds none"
    try:
        made: Callable[[], Any] = Boto3CredentialProvider(boto3.session.Session(profile_name=profile), ttl=_AGAIN)
    except ValueError:
        pass
    except BotoCoreError as error:
        said = str(error)
    else:
        return made
    name = profile or "default"
    raise dh.ObjectStoreError(
        f"[DH-CREDENTIALS] the profile {name!r} of AWS gives no credentials: {said}; correct ~/.aws"
    )
