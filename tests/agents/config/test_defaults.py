"""Defaults by task: one table, which sets what the user did not set, with reasons."""

import dataclasses

import pytest

from llm_gym_agents.commands.plan import profile_task
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.defaults import CHOSEN, apply_defaults, get_setting
from llm_gym_agents.config.profile import TaskProfile, iteration_seconds
from llm_gym_agents.config.rules import unused_settings
from llm_gym_agents.model.load import tiny_llama
from llm_gym_agents.run.checkpoint_weights import save_lm
from tests.agents.small_run import config_with
from tests.agents.text.chat_templates import FAMILIES, build_tokenizer

ECHO = TaskProfile(model="embedded", env="suite", is_markov=True, move_chars=6)


def profile_of(env_id, model="tiny", lora_rank=0, **settings):
    env = {"environment__env_id": env_id, "environment__env_kwargs": settings}
    return profile_task(config_with(**env, model__model_name=model, model__lora_rank=lora_rank))


@pytest.mark.parametrize(
    ("weights", "full", "lora"),
    [
        (150_000, 1e-3, 1e-3),  # as the embedded model
        (135_000_000, 2e-5, 2e-4),  # measured
        (500_000_000, 7.5e-6, 7.5e-5),
        (7_000_000_000, 1e-6, 1e-5),  # as verl and TRL
        (0, 2e-5, 2e-4),  # not known
    ],
)
def test_larger_models_learn_at_lower_rates(weights, full, lora):
    for model, rate in (("full", full), ("lora", lora)):
        config = ConfigStore()
        apply_defaults(config, dataclasses.replace(ECHO, model=model, weights=weights))
        assert config.training.learning_rate == rate
        assert 1e-5 <= config.warm_start.rate <= 3e-3


@pytest.mark.parametrize("name", ["chatml", "llama-3"])
def test_a_profile_reads_the_size_of_a_model_and_whether_it_thinks(name, tmp_path):
    tokenizer = build_tokenizer(FAMILIES[name])
    made = tiny_llama(tokenizer)
    save_lm(tmp_path, made, tokenizer)
    found = profile_of("llm_gym/Echo-v0", model=str(tmp_path))
    assert found.weights == made.num_parameters()
    assert found.thinks == (name == "chatml")
    config = ConfigStore()
    apply_defaults(config, found)
    assert config.inference.max_tokens == (1024 if found.thinks else 32)
    config.model.model_name, config.environment.env_id = str(tmp_path), "llm_gym/Echo-v0"
    config.inference.template_options = {"enable_thinking": False}
    assert not profile_task(config).thinks


@pytest.mark.parametrize(
    ("env_id", "is_markov"),
    [
        ("llm_gym/Echo-v0", True),
        ("llm_gym/FrozenLake-v0", True),
        ("llm_gym/TextGameEasy-v0", True),
        ("llm_gym/TextGame-v0", False),
        ("llm_gym/Maze-v0", True),
        ("llm_gym/MazePartial-v0", False),
        ("llm_gym/GuessTheNumber-v0", False),
        ("llm_gym/Memory-v0", False),
        ("llm_gym/Sudoku-v0", True),
        ("FrozenLake-v1", True),
    ],
)
def test_a_profile_knows_whether_an_environment_is_markov(env_id, is_markov):
    assert profile_of(env_id).is_markov == is_markov


def test_a_profile_describes_model_and_environment():
    easy = profile_of("llm_gym/TextGameEasy-v0")
    assert (easy.model, easy.env, easy.turns) == ("embedded", "suite", 16)
    assert easy.has_potential
    assert easy.has_splits
    lake = profile_of("FrozenLake-v1", is_slippery=False)
    assert (lake.env, lake.move_chars) == ("as_text", len("right"))
    assert profile_of("llm_gym/Echo-v0", model="some/where").model == "full"
    assert profile_of("llm_gym/Echo-v0", model="some/where", lora_rank=4).model == "lora"
    assert profile_of("llm_gym/Echo-v0", action_format="tag").move_chars > len("<action>")


