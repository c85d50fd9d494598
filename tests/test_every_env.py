"""The contract that every registered environment keeps.

``every_env`` is each id. ``env`` is one id of each class; the others, which differ in their
settings only, are marked slow.
"""

import contextlib
import inspect
import io
import json
import os
import pickle
import re
from itertools import product

import gymnasium as gym
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit, TransformReward
from hypothesis import given
from hypothesis import strategies as st

import llm_gym
from llm_gym.core.env import TextEnv
from llm_gym.core.errors import ContractError
from llm_gym.core.outcome import StopReason, stop_reason
from llm_gym.core.splits import SPLITS, split_of
from llm_gym.evaluate import checker
from llm_gym.evaluate.checker import HOSTILE, INFO_KEYS, check_text_env
from llm_gym.evaluate.fairness import splits_share_nothing
from llm_gym.evaluate.scores import PLAYERS, published
from llm_gym.reading.formats import FORMATS
from llm_gym.registry.suite import ENVS
from tests.matrix import FIRST_OF_CLASS, some_of
from tests.processes import run_python

HEADINGS = ["Description", "Actions", "Observations", "Rewards", "Episode end", "Args"]
IDS = [row.id for row in ENVS]
FIRST_OF_FAMILY = list({row.entry_point.split(".")[2]: row.id for row in reversed(ENVS)}.values())
SEEDS = 200


def play(env, player, seed):
    """Let a built-in player play one episode; return all that reset and step returned."""
    trace = [env.reset(seed=seed)]
    while len(trace) == 1 or not (trace[-1][2] or trace[-1][3]):
        trace.append(env.step(getattr(env.unwrapped, f"{player}_action")()))
    return trace


def test_every_class_passes_check_text_env(env, monkeypatch):
    monkeypatch.setattr(checker, "EPISODES", 12)
    check_text_env(env)


@pytest.mark.slow
def test_the_oracle_wins_as_often_as_oracle_value_on_many_seeds(every_env, monkeypatch):
    monkeypatch.setattr(checker, "EPISODES", SEEDS)
    checker.CHECKS["oracle_move wins as often as oracle_value() says"](every_env)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("player", "episodes"), [("random", 100), ("reflex", 100), ("oracle", SEEDS)]
)
def test_a_player_has_its_published_score(every_env, player, episodes):
    score = published()[every_env.spec.id][player]
    wins = sum(play(every_env, player, seed)[-1][4]["success"] for seed in range(episodes))
    assert score.low - 0.12 <= wins / episodes <= score.high + 0.12


def test_the_reflex_makes_usable_moves(env):
    trace = play(env, "reflex", 2)
    assert all(step[4]["valid_action"] for step in trace[1:])


def test_published_scores_exist_for_every_id():
    assert published().keys() == set(IDS)
    for env_id, row in published().items():
        assert row.keys() == PLAYERS.keys(), env_id
        assert row["random"].success < row["solver"].success <= row["oracle"].high, env_id
        assert row["random"].low <= row["reflex"].high, f"{env_id}: a rule worse than none"
        assert row["oracle"].turns <= row["solver"].turns, f"{env_id}: an oracle with detours"


def test_seed_and_actions_determine_the_episode_beside_other_environments(env):
    alone = play(env, "random", seed=3)
    other = gym.make(env.spec.id)
    together = [env.reset(seed=3)]
    other.reset(seed=99)
    while len(together) < len(alone):
        action = env.unwrapped.random_action()
        other_step = other.step(other.unwrapped.random_action())
        if other_step[2]:
            other.reset()
        together.append(env.step(action))
    assert together == alone


def test_asking_players_for_advice_does_not_change_the_episode(env):
    undisturbed = play(env, "random", seed=8)
    env.reset(seed=8)
    game = env.unwrapped
    for _ in range(3):
        game.oracle_action(), game.solver_action(), game.legal_actions(), game.action_pattern()
        game.describe(), game.instance_id(), game.snapshot()
    assert play(env, "random", seed=8) == undisturbed


EPISODES_BY_HASH_SEED = """
import gymnasium as gym, hashlib, json, sys
from llm_gym.registry.suite import ENVS
for row in ENVS:
    env = gym.make(row.id); text = []
    for seed in range(1):
        text.append(repr(env.reset(seed=seed))); done = False
        while not done:
            *step, done, truncated, info = env.step(env.unwrapped.random_action())
            text.append(repr((step, info)))
        text.append(env.unwrapped.instance_id())
    print(row.id, hashlib.sha256("".join(text).encode()).hexdigest())
"""


def test_a_fresh_process_with_another_hash_seed_plays_the_same_episodes():
    done = run_python(EPISODES_BY_HASH_SEED, env={**os.environ, "PYTHONHASHSEED": "12345"})
    with contextlib.redirect_stdout(io.StringIO()) as here:
        exec(EPISODES_BY_HASH_SEED, {})
    assert done.stdout == here.getvalue(), done.stderr
    assert len(done.stdout.splitlines()) == len(ENVS)


