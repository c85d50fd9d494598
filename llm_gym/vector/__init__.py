"""Vector environments: many text environments as one, in this process or in worker processes.

``make_vec`` builds a ``TextVectorEnv``: start reading there. ``rows`` runs jobs on environments and
stacks their infos; ``worker_pool`` runs the same jobs in worker processes.
"""

from llm_gym.vector.make import make_vec
from llm_gym.vector.rows import RowsError
from llm_gym.vector.text_vector_env import StepResult, TextVectorEnv

__all__ = ["RowsError", "StepResult", "TextVectorEnv", "make_vec"]
