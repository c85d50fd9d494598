"""One PPO update, from a batch of episodes to new weights.

Read ``PPO.update`` first: it scores the batch with the old weights, turns rewards into advantages,
and takes a few clipped steps. It uses no paths, loggers or engines.

Shapes: T sampled tokens of all episodes, E episodes, M episodes of a step.
"""

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from llm_gym.core.errors import LLMGymError
from llm_gym_agents import algo
from llm_gym_agents.algo.losses.kl import k3_of_log_ratio
from llm_gym_agents.algo.losses.objective import SEEN
from llm_gym_agents.algo.tensor_ops import segment_starts, spread
from llm_gym_agents.config import TrainingConfig
from llm_gym_agents.learn.optimizer import clip_gradients, make_optimizer
from llm_gym_agents.learn.scoring import (
    BatchScorer,
    Reference,
    Scores,
    critic_metrics,
    trained_tokens,
)
from llm_gym_agents.learn.single_process import SINGLE_PROCESS, SingleProcess
from llm_gym_agents.learn.stabilizers import (
    Stabilizers,
    critic_gradient,
    estimate_by_env,
    shrink_values,
    step_share,
)
from llm_gym_agents.model.head import Entropy
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.rollouts.pack import Packer, TurnDraw, draw_turns, micro_batch, runs
from llm_gym_agents.rollouts.rollout_data import STATE_FIELDS, RolloutData
from llm_gym_agents.run.metrics import CRITIC_ONLY, KL

Metrics = dict[str, float]
_NORMS = ("train/grad_norm", "train/critic_grad_norm")
_MOVED = "policy/kl_k3"
_BROKEN = "losses that are not finite"
CHECKED = 32
"""Maximum episodes on which the KL of an update is measured after its last step."""
TRIES = 5
"""Times that an update is scaled back before it is undone."""


class NonFiniteError(LLMGymError, ArithmeticError):
    """A loss or gradient is NaN or infinite; the weights were not changed."""


