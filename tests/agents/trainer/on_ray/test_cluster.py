"""``RayCluster``: it starts actors, calls them and reports those that are lost."""

import os
import subprocess
import sys

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym_agents.config.schema import RayConfig
from llm_gym_agents.trainer.ray.cluster import ActorLostError, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
CONNECT = """
from llm_gym_agents.config.schema import RayConfig
from llm_gym_agents.trainer.ray.cluster import RayCluster
import ray
made = RayCluster(RayConfig(address={address!r}))
print(ray.get_runtime_context().get_node_id())
made.close()
"""


def test_more_actors_or_gpus_than_the_cluster_has_are_refused(cluster):
    for settings, expected in (
        ({"num_actors": 80}, "80, "),
        ({"num_actors": 2, "num_gpus_per_actor": 0.5}, "1, .* 0"),
    ):
        with pytest.raises(ConfigError, match=expected):
            RayCluster(RayConfig(**settings))


OWN = """
import os
from llm_gym_agents.config.schema import RayConfig
from llm_gym_agents.trainer.ray.cluster import RayCluster

class Actor:
    def __init__(self, argument): pass
    def play(self): return [os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "RANK")]

made = RayCluster(RayConfig(num_actors=2, num_gpus_per_actor=1.0), ["2", "3"])
actors = [made.start(Actor, None) for _ in range(2)]
print(sorted(made.result(made.call(actor, "play")) for actor in actors))
print(os.environ["RANK"], os.environ.get("CUDA_VISIBLE_DEVICES"))
made.close()
"""


def test_actors_get_the_remaining_gpus_and_no_rank_of_a_learner():
    hidden = {name: each for name, each in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OWN],
        env=hidden | {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "nowhere"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["[['2', None], ['3', None]]", "1 None"]


def test_an_address_connects_to_the_running_cluster(cluster):
    import ray

    address = ray.get_runtime_context().gcs_address
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CONNECT.format(address=address)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [ray.get_runtime_context().get_node_id()]


class Speaker:
    """What an actor may hold."""

    def __init__(self, argument):
        self.argument = argument

    def play(self):
        return self.argument

    def fail(self):
        raise KeyError("not this one")

    def die(self):
        os.write(1, b"farewell\n")
        os._exit(3)

    def generate(self):
        return os.getpid()


def test_calls_return_raise_or_lose_the_actor(cluster):
    quiet = RayCluster(RayConfig())
    actor = quiet.start(Speaker, quiet.put([1, 2]))
    assert quiet.result(quiet.call(actor, "play")) == [1, 2]
    with pytest.raises(KeyError, match="not this one"):
        quiet.result(quiet.call(actor, "fail"))
    with pytest.raises(ActorLostError):
        quiet.result(quiet.call(actor, "die"))
    with pytest.raises(ActorLostError):
        quiet.result(quiet.call(actor, "play"))


def test_the_last_lines_of_a_dead_actor_come_from_its_machine(cluster):
    quiet = RayCluster(RayConfig())
    actor = quiet.start(Speaker, None)
    pid = quiet.result(quiet.call(actor, "generate"))
    with pytest.raises(ActorLostError):
        quiet.result(quiet.call(actor, "die"))
    assert quiet.log_tail(actor, pid) == "farewell"
    assert quiet.log_tail(object(), pid) == ""
