"""What a release uploads: the page's links, the settings, the platforms, and a wheel in a bare environment."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from tools import package
from tools.readme import program, promised

ROOT = Path(__file__).parents[2]
HOME = "https://forge.example/owner/dochistory"
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_links_of_the_page_are_absolute_once_packaged() -> None:
    page = package.absolute((ROOT / "README.md").read_text(encoding="utf-8"), HOME, "v1.2.3")
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://")] == []
    assert f"{HOME}/raw/v1.2.3/docs/images/demo.png" in links
    assert f"{HOME}/blob/v1.2.3/docs/benchmarks.md" in links


def test_links_with_an_address_or_an_anchor_stay() -> None:
    text = "[a](https://other.example/x) [b](#here) [c](mailto:x@y.example)"
    assert package.absolute(text, HOME, "v1") == text


def test_addresses_are_added_when_packaged_only() -> None:
    assert "urls" not in tomllib.loads(PYPROJECT)["project"]
    made = tomllib.loads(package.with_urls(PYPROJECT, HOME, "v1"))
    assert made["project"]["urls"]["Source"] == HOME
    assert made["project"]["scripts"] == tomllib.loads(PYPROJECT)["project"]["scripts"]


@pytest.mark.parametrize(
    ("found", "wanted", "fits"),
    [
        ("manylinux_2_17_x86_64", "manylinux_2_28", True),
        ("manylinux_2_28_x86_64", "manylinux_2_28", True),
        ("manylinux_2_34_x86_64", "manylinux_2_28", False),
        ("musllinux_1_2_x86_64", "musllinux_1_2", True),
        ("musllinux_1_2_x86_64", "manylinux_2_28", False),
        ("linux_x86_64", "manylinux_2_28", False),
    ],
)
def test_a_wheel_fits_where_its_libraries_are_as_old(found: str, wanted: str, fits: bool) -> None:
    assert package.satisfies(found, wanted) is fits


def test_public_extras_are_those_that_users_need() -> None:
    project = tomllib.loads(PYPROJECT)
    brokers = {"aio-rabbitmq", "kafka", "rabbitmq", "sqs", "stomp"}
    others = {"spark", "connect", "objects", "cli", "jre", "metrics"}
    assert set(project["project"]["optional-dependencies"]) == brokers | others
    assert {"demo", "bench", "contributing", "docs", "package"} == set(project["dependency-groups"])


def test_changelog_has_the_version_with_a_date() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(package.version())}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE)


def test_importing_the_package_imports_nothing_large(tmp_path: Path) -> None:
    code = (
        "import sys, dochistory\n"
        "large = {'pyarrow.dataset', 'pandas', 'pyspark', 'rich', 'jinja2', 'numpy', 'prometheus_client'}\n"
        "sys.exit(str(large & set(sys.modules)) if large & set(sys.modules) else 0)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0


def test_the_readmes_program_says_what_it_prints() -> None:
    assert len(promised(program((ROOT / "README.md").read_text(encoding="utf-8")))) >= 4


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this machine and the source distribution, as `make release` builds them."""
    place = tmp_path_factory.mktemp("dist")
    maturin = Path(sys.executable).with_name("maturin")
    environment = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target")}
    for words in (["build", "--profile", "quick"], ["sdist"]):
        subprocess.run([maturin, *words, "--out", place], cwd=ROOT, check=True, env=environment, capture_output=True)
    return place


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_wheel_runs_the_readme_where_there_is_no_rust(built: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=True)
    # No compiler and no Rust: only what the environment and the system's shell have.
    environment = {
        "PATH": f"{bare / 'bin'}:/nowhere",
        "HOME": str(tmp_path),
        "DOCHISTORY_STATE": str(tmp_path / "state"),
    }
    environment |= {name: value for name, value in os.environ.items() if name.lower().startswith(("pip_", "http"))}
    python = bare / "bin" / "python"
    (wheel,) = built.glob("*.whl")

    def ran(*words: object) -> str:
        done = subprocess.run(
            [python, *map(str, words)], env=environment, cwd=tmp_path, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    ran("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", wheel)
    assert "cargo" not in environment["PATH"]
    assert ran("-c", "import dochistory; print(dochistory.__version__)").strip() == package.version()
    assert "it says" in ran(ROOT / "tools" / "readme.py", ROOT / "README.md")
    shown = ran("-m", "dochistory.cli", "--help")
    assert "look into a history" in shown


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_wheel_and_sdist_hold_what_they_should(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for part in ("dochistory/report/page.html", "dochistory/monitoring/alerts.yml", "dochistory/py.typed"):
        assert part in names
    assert not [name for name in names if name.startswith(("tests/", "benches/", "tools/"))]
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as content:
        inside = {name.split("/", 1)[1] for name in content.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "LICENSE", "Cargo.lock", "rust/core/Cargo.toml"} <= inside


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_sdist_builds_a_wheel(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as content:
        content.extractall(tmp_path, filter="data")
    (source,) = (one for one in tmp_path.iterdir() if one.is_dir())
    environment = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target")}
    maturin = Path(sys.executable).with_name("maturin")
    subprocess.run(
        [maturin, "build", "--profile", "quick", "--out", tmp_path / "made"], cwd=source, check=True, env=environment
    )
    assert len(list((tmp_path / "made").glob("*.whl"))) == 1
