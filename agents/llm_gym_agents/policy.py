"""``LLMPolicy``: a language model as a batched policy.

Per episode it keeps the token ids of the conversation so far. A turn tokenises only the new
observation, appends it, asks the engine for a reply and appends that reply's ids verbatim: what
was sampled is what is trained on. What each turn added lies in ``turns`` behind a handle.

``context`` decides what the model reads: the whole ``history``, or only the current
``observation``, which is right for games whose observation says all, and cheaper.

Shapes: N rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase

from llm_gym.errors import ConfigError
from llm_gym_agents.chat import ChatFormat
from llm_gym_agents.engines.base import Completion, Engine, Request, Sampling, request_seed
from llm_gym_agents.table import Table
from llm_gym_agents.tasks import IDLE, Cut

Context = Literal["history", "observation"]


class Turn(NamedTuple):
    """What one turn added to an episode."""

    episode: int
    number: int
    """Counted from 0."""
    prompt_ids: list[int]
    """New ids that the model read before replying: all of them in observation context."""
    reply_ids: list[int]
    log_probs: list[float]
    finish: str
    version: int


_NO_TURN = Turn(IDLE, 0, [], [], [], "", 0)


@dataclass(slots=True)
class _Conversation:
    ids: list[int] = field(default_factory=list)
    reply_ids: list[int] = field(default_factory=list)
    turns: int = 0


class LLMPolicy(TensorDictModuleBase):
    """Replies to observations with an engine.

    Args:
        engine: Samples the replies.
        chat: How a conversation becomes token ids.
        sampling: How to sample; the chat format's own end-of-turn ids are added.
        context: What the model reads: ``history`` or ``observation``.
        system_prompt: Told instead of what the environment says; "" tells nothing, which suits a
            model that is trained on one game from nothing.
        run_seed: With an episode's id and a turn's number it decides what is sampled.
        texts: The table that observation and action handles refer to: the pool's.
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
        texts: Table[str] | None = None,
    ) -> None:
        super().__init__()
        if context not in ("history", "observation"):
            raise ConfigError(f"context must be 'history' or 'observation', got {context!r}")
        self.in_keys = ["observation", "episode", "system"]
        self.out_keys = ["action", "cut", "turn"]
        self.engine, self.chat, self.context, self.run_seed = engine, chat, context, run_seed
        self.sampling, self.system_prompt = sampling or Sampling(), system_prompt
        self.texts: Table[str] = Table("") if texts is None else texts
        self.turns: Table[Turn] = Table(_NO_TURN)
        self._open: dict[int, _Conversation] = {}
        self._rows: dict[int, int] = {}

    @classmethod
    def from_pretrained(
        cls, path: str, *, engine: str = "transformers", config: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> LLMPolicy:  # fmt: skip
        """Return a policy that plays with the model at ``path``."""
        from llm_gym_agents.engines.load import load_engine

        made, tokenizer = load_engine(path, engine, config or {})
        return cls(made, ChatFormat.from_tokenizer(tokenizer), **kwargs)

    # --- TorchRL -------------------------------------------------------------------------

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the action, whether the episode must be cut, and the turn's record."""
        episodes = tensordict["episode"].tolist()
        observations = tensordict["observation"].tolist()
        systems = tensordict["system"].tolist()
        live = [row for row, episode in enumerate(episodes) if episode != IDLE]
        self._open = {
            episodes[row]: self._open.get(episodes[row]) or _Conversation() for row in live
        }
        action, cut, turn = ([0] * len(episodes) for _ in range(3))
        requests: list[Request] = []
        prompts: dict[int, list[int]] = {}
        for row in live:
            system, observation = self.texts[systems[row]], self.texts[observations[row]]
            prompt_ids = self._read(episodes[row], system, observation)
            request = self._request(row, episodes[row])
            if request is None:
                cut[row] = Cut.CONTEXT
                continue
            prompts[row] = prompt_ids
            requests.append(request)
        for done in self.engine.generate(requests):
            row = done.key
            assert isinstance(row, int)
            turn[row] = self.turns.add(self._note(episodes[row], prompts[row], done))
            action[row] = self.texts.add(self.chat.text_of(done.ids))
        tensordict["action"], tensordict["cut"] = torch.tensor(action), torch.tensor(cut)
        tensordict["turn"] = torch.tensor(turn)
        return tensordict

    def _read(self, episode: int, system: str, observation: str) -> list[int]:
        """Append the observation to the conversation; return the ids this added."""
        talk = self._open[episode]
        system = self.rules_for(system)
        if self.context == "observation" or not talk.turns:
            talk.ids = self.chat.opening(system, observation)
            return talk.ids
        prompt_ids = self.chat.following(talk.reply_ids, observation)
        talk.ids = talk.ids + prompt_ids
        return prompt_ids

    def _request(self, row: int, episode: int) -> Request | None:
        """Return the request for a reply, or None where the context has no room for one."""
        talk = self._open[episode]
        room = self.engine.context_length - len(talk.ids)
        if room < 1:
            return None
        seed = request_seed(self.run_seed, episode, talk.turns)
        return Request(talk.ids, self._sampling(min(room, self.sampling.max_tokens)), seed, row)

    def _sampling(self, max_tokens: int) -> Sampling:
        stop_ids = tuple(dict.fromkeys((*self.sampling.stop_ids, *self.chat.stop_ids)))
        return replace(self.sampling, max_tokens=max_tokens, stop_ids=stop_ids)

    def _note(self, episode: int, prompt_ids: list[int], done: Completion) -> Turn:
        talk = self._open[episode]
        number = talk.turns
        talk.ids = talk.ids + done.ids
        talk.reply_ids = done.ids
        talk.turns += 1
        return Turn(
            episode, number, prompt_ids, done.ids, done.log_probs, str(done.finish), done.version
        )

    def rules_for(self, system: str) -> str:
        """Return the system prompt of an episode whose environment says ``system``."""
        return system if self.system_prompt is None else self.system_prompt

    @contextmanager
    def greedily(self) -> Iterator[None]:
        """Take the most likely token within this block."""
        usual = self.sampling
        self.sampling = replace(usual, temperature=0.0)
        try:
            yield
        finally:
            self.sampling = usual

    # --- without TorchRL -----------------------------------------------------------------

    def act(
        self,
        observations: Sequence[str],
        *,
        new: Sequence[bool] | None = None,
        system_prompt: str = "",
    ) -> list[str]:
        """Reply to one observation per row.

        Row ``i`` goes on with the conversation of row ``i`` unless ``new`` says that its episode
        has just begun. A conversation that has outgrown the context is answered with "".
        """
        fresh = [True] * len(observations) if new is None and not self._rows else new
        for row in range(len(observations)):
            if row not in self._rows or (fresh is not None and fresh[row]):
                self._rows[row] = max(self._rows.values(), default=-1) + 1
        data = TensorDict(
            {
                "observation": torch.tensor([self.texts.add(text) for text in observations]),
                "episode": torch.tensor([self._rows[row] for row in range(len(observations))]),
                "system": torch.full((len(observations),), self.texts.add(system_prompt)),
            },
            [len(observations)],
        )
        handles = self(data)["action"].tolist()
        replies = self.texts.read(handles)
        self.texts.clear()
        self.turns.clear()
        return replies
