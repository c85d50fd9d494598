"""Every view in a real browser, over a run that a real training left."""

import json

import pytest

from llm_gym.episodes import read_episodes
from tests.view.records import make_run

GUESS = "llm_gym/GuessTheNumber-v0"
SIZES = {"desktop": {"width": 1280, "height": 860}, "phone": {"width": 390, "height": 800}}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a training run of two iterations, groups of two, every iteration recorded."""
    pytest.importorskip("torch", reason="needs the trainer")
    from llm_gym_agents import PPOTrainer
    from tests.agents.small_run import small

    folder = tmp_path_factory.mktemp("trained") / "real"
    config = small(
        folder,
        environment={"env_id": GUESS, "eval_interval": 1},
        training={"num_iters_per_epoch": 2, "group_size": 2},
        checkpoint={"record_every": 1},
    )
    trainer = PPOTrainer(config)
    trainer.evaluate(records=str(folder / "episodes/before.jsonl"))
    trainer.fit()
    trainer.evaluate(records=str(folder / "episodes/after.jsonl"))
    trainer.cleanup()
    return folder


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("size", SIZES)
def test_every_view_of_a_real_run_opens_by_a_click(trained, serve, visit, size, scheme):
    page = visit(serve(trained), viewport=SIZES[size], color_scheme=scheme)
    charts = page.locator(".chart")
    assert {"eval/success", "policy/kl"} <= set(
        charts.evaluate_all("all => all.map(c => c.dataset.metric)")
    )
    page.get_by_role("link", name="Episodes").click()
    page.select_option("label:has(span:text-is('file')) select", "train-000002")
    assert page.locator(".count").text_content().startswith("4 of ")
    page.locator(".row").first.click()
    page.locator(".token").first.hover()
    assert page.locator("[data-figure=log_probs]").is_visible()
    assert page.locator(".curve svg").is_visible()
    page.get_by_role("link", name="Groups").click()
    page.locator(".row").first.click()
    page.locator(".side").nth(1).wait_for()
    page.get_by_role("link", name="Suite").click()
    page.locator("table.heat").wait_for()
    assert page.locator("table.heat tbody tr").count() == 1
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")


def test_the_figures_of_every_token_are_those_of_the_file(trained, serve, visit):
    page = visit(serve(trained))
    episode = next(read_episodes(trained / "episodes/train-000002.jsonl"))
    record = json.loads((trained / "episodes/train-000002.jsonl").read_text().splitlines()[0])
    page.evaluate("location.hash = '#/episodes?label=train-000002'")
    page.locator(".row").first.click()
    page.locator(".token").first.wait_for()
    tokens, places = record["tokens"], [at for at, on in enumerate(episode.tokens.trained_on) if on]
    assert page.locator(".token").count() == len(places) > 3
    shown = page.locator(".token")
    for index, at in enumerate(places):
        shown.nth(index).focus()
        figures = dict(
            page.locator(".figures dd").evaluate_all(
                "all => all.map(d => [d.dataset.figure, [d.textContent, d.title]])"
            )
        )
        for name in ("log_probs", "values", "advantages", "ratios", "entropies"):
            short, exact = map(float, figures[name])
            assert exact == tokens[name][at], (name, at)
            assert short == pytest.approx(exact, rel=1e-5), (name, at)
        assert int(figures["id"][0]) == tokens["ids"][at]
        assert (int(figures["turn"][0]), figures["trained on"][0]) == (tokens["turns"][at], "yes")


def test_colours_show_the_sign_of_the_chosen_figure(tmp_path, serve, visit):
    page = visit(serve(make_run(tmp_path / "run")))
    page.evaluate("location.hash = '#/episode/0/1/1'")
    page.locator(".token").first.wait_for()
    colours = {}
    figures = ("log_probs", "values", "advantages", "true_advantages", "ratios", "entropies")
    for name in figures:
        page.select_option("label:has(span:text-is('colour by')) select", name)
        colours[name] = page.locator(".token").evaluate_all(
            "all => all.map(t => t.style.backgroundColor)"
        )
    assert len(set(map(tuple, colours.values()))) == len(figures)
    assert all(colour.startswith("rgba(217, 95, 14") for colour in colours["advantages"])  # below 0
    assert all(colour.startswith("rgba(33, 102, 172") for colour in colours["values"])  # above


def test_the_same_instance_before_and_after_has_its_first_difference_marked(tmp_path, serve, visit):
    run = make_run(tmp_path / "run")
    page = visit(serve(run))
    page.evaluate("location.hash = '#/episode/0/0/1'")
    page.locator("label:has(span:text-is('beside')) select").select_option(index=1)
    page.locator("mark").first.wait_for()
    assert page.locator("mark").all_text_contents() == ["7", "5"]  # the first actions of the two
    assert "in the reply of turn 0, at character 0" in page.locator(".verdict").text_content()


def test_an_episode_is_played_on_by_hand_from_a_turn(tmp_path, serve, visit):
    run = make_run(tmp_path / "run")
    episode = next(read_episodes(run / "episodes/before.jsonl"))
    page = visit(serve(run))
    page.evaluate("location.hash = '#/episode/0/0/1'")
    panel = page.locator("#turn-1 .play")
    panel.locator("summary").click()
    panel.locator(".prose", has_text=episode.states[1].splitlines()[0]).wait_for()
    panel.locator("input").fill(episode.actions[1])
    panel.locator("input").press("Enter")
    panel.locator(".by-hand").wait_for()
    assert panel.locator(".prose").text_content() == episode.states[2]


def test_charts_zoom_smooth_and_take_logarithms(tmp_path, serve, visit):
    rows = [{"iteration": at, "policy/kl": 10.0 ** (at % 3 - 2)} for at in range(1, 31)]
    page = visit(
        serve(make_run(tmp_path / "run", rows), make_run(tmp_path / "other", rows, gae_lambda=0.5))
    )
    assert page.locator("[data-metric='warm start'] path.line").count() == 2
    line = page.locator("[data-metric='policy/kl'] path.line").first
    shapes = [line.get_attribute("d")]
    page.get_by_label("log axis").check()
    shapes.append(line.get_attribute("d"))
    page.locator("input[type=range]").fill("0.9")
    page.locator("input[type=range]").dispatch_event("change")
    shapes.append(line.get_attribute("d"))
    box = page.locator("[data-metric='policy/kl'] svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 50)
    page.mouse.up()
    page.get_by_role("button", name="whole range").wait_for()
    shapes.append(line.get_attribute("d"))
    assert len(set(shapes)) == 4
    assert shapes[3].count("L") < shapes[2].count("L")
    assert page.locator("[data-metric='policy/kl'] path.line").count() == 2
    assert page.locator("tr.differs th").first.text_content() == "training.gae_lambda"


def test_an_axis_that_reaches_zero_has_a_label_of_zero(tmp_path, serve, visit):
    values = (0.0, 0.0, -0.09, -0.11, -0.05)  # in steps of 0.025, which do not add up to 0
    rows = [{"iteration": at, "value/explained_variance": v} for at, v in enumerate(values, 1)]
    page = visit(serve(make_run(tmp_path / "run", rows)))
    chart = page.locator("[data-metric='value/explained_variance'] svg text")
    labels = chart.all_text_contents()
    assert "0" in labels
    assert not [label for label in labels if "e-" in label]
