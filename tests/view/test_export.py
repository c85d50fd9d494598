"""The exported page: complete, in one file, and data cannot become code."""

import json
import re

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.episodes import write_episodes
from llm_gym.view import export as export_module
from llm_gym.view.export import bundle, digest, export, static_files
from llm_gym.view.sources import open_sources
from tests.view.records import METRICS, hostile, make_run

TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)


@pytest.fixture
def page(tmp_path):
    run = make_run(tmp_path / "run")
    write_episodes(run / "episodes/eval-000002.jsonl", [hostile()])
    return export(open_sources([run])).decode()


def embedded(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_holds_the_metrics_and_every_record(page, tmp_path):
    data = embedded(page)
    assert data["metrics"][0]["rows"] == METRICS
    assert len(data["records"]) == 9
    lines = (tmp_path / "run/episodes/train-000001.jsonl").read_text().splitlines()
    assert data["records"]["0/1/2"] == json.loads(lines[1])


def test_text_of_a_record_adds_no_script(page):
    # One script element with data, one with code: the hostile record has not made a third.
    assert len(re.findall("<script", page)) == page.count("</script>") == 2
    assert "onerror=" not in re.sub(r'id="data">.*?</script>', "", page, flags=re.DOTALL)


def test_the_security_policy_allows_only_the_pages_own_script_and_style(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    assert f"script-src {digest(script)};" in policy
    assert f"style-src {digest(style)};" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    outside = re.sub(r'id="data">.*?</script>', "", page, flags=re.DOTALL)
    assert set(re.findall(r"https?://[\w.]+", outside)) == {"http://www.w3.org"}  # SVG's name
    assert not re.search(r'(?:src|href)="(?!data:|#)', outside)


def test_the_limit_holds_for_each_file(tmp_path):
    page = export(open_sources([make_run(tmp_path / "run")]), limit=1).decode()
    assert sorted(embedded(page)["records"]) == ["0/0/1", "0/1/1", "0/2/1"]


def test_an_export_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(export_module, "MAX_BYTES", 100)
    with pytest.raises(ConfigError, match="--limit"):
        export(open_sources([make_run(tmp_path / "run")]))


def test_the_modules_are_bundled_without_name_clashes():
    names = [
        name
        for file, data in static_files().items()
        if file.endswith(".js")
        for name in TOP_LEVEL.findall(data.decode())
    ]
    assert len(names) == len(set(names))
    script = bundle()
    assert set(names) == set(TOP_LEVEL.findall(script))
    assert not re.search(r"^(?:import|export) ", script, re.MULTILINE)
    assert "</script" not in script


def test_the_page_never_turns_text_into_markup_or_code():
    for file, data in static_files().items():
        text = data.decode()
        assert not re.search(r"(inner|outer|Adjacent)HTML|document\.write|eval\(", text), file
        assert not re.search(r"\bnew Function\b|setAttribute\([\"']on|cssText", text), file
        assert len(text.splitlines()) <= 250, file
