"""The rules as a player is told them: the game, how to write a move, what an unusable one costs."""

from __future__ import annotations

from llm_gym.as_text.phrasebooks.book import Phrasebook


def write_rules(
    book: Phrasebook,
    instruction: str,
    *,
    invalid: str,
    fallback: str | None,
    retries: int,
    max_invalid: int | None,
    penalty: float,
) -> str:
    """Return the rules of ``book`` and of these settings of ``AsText``.

    ``instruction`` is how a move is written, ``fallback`` the move that is played for an unusable
    reply, if any.
    """
    parts = [book.rules_text(), book.how()]
    if retries:
        parts.append(f"Up to {retries} unusable replies per turn are forgiven.")
    if invalid == "terminate":
        parts.append("An unusable reply ends the episode.")
    elif fallback is not None:
        parts.append(f"For an unusable reply I play {fallback}, and what it earns does not count.")
    if max_invalid is not None and invalid != "terminate":
        parts.append(f"After {max_invalid} unusable replies the episode is cut.")
    if penalty:
        parts.append(f"Each unusable reply costs {penalty:g} points.")
    return f"{' '.join(filter(None, parts))}\n{instruction}".rstrip("\n")