@pytest.mark.parametrize(
    ("env_id", "estimator", "size", "credit"),
    [
        ("llm_gym/TextGameEasy-v0", "grpo", 8, "turn"),  # shaped
        ("llm_gym/Echo-v0", "rloo", 8, "episode"),
        ("llm_gym/Echo-v0", "grpo", 8, "episode"),
        ("llm_gym/TextGameEasy-v0", "gae", 1, "episode"),
        ("llm_gym/TextGameEasy-v0", "reinforce_plus_plus_baseline", 8, "episode"),
    ],
)
def test_an_estimator_that_compares_episodes_gets_groups_and_sees_shaping(
    env_id, estimator, size, credit
):
    config = config_with(environment__env_id=env_id, training__adv_estimator=estimator)
    apply_defaults(config, profile_task(config))
    assert config.training.group_size == size
    assert config.training.estimator_settings.get("credit", "episode") == credit
    small = (size > 1 and "TextGame" in env_id) or estimator == "rloo"  # what it compares
    assert config.training.entropy_coef == (0.002 if small else 0.01)
    config.check()


def test_groups_fit_into_a_batch_that_somebody_chose():
    config = config_with(training__batch_size=12, training__adv_estimator="grpo")
    made = apply_defaults(config, dataclasses.replace(ECHO, groups=True), {"training.batch_size"})
    assert config.training.group_size == 4
    assert "the batch that you chose" in str(
        next(each for each in made if each.setting == "training.group_size")
    )
    config.check()


def test_settings_that_nobody_chose_are_filled_in_and_listed():
    config = ConfigStore()
    made = {each.setting: each for each in apply_defaults(config, ECHO)}
    assert config.inference.context == "observation"
    assert config.inference.max_tokens == len("yellow") + 2
    assert config.warm_start.player == "auto"
    assert config.environment.env_kwargs == {"rules": "system", "penalty": 0.1}
    assert CHOSEN not in [each.reason for each in made.values()]
    config.check()


def test_chosen_settings_stay_and_are_listed():
    config = config_with(training__gamma=1.0, environment__env_kwargs={"penalty": 0.0})
    chosen = {"training.gamma", "environment.env_kwargs.penalty"}
    made = {each.setting: each for each in apply_defaults(config, ECHO, chosen)}
    assert config.training.gamma == 1.0
    assert config.environment.env_kwargs == {"penalty": 0.0, "rules": "system"}
    assert {each.setting for each in made.values() if each.reason == CHOSEN} == chosen


def test_a_smaller_batch_shrinks_the_settings_that_depend_on_it():
    config = config_with(training__batch_size=8)
    apply_defaults(config, ECHO, {"training.batch_size"})
    assert config.training.mini_batch_size == config.inference.num_envs == 8
    config.check()


@pytest.mark.parametrize("model", ["embedded", "full", "lora"])
@pytest.mark.parametrize("env", ["suite", "as_text", "other"])
def test_every_profile_gives_settings_that_can_be_trained_with(model, env):
    for flag in (False, True):
        config = ConfigStore()
        profile = TaskProfile(
            model=model, env=env, is_markov=flag, has_potential=flag, has_splits=flag, move_chars=2
        )
        apply_defaults(config, profile)
        config.check()
        assert unused_settings(config, config.diff()) == []


def defaults_of(env_id):
    config = config_with(environment__env_id=env_id)
    apply_defaults(config, profile_task(config))
    config.check()
    return config


@pytest.mark.parametrize(("model", "most"), [("embedded", 1600), ("full", 3200)])
@pytest.mark.parametrize("turns", [1, 7, 25, 26, 50, 100])
def test_an_iteration_plays_no_more_turns_of_a_long_game(model, most, turns):
    config = ConfigStore()
    apply_defaults(config, TaskProfile(model=model, env="as_text", episode_turns=turns))
    batch = config.training.batch_size
    assert batch * turns <= most
    assert config.training.mini_batch_size == batch / 4


