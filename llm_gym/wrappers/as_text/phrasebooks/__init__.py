"""Phrasebooks: names of actions and descriptions of observations for ``llm_gym.wrappers.AsText``.

``register_phrasebook`` adds one of your own::

    class MazeWords(Phrasebook):
        names = ("north", "east", "south", "west")

        def describe(self, observation, info):
            return f"You are in room {observation}."

    register_phrasebook(MazeEnv, MazeWords)
"""

from llm_gym.wrappers.as_text.phrasebooks.book import (
    Phrasebook,
    find_phrasebook,
    register_phrasebook,
)
from llm_gym.wrappers.as_text.phrasebooks.readers import Unusable

__all__ = ["Phrasebook", "Unusable", "find_phrasebook", "register_phrasebook"]
