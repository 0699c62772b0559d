"""Make what a release uploads: wheels for several systems, and the source distribution, into dist/.

    python -m tools.package                                  # for this machine's processor, and the sdist
    python -m tools.package x86_64-musl aarch64 sdist        # these only
    python -m tools.package --home https://…/owner/project   # links of the package's page lead there

The page of a package index shows README.md far from the project's files, so its relative links are
made absolute. That needs the address of the project (`--home`), which is written nowhere in the
source: the release workflow knows where it runs. Without it links stay as they are.

Each wheel is linked by zig against the oldest libraries of its platform, and checked afterwards.
The one for aarch64 runs the README under QEMU where this machine has another processor.
"""

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from tools import emulated

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"

TARGETS = {
    "x86_64": ("x86_64-unknown-linux-gnu", "manylinux_2_28"),
    "aarch64": ("aarch64-unknown-linux-gnu", "manylinux_2_28"),
    "x86_64-musl": ("x86_64-unknown-linux-musl", "musllinux_1_2"),
}
"""Name -> Rust's target, and the platform that the wheel is for."""

LINK = re.compile(r"(!?\[[^\]]*\]\()(?!\w+:|#)([^)\s]+)(\))")


def version() -> str:
    """The version that is packaged."""
    found: str = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    return found


def absolute(text: str, home: str, tag: str) -> str:
    """A page of Markdown whose relative links lead to the project's own address, at a tag."""

    def made(link: re.Match[str]) -> str:
        way = "raw" if link[1].startswith("!") else "blob"
        return f"{link[1]}{home}/{way}/{tag}/{link[2]}{link[3]}"

    return LINK.sub(made, text)


def with_urls(pyproject: str, home: str, tag: str) -> str:
    """The settings of the package with the addresses of the project."""
    urls = {
        "Homepage": home,
        "Documentation": f"{home}/blob/{tag}/docs/README.md",
        "Source": home,
        "Issues": f"{home}/issues",
        "Changelog": f"{home}/blob/{tag}/CHANGELOG.md",
    }
    table = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    return pyproject.replace("[project.scripts]", f"[project.urls]\n{table}\n[project.scripts]", 1)


def staged(home: str | None) -> Path:
    """A copy of the tracked files, with absolute links if the project's address is known."""
    place = ROOT / "out" / "package"
    shutil.rmtree(place, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, check=True, stdout=-1)
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    if home:
        home, tag = home.rstrip("/"), f"v{version()}"
        for name, change in (("README.md", absolute), ("pyproject.toml", with_urls)):
            path = place / name
            path.write_text(change(path.read_text(encoding="utf-8"), home, tag), encoding="utf-8")
    return place


def run(*words: str, cwd: Path = ROOT) -> None:
    """Run a program of the environment, or end with its exit status."""
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "CARGO_TARGET_DIR": str(ROOT / "target"),
    }
    ran = subprocess.run(words, cwd=cwd, env=environment, check=False)
    if ran.returncode:
        sys.exit(ran.returncode)


def wheel(name: str, place: Path, profile: str) -> None:
    """Build the wheel of one target, and check that it keeps to its platform."""
    target, platform = TARGETS[name]
    before = set(DIST.glob("*.whl"))
    run(
        "maturin", "build", "--profile", profile, "--zig", "--target", target, "--compatibility", platform,
        "--out", str(DIST), cwd=place,
    )  # fmt: skip
    made = sorted(set(DIST.glob("*.whl")) - before) or sorted(DIST.glob(f"*{platform}*.whl"))
    check_platform(made[-1], platform)
    if name == "aarch64" and os.uname().machine != "aarch64":
        said = emulated.run(made[-1]) if emulated.can_run() else "NOT RUN: Debian's packages bring the emulator"
        print(f"{made[-1].name}: under emulation: {said}")


def check_platform(path: Path, platform: str) -> None:
    """Fail unless the wheel runs on its platform: by auditwheel, and for musl by what it is linked to.

    On a machine with glibc auditwheel takes musl's `libc.so` for glibc's script of that name.
    """
    if platform.startswith("musllinux"):
        if foreign := needed(path) - {"libc.so"}:
            sys.exit(f"{path.name}: it is linked to {', '.join(sorted(foreign))}, which is not musl's own")
        print(f"{path.name}: linked to libc.so alone, {path.stat().st_size / 1e6:.1f} MB")
        return
    shown = subprocess.run(
        [Path(sys.executable).parent / "auditwheel", "show", path], check=True, capture_output=True, text=True
    ).stdout
    said = re.search(r'following platform\s+tag:\s*"(\w+)"', " ".join(shown.split()))
    if said is None or not satisfies(said[1], platform):
        sys.exit(f"{path.name}: auditwheel finds {said and said[1]}, which is not {platform} or older:\n{shown}")
    print(f"{path.name}: {said[1]}, {path.stat().st_size / 1e6:.1f} MB")


def needed(path: Path) -> set[str]:
    """The libraries that a wheel's extension is linked to."""
    from elftools.elf.elffile import ELFFile  # it comes with auditwheel, which only packaging needs

    with zipfile.ZipFile(path) as wheel:
        (name,) = (one for one in wheel.namelist() if one.endswith(".so"))
        section: Any = ELFFile(io.BytesIO(wheel.read(name))).get_section_by_name(".dynamic")
    return {tag.needed for tag in section.iter_tags("DT_NEEDED")}


def satisfies(found: str, platform: str) -> bool:
    """Whether a wheel of the platform that was found runs wherever `platform` does."""
    of_found, of_wanted = (re.match(r"([a-z]+)_(\d+)_(\d+)", name) for name in (found, platform))
    if of_found is None or of_wanted is None:
        return False
    same = of_found[1] == of_wanted[1]
    return same and (int(of_found[2]), int(of_found[3])) <= (int(of_wanted[2]), int(of_wanted[3]))


def main() -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*TARGETS, "sdist"]
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"of {', '.join(known)}; all, if absent")
    parser.add_argument("--home", help="the address of the project, for the links of the package's page")
    parser.add_argument("--profile", default="release", help="of Cargo; release, if absent")
    given = parser.parse_args()
    if unknown := [name for name in given.what if name not in known]:
        parser.error(f"there is no {unknown[0]}: choose of {', '.join(known)}")
    place = staged(given.home)
    DIST.mkdir(exist_ok=True)
    for name in given.what or known:
        if name == "sdist":
            run("maturin", "sdist", "--out", str(DIST), cwd=place)
        else:
            wheel(name, place, given.profile)
    run("twine", "check", "--strict", *(str(path) for path in sorted(DIST.iterdir()) if version() in path.name))


if __name__ == "__main__":
    main()
