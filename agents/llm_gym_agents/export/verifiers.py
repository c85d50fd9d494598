"""verifiers (0.1): an environment of ours as one of its own, and as a package of its hub.

prime-rl takes environments of verifiers by name, so an installed package of ``write_package`` is
one for prime-rl too. (verifiers 0.2 and later keep these classes beside their new ``v1``.)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from llm_gym import __version__
from llm_gym.core.errors import ConfigError
from llm_gym_agents.export.episodes import EpisodeChat, as_dataset, need, prompt_rows

_CHAT = "llm_gym_chat"


def load_environment(
    env_id: str, num_train: int = 1000, num_eval: int = 100, max_turns: int = 100, **kwargs: Any
) -> Any:
    """Return a ``verifiers.MultiTurnEnv`` whose rollouts are episodes of ``env_id``.

    Args:
        env_id: A registered id.
        num_train: Episodes of the data set: the seeds from 0 on.
        num_eval: Episodes of the one for evaluation: the seeds before -1, as large numbers.
        max_turns: Replies of an episode.
        **kwargs: Settings of the environment.
    """
    vf = need("verifiers", "verifiers")

    class Game(vf.MultiTurnEnv):  # type: ignore[name-defined]
        """A text environment of llm-gym."""

        async def setup_state(self, state: Any, **_: Any) -> Any:
            chat = EpisodeChat(env_id, **kwargs)
            chat.begin(int(state["info"]["seed"]))
            state[_CHAT] = chat
            return state

        async def env_response(self, messages: Any, state: Any, **_: Any) -> Any:
            chat: EpisodeChat = state[_CHAT]
            response = [{"role": "user", "content": chat.answer(_content(messages[-1]))}]
            if chat.done:
                state["final_env_response"] = response
            return response

    async def reward(state: Any, **_: Any) -> float:
        return _finish(state).reward

    async def success(state: Any, **_: Any) -> float:
        return float(_finish(state).success)

    rubric = vf.Rubric(funcs=[reward, success], weights=[1.0, 0.0])
    return Game(
        dataset=_data(env_id, range(num_train), kwargs),
        eval_dataset=_data(env_id, range(2**31, 2**31 + num_eval), kwargs),
        rubric=rubric,
        max_turns=max_turns,
    )


def _finish(state: Any) -> EpisodeChat:
    """Return the finished episode: a reply that used up the turns has not been played yet."""
    chat: EpisodeChat = state[_CHAT]
    if not chat.done and chat.turns < len(state["trajectory"]):
        chat.answer(_content(state["trajectory"][-1]["completion"][-1]))
    chat.close()
    return chat


def _content(message: Any) -> str:
    found = message["content"] if isinstance(message, dict) else message.content
    return found if isinstance(found, str) else ""


def _data(env_id: str, seeds: range, kwargs: dict[str, Any]) -> Any:
    rows = prompt_rows(env_id, seeds, **kwargs)
    for row in rows:
        row["prompt"] = [{"role": one["role"], "content": one["content"]} for one in row["prompt"]]
        row["info"] = {"seed": row["seed"]}
        row["answer"] = ""
    keep = ("prompt", "info", "answer")
    return as_dataset([{name: row[name] for name in keep} for row in rows])


def write_package(folder: str | Path, env_id: str, **kwargs: Any) -> Path:
    """Write a package that verifiers' hub accepts, and return its folder.

    Its name is that of the environment; its module has ``load_environment``.
    """
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", env_id.rpartition("/")[2]).lower()
    name = re.sub(r"\W", "_", name.rpartition("-v")[0] or name)
    if not name.isidentifier():
        raise ConfigError(f"no package can be called after {env_id}")
    root = Path(folder) / name
    root.mkdir(parents=True, exist_ok=True)
    settings = "".join(f", {key}={value!r}" for key, value in kwargs.items())
    (root / "pyproject.toml").write_text(
        _PROJECT.format(name=name.replace("_", "-"), env=env_id, module=name, ours=__version__)
    )
    (root / f"{name}.py").write_text(_MODULE.format(env=env_id, settings=settings))
    (root / "README.md").write_text(
        f"# {name.replace('_', '-')}\n\n`{env_id}` of llm-gym, for verifiers.\n"
    )
    return root


_PROJECT = """\
[project]
name = "{name}"
description = "{env} of llm-gym"
tags = ["multi-turn", "llm-gym", "train", "eval"]
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["verifiers>=0.1.14", "llm-gym[train]>={ours}", "datasets"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build]
include = ["{module}.py", "pyproject.toml", "README.md"]

[tool.verifiers.eval]
num_examples = 20
rollouts_per_example = 3
"""
_MODULE = '''\
"""{env} of llm-gym, as an environment of verifiers."""

from llm_gym_agents.export.verifiers import load_environment as load



def load_environment(**kwargs):
    """Return the environment; arguments as of llm_gym_agents.export.verifiers."""
    return load("{env}"{settings}, **kwargs)
'''
