"""Behaviour cloning: a model learns to write a player's replies.

From *random legal* moves a model learns to write moves and plays at chance level, so RL has moves
to choose from. From a solver's moves it learns to play, and to some extent from the best of many
random episodes (filtered behaviour cloning).

``imitate`` trains. ``play_demonstrations`` and ``load_demonstrations`` make the data: turns of a
random player, of a solver or of a file, tokenized with the model's own chat format and the run's
own context, so that the model reads in training what it will read in play.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import find_attribute
from llm_gym.episodes import Trajectory, play_episode
from llm_gym.episodes.play import describe_env, play_reset, play_step, system_prompt_of
from llm_gym.reading.calls import ToolCall
from llm_gym.reading.parsers import ActionParser
from llm_gym.registry.user_code import explain_failures
from llm_gym.tools.registry import ToolRegistry
from llm_gym.wrappers import EpisodeLimits
from llm_gym_agents.learn.optimizer import trained
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts.rollout_data import SequencePacker
from llm_gym_agents.rollouts.tasks import Turn, split_options
from llm_gym_agents.text.chat import ChatFormat, Context, TokenConversation


class Example(NamedTuple):
    """One turn to imitate."""

    prompt_ids: list[int]
    """The prompt; in a dialogue, what comes after the last reply."""
    reply_ids: list[int]
    label_ids: list[int] | None = None
    """Ids to learn instead of the reply (the reply is then only read); None learns the reply."""

    @property
    def learned_ids(self) -> list[int]:
        """The reply, or its label up to the first id that differs from the reply."""
        if self.label_ids is None:
            return self.reply_ids
        pairs = zip(self.reply_ids, self.label_ids, strict=False)
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        return self.label_ids[: same + 1]


Dialogue = tuple[Example, ...]
"""Turns of one conversation."""


def imitate(
    model: PolicyValueModel,
    data: Sequence[Example | Dialogue],
    *,
    steps: int = 150,
    batch_size: int = 128,
    batch_tokens: int | None = None,
    learning_rate: float = 3e-3,
    weight_decay: float = 0.0,
    ramp: int = 10,
    decay: tuple[float, float] = (1.0, 1.0),
    seed: int = 0,
    micro_batch_tokens: int | None = None,
    on_step: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train ``model`` to write the replies of ``data``; return the loss of each step.

    Args:
        model: Trained in place.
        data: Turns, or dialogues whose replies are all learned.
        steps: Optimizer steps.
        batch_size: Turns of a step.
        batch_tokens: Maximum ids per step, on average; if turns are long, fewer are drawn.
        learning_rate: Reached after ``ramp`` steps.
        weight_decay: Weight decay of AdamW; it keeps a small model from memorising a few episodes.
        ramp: Steps over which the rate rises.
        decay: Factors on the rate at the start and at the end; linear in between.
        seed: Seed of the order of examples.
        micro_batch_tokens: Maximum ids of a forward pass, to limit memory; None for no limit.
        on_step: Called with the number of steps done and the loss.
    """
    talks = [(each,) if isinstance(each, Example) else each for each in data]
    mean_turns = sum(map(len, talks)) / len(talks)
    if batch_tokens is not None:
        read = sum(len(turn.prompt_ids) + len(turn.reply_ids) for talk in talks for turn in talk)
        mean_ids = read / len(talks) / mean_turns
        batch_size = min(batch_size, max(1, round(batch_tokens / mean_ids)))
    drawn = max(1, round(batch_size / mean_turns))
    weights = trained(model.lm)
    optimizer = torch.optim.AdamW(weights, lr=learning_rate, weight_decay=weight_decay)
    order = np.random.default_rng(seed)
    losses = []
    first, last = decay
    for step in range(steps):
        factor = min(1.0, (step + 1) / ramp) * (first + step / steps * (last - first))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * factor
        batch = [talks[at] for at in order.integers(len(talks), size=drawn)]
        optimizer.zero_grad(set_to_none=True)
        loss = _backward(model, batch, micro_batch_tokens)
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        losses.append(loss)
        if on_step is not None:
            on_step(step + 1, loss)
    return losses


def _backward(
    model: PolicyValueModel, batch: Sequence[Dialogue], micro_batch_tokens: int | None
) -> float:
    learned = sum(len(turn.learned_ids) for talk in batch for turn in talk)
    total = 0.0
    for part in _parts(batch, micro_batch_tokens):
        packed = SequencePacker()
        for talk in part:
            for at, turn in enumerate(talk):
                packed.read(turn.prompt_ids, new_sequence=at == 0)
                packed.learn(turn.reply_ids, turn.learned_ids)
        ids_S, lengths_Q, *asked = packed.inputs()
        asked = [each.to(model.device) for each in asked]
        loss = -model(ids_S, lengths_Q, *asked, entropy="none").log_prob_T.sum() / learned
        loss.backward()
        total += float(loss.detach())
    return total


