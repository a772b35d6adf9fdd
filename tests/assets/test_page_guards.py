"""Tests that pages and Dagster's metadata escape texts of other people."""

import re
from pathlib import Path

import pytest

from assets.metadata import as_text, bullets
from assets.report import page as pages
from assets.report.label_page import write_label_page

TEMPLATES = Path(pages.__file__).parent / "templates"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def test_every_page_runs_only_its_own_scripts():
    whole = [
        path for path in TEMPLATES.glob("*.html") if path.name == "base.html" or "extends" in path.read_text()[:40]
    ]
    fragments = {"figures.html", "first.html", "verdict.html", "why.html"}
    assert {path.name for path in TEMPLATES.glob("*.html")} - {path.name for path in whole} <= fragments
    assert "default-src 'none'; script-src 'nonce-{{ key }}'" in (TEMPLATES / "base.html").read_text()
    for path in TEMPLATES.glob("*.html"):
        for attributes in re.findall(r"<script([^>]*)>", path.read_text()):
            assert 'nonce="{{ key }}"' in attributes or 'type="application/json"' in attributes, path.name
        assert not re.search(r"<[^>]+\son\w+=", path.read_text()), path.name


def test_the_nonce_of_a_page_depends_on_its_content(tmp_path):
    keys = set()
    for name, text in (("a", HOSTILE), ("b", HOSTILE), ("c", "another")):
        write_label_page(
            tmp_path / f"{name}.html", [("i1", "random", "", {"response": text})], ("item_id",), "?", [], (0, 1)
        )
        written = (tmp_path / f"{name}.html").read_text()
        key = re.findall(r"nonce-(\w{32})'", written)[0]
        assert written.count(f'nonce="{key}"') == 1
        assert HOSTILE not in written
        keys.add(key)
    assert len(keys) == 3, "the name of the table that a page hands back is in it too"


@pytest.mark.parametrize(
    "text", ["[x](http://evil.example)", "![](http://evil.example/p.png)", "<img src=x>", "`a` *b*"]
)
def test_markdown_in_users_texts_is_escaped(text):
    shown = as_text(text)
    assert re.sub(r"\\(.)", r"\1", shown) == text
    assert not re.search(r"(?<!\\)[\[\]<>!`*]", shown)
    assert bullets([text]).md_str == f"- {shown}\n"
