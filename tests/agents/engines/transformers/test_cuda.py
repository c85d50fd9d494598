"""The transformers engine on a GPU: as exact as on a CPU, with the same replies."""

import pytest

from llm_gym_agents.engines.base import Request, Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from tests.agents.engines.truth import worst_error
from tests.agents.tiny import FAMILIES, tiny_model

pytestmark = pytest.mark.gpu
REQUESTS = [
    Request([(7 * at + step) % 256 for step in range(at + 1)], Sampling(max_tokens=12), seed=at)
    for at in range(24)
]


@pytest.mark.parametrize("family", FAMILIES)
def test_replies_and_log_probs_are_those_of_a_cpu(family):
    model = tiny_model(family).cuda()
    found = TransformersEngine(model, end_ids=[]).generate(REQUESTS)
    assert worst_error(model, REQUESTS, found) <= 1e-5
    wanted = TransformersEngine(tiny_model(family), end_ids=[]).generate(REQUESTS)
    assert [done.ids for done in found] == [done.ids for done in wanted]


def test_a_model_may_move_between_batches():
    model = tiny_model()
    engine = TransformersEngine(model, end_ids=[])
    wanted = [done.ids for done in engine.generate(REQUESTS)]
    for device in ("cuda", "cpu", "cuda"):
        model.to(device)
        assert [done.ids for done in engine.generate(REQUESTS)] == wanted
    engine.close()
