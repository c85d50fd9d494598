"""Random requests, and the log-probs of their replies in one plain forward."""

import random

import torch

from llm_gym_agents.engines.base import Request, Sampling
from tests.agents.tiny import VOCABULARY


def log_probs(model, prompt, ids, temperature=1.0):
    """Return the log-prob of each of ``ids`` after ``prompt``."""
    sequence = torch.tensor([[*prompt, *ids]], device=model.device)
    training = model.training
    model.eval()
    with torch.no_grad():
        logits = model(sequence).logits[0].float() / temperature
    model.train(training)
    rows = logits.log_softmax(-1)[len(prompt) - 1 : -1]
    return [row[token].item() for row, token in zip(rows, ids, strict=True)]


def worst_error(model, requests, completions):
    """Return the largest difference between recorded log-probs and the model's own."""
    errors = [0.0]
    for request, done in zip(requests, completions, strict=True):
        assert len(done.ids) == len(done.log_probs) > 0
        wanted = log_probs(model, request.prompt, done.ids, request.sampling.temperature or 1.0)
        errors += [abs(a - b) for a, b in zip(wanted, done.log_probs, strict=True)]
    return max(errors)


TOLERANCE = 1e-5


def request(first, key=None, **sampling):
    """Return a request whose prompt begins with ``first``."""
    return Request([first, 5, 6], Sampling(**sampling), key=key)


def drain(engine):
    """Return the replies that are still running, as they end."""
    done = []
    while engine.running:
        done += engine.poll()
    return done


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