@pytest.mark.parametrize(
    ("env_id", "action_format"),
    [
        *some_of(FIRST_OF_CLASS, FORMATS),
        *(
            pytest.param(*cell, marks=pytest.mark.slow)
            for cell in product(sorted({*IDS} - {*FIRST_OF_CLASS}), FORMATS)
        ),
    ],
)
def test_hostile_text_is_an_observation_not_an_exception(env_id, action_format):
    env = gym.make(env_id, action_format=action_format, disable_env_checker=True)
    for text in HOSTILE.values():
        env.reset(seed=0)
        obs, reward, *_, info = env.step(text)
        assert env.observation_space.contains(obs)
        assert reward <= 0.0 or info["valid_action"]
        assert set(INFO_KEYS) <= info.keys()
    env.close()


@given(text=st.text(), action_format=st.sampled_from(list(FORMATS)), row=st.sampled_from(ENVS))
def test_no_text_raises(text, action_format, row):
    env = gym.make(row.id, action_format=action_format, disable_env_checker=True)
    env.reset(seed=0)
    obs, *_ = env.step(text)
    assert env.observation_space.contains(obs)


@pytest.mark.parametrize(("env_id", "action_format"), some_of(FIRST_OF_CLASS, FORMATS))
def test_every_player_writes_every_format_and_the_rules_show_an_example(env_id, action_format):
    env = gym.make(env_id, action_format=action_format, rules="system")
    game = env.unwrapped
    for player in ("oracle_action", "solver_action", "random_action"):
        env.reset(seed=2)
        action = getattr(game, player)()
        assert re.fullmatch(game.action_pattern(), action), player
        assert env.step(action)[4]["valid_action"], player
    env.reset(seed=3)
    saved, pattern = game.snapshot(), game.action_pattern()
    for action in (game.legal_actions() or [game.random_action()])[:8]:
        game.restore(saved)
        info = env.step(action)[4]
        assert (info["valid_action"], info["reader"]) == (True, "format"), action
        assert re.fullmatch(pattern, action), action
    shown = game._base_format.render(game.example_moves()[0])
    is_raw = action_format == "raw"
    assert is_raw or shown in game.system_prompt
    assert game.system_prompt.count("Example of the form:") == (not is_raw)
    assert ("on the last line" in game.system_prompt) == (action_format == "plain")
    assert game._base_format.parse(shown) == game.example_moves()[0]


def test_the_rules_are_in_the_observation_or_the_system_prompt_and_never_both(env):
    whole = env.reset(seed=1)[0]
    quiet = gym.make(env.spec.id, rules="system")
    state, info = quiet.reset(seed=1)
    prompt = quiet.unwrapped.system_prompt
    assert info["system_prompt"] == prompt
    assert env.unwrapped.system_prompt == ""
    assert "system_prompt" not in env.reset(seed=1)[1]
    assert whole == f"{prompt}\n\n{state}"
    assert prompt not in state
    assert state == quiet.unwrapped.describe()


@pytest.mark.parametrize(
    ("env_id", "mode"),
    [
        *((env_id, "sync") for env_id in FIRST_OF_CLASS),
        (FIRST_OF_FAMILY[0], "async"),
        *(pytest.param(env_id, "async", marks=pytest.mark.slow) for env_id in FIRST_OF_FAMILY[1:]),
    ],
)
def test_the_vector_envs_of_gymnasium_run_it(env_id, mode):
    env, vec = gym.make(env_id), gym.make_vec(env_id, num_envs=2, vectorization_mode=mode)
    obs, _ = vec.reset(seed=0)
    assert obs == (env.reset(seed=0)[0], env.reset(seed=1)[0])
    obs, rewards, *_ = vec.step(["", "\ud800 é"])
    assert all(isinstance(text, str) and text for text in obs)
    assert rewards.shape == (2,)
    vec.close()


def test_a_spec_from_json_rebuilds_the_same_episode(env):
    spec = gym.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert play(gym.make(spec), "random", 1) == play(env, "random", 1)


def test_a_pickle_in_mid_episode_continues_it(env):
    game = env.unwrapped
    env.reset(seed=6)
    for _ in range(3):
        twin = pickle.loads(pickle.dumps(env))
        action = game.random_action()
        step = env.step(action)
        assert twin.step(action) == step
        twin.close()
        if step[2]:
            break


def test_a_player_without_usable_moves_loses_after_the_last_turn_and_is_not_truncated(env):
    env.reset(seed=0)
    steps = [env.step("???") for _ in range(env.unwrapped.max_turns)]
    assert [step[2] for step in steps] == [False] * (len(steps) - 1) + [True]
    assert not any(step[3] for step in steps)
    assert sum(step[1] for step in steps) == 0.0
    assert steps[-1][4]["stop_reason"] is StopReason.LOST


