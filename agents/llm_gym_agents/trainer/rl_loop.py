"""All of training in one file: a small Llama learns a text game with PPO, in seconds.

Run it with ``python -m llm_gym_agents.trainer.rl_loop``. Read this file before the trainer, or copy
and change it: it is the same algorithm without settings, checkpoints, logs, tools or speed.
``main`` is the loop:

    play       TorchRL's ``Collector`` moves our ``TextEnvPool``; ``LLMPolicy`` writes the moves
    flatten    episodes of several turns become one stream of sampled tokens
    estimate   TorchRL's ``GAE`` computes the advantage of each of those tokens
    improve    TorchRL's ``ClipPPOLoss`` and an optimizer: a few passes over the stream

In Echo, the model must repeat a word that is shown, four times. It starts with random weights and
imitates nobody: it writes one of about twenty tokens, which is sometimes right by chance. If moves
are sentences, chance is not enough: ``recipes.text_game_easy`` imitates random moves first.

A test checks that advantages, gradients and weights equal those of ``PPO.update``, which also needs
no padding, never holds all logits at once, and shrinks a critic that explains little.

Shapes: E episodes, L ids of the longest of them, T sampled tokens of all, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule as Probabilistic
from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModule
from torch import Tensor, nn
from torchrl.collectors import Collector
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from llm_gym.core.outcome import TERMINAL
from llm_gym.episodes import Trajectory
from llm_gym_agents.algo.losses.objective import TokenDistribution
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.model.load import tiny_llama
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.tasks import EpisodeTask, Turn
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.text.tokenizers import collect_vocabulary, word_tokenizer

ENV_ID = "llm_gym/Echo-v0"
EPISODES, PASSES, LEARNING_RATE, MAX_GRAD_NORM = 64, 4, 3e-3, 1.0
GAMMA, LAM, CLIP, VALUE_COEF, ENTROPY_COEF = 1.0, 0.95, 0.2, 0.5, 0.01

Episode = tuple[list[Turn], Trajectory]  # as ids read and sampled; as text with its rewards


class PolicyAndValue(nn.Module):
    """A language model with a value head, read where tokens were sampled."""

    def __init__(self, lm: Any) -> None:
        super().__init__()
        self.lm, self.value_head = lm, nn.Linear(lm.config.hidden_size, 1)
        for parameter in self.value_head.parameters():  # a critic that knows nothing says 0
            nn.init.zeros_(parameter)

    def forward(self, ids_EL: Tensor, position_T: Tensor, action_T: Tensor) -> tuple[Tensor, ...]:
        """Return log-prob ``[T]``, entropy ``[T]`` and the value before each token ``[T, 1]``."""
        # Padding stands on the right: a causal model has read all that counts by then.
        hidden_ELC = self.lm.base_model(input_ids=ids_EL, use_cache=False).last_hidden_state
        hidden_TC = hidden_ELC.flatten(0, 1)[position_T]
        next_id: Any = torch.distributions.Categorical(logits=self.lm.lm_head(hidden_TC))
        return next_id.log_prob(action_T), next_id.entropy(), self.value_head(hidden_TC)


def make_policy(seed: int) -> tuple[Any, LLMPolicy]:
    """Return a model with random weights and the game's vocabulary, and its policy."""
    tokenizer = word_tokenizer(collect_vocabulary([ENV_ID]))
    lm, chat = tiny_llama(tokenizer, seed=seed), ChatFormat.from_tokenizer(tokenizer)
    engine, one_token = TransformersEngine(lm), Sampling(max_tokens=1)
    return lm, LLMPolicy(engine, chat, sampling=one_token, system_prompt="", run_seed=seed)


def make_loss(model: PolicyAndValue) -> ClipPPOLoss:
    """Return PPO's loss on a stream of tokens; its ``sample_log_prob`` is the old policy's."""
    read = TensorDictModule(
        model, in_keys=["ids", "position", "action"], out_keys=["log_prob", "entropy", "value"]
    )
    # TorchRL asks a distribution for the log-prob of an action; this one was given it.
    hand_over = Probabilistic(
        in_keys={"log_prob": "log_prob", "entropy": "entropy", "old_log_prob": "sample_log_prob"},
        out_keys=["action"], distribution_class=TokenDistribution,
        return_log_prob=True, log_prob_key="sample_log_prob",
    )  # fmt: skip
    return ClipPPOLoss(
        ProbabilisticTensorDictSequential(read, hand_over),
        TensorDictModule(nn.Identity(), in_keys=["value"], out_keys=["state_value"]),  # is there
        clip_epsilon=CLIP, entropy_coeff=ENTROPY_COEF,
        critic_coeff=0.5 * VALUE_COEF, loss_critic_type="l2",  # VALUE_COEF * ½ (V - R)²
        functional=False,  # the weights stay where optimizer and engine find them
    )  # fmt: skip


