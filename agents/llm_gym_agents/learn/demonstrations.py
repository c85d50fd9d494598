"""What a model is to imitate: turns of a player, or of a file, as the model itself will read them.

The player is random, or a solver, and plays any environment that speaks text: one of the suite,
one behind ``AsText`` in the words of its phrasebook, one with tools around it, whose random player
also writes calls. What it said becomes token ids by the model's own chat format and in the run's
own context, so that nothing has to be unlearned when the model plays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from llm_gym.episodes import play_episode
from llm_gym.episodes.play import system_prompt_of
from llm_gym.errors import ConfigError
from llm_gym.parsing import ActionParser
from llm_gym.parsing.base import ToolCall
from llm_gym.tools.registry import ToolRegistry
from llm_gym.wrappers import EpisodeLimits
from llm_gym_agents.learn.imitation import Dialogue, Example
from llm_gym_agents.text.chat import ChatFormat

_ACTIONS = {"random": ("random_action",), "solver": ("solver_action", "oracle_action")}
CALLS = 0.5
"""Share of a random player's replies that call a tool, where there are tools around a game."""
_MOST = 20
_WORDS = ("1", "2", "the", "word")


class Scene(NamedTuple):
    """How a conversation becomes what the model reads."""

    chat: ChatFormat
    context: str
    """``history`` or ``observation``."""
    system_prompt: str | None = None
    """Told instead of what the environment says; None leaves that."""
    context_length: int | None = None
    """Most ids of a conversation; what comes after is left out."""

    def turns(self, system: str, said: Sequence[tuple[str, str]]) -> Iterator[Dialogue]:
        """Yield what is read and replied in a conversation of (observation, reply) pairs."""
        rules = system if self.system_prompt is None else self.system_prompt
        if self.context == "observation":
            for observation, reply in said:
                found = (Example(self.chat.opening(rules, observation), self.chat.reply(reply)),)
                yield from self._fits(found)
            return
        talk: list[Example] = []
        for observation, reply in said:
            if talk:
                read = self.chat.following(talk[-1].reply_ids, observation)
            else:
                read = self.chat.opening(rules, observation)
            talk.append(Example(read, self.chat.reply(reply)))
        yield from self._fits(tuple(talk))

    def _fits(self, talk: Dialogue) -> Iterator[Dialogue]:
        """Yield as much of ``talk`` as the context holds, if that is anything."""
        length, kept = 0, 0
        for turn in talk:
            length += len(turn.prompt_ids) + len(turn.reply_ids)
            if self.context_length is not None and length > self.context_length:
                break
            kept += 1
        if kept:
            yield talk[:kept]


def played(
    env: gym.Env[str, str],
    player: str,
    scene: Scene,
    turns: int,
    *,
    seed: int = 0,
    split: str | None = None,
) -> list[Dialogue]:
    """Return ``turns`` turns of ``player``, from episodes of the seeds from ``seed`` on."""
    options = split_options(env, split)
    env = EpisodeLimits(env, max_turns=turns)  # not every environment knows an end
    found: list[Dialogue] = []
    count = 0
    while count < turns:
        act = find_player(env, player, seed)
        episode = play_episode(env, act, seed, options)
        seed += 1
        said = list(zip(episode.states, episode.actions, strict=False))[: turns - count]
        count += len(said)
        found += scene.turns(system_prompt_of(episode), said)
    if not found:
        raise ConfigError(
            f"no turn of the {player} player fits a context of {scene.context_length} tokens; "
            "take a model that reads more, or tell it less"
        )
    return found


def find_player(env: gym.Env[str, str], player: str, seed: int = 0) -> Callable[[str], str]:
    """Return the player called ``player`` that ``env`` brings along, from observation to reply.

    The random player of a game that cannot list its moves says its example moves.
    """
    known = [name for name in _ACTIONS[player] if env.has_wrapper_attr(name)]
    examples = player == "random" and bool(getattr(env.action_space, "examples", ()))
    if examples:  # seeded as the game is, the space would draw what the game drew
        env.action_space.seed(int(np.random.default_rng((seed, 1)).integers(2**32)))
    if not known and not examples:
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        moves = ", an action space AnyText(n, examples=moves)" * (player == "random")
        raise ConfigError(
            f"{name} brings no {player} player along, so there is nobody to imitate; give it a "
            f"{_ACTIONS[player][0]}(){moves}, or imitate a file (warm_start.player 'file')"
        )

    def act(observation: str) -> str:
        for name in list(known):
            try:
                reply: str = env.get_wrapper_attr(name)()
            except NotImplementedError:
                known.remove(name)
            else:
                return reply
        if examples:
            return env.action_space.sample()
        raise ConfigError(f"{env} has no {player} player to imitate; try warm_start.player random")

    tools = _tools(env)
    if tools is None:
        return act
    share = CALLS if player == "random" else 0.0
    return _calling(act, *tools, share, np.random.default_rng((seed, 2)))


