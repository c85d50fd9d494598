"""The loop in one file: it learns from luck alone, and computes what ``PPO.update`` computes."""

import copy
import dataclasses
import inspect
from unittest import mock

import gymnasium as gym
import pytest
import torch
from torchrl.collectors import Collector

from llm_gym.core.outcome import TERMINAL
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn import ppo
from llm_gym_agents.learn.ppo import PPO
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.recipes import NAMES, find_recipe
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.rollout_data import assemble
from llm_gym_agents.rollouts.sampler import Sampler
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.trainer import rl_loop
from tests.agents.checks import first_gradients

IDS = range(10, 16)


class Uneven(gym.Wrapper):
    """Pays something every turn, and cuts every other episode after its third."""

    def reset(self, *, seed=None, options=None):
        self.turn, self.cut = 0, seed % 2 == 1
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        self.turn += 1
        observation, _, terminated, truncated, info = self.env.step(action)
        reward = (len(action) % 5 + self.turn) / 7 - 0.5
        return observation, reward, terminated, truncated or (self.cut and self.turn == 3), info


def uneven_pool():
    return TextEnvPool(rl_loop.ENV_ID, 3, wrappers=[Uneven], rules="system")


def talkative_policy():
    """Replies of one to three tokens, from weights large enough to care what they read."""
    lm, policy = rl_loop.make_policy(seed=3)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(11)  # replies of every length occur
        for name, weight in lm.named_parameters():
            if "norm" not in name:
                weight.normal_(std=0.2)
    policy.sampling = dataclasses.replace(policy.sampling, max_tokens=3)
    return lm, policy


def played_by_the_loop(policy):
    pool = uneven_pool()
    policy.texts = pool.texts
    pool.assign(())
    collector = Collector(
        pool, policy, frames_per_batch=3, total_frames=-1, use_buffers=False, trust_policy=True,
        auto_register_policy_transforms=False,
    )  # fmt: skip
    episodes = rl_loop.play(iter(collector), pool, policy, IDS)
    collector.shutdown()
    return episodes


def played_by_the_trainer(policy):
    sampler = Sampler(policy, uneven_pool())
    data = assemble(sampler.play([EpisodeTask(id, seed=id) for id in IDS]))
    sampler.close()
    return data


@pytest.fixture(scope="module")
def both():
    """The same model and the same episodes: on the loop's side, and on the trainer's."""
    lm, policy = talkative_policy()
    episodes = played_by_the_loop(policy)
    data = played_by_the_trainer(policy)
    return lm, rl_loop.flatten(episodes, policy.chat), data, episodes


def updated_by_the_loop(lm, data):
    model = rl_loop.PolicyAndValue(copy.deepcopy(lm))
    known_critic(model)
    parts = [{"params": part.parameters()} for part in (model.lm, model.value_head)]
    optimizer = torch.optim.AdamW(parts, lr=rl_loop.LEARNING_RATE, weight_decay=0.0)
    gradients = first_gradients(model, optimizer)
    data = data.clone()
    rl_loop.estimate(model, data)
    rl_loop.improve(rl_loop.make_loss(model), optimizer, data)
    return data["advantage"].flatten(), gradients, dict(model.named_parameters())


def updated_by_the_trainer(lm, data):
    model = PolicyValueModel(copy.deepcopy(lm))
    known_critic(model)
    config = ConfigStore().training
    settings = {
        "gamma": rl_loop.GAMMA, "gae_lambda": rl_loop.LAM,
        "estimator_settings": {"discount": "token"},
        "clip_ratio": rl_loop.CLIP, "importance_cap": None,
        "value_coef": rl_loop.VALUE_COEF, "entropy_coef": rl_loop.ENTROPY_COEF,
        "learning_rate": rl_loop.LEARNING_RATE, "max_grad_norm": rl_loop.MAX_GRAD_NORM,
        "ppo_epochs": rl_loop.PASSES, "mini_batch_size": len(IDS), "max_kl": 1e9,
    }  # fmt: skip
    for name, value in settings.items():
        setattr(config, name, value)
    ppo = PPO(model, config)
    ppo.objective.policy_settings["dual_clip"] = None  # the loop has none
    # In the order of the loop.
    ppo._mini_batches = lambda group_E: [list(range(len(group_E)))] * rl_loop.PASSES
    seen = []
    ppo.objective.register_forward_pre_hook(
        lambda module, args: seen.append(args[0]["advantage"].flatten())
    )
    gradients = first_gradients(model, ppo.optimizer)
    with mock.patch("llm_gym_agents.learn.stabilizers.signal_share", return_value=1.0):
        metrics = ppo.update(data)
    return seen[0], gradients, dict(model.named_parameters()), metrics


