"""What a run of the embedded model costs on one core, before it has begun.

An episode costs something by itself, and so do its turns and every word that is read: fitted to the
runs of ``benchmarks/results/train_all.json``, several side by side, two passes over a batch.
"""

from __future__ import annotations

from llm_gym_agents.config.situation import LOOKED_AT, Situation

EPISODE_S, TURN_S, WORD_S = 7e-4, 2.5e-4, 5e-5
"""CPU seconds of an episode that is played and learned from, of a turn of it, of a word read."""
PLAYED = 0.4
"""Share of that for what is only played, as in an evaluation."""


def episode_seconds(situation: Situation) -> float:
    """Return what an episode costs.

    Who does not lose at once plays longer than chance does: a quarter is added where a game allows,
    and where it knows no end, episodes are cut at what was looked at.
    """
    turns = situation.episode_turns
    longer = max(1.0, min(situation.turns or turns, LOOKED_AT, 1.25 * turns) / turns)
    return EPISODE_S + longer * (turns * TURN_S + situation.episode_words * WORD_S)


def iteration_seconds(situation: Situation, batch: int, evaluated: float) -> float:
    """Return what an iteration costs.

    Args:
        situation: What is trained on what.
        batch: Episodes of it.
        evaluated: Held-out episodes, on average, that are played after it.
    """
    return episode_seconds(situation) * (batch + PLAYED * evaluated)
