"""One small learner, alone or in a group, and what an update made of it."""

import functools
import random

import torch

from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.ppo import NonFiniteError
from llm_gym_agents.learn.single_process import SINGLE_PROCESS
from llm_gym_agents.model.shared_prefix import share_prefixes
from llm_gym_agents.model.weights import full_tensor, served_weights
from llm_gym_agents.trainer.build import prepare_lm
from llm_gym_agents.trainer.process_group import ProcessGroup
from tests.agents.checks import first_gradients
from tests.agents.learn.test_ppo import data
from tests.agents.tiny import tiny_model

CUTS = (True, False, True, True, False, True, True)
CASES = {
    "shared critic": {"training": {"mini_batch_size": 4, "micro_batch_tokens": 40}},
    "separate critic": {
        "model": {"critic": "separate"},
        "training": {"mini_batch_size": 3, "value_learning_rate": 1e-3, "max_grad_norm": 0.01},
    },
    "groups, one read": {
        "training": {"adv_estimator": "grpo", "ppo_epochs": 1, "max_learned_turns": 1}
    },
    "adapters and a KL": {
        "model": {"lora_rank": 2},
        "training": {"kl": "loss", "kl_coef": 0.1, "entropy_coef": 0.01},
    },
    "reference, whole episodes": {
        "training": {
            "policy_loss": "gspo",
            "clip_ratio": 0.01,
            "kl": "reward",
            "kl_coef": 0.1,
            "importance_cap": 2.0,
        }
    },
    "trust region": {"training": {"max_kl": 1e-6, "ppo_epochs": 4, "mini_batch_size": 4}},
    "frozen policy": {"critic_only": True},
    "values in units of returns": {"training": {"normalise_values": True}},
    "tied weights": {"lm": {"tie_word_embeddings": True}},
    "shared prefixes": {"rules": 30},
    "shared prefixes, adapters": {"rules": 30, "model": {"lora_rank": 2}},
}


def batch(seed=0, cuts=CUTS, rules=0):
    """Seven episodes of two turns; two of them are of one group, and so on.

    Each sequence begins with the same ids, as many as ``rules``.
    """
    made = data(seed, cuts)
    made.group_E, made.episode_E = torch.arange(len(cuts)) // 2, torch.arange(len(cuts))
    if rules:
        lengths_Q, common = made.sequence_lengths_Q, torch.arange(rules)
        first_Q = lengths_Q.cumsum(0) - lengths_Q

        def moved(place):
            return place + rules * torch.searchsorted(first_Q, place, right=True)

        whole = [torch.cat([common, each]) for each in made.ids_S.split(lengths_Q.tolist())]
        made.position_T, ahead_E = moved(made.position_T), moved(made.bootstrap_E)
        made.bootstrap_E = torch.where(made.bootstrap_E < 0, made.bootstrap_E, ahead_E)
        made.ids_S, made.sequence_lengths_Q = torch.cat(whole), lengths_Q + rules
        assert share_prefixes(made.ids_S, made.sequence_lengths_Q, pads=True) is not None
    return made


def settings(case):
    config = ConfigStore()
    base = {"batch_size": 7, "mini_batch_size": 7, "ppo_epochs": 2, "learning_rate": 1e-3}
    config.update({"training": base})
    sections = ("model", "training")
    config.update({name: CASES[case][name] for name in sections if name in CASES[case]})
    return config


def learner(case, ranks=SINGLE_PROCESS):
    config, family = settings(case), CASES[case].get("lm", {})
    torch.manual_seed(1)
    lm = prepare_lm(config.model, tiny_model(**family))
    return Learner(lm, config.training, config.model, ranks=ranks)


def update(case, ranks=SINGLE_PROCESS, updates=2, seed=0):
    """Return gradients of the first step, weights, served weights and metrics after updates."""
    made = learner(case, ranks)
    gradients = first_gradients(made.model, made.ppo.optimizer)
    torch.manual_seed(seed)
    frozen = CASES[case].get("critic_only", False)
    for at in range(updates):
        metrics = made.ppo.update(batch(at, rules=CASES[case].get("rules", 0)), critic_only=frozen)
    return {
        "gradients": gradients,
        "weights": {n: full_tensor(p).detach().clone() for n, p in made.model.named_parameters()},
        "served": {n: tensor.clone() for n, tensor in served_weights(made.lm)},
        "metrics": {n: value for n, value in metrics.items() if not n.startswith("time/")},
        "trained": made.ppo.trained,
    }


class AnySplit(ProcessGroup):
    """Deals episodes at random: some processes have none."""

    def __init__(self, mode, seed):
        super().__init__(mode, torch.device("cpu"))
        self._random = random.Random(seed)

    def assign(self, costs):
        homes = [self._random.randrange(self.world) for _ in costs]
        return [at for at, home in enumerate(homes) if home == self.rank]


def update_in_group(rank, mode, case, split=None):
    ranks = ProcessGroup(mode, torch.device("cpu")) if split is None else AnySplit(mode, split)
    torch.manual_seed(rank)  # generators differ, as they do where environments draw from them
    found = update(case, ranks, seed=rank)
    return found if rank == 0 else {"metrics": found["metrics"], "trained": found["trained"]}


@functools.cache
def alone(case):
    return update(case)


def differences(ours, theirs):
    """Yield the largest difference of each kind of number, and check that the names agree."""
    for kind in ("gradients", "weights", "served", "metrics", "trained"):
        assert ours[kind].keys() == theirs[kind].keys(), kind
        for name, value in theirs[kind].items():
            gap = torch.as_tensor(ours[kind][name]) - torch.as_tensor(value)
            yield f"{kind} {name}", float(gap.abs().max())


def stop_where_one_breaks(rank, mode):
    """An update whose loss is NaN in process 1 alone; the error of each process, and what moved."""
    made = learner("shared critic", ProcessGroup(mode, torch.device("cpu")))
    whole_loss = made.ppo.objective.forward

    def broken(*args, **kwargs):
        loss, terms = whole_loss(*args, **kwargs)
        return loss * float("nan") if rank == 1 else loss, terms

    made.ppo.objective.forward = broken
    before = {name: full_tensor(each).clone() for name, each in made.model.named_parameters()}
    error_text = None
    try:
        made.ppo.update(batch())
    except NonFiniteError as error:
        error_text = str(error)
    moved = [
        n for n, each in made.model.named_parameters() if not full_tensor(each).equal(before[n])
    ]
    made.ppo.objective.forward = whole_loss
    after = made.ppo.update(batch(), critic_only=False)["train/steps"]
    return error_text, moved, after