def _parts(batch: Sequence[Dialogue], most: int | None) -> Iterator[list[Dialogue]]:
    """Cut ``batch`` into parts of at most ``most`` ids, or of one dialogue."""
    part: list[Dialogue] = []
    size = 0
    for talk in batch:
        length = sum(len(turn.prompt_ids) + len(turn.reply_ids) for turn in talk)
        if part and most is not None and size + length > most:
            yield part
            part, size = [], 0
        part.append(talk)
        size += length
    yield part


# --- demonstrations -------------------------------------------------------------------

_ACTIONS = {
    "random": ("random_action",),
    "best_random": ("random_action",),
    "reflex": ("reflex_action",),
    "solver": ("solver_action", "oracle_action"),
}
TEACHERS = ("solver", "reflex")
"""Players that try to win."""
RANDOM = ("random", "best_random")
"""Players that need no knowledge of the game; the second one keeps its best episodes."""
SEARCHED = 300_000
"""Turns that ``best_random`` plays at most; an episode costs as much as ``PER_EPISODE`` turns."""
PER_EPISODE = 10
ENOUGH_WON = 0.1
"""Share of the wanted turns from which only those of won episodes are imitated."""
CALLS = 0.5
"""Share of a random player's replies that call a tool, if there are tools."""
_MOST = 20
_WORDS = ("1", "2", "the", "word")


class DialogueEncoder(NamedTuple):
    """Tokenizes conversations as the model reads them in play."""

    chat: ChatFormat
    context: Context
    system_prompt: str | None = None
    """Replaces the system prompt of the environment; None keeps it."""
    context_length: int | None = None
    """Maximum ids of a dialogue; later turns are dropped."""

    def turns(self, system: str, pairs: Sequence[tuple[str, str]]) -> Iterator[Dialogue]:
        """Yield the dialogues of a conversation of (observation, reply) pairs."""
        rules = system if self.system_prompt is None else self.system_prompt
        talk = TokenConversation(self.chat, self.context)
        found: list[Example] = []
        for observation, reply in pairs:
            read = talk.read(rules, observation)
            found.append(Example(read, self.chat.reply(reply)))
            talk.add_reply(found[-1].reply_ids)
        for turns in [tuple(found)] if talk.grows else [(turn,) for turn in found]:
            ids = itertools.accumulate(len(turn.prompt_ids) + len(turn.reply_ids) for turn in turns)
            kept = sum(self.context_length is None or end <= self.context_length for end in ids)
            if kept:
                yield turns[:kept]


def play_demonstrations(
    env: gym.Env[str, str],
    player: str,
    encoder: DialogueEncoder,
    turns: int,
    *,
    seed: int = 0,
    split: str | None = None,
) -> list[Dialogue]:
    """Return ``turns`` turns of ``player`` or fewer, from episodes with seeds from ``seed`` on."""
    options = split_options(split, find_attribute(env, "has_splits"))
    env = EpisodeLimits(env, max_turns=turns)  # not every environment ends
    played: Iterable[Trajectory] = _play(env, player, seed, options)
    if player == "best_random":
        played = best_episodes(played, turns)
    found: list[Dialogue] = []
    count = 0
    for episode in played:
        pairs = list(zip(episode.states, episode.actions, strict=False))[: turns - count]
        found += encoder.turns(system_prompt_of(episode), pairs)
        count += len(pairs)
        if count >= turns:
            break
    if not found:
        raise ConfigError(
            f"no turn of the {player} player fits a context of {encoder.context_length} tokens; "
            "use a model with a longer context, or shorter prompts"
        )
    return found


def _play(
    env: gym.Env[str, str], player: str, seed: int, options: dict[str, Any] | None
) -> Iterator[Trajectory]:
    """Yield episodes of ``player`` with seeds from ``seed`` on, without end."""
    for each in itertools.count(seed):
        act = find_player(env, player, each)
        with explain_failures(describe_env(env)["env_id"]):
            yield play_episode(env, act, each, options)


def best_episodes(played: Iterable[Trajectory], turns: int) -> list[Trajectory]:
    """Return the won episodes of many, or those of the highest return if hardly one is won.

    It plays until ``turns`` turns are won, or ``SEARCHED``; the episodes have ``turns`` or fewer.
    """
    best: list[tuple[bool, float, int, Trajectory]] = []
    won = kept = searched = 0
    for number, episode in enumerate(played):
        length = len(episode.actions)
        heapq.heappush(best, (episode.success, episode.total_reward, -number, episode))
        kept += length
        while kept - len(best[0][-1].actions) >= turns:
            kept -= len(heapq.heappop(best)[-1].actions)
        won += episode.success * length
        searched += length + PER_EPISODE
        if won >= turns or searched >= SEARCHED:
            break
    only_won = won >= ENOUGH_WON * turns
    return [each for is_won, *_, each in sorted(best, reverse=True) if is_won or not only_won]


