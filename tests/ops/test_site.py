"""The documentation site: strict, complete, and made without network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import pages

import dochistory as dh
from dochistory.cli.arguments import parser
from dochistory.cli.parser import leaves

ROOT = Path(__file__).parents[2]


def test_every_visible_command_and_option_is_in_the_reference() -> None:
    text = pages.command_line()
    for path, leaf in leaves(parser()):
        if leaf.replaced_by is None and path != ("names",):
            assert leaf.format_usage().split("\n")[0] in text, path


def test_every_setting_of_a_trigger_is_in_the_reference() -> None:
    text = pages.settings()
    for name in dh.Trigger.FIELDS[1:]:
        assert re.search(rf"^\| `{name}` \|", text, re.MULTILINE), name
    assert "| `history_time_to_live` | `30 days` | `2 hours` |" in text


def test_links_lead_to_pages_of_the_site() -> None:
    text = "[a](docs/spark.md#reading-classify) [b](CHANGELOG.md) [c](https://x.example/) ![d](docs/images/demo.png)"
    assert pages.as_page(text, ROOT / "README.md") == (
        "[a](spark.md#reading-classify) [b](changelog.md) [c](https://x.example/) ![d](images/demo.png)"
    )


@pytest.mark.slow
def test_the_site_is_built_strictly_and_needs_no_network(tmp_path: Path) -> None:
    # A proxy that is not there: whatever asks the network fails.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    environment = {**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"}
    pages.main()
    site = tmp_path / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    made = sorted(site.glob("*.html"))
    assert len(made) > 35
    for page in made:
        text = page.read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="https?:', text) == [], page.name
    assert "Trigger.webmethods" in (site / "reference-api.html").read_text(encoding="utf-8")
