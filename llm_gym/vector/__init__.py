"""Many text environments as one, in this process or in others.

``make_vec`` builds a ``TextVectorEnv``: start reading there. ``rows`` runs jobs on environments,
``pool`` and ``worker`` are the two sides of doing that in other processes, and ``infos`` puts
what comes back into Gymnasium's layout.
"""

from llm_gym.vector.local_rows import RowsError
from llm_gym.vector.make import make_vec
from llm_gym.vector.text_vector_env import StepResult, TextVectorEnv

__all__ = ["RowsError", "StepResult", "TextVectorEnv", "make_vec"]
