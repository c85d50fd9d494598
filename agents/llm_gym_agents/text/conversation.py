"""One conversation as token ids: what was sampled stays verbatim, only what is new is tokenised."""

from __future__ import annotations

from dataclasses import dataclass, field

from llm_gym_agents.text.chat import ChatFormat


@dataclass(slots=True)
class Conversation:
    """Grows turn by turn. ``ids`` is replaced, never changed: an engine may still read the old."""

    chat: ChatFormat
    ids: list[int] = field(default_factory=list)
    turns: int = 0
    """Replies so far."""
    reply_ids: list[int] = field(default_factory=list)
    """The last reply."""

    def open(self, system_prompt: str, text: str) -> list[int]:
        """Begin with a system prompt, which may be empty, and what the model reads first."""
        self.ids = self.chat.opening(system_prompt, text)
        return self.ids

    def hear(self, text: str) -> list[int]:
        """Append what the model reads next; return the ids this added."""
        heard = self.chat.following(self.reply_ids, text)
        self.ids = self.ids + heard
        return heard

    def say(self, reply_ids: list[int]) -> None:
        """Append what the model said."""
        self.ids = self.ids + reply_ids
        self.reply_ids = reply_ids
        self.turns += 1