def test_short_episodes_come_in_larger_batches_and_every_run_takes_about_as_long():
    echo, game = defaults_of("llm_gym/Echo-v0"), defaults_of("llm_gym/Game2048Easy-v0")
    assert (echo.training.batch_size, game.training.batch_size) == (256, 16)
    assert echo.inference.num_envs == 4 * echo.training.mini_batch_size == 256
    assert game.training.mini_batch_size == 4
    for words, most in ((1.0, 72), (500.0, 31), (8_000.0, 6), (1e6, 6)):
        seen = dataclasses.replace(ECHO, episode_turns=100.0, episode_words=words)
        apply_defaults(echo, seen)
        took = 5 * iteration_seconds(seen, 16, 20) * echo.training.num_epochs
        assert 6 <= echo.training.num_epochs <= most
        assert echo.training.num_epochs == 6 or took <= 200


def test_an_endless_gymnasium_environment_is_cut_and_bootstrapped():
    cart = defaults_of("CartPole-v1").inference
    assert (cart.max_turns, cart.bootstrap_at_turn_limit) == (100, True)
    assert defaults_of("MountainCar-v0").inference.max_turns > 110  # its best player needs them
    assert (
        defaults_of("llm_gym/FrozenLake-v0").inference.max_turns is None
    )  # its rules limit it to 100


@pytest.mark.parametrize(
    ("env_id", "player", "chosen"),
    [
        ("llm_gym/Echo-v0", "none", ("linear", 0.1)),
        ("llm_gym/Echo-v0", "best_random", ("linear", 0.1)),
        ("llm_gym/Echo-v0", "random", ("constant", 0.4)),
        ("llm_gym/FrozenLake-v0", "random", ("constant", 0.1)),
        ("Pendulum-v1", "none", ("constant", 0.1)),
    ],
)
def test_steps_are_smaller_after_a_solver_and_in_long_episodes(env_id, player, chosen):
    config = config_with(environment__env_id=env_id, warm_start__player=player)
    apply_defaults(config, profile_task(config), {"warm_start.player"} - {player})
    assert (config.training.lr_schedule, config.training.max_kl) == chosen


def test_gymnasium_environments_get_penalties_and_critics_in_their_own_units():
    cliff = defaults_of("CliffWalking-v1").environment.env_kwargs
    assert cliff["penalty"] == 10.0  # a step into the cliff costs 100
    assert cliff["max_invalid"] == 100
    lake = defaults_of("FrozenLake-v1").environment.env_kwargs
    assert lake["penalty"] == 0.1
    assert "max_invalid" not in lake
    cliff, echo = (defaults_of(each).training for each in ("CliffWalking-v1", "llm_gym/Echo-v0"))
    assert cliff.normalise_values
    assert cliff.critic_warmup_iters > 0
    assert cliff.value_learning_rate > cliff.learning_rate
    assert not echo.normalise_values
    assert echo.value_learning_rate is None
    cart, lake = profile_of("CartPole-v1"), profile_of("FrozenLake-v1")
    assert cart.episode_turns == 50
    assert lake.episode_turns < 20
    assert defaults_of("CartPole-v1").training.gamma > defaults_of("FrozenLake-v1").training.gamma


@pytest.mark.parametrize(
    ("facts", "setting", "value"),
    [
        # Where random moves often win, a simple player is imitated.
        ({"env": "suite", "random_wins": 0.7}, "warm_start.player", "reflex"),
        ({"env": "suite", "random_wins": 0.5}, "warm_start.player", "auto"),
        ({"env": "as_text", "random_wins": 0.7}, "warm_start.player", "auto"),
        # A solver is imitated by a deeper model.
        ({"env": "suite", "taught": True, "is_markov": True}, "model.tiny_layers", 3),
        ({"env": "suite", "taught": True}, "model.tiny_layers", 2),
        ({"env": "suite", "is_markov": True}, "model.tiny_layers", 2),
    ],
)
def test_the_embedded_model_gets_what_suits_the_task(facts, setting, value):
    config = ConfigStore()
    apply_defaults(config, TaskProfile(model="embedded", **facts))
    assert get_setting(config, setting) == value
