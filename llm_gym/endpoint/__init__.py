"""Any served model plays any environment, over an OpenAI-compatible API.

    from llm_gym.endpoint import play

    print(play("llm_gym/TextGame-v0", "http://127.0.0.1:8000/v1", "my-model", episodes=100))

Needs nothing but the standard library. ``play`` plays many episodes, ``ChatClient`` asks for one
reply.
"""

from llm_gym.endpoint.client import ChatClient, Reply
from llm_gym.endpoint.errors import ContextFullError, EndpointError, Interrupted
from llm_gym.endpoint.play import play
from llm_gym.endpoint.result import Prices, ServedEvaluation
from llm_gym.endpoint.retry import Backoff
from llm_gym.endpoint.usage import Usage

__all__ = [
    "Backoff",
    "ChatClient",
    "ContextFullError",
    "EndpointError",
    "Interrupted",
    "Prices",
    "Reply",
    "ServedEvaluation",
    "Usage",
    "play",
]