def play(frames: Iterator[Any], pool: TextEnvPool, policy: LLMPolicy, ids: range) -> list[Episode]:
    """Play the episodes called ``ids`` to their ends, and no others."""
    pool.texts.clear()
    policy.turns.clear()
    pool.assign([EpisodeTask(id, seed=id) for id in ids])
    turns: dict[int, list[Turn]] = {id: [] for id in ids}
    ended: dict[int, Trajectory] = {}
    while len(ended) < len(ids):
        handle_F = next(frames)["turn"].T.flatten()  # what it stands for lies in a table
        for turn in policy.turns.read(handle_F[handle_F > 0].tolist()):
            turns[turn.episode].append(turn)
        ended |= pool.take_finished()
    return [(turns[id], ended[id]) for id in ids]


def flatten(episodes: Sequence[Episode], chat: ChatFormat) -> TensorDict:
    """Return the sampled tokens of all episodes, with their positions and rewards."""
    place, final, action, reward, done, terminated, ids_E = [], [], [], [], [], [], []
    for at, (turns, record) in enumerate(episodes):
        ids: list[int] = []
        for turn, earned in zip(turns, record.rewards, strict=True):
            ids += turn.prompt_ids
            place += [(at, len(ids) - 1 + n) for n in range(len(turn.reply_ids))]
            ids += turn.reply_ids  # what was sampled, never tokenised again
            action += turn.reply_ids
            reward += [0.0] * (len(turn.reply_ids) - 1) + [earned]  # paid for the whole reply
        if not (over := record.stop_reason in TERMINAL):  # cut: the last value stands for the rest
            ids += chat.following(turns[-1].reply_ids, record.final_state or "")
        more = [False] * (sum(len(turn.reply_ids) for turn in turns) - 1)
        done += [*more, True]
        terminated += [*more, over]
        final.append((at, len(ids) - 1))
        ids_E.append(torch.tensor(ids))
    ids_EL = nn.utils.rnn.pad_sequence(ids_E, batch_first=True)
    stride = torch.tensor([ids_EL.shape[1], 1])
    return TensorDict(
        ids=ids_EL, action=torch.tensor(action),
        position=(torch.tensor(place) * stride).sum(-1),  # in ids_EL laid out flat
        final=(torch.tensor(final) * stride).sum(-1),
        reward=torch.tensor(reward)[:, None], done=torch.tensor(done)[:, None],
        terminated=torch.tensor(terminated)[:, None],
    )  # fmt: skip


@torch.no_grad()
def estimate(model: PolicyAndValue, data: TensorDict) -> None:
    """Add old log-probs, values and advantages of each token."""
    tokens = len(data["action"])
    position = torch.cat([data["position"], data["final"]])
    action = torch.cat([data["action"], torch.zeros_like(data["final"])])  # any: only V is read
    log_prob, _, value = model(data["ids"], position, action)
    next_value = value[:tokens].roll(-1, dims=0)  # that of the next token, also in the next turn
    next_value[data["done"]] = value[tokens:].flatten()
    after = data.select("reward", "done", "terminated").set("state_value", next_value)
    stream = TensorDict({"state_value": value[:tokens], "next": after}, [tokens])
    GAE(gamma=GAMMA, lmbda=LAM, value_network=None, average_gae=True, vectorized=True)(stream)
    data["sample_log_prob"] = log_prob[:tokens]
    data.update(stream.select("state_value", "advantage", "value_target"))


def improve(loss: ClipPPOLoss, optimizer: torch.optim.Optimizer, data: TensorDict) -> None:
    """Take a few clipped steps on all tokens."""
    for _ in range(PASSES):
        terms = loss(data)
        optimizer.zero_grad()
        (terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]).backward()
        for group in optimizer.param_groups:  # a critic far off leaves the policy its step
            nn.utils.clip_grad_norm_(group["params"], MAX_GRAD_NORM)
        optimizer.step()


def main(iterations: int = 25, seed: int = 0) -> list[float]:
    """Train; return the share of correct words in each iteration."""
    (lm, policy), pool = make_policy(seed), TextEnvPool(ENV_ID, EPISODES, rules="system")
    policy.texts = pool.texts  # handles of one are handles of the other
    pool.assign(())  # nothing is played until it is asked for
    model = PolicyAndValue(lm)
    parts = [{"params": part.parameters()} for part in (model.lm, model.value_head)]
    loss, optimizer = make_loss(model), torch.optim.AdamW(parts, LEARNING_RATE, weight_decay=0.0)
    collector = Collector(
        pool, policy, frames_per_batch=EPISODES, total_frames=-1, use_buffers=False,
        trust_policy=True, auto_register_policy_transforms=False,
    )  # fmt: skip
    frames, right = iter(collector), []
    for iteration in range(iterations):
        ids = range(iteration * EPISODES, (iteration + 1) * EPISODES)
        episodes = play(frames, pool, policy, ids)
        data = flatten(episodes, policy.chat)
        estimate(model, data)
        improve(loss, optimizer, data)
        policy.engine.update_weights(lm.named_parameters(), iteration + 1)  # forget the cache
        right.append(sum(record.total_reward for _, record in episodes) / EPISODES)
        print(f"iteration {iteration:2}   right {right[-1]:4.0%}")
    collector.shutdown()
    return right


if __name__ == "__main__":
    main()
