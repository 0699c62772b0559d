"""Run the README with a wheel for aarch64 on a machine of another processor, under QEMU.

    python -m tools.emulated dist/dochistory-0.2.0-cp311-abi3-manylinux_2_28_aarch64.whl

Debian's packages bring QEMU, and a Python for aarch64; both are unpacked into `out/aarch64`, and
nothing is installed. It needs `apt-get` and `dpkg-deb`, but not root.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "out" / "aarch64"
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64")


def can_run() -> bool:
    """Whether this machine has what is needed."""
    return shutil.which("apt-get") is not None and shutil.which("dpkg-deb") is not None


def unpacked(name: str, architecture: str, *packages: str) -> Path:
    """A directory with packages of Debian and what they depend on; those that are there stay."""
    root = PLACE / name
    if root.exists():
        return root
    state = PLACE / "apt" / architecture
    for part in ("lists/partial", "archives/partial"):
        (state / part).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    options = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
        "Debug::NoLocking": "true",
    }
    apt = ["apt-get", "--quiet=2", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    subprocess.run([*apt, "update"], check=True)
    words = ["--yes", "--no-install-recommends", "--download-only", "install", *packages]
    subprocess.run([*apt, *words], check=True, stdout=subprocess.DEVNULL)
    draft = root.with_suffix(".new")
    shutil.rmtree(draft, ignore_errors=True)
    for package in sorted((state / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", package, draft], check=True)
    draft.rename(root)
    return root


def site(wheel: Path, place: Path) -> None:
    """Unpack a wheel, and pyarrow for the same processor."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    wheels = place / "wheels"
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", wheels,
         "--only-binary", ":all:", "--python-version", "3.11", "--implementation", "cp", *platforms, "pyarrow>=18"],
        check=True,
    )  # fmt: skip
    for one in (*wheels.glob("*.whl"), wheel):
        with zipfile.ZipFile(one) as content:
            content.extractall(place)


def run(wheel: Path) -> str:
    """What the README's program says with this wheel, or an error of the program that failed."""
    python = unpacked("python", "arm64", "python3.11", "libstdc++6")
    native = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()
    emulator = unpacked("qemu", native, "qemu-user-static") / "usr" / "bin" / "qemu-aarch64-static"
    with tempfile.TemporaryDirectory() as place:
        site(wheel, Path(place))
        environment = {"PATH": os.environ["PATH"], "HOME": place, "PYTHONPATH": place, "DOCHISTORY_STATE": place}
        program = python / "usr" / "bin" / "python3.11"
        ran = subprocess.run(
            [emulator, "-L", python, program, ROOT / "tools" / "readme.py", ROOT / "README.md"],
            env=environment, cwd=place, check=True, capture_output=True, text=True,
        )  # fmt: skip
    return ran.stdout.strip()


if __name__ == "__main__":
    print(run(Path(sys.argv[1]).absolute()))