class PPO:
    """Trains ``model`` in place on batches of episodes.

    Args:
        reference: The reference policy of a KL penalty; None without one.
        norm_length: Maximum tokens of an episode, for the aggregation that divides by it.
        ranks: The processes that train together; each calls ``update`` with the whole batch.
    """

    def __init__(
        self,
        model: PolicyValueModel,
        config: TrainingConfig,
        reference: Reference | None = None,
        *,
        norm_length: float | None = None,
        ranks: SingleProcess = SINGLE_PROCESS,
    ) -> None:
        self.model, self.config, self.reference = model, config, reference
        self.ranks = ranks
        self._norm_length = norm_length
        self.estimator = algo.get_advantage(config.adv_estimator)
        self.stabilizers = Stabilizers(config, model)
        self.trust = self.stabilizers.trust
        has_critic = model.value_head is not None
        entropy: Entropy = "gradient" if config.entropy_coef else "metric"
        # The trunk has written the value; the critic passes it on.
        critic = TensorDictModule(nn.Identity(), in_keys=["token_value"], out_keys=["value"])
        self.objective = algo.TokenObjective(
            trunk(ranks.wrap(model), entropy, has_critic=has_critic),
            critic if has_critic else None,
            policy_loss=config.policy_loss,
            policy_settings=policy_settings(config),
            value_coef=config.value_coef,
            entropy_coef=config.entropy_coef,
            kl_coef=config.kl_coef if config.kl == "loss" else 0.0,
            importance_cap=config.importance_cap,
        ).to(model.device)
        whole = self.objective.spec.needs_whole_episodes
        self.scorer = BatchScorer(
            model, config.micro_batch_tokens, reference, ranks=ranks, whole=whole
        )
        self._aggregation = config.loss_agg or self.objective.spec.aggregation
        self.optimizer = make_optimizer(model, config)
        self._drawn: TurnDraw | None = None
        self.trained: dict[str, Tensor] = {}
        """Ratio, advantage, value and entropy of each token of the last update, for records."""

    def update(
        self,
        data: RolloutData,
        *,
        rate: float = 1.0,
        critic_only: bool = False,
        recorded: bool = False,
    ) -> Metrics:
        """Train on ``data`` and return metrics.

        Args:
            data: Complete episodes.
            rate: Factor on the learning rates, from a schedule.
            critic_only: Train only the critic, during its warm-up.
            recorded: Whether the batch is recorded, which needs the entropy of each token.
        """
        packer = Packer(data.to("cpu"))
        data, times = packer.data, [time.perf_counter()]
        has_critic = self.model.value_head is not None
        critic_only = critic_only and has_critic
        algo.check_numbers(data.sampler_log_prob_T)
        drawn = self._draw_turns(data)
        learned = packer if drawn is None else Packer(drawn.data)
        # Advantages need the values, and a KL in the reward, of every turn; a record shows them.
        reads_all = drawn is None or recorded or has_critic or self.config.kl == "reward"
        shows_all = drawn is not None and recorded
        on_policy = self._is_one_pass(len(data.lengths_E)) and not critic_only and not shows_all
        scores = Scores(None, None, None, None)
        if not on_policy or self.reference is not None:
            scored = packer if reads_all else learned
            scores = self.scorer.score(scored, policy=not on_policy, entropy=recorded)
        scores = self.stabilizers.unscale(scores)
        times.append(time.perf_counter())
        reward_T, kl_metrics = self._rewards(data, scores)
        advantages, signal = self._advantages(data, token_stream(data, reward_T, scores))
        self.stabilizers.before_update(data, advantages)
        of_critic, every = critic_metrics(scores, advantages), (data, scores, advantages)
        if drawn is not None:
            advantages = algo.Advantages(*(each[drawn.index_T] for each in advantages))
            scores = scores.at(drawn.index_T) if reads_all else scores
        batch = self._batch(learned.data, scores, advantages)
        times.append(time.perf_counter())
        metrics = self._step(learned, batch, rate, 0.0 if critic_only else signal)
        metrics["train/signal"] = signal
        if scores.log_prob_T is None:
            scores = scores._replace(log_prob_T=self.ranks.all_sum(self._seen_T).cpu())
        assert scores.log_prob_T is not None
        sampled_T, cap = learned.data.sampler_log_prob_T, self.config.importance_cap
        mismatch = algo.mismatch_metrics(scores.log_prob_T, sampled_T, cap=cap)
        metrics |= {name: float(value) for name, value in mismatch.items()}
        shown = every if shows_all else (learned.data, scores, advantages)
        self.trained = trained_tokens(*shown)
        times.append(time.perf_counter())
        parts = zip(("score", "advantage", "train"), pairwise(times), strict=True)
        seconds = {f"time/{part}_s": end - start for part, (start, end) in parts}
        if self.config.kl == "loss":
            kl_metrics = {"kl/reference": metrics["policy/ref_kl"], "kl/coef": self.config.kl_coef}
        if critic_only:
            metrics[CRITIC_ONLY] = 1.0
        return metrics | kl_metrics | of_critic | seconds

    def _step(self, packer: Packer, batch: TensorDict, rate: float, signal: float) -> Metrics:
        """Take the optimizer steps, scaled by ``signal``, at this rate; return metrics."""
        share = step_share(signal)
        policy, *critic = self.optimizer.param_groups
        policy["lr"] = policy["base_lr"] * rate * share * self.trust.rate
        for group in critic:
            group["lr"] = group["base_lr"] * rate
        # A policy that nearly always wins need not explore.
        self.objective.set_entropy_coef(self.config.entropy_coef * share)
        if self.model.critic == "shared":
            self.model.critic_gradient = critic_gradient(signal)
        metrics = self._epochs(packer, batch, signal)
        # The engine needs the memory while it generates.
        self.optimizer.zero_grad(set_to_none=True)
        return metrics | self.stabilizers.metrics | {"train/lr": policy["lr"]}

    def _draw_turns(self, data: RolloutData) -> TurnDraw | None:
        """Draw the turns to learn from; the same ones in every process."""
        self._drawn = None
        if (most := self.config.max_learned_turns) is not None:
            random_K = self.ranks.broadcast(torch.rand(int(data.turn_ends_T.sum())))
            self._drawn = draw_turns(data, most, random_K)
        return self._drawn

    def _is_one_pass(self, episodes: int) -> bool:
        """Whether the update is one pass and one step; the pass then gives the old log-probs, too.

        A critic and a KL in the reward need a pass before the step.
        """
        config = self.config
        once = config.ppo_epochs == 1 and config.mini_batch_size >= episodes
        return once and self.model.value_head is None and config.kl != "reward"

    def _rewards(self, data: RolloutData, scores: Scores) -> tuple[Tensor, Metrics]:
        """Return rewards per token, less the KL penalty with ``kl='reward'``."""
        if self.config.kl != "reward" or scores.ref_log_prob_T is None:
            return data.reward_T, {}
        assert scores.log_prob_T is not None
        reward_T, kl = algo.kl_in_rewards(
            data.reward_T,
            scores.log_prob_T,
            scores.ref_log_prob_T,
            data.lengths_E,
            kl_coef=self.config.kl_coef,
        )
        return reward_T, {"kl/reference": float(kl), "kl/coef": self.config.kl_coef}

    def _advantages(
        self, data: RolloutData, stream: algo.TokenStream
    ) -> tuple[algo.Advantages, float]:
        """Return the advantages and the signal of the batch; a poor critic counts less."""
        settings = estimator_settings(self.estimator, self.config)
        if stream.value_T is not None and "lam" in settings:
            whole = self.estimator(stream, **settings | {"lam": 1.0})
            stream = shrink_values(stream, whole.returns_T)
        return estimate_by_env(partial(self.estimator, **settings), data, stream)

    def _batch(self, data: RolloutData, scores: Scores, advantages: algo.Advantages) -> TensorDict:
        sampler_T, cap = data.sampler_log_prob_T, self.config.importance_cap
        fields = {
            "advantage": advantages.advantages_T.unsqueeze(-1),
            "sampler_log_prob": sampler_T,
            "version": data.version_T,
        }
        if scores.log_prob_T is not None:
            fields["old_log_prob"] = scores.log_prob_T
            if cap is not None:
                fields["importance_weight"] = algo.importance_weights(
                    scores.log_prob_T, sampler_T, cap=cap
                )
        if scores.value_T is not None:
            fields["value"] = self.stabilizers.scale(scores.value_T).unsqueeze(-1)
            fields["value_target"] = self.stabilizers.scale(advantages.returns_T).unsqueeze(-1)
        if scores.ref_log_prob_T is not None:
            fields["ref_log_prob"] = scores.ref_log_prob_T
        self._seen_T = torch.zeros_like(sampler_T, device=self.model.device)
        return TensorDict(fields, [data.tokens])

    def _epochs(self, packer: Packer, batch: TensorDict, signal: float) -> Metrics:
        """Take the steps of an update; stop when the policy leaves its trust region."""
        moves = signal > 0.0
        if moves:
            replies = max(1, int(packer.data.turn_ends_T.sum()))
            self.trust.begin(signal, packer.data.tokens / replies)
        sums: dict[str, float] = defaultdict(float)
        steps, kl = 0, 0.0
        for episodes in self._mini_batches(packer.data.group_E):
            metrics = self._gradients(packer, batch, episodes, frozen=not moves)
            for name, value in metrics.items():
                sums[name] += value
            steps += 1
            if moves and metrics[_MOVED] > self.trust.bound:
                break  # this gradient is not used: the steps before it were enough
            if not moves and self.model.value_head is None:
                break  # nobody learns
            self.optimizer.step()
        if moves:
            kl = self._stay_near(packer, batch, episodes[:CHECKED])
        means = {name: value / steps for name, value in sums.items() if name != _MOVED}
        in_pass = math.ceil(len(packer.ids_E) / self.config.mini_batch_size)
        return means | {KL: kl, "train/steps": steps, "train/epochs": steps / in_pass}

    def _stay_near(self, packer: Packer, batch: TensorDict, episodes: list[int]) -> float:
        """Scale the update back until its KL is within the limit; return the KL."""
        if "old_log_prob" not in batch:  # the only pass of the update has given them
            batch["old_log_prob"] = self.ranks.all_sum(self._seen_T).cpu()
        tries = 0
        while (kl := self._moved(packer, batch, episodes)) > self.trust.bound and tries < TRIES:
            tries += 1
            self.trust.shorten(kl if tries < TRIES else math.inf)
        self.trust.adapt(kl, shortened=tries > 0)
        return kl

    @torch.no_grad()
    def _moved(self, packer: Packer, batch: TensorDict, episodes: list[int]) -> float:
        """Return the mean KL per token between the policies before and after the update."""
        total = torch.zeros((), device=self.model.device)
        for pack, counts in self.scorer.packs(packer, episodes):
            new_T = self.model(*pack[:4], entropy="none").log_prob_T
            if counts:
                old_T = batch["old_log_prob"][pack.index_T].to(new_T.device)
                total += k3_of_log_ratio((new_T - old_T).float()).sum()
        tokens = max(1, int(packer.data.lengths_E[episodes].sum()))
        return float(self.ranks.all_sum(total)) / tokens

    def _mini_batches(self, group_E: Tensor) -> Iterator[list[int]]:
        """Yield every episode ``ppo_epochs`` times, some at a time, in random order.

        If four groups fit into a mini-batch, groups stay whole, so that each prompt is read once.
        """
        names_G, of_E = group_E.unique(return_inverse=True)
        if not 1 < len(of_E) / len(names_G) <= self.config.mini_batch_size / 4:
            names_G = of_E = torch.arange(len(of_E))
        for _ in range(self.config.ppo_epochs):
            place_G = self.ranks.broadcast(torch.randperm(len(names_G))).argsort()
            order = place_G[of_E].argsort(stable=True)
            for some in order.split(self.config.mini_batch_size):
                yield some.tolist()

    def _gradients(
        self, packer: Packer, batch: TensorDict, episodes: list[int], *, frozen: bool
    ) -> Metrics:
        """Compute the gradients of ``episodes``; the GPU is synchronised only once.

        A ``frozen`` policy gets no gradients; its weights and optimizer state do not change.
        """
        self.optimizer.zero_grad(set_to_none=True)
        sums = self._backward(packer, batch, episodes)
        if frozen:
            for parameter in self.model.lm.parameters():
                parameter.grad = None
        norms = clip_gradients(self.optimizer, self.config.max_grad_norm)
        named = dict(zip(_NORMS, norms, strict=False))
        totals = self._to_floats(sums, named)
        broken = totals.pop(_BROKEN)  # of all processes, so that they stop together
        if broken or not all(math.isfinite(totals[name]) for name in named):
            self.optimizer.zero_grad(set_to_none=True)
            what = "loss" if broken else "gradient"
            raise NonFiniteError(
                f"the {what} must be finite, got NaN or infinity; nothing was stepped. Lower the "
                "learning rate, or look at the rewards"
            )
        return totals

    def _backward(
        self, packer: Packer, batch: TensorDict, episodes: list[int]
    ) -> dict[str, Tensor]:
        """Add up the gradients of ``episodes``, micro-batch by micro-batch; return metrics."""
        weights_T = self._token_weights(packer.data, episodes)
        tokens = int(packer.data.lengths_E[episodes].sum())
        sums: dict[str, Tensor] = defaultdict(lambda: torch.zeros((), device=self.model.device))
        packs = list(self.scorer.packs(packer, episodes))
        for at, (pack, counts) in enumerate(packs):
            micro = micro_batch(pack, batch, weights_T * counts)
            with self.ranks.gradient_sync(at == len(packs) - 1):
                loss, terms = self.objective(micro.to_tensordict(), tokens=tokens)
                (loss * self.ranks.loss_scale).backward()
            sums[_BROKEN] = sums[_BROKEN] + ~loss.isfinite()
            seen_T = terms.pop(SEEN, None)
            if counts and seen_T is not None:
                self._seen_T[pack.index_T.to(seen_T.device, non_blocking=True)] = seen_T
            for name, value in terms.items():
                sums[name] = sums[name] + (value if counts else torch.zeros_like(value))
        return sums

    def _to_floats(self, sums: dict[str, Tensor], norms: dict[str, Tensor]) -> Metrics:
        """Return the metrics of a step over all processes; the only wait for the GPU."""

        def stacked(each: Iterable[Tensor]) -> Tensor:
            return torch.stack([value.float().to(self.model.device) for value in each])

        shared = self.ranks.all_sum(stacked(sums.values()))
        numbers = torch.cat([shared, stacked(norms.values())]).tolist()
        return dict(zip((*sums, *norms), numbers, strict=True))

    def _token_weights(self, data: RolloutData, episodes: list[int]) -> Tensor:
        lengths_E = data.lengths_E if self._drawn is None else self._drawn.lengths_E
        lengths_M, kept_M = lengths_E[episodes], self.stabilizers.kept_E[episodes]
        own_T = algo.token_weights(
            lengths_M,
            self._aggregation,
            counts=algo.BatchCounts.of(lengths_M * kept_M),
            norm_length=self._norm_length,
        )
        weights_T = torch.zeros(int(lengths_E.sum()))
        index_T = runs(segment_starts(lengths_E)[episodes], lengths_M)
        weights_T[index_T] = own_T * spread(kept_M, lengths_M)
        if self._drawn is None:
            return weights_T
        return weights_T[self._drawn.index_T] * self._drawn.weight_T


