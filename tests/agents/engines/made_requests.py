"""Random requests, and how close log probabilities must come."""

import random

from llm_gym_agents.engines.base import Request, Sampling
from tests.agents.tiny import VOCABULARY

TOLERANCE = 1e-5


def some_requests(count, seed=0, longest=50, most=30, **sampling):
    rng = random.Random(seed)
    return [
        Request(
            [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, longest))],
            Sampling(max_tokens=rng.randint(1, most), **sampling),
            seed=rng.getrandbits(63),
            key=("request", at),
        )
        for at in range(count)
    ]
