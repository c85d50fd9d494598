"""Any served model plays any environment, over an OpenAI-compatible API.

    from llm_gym.evaluate.endpoint import play

    print(play("llm_gym/TextGame-v0", "http://127.0.0.1:8000/v1", "my-model", episodes=100))

Needs httpx (the extra ``endpoint``). ``play`` plays many episodes, ``ChatClient`` asks for one
reply.
"""

from llm_gym.evaluate.endpoint.client import (
    ChatClient,
    ContextFullError,
    EndpointError,
    Interrupted,
    Reply,
    ServedEvaluation,
    Usage,
)
from llm_gym.evaluate.endpoint.http import Backoff
from llm_gym.evaluate.endpoint.play import play

__all__ = [
    "Backoff", "ChatClient", "ContextFullError", "EndpointError", "Interrupted", "Reply",
    "ServedEvaluation", "Usage", "play",
]  # fmt: skip