def label_episode(
    env: gym.Env[str, str],
    player: str,
    episode: Trajectory,
    turns: Sequence[Turn],
    chat: ChatFormat,
    seed: int,
    options: dict[str, Any] | None = None,
) -> Iterator[Dialogue]:
    """Yield a model's episode, with the reply of ``player`` to each state as the label.

    The episode is replayed in ``env`` until an observation differs.
    """
    act = find_player(env, player, seed)
    talk: list[Example] = []
    with explain_failures(describe_env(env)["env_id"]):
        observation, _ = play_reset(env, seed=seed, options=options)
        for state, action, turn in zip(episode.states, episode.actions, turns, strict=False):
            if observation != state:
                break
            if turn.new_sequence and talk:
                yield _labelled(talk)
                talk = []
            talk.append(Example(turn.prompt_ids, turn.reply_ids, chat.reply(act(observation))))
            observation, _, terminated, truncated, _ = play_step(env, action)
            if terminated or truncated:
                break
    if talk:
        yield _labelled(talk)


def _labelled(talk: Sequence[Example]) -> Dialogue:
    """Return a dialogue that ends with its last label: nothing was read after it."""
    *before, last = talk
    return (*before, Example(last.prompt_ids, last.label_ids or last.reply_ids))


def find_player(env: gym.Env[str, str], player: str, seed: int = 0) -> Callable[[str], str]:
    """Return a player of ``env``, such as ``random``: a function from observation to reply.

    Without ``random_action`` the random player says example moves of the action space.
    """
    known = [name for name in _ACTIONS[player] if env.has_wrapper_attr(name)]
    examples = player in RANDOM and bool(getattr(env.action_space, "examples", ()))
    if examples:  # a seed of its own: with the game's it would draw what the game drew
        env.action_space.seed(int(np.random.default_rng((seed, 1)).integers(2**32)))
    if not known and not examples:
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        moves = ", an action space AnyText(n, examples=moves)" * (player in RANDOM)
        raise ConfigError(
            f"{name} has no {player} player to imitate; give it a "
            f"{_ACTIONS[player][0]}(){moves}, or imitate a file (warm_start.player FILE.jsonl)"
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

    share = CALLS if player in RANDOM else 0.0
    return _with_tools(env, act, share, np.random.default_rng((seed, 2)))


def load_demonstrations(path: str | Path, encoder: DialogueEncoder) -> list[Dialogue]:
    """Return the dialogues of a file with one ``{"messages": [...]}`` per line."""
    found: list[Dialogue] = []
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"warm_start.player: cannot read {path}: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            system, pairs = _pairs(json.loads(line)["messages"])
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f'line {number} of {path} must be {{"messages": [...]}} with roles and contents, '
                f"got {line[:100]!r}"
            ) from error
        found += encoder.turns(system, pairs)
    if not found:
        raise ConfigError(f"{path} holds no reply to imitate")
    return found


def _pairs(messages: Sequence[dict[str, Any]]) -> tuple[str, list[tuple[str, str]]]:
    system, observed, pairs = "", "", []
    for message in messages:
        role, content = str(message["role"]), message["content"]
        if not isinstance(content, str):
            raise TypeError(f"content must be text, got {content!r}")
        if role == "system":
            system = content
        elif role == "assistant":
            pairs.append((observed, content))
            observed = ""
        else:
            observed = f"{observed}\n{content}" if observed else content
    return system, pairs


def _with_tools(
    env: gym.Env[str, str], act: Callable[[str], str], share: float, rng: np.random.Generator
) -> Callable[[str], str]:
    """Return ``act``, where there are tools in their format and sometimes calling a random one."""
    registry, parser = find_attribute(env, "registry"), find_attribute(env, "parser")
    if not (isinstance(registry, ToolRegistry) and isinstance(parser, ActionParser) and registry):
        return act

    def answer(observation: str) -> str:
        move = act(observation)
        try:
            return parser.render_answer(move)
        except ConfigError:  # this format cannot write it; unformatted it is still a move
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
        except ConfigError:  # this format cannot write an argument
            return answer(observation)

    return reply


def _value(schema: dict[str, Any], words: Sequence[str], rng: np.random.Generator) -> Any:
    """Return a value that ``schema`` allows; a string is a word of the observation."""
    if "enum" in schema:
        return schema["enum"][int(rng.integers(len(schema["enum"])))]
    match schema.get("type", "string"):
        case "integer":
            least = int(schema.get("minimum", 0))
            most = max(int(schema.get("maximum", least + _MOST)), least)
            return int(rng.integers(least, most + 1))
        case "number":
            return float(rng.integers(_MOST))
        case "boolean":
            return bool(rng.integers(2))
        case "array":
            return [_value(schema.get("items", {}), words, rng)]
        case "object":
            return {}
    return words[int(rng.integers(len(words)))]