def policy_settings(config: TrainingConfig) -> dict[str, Any]:
    """Return the settings of the policy loss."""
    known = algo.get_policy_loss(config.policy_loss).settings
    takes = config.clip_ratio is not None and "clip_ratio" in known
    return ({"clip_ratio": config.clip_ratio} if takes else {}) | config.loss_settings


def estimator_settings(spec: algo.AdvantageSpec, config: TrainingConfig) -> dict[str, Any]:
    """Return the settings that the estimator takes."""
    known = {"gamma": config.gamma, "lam": config.gae_lambda, "discount": "turn"}
    own = {name: value for name, value in known.items() if name in spec.settings}
    return own | config.estimator_settings


def trunk(model: nn.Module, entropy: Entropy, *, has_critic: bool) -> TensorDictModule:
    """Return the model as the objective's trunk: log-probs, entropies and, if any, values."""

    def read(*inputs: Tensor) -> tuple[Tensor, ...]:
        scores = model(*inputs, entropy=entropy)
        found = (scores.log_prob_T, scores.entropy_T)
        return found if scores.value_T is None else (*found, scores.value_T.unsqueeze(-1))

    written = ["token_log_prob", "token_entropy"]
    return TensorDictModule(
        read,
        in_keys=["ids", "sequence_lengths", "position", "token"],
        out_keys=[*written, "token_value"] if has_critic else written,
    )


def token_stream(data: RolloutData, reward_T: Tensor, scores: Scores) -> algo.TokenStream:
    """Return the input of the advantage estimator."""
    same = ("lengths_E", "turn_ends_T", "group_E", *STATE_FIELDS)
    return algo.TokenStream(
        reward_T=reward_T,
        value_T=scores.value_T,
        terminated_E=None if scores.value_T is None else data.terminated_E,
        bootstrap_E=scores.bootstrap_E,
        **{name: getattr(data, name) for name in same},
    )
