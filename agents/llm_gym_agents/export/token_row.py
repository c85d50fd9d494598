"""One episode as token ids: what trainers that sample for themselves are handed back."""

from __future__ import annotations

from collections.abc import Sequence

from llm_gym_agents.export.episode import Conversation
from llm_gym_agents.text.chat import ChatFormat


class TokenRow:
    """A prompt, and a completion of replies and observations in turn.

    What the model sampled is never tokenised again.

    Args:
        talk: The environment.
        written: How the model writes a chat.
        seed: Of the episode, which begins here.
    """

    def __init__(self, talk: Conversation, written: ChatFormat, seed: int) -> None:
        told = talk.begin(seed)
        system = told[0]["content"] if len(told) > 1 else ""
        self.talk, self._format = talk, written
        self.prompt = written.opening(system, told[-1]["content"])
        self.completion: list[int] = []
        self.mask: list[int] = []
        """1 where the model wrote."""
        self._logprobs: list[float] = []

    @property
    def ids(self) -> list[int]:
        """What the model reads before its next reply."""
        return [*self.prompt, *self.completion]

    @property
    def logprobs(self) -> list[float] | None:
        """Of the completion, 0 where the environment spoke; None if a reply came without."""
        return self._logprobs if len(self._logprobs) == len(self.completion) else None

    def is_over(self, most: int) -> bool:
        """Whether the episode has ended, or has ``most`` ids."""
        return self.talk.done or len(self.completion) >= most

    def take(self, reply: list[int], logprobs: Sequence[float] | None) -> None:
        """Play a reply, and note what it is answered."""
        self._add(reply, 1, logprobs)
        observation = self.talk.answer(self._format.text_of(reply))
        if not self.talk.done:
            following = self._format.following(reply, observation)
            self._add(following, 0, [0.0] * len(following) if logprobs is not None else None)

    def _add(self, ids: list[int], mask: int, logprobs: Sequence[float] | None) -> None:
        self.completion += ids
        self.mask += [mask] * len(ids)
        self._logprobs += logprobs or []
