"""OpenEnv's validation of a package of ours, and its client against our server."""

import asyncio
import json

import gymnasium as gym
import pytest

from llm_gym.server.sessions import ServerLimits
from tests.server.servers import serving

pytest.importorskip("openenv", reason="needs openenv: make test-exports")
from openenv.core import GenericEnvClient

GAME = "llm_gym/TextGameEasy-v0"
TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def server():
    with serving(GAME) as server:
        yield server


def test_openenvs_client_plays_the_local_episode(server):
    home = gym.make(GAME)
    with GenericEnvClient(base_url=server.url).sync() as env:
        for seed in range(3):
            observation, info = home.reset(seed=seed)
            result = env.reset(seed=seed, episode_id=f"episode {seed}")
            assert result.observation["message"] == observation
            assert (result.done, result.reward) == (False, None)
            done = False
            while not done:
                action = home.unwrapped.solver_action()
                observation, reward, terminated, truncated, info = home.step(action)
                done = terminated or truncated
                result = env.step({"message": action})
                seen = result.observation
                assert (seen["message"], result.reward, result.done) == (observation, reward, done)
                assert (seen["terminated"], seen["truncated"]) == (terminated, truncated)
                assert seen["info"] == json.loads(json.dumps(info))
            state = env.state()
            assert state == {"episode_id": f"episode {seed}", "step_count": info["turn"]}


def test_openenv_validates_an_exported_package(tmp_path):
    from openenv.cli.__main__ import app
    from typer.testing import CliRunner

    from llm_gym_agents.export.packages import write_openenv

    folder = write_openenv(tmp_path, GAME, max_turns=5)
    assert "max_turns=5" in (folder / "Dockerfile").read_text()
    done = CliRunner().invoke(app, ["validate", str(folder), "--level", "static", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["verdict"] == "pass"


def test_wrong_calls_of_openenvs_client_are_errors_and_the_session_goes_on(server):
    with GenericEnvClient(base_url=server.url).sync() as env:
        with pytest.raises(RuntimeError, match="has not begun"):
            env.step({"message": "look"})
        env.reset(seed=0)
        for bad in ({}, {"message": 3}, {"text": "look"}):
            with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
                env.step(bad)
        with pytest.raises(RuntimeError, match="options"):
            env.reset(path="/etc/passwd")
        env.reset(seed=0)
        assert env.step({"message": "look"}).observation["info"]["turn"] == 1


def test_many_openenv_clients_play_at_once_and_close_their_sessions(server):
    async def play(seed):
        async with GenericEnvClient(base_url=server.url) as env:
            result = await env.reset(seed=seed)
            texts = [result.observation["message"]]
            for _ in range(5):
                texts.append((await env.step({"message": "look"})).observation["message"])
        return texts

    async def all_of_them():
        return await asyncio.gather(*(play(seed) for seed in range(64)))

    home = gym.make(GAME)
    for seed, texts in enumerate(asyncio.run(all_of_them())):
        assert texts == [home.reset(seed=seed)[0], *(home.step("look")[0] for _ in range(5))]
    assert len(server.sessions) == 0


def test_a_full_server_and_a_missing_token_are_errors():
    with serving(GAME, limits=ServerLimits(sessions=1), token=TOKEN) as server:
        with pytest.raises(ConnectionError):
            GenericEnvClient(base_url=server.url).sync().connect()
        inside = server.url.replace("http://", f"http://anybody:{TOKEN}@")
        with GenericEnvClient(base_url=inside).sync() as env:
            env.reset(seed=0)
            with (
                GenericEnvClient(base_url=inside).sync() as other,
                pytest.raises(RuntimeError, match="CAPACITY_REACHED"),
            ):
                other.reset()


def test_an_idle_session_gets_a_message_and_is_closed():
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    with serving(GAME, limits=ServerLimits(idle_s=0.2)) as server:
        with connect(server.url.replace("http", "ws") + "/ws") as talk:
            talk.send('{"type": "reset", "data": {}}')
            assert json.loads(talk.recv())["type"] == "observation"
            assert "idle for too long" in json.loads(talk.recv())["data"]["message"]
            with pytest.raises(ConnectionClosed):
                talk.recv()
        assert len(server.sessions) == 0
