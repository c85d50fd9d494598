"""One episode record: what was played, why it stopped, and what a trainer made of it.

``Trajectory`` is the record in Python; on disk it is one line of JSONL. ``docs/evaluate.md`` lists
every field. ``play_episode`` plays an episode and returns its record; the evaluation and the
trainer write the same record.
"""

from llm_gym.episodes.encoding import Opaque
from llm_gym.episodes.files import EpisodeWriter, read_episodes, write_episodes
from llm_gym.episodes.play import play_episode
from llm_gym.episodes.record import SCHEMA, Tokens, Trajectory

__all__ = [
    "SCHEMA", "EpisodeWriter", "Opaque", "Tokens", "Trajectory", "play_episode", "read_episodes",
    "write_episodes",
]  # fmt: skip
