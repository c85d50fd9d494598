"""How the policy learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from llm_gym_agents.config.fields import (
    Bounds,
    Count,
    Fraction,
    NotNegative,
    Positive,
    Registered,
    Whole,
)
from llm_gym_agents.config.section import Section

# Copies of the names in ``algo``, which lies behind torch; a test holds them equal.
Aggregation = Literal[
    "token-mean",
    "token-sum",
    "seq-mean-token-sum",
    "seq-mean-token-mean",
    "seq-mean-token-sum-norm",
]


@dataclass(kw_only=True)
class TrainingConfig(Section, section="training"):
    """How the policy learns."""

    # --- how long and from how much -------------------------------------------------------
    num_epochs: Count = 10
    """Epochs, each of num_iters_per_epoch iterations."""
    num_iters_per_epoch: Count = 10
    """Iterations of an epoch: each plays a batch and learns from it."""
    batch_size: Count = 32
    """Episodes of an iteration."""
    group_size: Count = 1
    """Episodes that start from one seed, for estimators that compare them."""
    ppo_epochs: Count = 2
    """Passes over a batch."""
    mini_batch_size: Count = 8
    """Episodes of an optimizer step."""
    micro_batch_tokens: Count = 16384
    """Most tokens read in one forward pass; bounds memory and changes no gradient."""
    seed: Whole = 0
    """Decides episodes, sampling and initial weights."""

    # --- advantages -----------------------------------------------------------------------
    adv_estimator: Annotated[str, Registered("ADVANTAGES", "gae")] = "gae"
    """Advantage estimator: gae, gae_turn, grpo, dr_grpo, rloo, reinforce_plus_plus, remax, ..."""
    gamma: Fraction = 1.0
    """Discount of one step."""
    gae_lambda: Fraction = 0.95
    """Lambda of generalised advantage estimation, of one step."""
    discount: Literal["token", "turn"] = "turn"
    """What a step is; with turn a longer reply is not discounted more."""
    group_credit: Literal["episode", "turn"] = "episode"
    """What grpo, dr_grpo and rloo compare: whole episodes, or turn by turn what was to come."""
    whiten_advantages: bool = True
    """Scale advantages to mean 0 and variance 1 over the tokens of a batch."""

    reward_mode: Literal["replace", "add"] = "replace"
    """Whether a reward function replaces the environment's rewards or adds to them."""

    # --- losses ---------------------------------------------------------------------------
    policy_loss: Annotated[str, Registered("POLICY_LOSSES", "ppo")] = "ppo"
    """Policy loss: ppo, gspo, cispo or gpg."""
    clip_ratio: Annotated[float, Bounds(above=0, most=1)] | None = None
    """How far the ratio of new to old policy may fall below 1 and rise above it; None for the
    range of the loss's authors, which is 0.2 for ppo."""
    clip_ratio_high: Positive | None = None
    """How far it may rise, if not as far as clip_ratio says."""
    loss_agg: Aggregation | None = None
    """How token losses become one number; None for what the policy loss's authors use."""
    importance_cap: Positive | None = 2.0
    """Largest weight of a token that trainer and sampler rate differently; None for no weights."""
    entropy_coef: NotNegative = 0.0
    """Weight of the entropy bonus; the first one with entropy_target."""
    entropy_target: Positive | None = None
    """Entropy of a token, in nats, that the weight is moved to hold; None keeps the weight."""
    value_coef: NotNegative = 0.5
    """Weight of the critic's loss."""
    normalise_values: bool = False
    """Let the critic learn returns in units of their running mean and spread."""

    # --- what is not learned from ---------------------------------------------------------
    resample_zero_variance_groups: Whole = 0
    """Most further groups played in place of one whose episodes all scored the same."""
    mask_truncated_replies: bool = False
    """Leave episodes with a reply that max_tokens cut out of the loss."""
    max_sampler_kl: Positive | None = None
    """Leave out episodes that the trainer rates otherwise than the sampler by more than this KL, a
    mean over their tokens; None for none."""

    # --- the distance to the model that training began with -------------------------------
    kl: Literal["none", "reward", "loss"] = "none"
    """Where the KL to that model is a penalty: in the rewards, in the loss, or nowhere."""
    kl_coef: Positive = 0.001
    """Weight of the KL penalty."""
    kl_early_stop: Positive | None = None
    """End the passes over a batch when the policy has moved this far from the one that sampled."""

    # --- the optimizer --------------------------------------------------------------------
    optimizer: Literal["adamw", "adamw_8bit", "adamw_paged"] = "adamw"
    """AdamW, or on a GPU bitsandbytes' with a state of 8 bits, or of 32 in the host's memory."""
    learning_rate: Positive = 1e-5
    """Step size of AdamW."""
    value_learning_rate: Positive | None = None
    """Step size of the critic; None for learning_rate."""
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the step size falls to 0 over the run, if it does."""
    warmup_iters: Whole = 0
    """Iterations over which the step size rises from 0."""
    critic_warmup_iters: Whole = 0
    """First iterations, in which only the critic learns."""
    weight_decay: NotNegative = 0.0
    """Weight decay of AdamW."""
    adam_eps: Positive = 1e-8
    """Added to AdamW's divisor: weights with gradients below it move by less than a whole step."""
    max_grad_norm: Positive = 1.0
    """Gradients with a larger norm are scaled down to it, policy and critic each by itself."""
