"""Using the page: filters, keys, live runs, no network, hostile text, ten thousand episodes."""

import json
import re

from llm_gym.episodes import write_episodes
from llm_gym.view.export import write_export
from llm_gym.view.sources import open_sources
from tests.view.records import HOSTILE, hostile, make_run, played, with_tokens


def assert_count(page, wanted):
    """So many episodes are listed, now or as soon as the page has caught up."""
    from playwright.sync_api import expect

    expect(page.locator(".count")).to_have_text(re.compile(rf"^{wanted:,} of"))


def choose(page, label, value):
    page.select_option(f"label:has(span:text-is('{label}')) select", value)


def test_filters_and_search_are_kept_in_the_address(tmp_path, serve, visit):
    url = serve(make_run(tmp_path / "run"))
    page = visit(url + "#/episodes")
    assert_count(page, 8)
    choose(page, "won", "true")
    assert_count(page, 4)
    choose(page, "won", "")
    choose(page, "environment", "made/ByHand-v0")
    assert_count(page, 2)
    again = visit(page.url)
    assert_count(again, 2)
    chosen = again.locator("label:has(span:text-is('environment')) select").input_value()
    assert chosen == "made/ByHand-v0"
    choose(page, "environment", "")
    page.locator("summary", has_text="more").click()
    page.get_by_label("return min").fill("1.2")
    assert_count(page, 2)
    page.get_by_label("return min").fill("")
    page.locator("#search").fill("go HOME")
    page.locator("#search").press("Enter")
    assert_count(page, 2)
    assert "go+HOME" in page.url


def test_the_page_can_be_used_by_keyboard_alone(tmp_path, serve, visit):
    page = visit(serve(make_run(tmp_path / "run")))
    page.keyboard.press("2")
    page.locator(".row").first.wait_for()
    page.keyboard.press("/")
    page.wait_for_function("() => document.activeElement.id === 'search'")
    page.keyboard.type("go north")
    page.keyboard.press("Enter")
    assert_count(page, 2)
    page.locator(".virtual").focus()  # by Tab: how many depends on the filters that are shown
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.locator(".token").first.wait_for()
    assert page.url.endswith("#/episode/0/1/2")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.token')"):
            break
    first = page.locator("[data-figure=place]").text_content()
    page.keyboard.press("ArrowRight")
    assert (first, page.locator("[data-figure=place]").text_content()) == ("1", "2")
    page.keyboard.press("p")
    page.wait_for_url("**#/episode/0/1/1")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("4")
    page.locator("table.heat").wait_for()


def test_the_page_follows_a_training_run(tmp_path, serve, visit):
    run = make_run(tmp_path / "run")
    page = visit(serve(run))
    page.get_by_text("iteration 2", exact=True).wait_for()
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"iteration": 3, "eval/success": 0.75}) + "\n")
    page.get_by_text("iteration 3", exact=True).wait_for()
    assert page.get_by_text("iteration 2", exact=True).count() == 0
    page.keyboard.press("2")
    assert_count(page, 8)
    write_episodes(run / "episodes/train-000003.jsonl", [with_tokens()])
    assert_count(page, 9)


def test_the_exported_page_works_from_disk_without_a_network(tmp_path, visit):
    run = make_run(tmp_path / "run")
    write_export(open_sources([run]), tmp_path / "report.html")
    page = visit((tmp_path / "report.html").as_uri(), offline=True)
    assert page.locator(".chart").count() >= 2
    for key, what in (("2", ".row"), ("3", ".row"), ("4", "table.heat")):
        page.keyboard.press(key)
        page.locator(what).first.wait_for()
    page.keyboard.press("2")
    page.locator("#search").fill("go north")
    page.locator("#search").press("Enter")
    assert_count(page, 2)
    page.locator(".row").first.click()
    page.locator(".token").first.focus()
    record = json.loads((run / "episodes/train-000001.jsonl").read_text().splitlines()[0])
    shown = float(page.locator("[data-figure=advantages]").text_content())
    assert shown == record["tokens"]["advantages"][1]
    assert page.get_by_text("play on from here").count() == 0  # which needs the environment


def test_hostile_text_stays_text_in_every_view(tmp_path, serve, visit):
    run = make_run(tmp_path / "run")
    write_episodes(run / "episodes/eval-000001.jsonl", [hostile(), hostile()])
    (run / "config.json").write_text(json.dumps({HOSTILE: HOSTILE}))
    write_export(open_sources([run]), tmp_path / "report.html")
    for url in (serve(run), (tmp_path / "report.html").as_uri()):
        page = visit(url)
        numbers = page.evaluate("document.querySelectorAll('script').length")
        for view in ("run", "episodes", "episode/0/2/1", "episode/0/1/1", "groups", "suite"):
            page.evaluate(f"location.hash = '#/{view}'")
            page.wait_for_function(
                "v => document.getElementById('main').dataset.view === v", arg=view.split("/")[0]
            )
            assert page.locator("img, iframe, object").count() == 0
            assert page.evaluate("document.querySelectorAll('script').length") == numbers
            assert page.evaluate("window.hacked") is None


def test_hidden_characters_are_shown_and_huge_texts_are_cut(tmp_path, serve, visit):
    write_episodes(tmp_path / "hostile.jsonl", [hostile()])
    page = visit(serve(tmp_path / "hostile.jsonl"))
    page.evaluate("location.hash = '#/episode/0/0/1'")
    prose = page.locator(".read .prose").first
    prose.wait_for()
    text = prose.text_content()
    assert "<script>window.hacked = true</script>" in text
    for code in ("U+202E", "U+001B", "U+200B", "U+0000", "U+2028"):
        assert code in text
    assert not re.search("[\u202e\x1b\u200b\x00]", text)
    more = page.get_by_role("button", name=re.compile("show the other"))
    assert more.count() == 1
    more.click()
    assert page.locator(".read .prose").nth(1).text_content().count("<script>") == 500


def test_ten_thousand_episodes_render_only_visible_rows(tmp_path, serve, visit):
    line, other = played(1).to_json() + "\n", with_tokens().to_json() + "\n"
    (tmp_path / "many.jsonl").write_text(line * 9_000 + other * 1_000)
    page = visit(serve(tmp_path / "many.jsonl") + "#/episodes")
    assert_count(page, 10_000)
    assert page.locator(".row").count() < 60
    page.locator(".virtual").focus()
    page.keyboard.press("End")
    page.wait_for_selector("#row-9999")
    assert page.locator(".row").count() < 60
    choose(page, "won", "true")
    assert_count(page, 1_000)
    page.keyboard.press("Home")


def test_an_episode_of_four_thousand_tokens_can_be_navigated(tmp_path, serve, visit):
    write_episodes(tmp_path / "long.jsonl", [with_tokens(6_000)])
    page = visit(serve(tmp_path / "long.jsonl"))
    page.evaluate("location.hash = '#/episode/0/0/1'")
    page.locator(".token").first.focus()
    assert page.locator(".token").count() == 4_000
    page.keyboard.press("End")
    assert page.locator("[data-figure=place]").text_content() == "5999"
