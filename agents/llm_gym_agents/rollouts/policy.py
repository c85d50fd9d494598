"""``LLMPolicy``: a language model as a batched policy.

It keeps the token ids of each episode's conversation. A turn tokenises only the new observation,
appends it, asks the engine for a reply and appends the reply's ids unchanged, so training sees
exactly the sampled tokens. ``turns`` holds what each turn added, by handle.

``context`` decides what the model reads. ``history`` is the episode so far as the chat template
writes it. If the template drops earlier reasoning, each turn is a prompt of its own. ``verbatim``
is the same with every reply as it was sampled, which always grows by appending. ``observation`` is
only the current observation, which is cheapest and right if observations are Markov.

Shapes: N rows.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, get_args

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import (
    Completion,
    Engine,
    EngineError,
    Request,
    Sampling,
    request_seed,
)
from llm_gym_agents.rollouts.pool import ObjectTable
from llm_gym_agents.rollouts.tasks import IDLE, BootstrapPrompt, Prefix, ReplyStatus, Turn
from llm_gym_agents.text.chat import ChatFormat, Context, TokenConversation


class WeightSwapLock:
    """Lets one thread update the weights of an engine on which another thread plays.

    The player checks ``requested`` before it asks for replies. If an update waits, it asks for
    none, lets running replies finish and calls ``yield_to_update``. So one version of the weights
    samples each reply, and an episode may change versions between two turns.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._playing = self._updating = False
        self.requested = False
        """Whether an update waits."""

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Play within this block, after any update has finished."""
        self._set_playing(True)
        try:
            yield
        finally:
            self._set_playing(False)

    def yield_to_update(self) -> None:
        """Let the waiting update run and wait for its end. No reply may be running."""
        self._set_playing(False)
        self._set_playing(True)

    def _set_playing(self, playing: bool) -> None:
        with self._changed:
            if playing:
                self._changed.wait_for(lambda: not self._updating and not self.requested)
            self._playing = playing
            self._changed.notify_all()

    def acquire(self) -> None:
        """Wait until no reply is running; none starts until ``release``. Safe to call twice."""
        with self._changed:
            if self._updating:
                return
            self.requested = True
            self._changed.wait_for(lambda: not self._playing)
            self.requested, self._updating = False, True

    def release(self) -> None:
        with self._changed:
            self._updating = False
            self._changed.notify_all()


READY_SHARE = 8
READY_WAIT_S = 0.005
"""Without ``sync_replies`` environments step when 1/``READY_SHARE`` of the replies are there, or
``READY_WAIT_S`` after the first reply: stepping a few rows costs as much as stepping many."""


_NO_TURN = Turn(IDLE, 0, [], [], [], "", 0)


class LLMPolicy(TensorDictModuleBase):
    """Replies to observations with an engine.

    Args:
        engine: Samples the replies.
        chat: How a conversation becomes token ids.
        sampling: How to sample; the chat format's own end-of-turn ids are added.
        context: What the model reads: ``history``, ``verbatim`` or ``observation``.
        system_prompt: Replaces the environment's system prompt; "" for none, which suits a small
            model trained from scratch on one game.
        run_seed: Seeds the sampling, together with episode id and turn.
        sync_replies: Wait for all replies before any environment steps. The engine's batches, and
            so the last bits of a log-prob, are then the same in every run. Without it an
            environment steps as soon as its reply has arrived.
    """

    def __init__(
        self,
        engine: Engine,
        chat: ChatFormat,
        *,
        sampling: Sampling | None = None,
        context: Context = "history",
        run_seed: int = 0,
        system_prompt: str | None = None,
        sync_replies: bool = True,
    ) -> None:
        super().__init__()
        if context not in get_args(Context):
            raise ConfigError(f"context must be one of {get_args(Context)}, got {context!r}")
        self.in_keys = ["observation", "episode", "system"]
        self.out_keys = ["action", "status", "turn"]
        self.engine, self.chat, self.context, self.run_seed = engine, chat, context, run_seed
        self.sampling, self.system_prompt = sampling or Sampling(), system_prompt
        self.sync_replies = sync_replies
        self.texts: ObjectTable[str] = ObjectTable("")
        """The pool's table of observations and replies, to which handles refer."""
        self.turns: ObjectTable[Turn] = ObjectTable(_NO_TURN)
        self._open: dict[int, TokenConversation] = {}
        self._asked: dict[int, list[int]] = {}
        """Episodes that wait for a reply, and the ids that their observation added."""
        self.prefixes: dict[int, Prefix] = {}
        """The turns that branches begin with, by episode, until they are read."""
        self.swap_lock: WeightSwapLock | None = None
        """For weight updates during play; None if there are none."""

    @classmethod
    def from_pretrained(
        cls,
        path: str,
        *,
        engine: str = "transformers",
        config: dict[str, Any] | None = None,
        template_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> LLMPolicy:
        """Return a policy that plays with the model at ``path``.

        ``config`` holds the settings of the engine, ``template_options`` those of the chat
        template. ``sync_replies`` defaults to False for a served engine.
        """
        from llm_gym_agents.engines.load import load_engine

        made, tokenizer = load_engine(path, engine, config or {})
        kwargs.setdefault("sync_replies", engine == "transformers")
        try:
            chat = ChatFormat.from_tokenizer(tokenizer, template_options=template_options)
            return cls(made, chat, **kwargs)
        except BaseException:
            made.close()
            raise

    # --- TorchRL -------------------------------------------------------------------------

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write handles of reply and turn, and the ``ReplyStatus``, for each row."""
        episodes = tensordict["episode"].tolist()
        rows = {episode: row for row, episode in enumerate(episodes) if episode != IDLE}
        self._open = {
            episode: self._open.get(episode) or TokenConversation(self.chat, self.context)
            for episode in rows
        }
        handle, status, turn = ([0] * len(episodes) for _ in range(3))
        self._asked = {episode: ids for episode, ids in self._asked.items() if episode in rows}
        try:
            if self._holds_back():
                for row in rows.values():
                    status[row] = ReplyStatus.PENDING
            else:
                for episode in self._ask(rows, tensordict):
                    status[rows[episode]] = ReplyStatus.NO_ROOM
            for episode, done in self._replies().items():
                row = rows[episode]
                status[row] = ReplyStatus.READY
                turn[row] = self.turns.add(self._note(episode, self._asked.pop(episode), done))
                handle[row] = self.texts.add(self.chat.text_of(done.ids))
        except BaseException:  # an interrupt must leave a usable engine
            self.abandon()
            raise
        for episode in self._asked:
            status[rows[episode]] = ReplyStatus.PENDING
        tensordict["action"], tensordict["status"] = torch.tensor(handle), torch.tensor(status)
        tensordict["turn"] = torch.tensor(turn)
        return tensordict

    def _ask(self, rows: dict[int, int], tensordict: TensorDictBase) -> list[int]:
        """Submit a request for each row that has none; return episodes without room for a reply."""
        observations, systems = tensordict["observation"].tolist(), tensordict["system"].tolist()
        given = tensordict.get("pattern", None)
        patterns = [0] * len(observations) if given is None else given.tolist()
        requests: list[Request] = []
        full: list[int] = []
        for episode, row in rows.items():
            if episode in self._asked:
                continue
            system, observation = self.texts[systems[row]], self.texts[observations[row]]
            prompt_ids, talk = self._read(episode, system, observation), self._open[episode]
            room = self.engine.context_length - len(talk.ids)
            if room < 1:
                full.append(episode)
                continue
            self._asked[episode] = prompt_ids
            most, pattern = min(room, self.sampling.max_tokens), self.texts[patterns[row]] or None
            how = _sampling(self.sampling, most, self.chat.stop_ids, pattern)
            seed = request_seed(self.run_seed, episode, talk.turns)
            requests.append(Request(talk.ids, how, seed, key=episode))
        self.engine.submit(requests)
        return full

    def _holds_back(self) -> bool:
        """Whether to send no requests because a weight update waits for the running replies."""
        if self.swap_lock is None or not self.swap_lock.requested:
            return False
        if self._asked:
            return True
        self.swap_lock.yield_to_update()
        return False

    def _replies(self) -> dict[int, Completion]:
        """Return all replies with ``sync_replies``, else enough for a step of the environments."""
        enough = len(self._asked) if self.sync_replies else -(-len(self._asked) // READY_SHARE)
        found: dict[int, Completion] = {}
        deadline = None
        while len(found) < enough:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                break
            more = self.engine.poll(left)
            if not more and not self.engine.running:
                lost = len(self._asked) - len(found)
                raise EngineError(f"the engine lost {lost} of its requests")
            # Other keys belong to dropped episodes.
            found |= {done.key: done for done in more if done.key in self._asked}
            if found and deadline is None and not self.sync_replies:
                deadline = time.monotonic() + READY_WAIT_S
        return found

    def abandon(self) -> None:
        """Drop every conversation and cancel its pending requests."""
        self._asked.clear()
        self._open.clear()
        self.engine.cancel()

    def _read(self, episode: int, system: str, observation: str) -> list[int]:
        """Append the observation to the conversation; return the ids this added."""
        talk = self._open[episode]
        system = self.rules_for(system)
        if prefix := self.prefixes.pop(episode, None):
            for seen, turn in zip(prefix.observations, prefix.turns, strict=False):
                talk.read(system, seen)
                talk.add_reply(turn.reply_ids)
        return talk.read(system, observation)

    def _note(self, episode: int, prompt_ids: list[int], done: Completion) -> Turn:
        talk = self._open[episode]
        number = talk.turns
        talk.add_reply(done.ids)
        return Turn(
            episode=episode,
            number=number,
            prompt_ids=prompt_ids,
            reply_ids=done.ids,
            log_probs=done.log_probs,
            finish=str(done.finish),
            version=done.version,
            new_sequence=number == 0 or not talk.grows,
        )

    def bootstrap_prompt(
        self, turns: Sequence[Turn], observations: Sequence[str], system: str
    ) -> BootstrapPrompt | None:
        """Return what the model would read next if the episode had not been truncated.

        None if prompt and reply do not fit into the context. The context has then ended the
        episode, and the critic cannot value half a prompt.

        Args:
            turns: All turns of the episode.
            observations: One before each turn, and the last one.
            system: The environment's system prompt.
        """
        system, read, alone = self.rules_for(system), 0, True
        *_, last = observations
        if self.context == "observation":
            ids = self.chat.opening(system, last)
        elif TokenConversation(self.chat, self.context).grows:
            read = sum(len(turn.prompt_ids) + len(turn.reply_ids) for turn in turns)
            ids, alone = self.chat.following(turns[-1].reply_ids, last), False
        else:
            answers = (self.chat.answer_of(turn.reply_ids) for turn in turns)
            ids = self.chat.prompt(system, list(zip(observations, answers, strict=False)), last)
        fits = read + len(ids) < self.engine.context_length
        return BootstrapPrompt(ids, alone) if fits else None

    def rules_for(self, system: str) -> str:
        """Return the system prompt to use; ``system`` is the environment's."""
        return system if self.system_prompt is None else self.system_prompt

    @contextmanager
    def sampling_with(self, **changes: Any) -> Iterator[None]:
        """Use other sampling settings within this block, such as ``temperature=0.0``."""
        usual = self.sampling
        self.sampling = replace(usual, **changes)
        try:
            yield
        finally:
            self.sampling = usual


@functools.lru_cache  # the same for most requests
def _sampling(
    usual: Sampling, max_tokens: int, stop_ids: tuple[int, ...], pattern: str | None
) -> Sampling:
    """Return ``usual`` with a token limit, further stop ids and optionally a pattern."""
    return replace(
        usual,
        max_tokens=max_tokens,
        stop_ids=tuple(dict.fromkeys((*usual.stop_ids, *stop_ids))),
        pattern=pattern or usual.pattern,
    )