def known_critic(model):
    with torch.no_grad():
        torch.nn.init.constant_(model.value_head.bias, 0.3)
        model.value_head.weight.copy_(torch.linspace(-1, 1, model.value_head.weight.shape[1])[None])


@pytest.fixture
def discounted(monkeypatch):
    monkeypatch.setattr(rl_loop, "GAMMA", 0.97)  # 1 would hide a discount in the wrong place
    monkeypatch.setattr(rl_loop, "LEARNING_RATE", 1e-2)  # so far that the clip bites


def test_the_loop_plays_the_episodes_that_the_trainer_plays(both):
    _, flat, data, episodes = both
    assert [record.episode_id for _, record in episodes] == list(IDS)
    assert torch.equal(flat["action"], data.token_T)
    assert torch.equal(flat["reward"].flatten(), data.reward_T)
    ends = [record.stop_reason in TERMINAL for _, record in episodes]
    assert sorted(set(ends)) == [False, True], "some must be cut, and some must end"
    assert {len(turn.reply_ids) for turns, _ in episodes for turn in turns} > {1}


def test_advantages_gradients_and_weights_are_those_of_the_trainer(both, discounted, monkeypatch):
    lm, flat, data, _ = both
    monkeypatch.setattr(ppo, "shrink_values", lambda stream, returns_T: stream)
    advantages, gradients, weights = updated_by_the_loop(lm, flat)
    expected, their_gradients, their_weights, metrics = updated_by_the_trainer(lm, data)
    torch.testing.assert_close(advantages, expected, rtol=1e-4, atol=1e-5)
    assert gradients.keys() == their_gradients.keys()
    assert weights.keys() == their_weights.keys()
    for name in gradients:
        torch.testing.assert_close(gradients[name], their_gradients[name], rtol=1e-3, atol=1e-6)
    assert metrics["policy/clip_fraction"] > 0, "the steps must be large enough to be clipped"
    for name in weights:
        torch.testing.assert_close(weights[name], their_weights[name], rtol=1e-3, atol=1e-4)


def test_a_misplaced_reward_would_be_noticed(both, discounted):
    lm, flat, data, _ = both
    expected, theirs, *_ = updated_by_the_trainer(lm, data)
    wrong = flat.clone()
    wrong["reward"] = wrong["reward"].roll(1, dims=0)
    advantages, gradients, _ = updated_by_the_loop(lm, wrong)
    assert not torch.allclose(advantages, expected, rtol=1e-2, atol=1e-2)
    assert not torch.allclose(
        gradients["lm.lm_head.weight"], theirs["lm.lm_head.weight"], atol=1e-4
    )


@pytest.mark.slow
def test_the_loop_learns_to_repeat_words_from_random_weights(capsys):
    right = rl_loop.main(iterations=16)
    assert right[0] < 0.1, "random weights must not know the game"
    assert max(right[-3:]) > 0.8
    assert capsys.readouterr().out.count("iteration") == 16


def test_the_whole_loop_fits_on_two_hundred_lines():
    assert len(inspect.getsource(rl_loop).splitlines()) <= 200


def test_a_recipe_is_found_by_its_name_and_nothing_else():
    for name in NAMES:
        recipe = find_recipe(name)
        assert recipe.name == name
        recipe.config.check()
    assert find_recipe("frozen-lake") is None