def from_file(path: str | Path, scene: Scene) -> list[Dialogue]:
    """Return the conversations of a file with one ``{"messages": [...]}`` a line."""
    found: list[Dialogue] = []
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read warm_start.file {path}: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            system, said = _said(json.loads(line)["messages"])
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f'line {number} of {path} must be {{"messages": [...]}} with roles and contents, '
                f"got {line[:100]!r}"
            ) from error
        found += scene.turns(system, said)
    if not found:
        raise ConfigError(f"{path} holds no reply to imitate")
    return found


def _said(messages: Sequence[dict[str, Any]]) -> tuple[str, list[tuple[str, str]]]:
    """Return the system prompt, and what the assistant replied to what."""
    system, heard, said = "", "", []
    for message in messages:
        role, content = str(message["role"]), message["content"]
        if not isinstance(content, str):
            raise TypeError(f"content must be text, got {content!r}")
        if role == "system":
            system = content
        elif role == "assistant":
            said.append((heard, content))
            heard = ""
        else:
            heard = f"{heard}\n{content}" if heard else content
    return system, said


def split_options(env: gym.Env[str, str], split: str | None) -> dict[str, Any] | None:
    """Return what ``reset`` is told for instances of ``split``; None where there are no splits."""
    knows = env.has_wrapper_attr("has_splits") and bool(env.get_wrapper_attr("has_splits"))
    return {"split": split} if split and knows else None


def _tools(env: gym.Env[str, str]) -> tuple[ToolRegistry, ActionParser] | None:
    """Return the tools around ``env`` and what reads their calls; None where there are none."""
    if not (env.has_wrapper_attr("registry") and env.has_wrapper_attr("parser")):
        return None
    registry, parser = env.get_wrapper_attr("registry"), env.get_wrapper_attr("parser")
    right = isinstance(registry, ToolRegistry) and isinstance(parser, ActionParser)
    return (registry, parser) if right and len(registry) else None


def _calling(
    act: Callable[[str], str],
    registry: ToolRegistry,
    parser: ActionParser,
    share: float,
    rng: np.random.Generator,
) -> Callable[[str], str]:
    """Return a player that writes as ``parser`` reads, and calls a random tool now and then."""

    def answer(observation: str) -> str:
        move = act(observation)
        try:
            return parser.render_answer(move)
        except ConfigError:  # this format has no form for it; as it is, it is still a move
            return move

    def reply(observation: str) -> str:
        if rng.random() >= share:
            return answer(observation)
        definitions = registry.definitions
        chosen = definitions[int(rng.integers(len(definitions)))]
        words = observation.split() or list(_WORDS)
        arguments = {
            name: _value(schema, words, rng)
            for name, schema in chosen.parameters.get("properties", {}).items()
            if name in chosen.parameters.get("required", ())
        }
        try:
            return parser.render([ToolCall(chosen.name, arguments)])
        except ConfigError:  # a word that this format cannot say
            return answer(observation)

    return reply


def _value(schema: dict[str, Any], words: Sequence[str], rng: np.random.Generator) -> Any:
    """Return a value that ``schema`` allows; text is a word of what was just read."""
    if "enum" in schema:
        return schema["enum"][int(rng.integers(len(schema["enum"])))]
    kind = schema.get("type", "string")
    plain: dict[str, Callable[[], Any]] = {
        "integer": lambda: _integer(schema, rng),
        "number": lambda: float(rng.integers(_MOST)),
        "boolean": lambda: bool(rng.integers(2)),
        "array": lambda: [_value(schema.get("items", {}), words, rng)],
        "object": dict,
    }
    if kind in plain:
        return plain[kind]()
    return words[int(rng.integers(len(words)))]


def _integer(schema: dict[str, Any], rng: np.random.Generator) -> int:
    least = int(schema.get("minimum", 0))
    return int(rng.integers(least, max(int(schema.get("maximum", least + _MOST)), least) + 1))
