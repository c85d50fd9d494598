"""RecordEpisodes writes what was played, and ``llm-gym replay`` plays it again."""

import pickle

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

from llm_gym.cli import main
from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import StopReason
from llm_gym.episodes import play_episode, read_episodes, write_episodes
from llm_gym.episodes.replay import replay
from llm_gym.wrappers import AsText, EpisodeLimits, RecordEpisodes, ToolUse

GAME = "llm_gym/GuessTheNumber-v0"


def play(env, seed=None, moves="123456"):
    env.reset(seed=seed)
    for move in moves:
        _, _, terminated, truncated, _ = env.step(move)
        if terminated or truncated:
            return


@pytest.fixture
def path(tmp_path):
    return tmp_path / "played" / "episodes.jsonl"


def test_a_record_equals_that_of_play_episode(path):
    env = RecordEpisodes(gym.make(GAME), path, policy="counter")
    moves = iter("123456")
    expected = play_episode(gym.make(GAME), lambda _: next(moves), seed=3)
    expected.policy = "counter"
    play(env, 3)
    env.close()
    assert list(read_episodes(path)) == [expected]


def test_an_episode_is_written_when_it_ends_with_a_seed_of_its_own(path):
    game = gym.make(GAME, low=1, high=10**6)
    env = RecordEpisodes(game, str(path))
    for count in range(1, 5):
        play(env, 0 if count == 1 else None)
        episodes = list(read_episodes(path))
        assert len(episodes) == count
    env.close()
    assert len({episode.seed for episode in episodes}) == 4
    assert len({episode.instance_id for episode in episodes}) == 4
    assert all(replay(game, episode) == "" for episode in episodes)


def test_abandoned_episodes_are_not_written(path):
    env = RecordEpisodes(gym.make(GAME, high=1000), path)
    for seed, moves in ((1, "12"), (2, ""), (3, "123456"), (4, "1")):
        play(env, seed, moves)
    env.close()
    written = {episode.seed: episode.stop_reason for episode in read_episodes(path)}
    assert written == {3: StopReason.LOST}


def test_it_is_rebuilt_from_its_spec_and_can_be_pickled(path):
    env = RecordEpisodes(gym.make(GAME), path, policy="p")
    play(env, 1)
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    play(again, 2)
    third = pickle.loads(pickle.dumps(env))
    play(third, 3)
    for one in (env, again, third):
        one.close()
    assert [episode.seed for episode in read_episodes(path)] == [1, 2, 3]


def test_a_path_without_jsonl_is_refused(path):
    with pytest.raises(ConfigError, match=r"\.jsonl"):
        RecordEpisodes(gym.make(GAME), path.with_suffix(".txt"))


def written(path, *envs, seeds=(0, 1)):
    episodes = [
        play_episode(env, lambda _, env=env: env.get_wrapper_attr("random_action")(), seed=seed)
        for env in envs
        for seed in seeds
    ]
    path.parent.mkdir(exist_ok=True)
    write_episodes(path, episodes)
    return episodes


def test_saved_episodes_replay_unchanged(path, capsys):
    written(
        path,
        gym.make(GAME),
        gym.make("llm_gym/FrozenLakeSlippery-v0"),
        EpisodeLimits(gym.make("llm_gym/TextGame-v0"), max_turns=4),
        ToolUse(gym.make(GAME, max_turns=3), ["finish"], "json"),
        AsText(gym.make("FrozenLake-v1")),
    )
    assert main(["replay", str(path)]) == 0
    assert capsys.readouterr().out == "10 the same, 0 different, 0 not played\n"


COLUMNS = ("actions", "rewards", "dones", "infos", "moves", "terminated", "truncated")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"states": "It is too low?!"}, "turn 0: the observation differs from character"),
        ({"rewards": 0.5}, "turn 0: the reward is 0.0, was 0.5"),
        ({"moves": "17"}, "turn 0: the move differs from character 1 on: it is ...'1', was ..."),
        ({"terminated": True, "dones": True}, "turn 0: the end (terminated) is False, was True"),
        ({"actions": "9"}, "turn 0: the observation differs"),
        ({}, "turn 5: the episode is over, and was not"),
    ],
)
def test_a_difference_is_reported_with_its_turn(path, capsys, changes, message):
    env = RecordEpisodes(gym.make(GAME, high=1000), path)
    play(env, 3)
    env.close()
    (episode,) = read_episodes(path)
    for name, value in changes.items():
        getattr(episode, name)[name == "states"] = value  # the first state holds the rules
    if not changes:
        for name in COLUMNS:
            getattr(episode, name).append(getattr(episode, name)[0])
        episode.states.append("...")
    write_episodes(path, [episode])
    assert main(["replay", str(path)]) == 1
    out = capsys.readouterr().out
    assert f"episode 1 ({GAME}, seed 3) differs: " in out
    assert message in out
    assert out.endswith("0 the same, 1 different, 0 not played\n")


def test_a_wrappers_truncation_is_no_difference_and_a_changed_flag_is():
    env = gym.make(GAME)
    episode = play_episode(EpisodeLimits(gym.make(GAME), max_turns=2), lambda _: "1", seed=3)
    assert episode.stop_reason is StopReason.MAX_STEPS
    assert replay(env, episode) == ""
    env = gym.make(GAME)
    episode = play_episode(env, lambda _: env.unwrapped.oracle_action(), seed=3)
    assert episode.stop_reason is StopReason.WON
    episode.truncated[-1] = True
    assert replay(env, episode) == "turn 0: the cut (truncated) is False, was True"
    episode.terminated, episode.truncated, episode.dones[-1] = [], [], False
    assert replay(env, episode) == "the episode is over, and was not"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"seed": None}, "no seed"),
        ({"env_spec": None}, "no spec"),
        ({"env_spec": {"id": GAME}}, "cannot be rebuilt"),
    ],
)
def test_a_record_that_cannot_be_replayed_is_reported(path, capsys, change, why):
    episode = written(path, gym.make(GAME), seeds=[0])[0]
    for name, value in change.items():
        setattr(episode, name, value)
    write_episodes(path, [episode])
    assert main(["replay", str(path)]) == 2
    out = capsys.readouterr().out
    assert why in out
    assert "0 the same, 0 different, 1 not played" in out


def test_limit_replays_the_first_episodes(path, capsys):
    written(path, gym.make(GAME), seeds=range(5))
    assert main(["replay", str(path), "--limit", "2"]) == 0
    assert capsys.readouterr().out.startswith("2 the same")
    assert main(["replay", str(path) + ".nothing"]) == 2
    path.write_text("")
    assert main(["replay", str(path)]) == 2
    assert "holds no episodes" in capsys.readouterr().err
    path.write_text("import this\n" * 9)
    assert main(["replay", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{path} holds no episodes: line 1: " in printed.err


def test_a_trusted_file_may_name_any_environment(path, monkeypatch, tmp_path, capsys):
    (tmp_path / "own_game.py").write_text(
        "from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv\n"
        "class OwnEnv(GuessTheNumberEnv):\n"
        "    def rules_text(self):\n"
        "        return 'My own. ' + super().rules_text()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    spec = EnvSpec("Own-v0", entry_point="own_game:OwnEnv")
    written(path, gym.make(spec))
    assert main(["replay", str(path)]) == 2
    assert "--trust" in capsys.readouterr().out
    assert main(["replay", str(path), "--trust"]) == 0
