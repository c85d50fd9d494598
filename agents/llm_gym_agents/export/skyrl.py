"""An llm_gym environment as SkyRL-Gym's ``BaseTextEnv``."""

from typing import Any

from llm_gym_agents.export.episodes import EpisodeChat, need


def skyrl_env(env_id: str, **kwargs: Any) -> type:
    """Return a class for ``skyrl_gym.envs.register``; ``extras`` of a row hold its ``seed``.

    SkyRL passes the prompt of the row to ``init``, which returns the start of the episode.
    """
    base: Any = need("skyrl_gym.envs.base_text_env", "skyrl-gym").BaseTextEnv

    class Game(base):
        """A text environment of llm-gym."""

        def __init__(self, env_config: Any = None, extras: Any = None) -> None:
            super().__init__()
            self.chat = EpisodeChat(env_id, **kwargs)
            self._seed = (extras or {}).get("seed")
            self.max_turns = int((extras or {}).get("max_turns", 1_000_000))

        def init(self, prompt: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
            self.turns = 0
            return self.chat.begin(self._seed), {"instance_id": self.chat.instance_id}

        def step(self, action: str) -> dict[str, Any]:
            before = self.chat.reward
            observation = self.chat.answer(action)
            self.turns += 1
            done = self.chat.done or self.turns >= self.max_turns
            observations = [] if done else [{"role": "user", "content": observation}]
            earned = self.chat.reward - before
            about = {"stop_reason": str(self.chat.stop), "success": self.chat.success}
            return {"observations": observations, "reward": earned, "done": done, "metadata": about}

        def get_metrics(self) -> dict[str, Any]:
            return {"success": float(self.chat.success), "turns": self.chat.turns}

        def close(self) -> None:
            self.chat.close()

    return Game
