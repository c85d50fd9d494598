"""Golden transcripts: the observations of one episode of each environment, word for word.

``python tests/golden.py`` writes them again. A transcript that changes without a new version of
its environment is a change that can move a score.
"""

from pathlib import Path

import gymnasium as gym

from llm_gym.registry.suite import ENVS

FOLDER = Path(__file__).parent / "golden"


def transcript(env_id: str, seed: int = 7) -> str:
    """Return one unusable reply and then the solver's episode, as text."""
    env = gym.make(env_id)
    obs, _ = env.reset(seed=seed)
    # A game of one turn is over after an unusable reply.
    lines, done = [obs], False
    action = env.unwrapped.solver_action() if env.unwrapped.max_turns == 1 else "???"
    while not done:
        obs, reward, terminated, truncated, info = env.step(action)
        done = terminated or truncated
        lines += [f"> {action}", obs, f"[reward {reward:g}, {info['stop_reason']}]"]
        action = "" if done else env.unwrapped.solver_action()
    return "\n".join(lines) + "\n"


def path(env_id: str) -> Path:
    """Return the file of an id's transcript."""
    return FOLDER / f"{env_id.split('/')[1]}.txt"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for row in ENVS:
        path(row.id).write_text(transcript(row.id), encoding="utf-8")
