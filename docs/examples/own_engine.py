"""An engine of your own: ``--inference.backend own_engine:Plain`` in this folder."""

import torch
from transformers import AutoModelForCausalLM

from llm_gym_agents.engines.base import Completion, Engine, FinishReason


class Plain(Engine):
    """Samples one token after the other, one reply after the other."""

    def __init__(self, path, *, tokenizer, dtype="float32"):
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype).eval()
        self.context_length = self.model.config.max_position_embeddings
        self.end_ids, self.queue = frozenset([tokenizer.eos_token_id]), []

    @property
    def running(self):
        return len(self.queue)

    def submit(self, requests):
        self.queue += requests

    def poll(self, timeout=None):
        return [self._reply(self.queue.pop(0))] if self.queue else []

    @torch.no_grad()
    def _reply(self, request):
        how, ids, log_probs = request.sampling, [], []
        draws = torch.Generator().manual_seed(request.seed)
        while len(ids) < how.max_tokens:
            read = torch.tensor([[*request.prompt, *ids]])
            log_p = (self.model(read).logits[0, -1] / (how.temperature or 1.0)).log_softmax(-1)
            if how.temperature == 0:
                ids.append(int(log_p.argmax()))
            else:
                ids.append(int(log_p.exp().multinomial(1, generator=draws)))
            log_probs.append(float(log_p[ids[-1]]))
            if ids[-1] in self.end_ids.union(how.stop_ids):
                return Completion(ids, log_probs, FinishReason.STOP, self.version, request.key)
        return Completion(ids, log_probs, FinishReason.LENGTH, self.version, request.key)

    @torch.no_grad()
    def score(self, sequences, temperature=1.0):
        found = []
        for ids in map(torch.tensor, sequences):
            log_p = (self.model(ids[None]).logits[0, :-1] / temperature).log_softmax(-1)
            found.append(log_p.gather(-1, ids[1:, None]).squeeze(-1).tolist())
        return found

    def update_weights(self, named_tensors, version):
        self.model.load_state_dict(dict(named_tensors), strict=False)
        self.version = version

    def cancel(self):
        left, self.queue = self.queue, []
        return [Completion([], [], FinishReason.CANCELLED, self.version, each.key) for each in left]

    def close(self):
        self.queue = []
