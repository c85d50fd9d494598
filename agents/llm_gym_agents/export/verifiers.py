"""verifiers 0.4: an llm_gym environment as a ``Taskset``, and the ``Env`` that plays it.

The game is the user of the conversation and runs in the process of verifiers. prime-rl loads the
same classes. ``packages.write_verifiers`` writes the package that exports them.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from llm_gym_agents.export.episodes import EpisodeChat, need


def game(env_id: str, **kwargs: Any) -> tuple[type, type]:
    """Return the ``Taskset`` and the ``Env`` of an environment; task N is the episode of seed N.

    ``--env.taskset.split`` chooses the instances. ``vf-validate`` lets the solver play each task,
    if there is one.
    """
    vf = need("verifiers.v1", "verifiers")

    class GameData(vf.TaskData):  # type: ignore[name-defined]
        seed: int
        split: str | None

    class GameTask(vf.Task[GameData]):  # type: ignore[name-defined]
        async def validate(self, runtime: Any) -> bool | None:
            with EpisodeChat(env_id, **kwargs) as chat:
                chat.begin(self.data.seed, self.data.split)
                return _solver_wins(chat)

        @vf.reward(weight=1.0)  # type: ignore[untyped-decorator]
        async def game_reward(self, trace: Any) -> float:
            return float(trace.info.get("game_reward", 0.0))

        @vf.metric  # type: ignore[untyped-decorator]
        async def success(self, trace: Any) -> float:
            return float(trace.info.get("stop_reason") == "won")

    class GameTasksetConfig(vf.TasksetConfig):  # type: ignore[name-defined]
        split: str | None = None

    class GameTaskset(vf.Taskset[GameTask, GameTasksetConfig]):  # type: ignore[name-defined]
        INFINITE = True

        def load(self) -> Iterator[Any]:
            split = self.config.split
            with EpisodeChat(env_id, **kwargs) as chat:
                for seed in count():
                    *system, first = chat.begin(seed, split)
                    data = GameData(
                        name=f"{env_id}#{seed}",
                        prompt=first["content"],
                        system_prompt=system[0]["content"] if system else None,
                        seed=seed,
                        split=split,
                    )
                    yield GameTask(data, self.config.task)

    class GameConfig(vf.EnvConfig):  # type: ignore[name-defined]
        player: vf.AgentConfig = vf.AgentConfig(  # type: ignore[name-defined]
            harness={"id": "null"}, runtime=vf.SubprocessConfig()
        )

    class GameEnv(vf.Env[GameConfig]):  # type: ignore[name-defined]
        async def run(self, task: Any, agents: Any) -> None:
            with EpisodeChat(env_id, **kwargs) as chat:
                chat.begin(task.data.seed, task.data.split)
                async with agents.player.interaction(task) as interaction:
                    await _talk(chat, interaction)

    return GameTaskset, GameEnv


async def _talk(chat: EpisodeChat, interaction: Any) -> None:
    """Answer the model until the episode or the conversation is over."""
    segment = await interaction.turn()
    while not segment.terminated:
        observation = chat.answer(segment.last_reply)
        about = {"game_reward": chat.reward, "stop_reason": str(chat.stop)}
        interaction.trace.info.update(about)
        if chat.done:
            break
        segment = await interaction.turn(observation)


def _solver_wins(chat: EpisodeChat) -> bool | None:
    """Let the solver play the episode; None if the environment has no solver."""
    if not chat.env.has_wrapper_attr("solver_action"):
        return None
    while not chat.done:
        chat.answer(chat.env.get_wrapper_attr("solver_action")())
    return chat.success
