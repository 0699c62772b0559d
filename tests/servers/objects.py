"""Object stores on loopback: each the test's own, its data in a directory of its own, gone when the test is.

moto comes with the extra `dev`. The others are found in `.venv/servers`, or else installed there by
the tools of their languages; `make` does that before the slow tests.
"""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venv" / "servers"
KEY, SECRET = "loopback", "loopback-secret"
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of every emulator, and its key, which is public."""


@dataclass(frozen=True)
class Server:
    """A running store with one bucket."""

    port: int
    url: str
    """The bucket."""
    options: Mapping[str, str] = field(repr=False)

    def through(self, port: int) -> dict[str, str]:
        """The options to reach it by a proxy on another port."""
        return {name: value.replace(f":{self.port}", f":{port}") for name, value in self.options.items()}


@contextmanager
def moto(bucket: str = "bucket") -> Iterator[Server]:
    """moto: S3 in one process, in memory; DynamoDB too."""
    port = _free_port()
    program = Path(__file__).with_name("moto_server.py")
    with _running([sys.executable, str(program), "-H", "127.0.0.1", "-p", str(port)], port):
        yield _with_bucket(port, bucket)


@contextmanager
def versitygw(home: Path, bucket: str = "bucket") -> Iterator[Server]:
    """versitygw: S3 over a directory; checks signatures and clocks as S3 does."""
    gateway = installed("versitygw")
    home.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    command = [str(gateway), "--port", f"127.0.0.1:{port}", "posix", str(home)]
    with _running(command, port, keys):
        yield _with_bucket(port, bucket)


@contextmanager
def s3s_fs(home: Path, bucket: str = "bucket") -> Iterator[Server]:
    """s3s-fs: its create-if-absent lets several win. What checks a store must refuse it."""
    program = installed("s3s-fs")
    home.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    command = [str(program), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--access-key", KEY, "--secret-key", SECRET, str(home)]
    with _running(command, port):
        yield _with_bucket(port, bucket)


@contextmanager
def azurite(home: Path, container: str = "container") -> Iterator[Server]:
    """Azurite: Azure's blobs."""
    program = installed("azurite")
    home.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    command = [str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(home)]
    command += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    with _running(command, port):
        options = {
            "azure_storage_account_name": AZURE_ACCOUNT,
            "azure_storage_account_key": AZURE_KEY,
            "azure_storage_endpoint": f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}",
        }
        _make_container(port, container)
        yield Server(port, f"az://{container}", options)


def _with_bucket(port: int, bucket: str) -> Server:
    import boto3

    endpoint = f"http://127.0.0.1:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
    )
    client.create_bucket(Bucket=bucket)
    client.close()
    options = {
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
        "aws_endpoint_url": endpoint,
    }
    return Server(port, f"s3://{bucket}", options)


def _make_container(port: int, container: str) -> None:
    """The one request that a history never makes, signed as Azure wants it."""
    import base64
    import hashlib
    import hmac
    import http.client
    from email.utils import formatdate

    date = formatdate(usegmt=True)
    path = f"/{AZURE_ACCOUNT}/{container}"
    headers = {"x-ms-date": date, "x-ms-version": "2021-08-06"}
    named = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    signed = "PUT\n" + "\n" * 11 + f"{named}/{AZURE_ACCOUNT}{path}\nrestype:container"
    mac = hmac.new(base64.b64decode(AZURE_KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(mac).decode()}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("PUT", f"{path}?restype=container", headers={**headers, "Content-Length": "0"})
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    if answer.status != 201:
        raise RuntimeError(f"Azurite made no container: {answer.status} {said!r}")


@contextmanager
def _running(command: list[str], port: int, more: Mapping[str, str] | None = None) -> Iterator[None]:
    process = subprocess.Popen(
        command, env={**os.environ, **(more or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _await_port(process, port)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_port(process: "subprocess.Popen[bytes]", port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"{process.args!r} does not listen on port {port}; status {process.poll()}")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


_PLACES = {
    "versitygw": HOME / "bin" / "versitygw",
    "s3s-fs": HOME / "bin" / "s3s-fs",
    "azurite": HOME / "node_modules" / ".bin" / "azurite-blob",
}
_INSTALLS = {
    "versitygw": ["go", "install", "github.com/versity/versitygw/cmd/versitygw@v1.8.0"],
    "s3s-fs": ["cargo", "install", "--locked", "--debug", "--root", str(HOME), "--features", "binary", "s3s-fs@0.14.1"],
    "azurite": ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(HOME), "azurite@3.35"],
}


def installed(name: str) -> Path:
    """The program of a server, which is installed if it is not there."""
    place = _PLACES[name]
    if place.exists():
        return place
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        # Several test runs may want it at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _install(name)
    return place


def _install(name: str) -> None:
    command = _INSTALLS[name]
    tool = shutil.which(command[0])
    if tool is None:
        raise FileNotFoundError(f"this test needs {name}, and {command[0]} to install it: there is none on the path")
    # What is quick to build is fast enough.
    places = {"CARGO_PROFILE_DEV_DEBUG": "0", "GOBIN": str(HOME / "bin"), "CARGO_TARGET_DIR": str(HOME / "target")}
    done = subprocess.run(
        [tool, *command[1:]], env={**os.environ, **places}, capture_output=True, text=True, check=False
    )
    shutil.rmtree(HOME / "target", ignore_errors=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")


if __name__ == "__main__":
    for one in sys.argv[1:] or _PLACES:
        print(installed(one))
