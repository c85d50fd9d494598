"""``llm_gym/Remote-v0`` against a live server: true Gymnasium, and the episodes of local."""

import copy
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from numpy.testing import assert_equal

import llm_gym
from llm_gym.cli import main
from llm_gym.core.errors import ActionTypeError, ConfigError, RemoteError
from llm_gym.registry.suite import ENVS, NEEDS
from tests.matrix import some_of
from tests.server.servers import GUESS, Hanging, serving

GAMES = (GUESS, "llm_gym/TextGameEasy-v0", "llm_gym/Sokoban-v0", "llm_gym/Blackjack-v0")


@pytest.fixture(scope="module", params=GAMES)
def server(request):
    with serving(request.param) as server:
        server.env_id = request.param
        yield server


@pytest.fixture
def remote(server):
    env = gym.make("llm_gym/Remote-v0", url=server.url)
    yield env
    env.close()


def record(env, seed, player="random_action", options=None):
    game = env.unwrapped
    episode = llm_gym.play_episode(env, lambda _: getattr(game, player)(), seed, options)
    return {name: value for name, value in vars(episode).items() if not name.startswith("env_")}


def test_a_remote_environment_passes_gymnasiums_checker_and_ours(remote, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(remote.unwrapped, skip_close_check=True)
    llm_gym.check_text_env(remote)


def test_remote_episodes_equal_local_ones(remote, server):
    local = gym.make(server.env_id)
    for seed in range(4):
        for player in ("random_action", "solver_action", "oracle_action"):
            assert record(remote, seed, player) == record(local, seed, player)
    # Without a seed the generator goes on, there as here.
    assert record(remote, None) == record(local, None)


def test_remote_values_have_the_types_of_local_ones(remote, server):
    local = gym.make(server.env_id)
    expected, got = local.reset(seed=1), remote.reset(seed=1)
    for action in ("", "nonsense \ud800 é", local.unwrapped.oracle_action()):
        expected, got = local.step(action), remote.step(action)
        assert got == expected
        assert [*map(type, got[4].values())] == [*map(type, expected[4].values())]
    for name in ("legal_actions", "action_pattern", "instance_id"):
        assert getattr(remote.unwrapped, name)() == getattr(local.unwrapped, name)()
    assert remote.unwrapped.has_splits == local.unwrapped.has_splits


@pytest.mark.parametrize(
    ("server", "mode"), some_of(GAMES, AutoresetMode), indirect=["server"], scope="module"
)
def test_remote_vector_rows_equal_local_ones_in_every_autoreset_mode(server, mode):
    remote = llm_gym.make_vec("llm_gym/Remote-v0", 5, autoreset_mode=mode, url=server.url)
    local = llm_gym.make_vec(server.env_id, 5, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    examples = local.single_action_space.examples
    assert_equal(remote.reset(seed=7), local.reset(seed=7))
    ended = 0
    for _ in range(25):
        actions = [examples[rng.integers(len(examples))] for _ in range(5)]
        got, expected = remote.step(actions), local.step(actions)
        assert_equal(got, expected)
        over = expected[2] | expected[3]
        ended += over.sum()
        if mode is AutoresetMode.DISABLED and over.any():
            options = {"reset_mask": over}
            assert_equal(remote.reset(options=options), local.reset(options=options))
    assert ended > 0
    remote.close()


def test_copies_and_pickles_have_sessions_of_their_own(remote):
    first_reset = remote.reset(seed=6)
    remote.step("nonsense")
    for twin in (pickle.loads(pickle.dumps(remote)), copy.deepcopy(remote)):
        with pytest.raises(ResetNeeded, match="has not begun"):
            twin.step("nonsense")
        assert twin.reset(seed=6) == first_reset
        twin.close()
    assert remote.step("nonsense")[4]["turn"] == 2


def test_programming_errors_raise_as_they_do_locally(remote):
    with pytest.raises(ResetNeeded, match="has not begun"):
        remote.step("x")
    remote.reset(seed=0)
    with pytest.raises(ActionTypeError, match="decode token ids"):
        remote.step(3)
    with pytest.raises(ConfigError, match="options"):
        remote.reset(options={"level": 3})
    with pytest.raises(ResetNeeded, match="has failed"):
        remote.step("x")
    remote.reset(seed=0)
    while not remote.step("x")[2]:
        pass
    with pytest.raises(ResetNeeded, match="is over"):
        remote.step("x")


def test_an_exception_on_the_server_is_a_remote_error_here():
    with serving("odd", make=Hanging) as server:
        env = gym.make("llm_gym/Remote-v0", url=server.url)
        env.reset(seed=0)
        with pytest.raises(RemoteError, match="ZeroDivisionError"):
            env.step("raise")
        assert env.reset(seed=0)[0] == "hello"
        assert env.step("on")[4]["odd"].keys() == {1}
        envs = llm_gym.make_vec("llm_gym/Remote-v0", 3, url=server.url)
        envs.reset(seed=0)
        with pytest.raises(llm_gym.vector.RowsError, match="row 1 raised RemoteError") as caught:
            envs.step(["a", "raise", "b"])
        assert {row: one[0] for row, one in caught.value.results.items()} == {0: "a", 2: "b"}
        envs.close()
        env.close()


def test_bad_urls_are_refused_and_remote_is_not_in_the_suite(capsys):
    with pytest.raises(ConfigError, match="url="):
        gym.make("llm_gym/Remote-v0")
    assert "llm_gym/Remote-v0" in NEEDS
    assert not NEEDS.keys() & {row.id for row in ENVS}
    assert main(["list", "Remote", "--all"]) == 0
    assert "needs url=" in capsys.readouterr().out
    for url in ("ftp://x", "nowhere", "http://user:secret@127.0.0.1"):
        with pytest.raises(ConfigError, match="url must"):
            gym.make("llm_gym/Remote-v0", url=url)
    with pytest.raises(ConfigError, match="timeout"):
        gym.make("llm_gym/Remote-v0", url="http://127.0.0.1:1", timeout=0)
    with pytest.raises(RemoteError, match="refused"):
        gym.make("llm_gym/Remote-v0", url="http://127.0.0.1:1", tries=1)


def test_the_trainers_pool_opens_a_session_for_each_row():
    from llm_gym_agents.rollouts.pool import TextEnvPool

    with serving("llm_gym/TextGameEasy-v0") as server:
        pool = TextEnvPool("llm_gym/Remote-v0", 8, url=server.url)
        assert pool.has_splits
        pool.reset()
        assert len(server.sessions) == 8
        pool.close()
