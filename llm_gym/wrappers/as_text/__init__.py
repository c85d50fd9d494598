"""Any Gymnasium environment as a text environment."""

from llm_gym.wrappers.as_text.env import ensure_text, make_text, speaks_text, split_settings
from llm_gym.wrappers.as_text.wrapper import AsText

__all__ = ["AsText", "ensure_text", "make_text", "speaks_text", "split_settings"]
