"""What prime-rl asks of an environment of verifiers, asked of ours.

prime-rl is not on PyPI and wants GPUs, so it does not run here. Its orchestrator loads an
environment by the name of its package, serves it in a process of its own
(``ZMQEnvServer.run_server``), and has rollouts played and scored there, group by group, by a model
behind an OpenAI-compatible API. All of that but prime-rl itself is verifiers' code, and runs here.
"""

import asyncio
import json
import multiprocessing
import socket

import gymnasium as gym
import pytest

import llm_gym  # noqa: F401 - registers the ids

vf = pytest.importorskip("verifiers")
pytest.importorskip("verifiers.serve", reason="verifiers 0.1 has it")
from verifiers.serve import ZMQEnvClient, ZMQEnvServer  # noqa: E402

from llm_gym_agents.export.verifiers import write_package  # noqa: E402

GUESS, HIGH = "llm_gym/GuessTheNumber-v0", 3
COLUMNS = ["trajectory", "sampling_args"]  # what prime-rl asks to be told
pytestmark = pytest.mark.filterwarnings("ignore")


def count_up(messages):
    """Guess 1, then 2, then 3: a model that knows how often it was asked."""
    return str(1 + sum(one["role"] == "assistant" for one in messages))


def played_here(seed):
    """What the same replies earn in the environment itself, and after how many of them."""
    env = gym.make(GUESS, high=HIGH)
    env.reset(seed=seed)
    for guess in range(1, HIGH + 1):
        _, reward, terminated, truncated, _ = env.step(str(guess))
        if terminated or truncated:
            return reward, guess
    raise AssertionError("one of the numbers is the number")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package of our environment, where Python finds it, in processes of ours as well."""
    root = write_package(tmp_path, GUESS, high=HIGH)
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.setenv("A_KEY", "not-a-secret")
    return "guess-the-number"


@pytest.fixture
def client(chat_server):
    chat_server.talk = count_up
    return vf.ClientConfig(api_base_url=chat_server.url, api_key_var="A_KEY", max_retries=0)


def check(outputs, seeds):
    for output, seed in zip(outputs, seeds, strict=True):
        reward, turns = played_here(seed)
        assert (output["reward"], output["metrics"]["success"]) == (reward, 1.0)
        assert len(output["trajectory"]) == turns
        assert [one["completion"][-1]["content"] for one in output["trajectory"]] == [
            str(guess) for guess in range(1, turns + 1)
        ]
        assert output["is_completed"]
        assert not output["error"]


def test_groups_of_rollouts_are_played_and_scored_by_name(package, client):
    env = vf.EnvGroup(
        envs=[vf.load_environment(package, num_train=4, num_eval=2)], env_names=[package]
    )
    env.set_max_seq_len(4096)
    rows = env.get_dataset().to_list()
    assert len(rows) == 4

    async def groups():
        groups = [[vf.RolloutInput(**row)] * 2 for row in rows]
        sampling = {"temperature": 1.0, "max_tokens": 8}
        return await asyncio.gather(
            *(env.run_group(g, client, "model", sampling, state_columns=COLUMNS) for g in groups)
        )

    for seed, outputs in enumerate(asyncio.run(groups())):
        check(outputs, [seed, seed])
        assert json.loads(json.dumps(outputs, default=str))
    assert len(env._get_eval_inputs(2, 3)) == 6


def test_its_env_server_serves_it_from_a_process_of_its_own(package, client, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    arguments = (package, {"num_train": 3, "num_eval": 1}, {"max_seq_len": 4096}, "ERROR")
    process = multiprocessing.get_context("spawn").Process(
        target=ZMQEnvServer.run_server, args=arguments,
        kwargs={"address": address, "log_dir": str(tmp_path)}, daemon=False,
    )  # fmt: skip
    process.start()

    async def rollouts():
        there = ZMQEnvClient(address, startup_timeout=120.0)
        try:
            await there.wait_for_server_startup()
            rows = vf.load_environment(package, num_train=3, num_eval=1).get_dataset().to_list()
            return [
                await there.run_rollout(
                    vf.RolloutInput(**row), client, "model", {"max_tokens": 8}, 0, COLUMNS
                )
                for row in rows
            ]
        finally:
            await there.close()

    try:
        check(asyncio.run(rollouts()), range(3))
    finally:
        process.terminate()
        process.join(30)
        process.kill()