def test_stock_wrappers_work_and_a_time_limit_only_truncates(env):
    wrapped = RecordEpisodeStatistics(TransformReward(TimeLimit(env, 1), lambda r: 2 * r))
    wrapped.reset(seed=0)
    _, _, terminated, truncated, info = wrapped.step("not a move at all")
    assert (terminated, truncated) in {(False, True), (True, False)} or env.unwrapped.max_turns == 1
    assert info["episode"]["l"] == 1
    expected = StopReason.MAX_STEPS if not terminated else info["stop_reason"]
    assert stop_reason(terminated, truncated, info) is expected


def test_splits_never_share_an_instance(env):
    if not env.unwrapped.has_splits:
        with pytest.raises(ValueError, match="reset without a split"):
            env.reset(options={"split": "test"})
        return
    for split, seed in product(SPLITS, range(20)):
        env.reset(seed=seed, options={"split": split})
        assert split_of(env.unwrapped.instance_id()) == split


def shared_by_splits(env, draws):
    """Return what train and test have in common, or None."""
    try:
        splits_share_nothing(env, draws)
    except ContractError as broken:
        return str(broken)


@pytest.mark.slow
def test_splits_share_nothing_that_a_table_of_thousands_could_use(every_env):
    assert shared_by_splits(every_env, 3000) is None


# Of each kind of game the one with the fewest beginnings.
@pytest.mark.parametrize(
    ("name", "settings", "draws"),
    [
        ("TextToSQLEasy", {}, 500), ("MinesweeperEasy", {}, 200), ("CoinCollectorEasy", {}, 600),
        ("CookingWorldEasy", {}, 1000), ("SearchQAEasy", {}, 1000), ("WordleEasy", {}, 200),
        ("FrozenLake", {}, 500), ("ChainSumEasy", {}, 500), ("Mastermind", {}, 200),
        ("Maze", {"size": 3, "view": 1}, 500),
    ],
)  # fmt: skip
def test_splits_share_nothing_that_a_table_could_use(name, settings, draws):
    env = gym.make(f"llm_gym/{name}-v0", **settings)
    assert env.unwrapped.has_splits  # without them nothing would be compared
    assert shared_by_splits(env, draws) is None


def test_a_table_of_training_questions_answers_no_test_question():
    env, known = gym.make("llm_gym/TextToSQLEasy-v0").unwrapped, set()
    env.reset(seed=1)
    for _ in range(1500):
        known.add(env.reset(options={"split": "train"})[0])
    assert len(known) > 1000
    assert not any(env.reset(options={"split": "test"})[0] in known for _ in range(100))


def test_difficulty_changes_the_game_or_is_refused(env):
    game = env.unwrapped
    if not type(game).at_difficulty(0.0):
        with pytest.raises(ValueError, match=r"has no difficulty setting: .+"):
            env.reset(options={"difficulty": 0.5})
        return
    plain = type(game)
    easy, hard = plain(difficulty=0.0), plain(difficulty=1.0)
    assert easy.reset(seed=0) != hard.reset(seed=0)
    again = plain(difficulty=0.0)
    assert again.reset(seed=0, options={"difficulty": 1.0})[0] == hard.reset(seed=0)[0]
    assert again.reset(seed=0)[0] == easy.reset(seed=0)[0], "an option holds for one episode"
    for difficulty in (0.0, 0.25, 0.5, 0.75, 1.0):
        level = plain(difficulty=difficulty)
        if level.oracle_value.__func__ is llm_gym.core.game.Game.oracle_value:
            assert play(level, "oracle", seed=7)[-1][4]["success"], difficulty


def test_the_docstring_has_every_heading_argument_and_info_key(env):
    doc = inspect.getdoc(type(env.unwrapped))
    found = re.findall(r"^([A-Z][a-z ]+):$", doc, flags=re.M)
    assert [heading for heading in found if heading != "Info"] == HEADINGS
    arguments = doc.split("\nArgs:\n")[1]
    for name in inspect.signature(type(env.unwrapped)).parameters:
        assert re.search(rf"^    (\*\*)?{name}: ", arguments, flags=re.M), name
    info = env.reset(seed=0)[1]
    for key in info:
        assert f"``{key}``" in doc + inspect.getdoc(llm_gym.core.env.TextEnv), key


def test_common_arguments_are_documented_once():
    doc = inspect.getdoc(llm_gym.core.env.TextEnv)
    for name in inspect.signature(TextEnv).parameters:
        assert f"\n    {name}: " in doc, name


def test_ids_are_namespaced_versioned_and_have_json_settings():
    for row in ENVS:
        namespace, name, version = gym.envs.registration.parse_env_id(row.id)
        assert (namespace, version) == ("llm_gym", 0), row.id
        assert name.isalnum(), row.id
        assert json.loads(json.dumps(row.kwargs)) == row.kwargs
