"""Every setting of a run, by section: type, default and meaning.

``docs/settings.md`` is generated from the types, defaults and docstrings here. ``rules`` checks for
contradictions and settings without effect, ``defaults`` chooses defaults by task, and ``store``
holds all sections.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
)

from llm_gym.core.errors import ConfigError
from llm_gym.core.text import closest, did_you_mean
from llm_gym_agents.config.value_types import (
    Aggregation,
    Backend,
    Device,
    Estimator,
    Fraction,
    JSONDict,
    Loss,
    Mix,
    Split,
    Text,
    Tracker,
    WarmStartPlayer,
)

MAX_SHOWN = 200
"""Maximum characters of a wrong value in an error message."""


class UnknownSettingError(ConfigError, AttributeError):
    """A setting or a section that does not exist."""


SECTIONS: dict[str, type[Section]] = {}
"""Sections by name, in the order of this file."""


class Section(BaseModel):
    """Settings that belong together.

    Numpy scalars, paths, and an int for a float are accepted. True and False are not numbers, and
    text is never parsed as a number.
    """

    model_config = ConfigDict(
        extra="forbid",
        validate_assignment=True,
        strict=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        use_attribute_docstrings=True,
    )
    section: ClassVar[str]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        SECTIONS[cls.section] = cls

    def __init__(self, **settings: Any) -> None:
        for name in settings:
            self._check_name(name)
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise _config_error(self.section, error) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._check_name(name)
        try:
            super().__setattr__(name, value)
        except ValidationError as error:
            raise _config_error(self.section, error) from None

    def __getattr__(self, name: str) -> Any:
        # Only called for names that do not exist. Copying and pickling ask for such names too.
        if name.startswith("_"):
            return super().__getattr__(name)  # type: ignore[misc]
        raise _unknown_setting(self.section, name)

    def _check_name(self, name: str) -> None:
        if name not in type(self).model_fields:
            raise _unknown_setting(self.section, name)

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        return os.fspath(value) if isinstance(value, os.PathLike) else value


class ModelConfig(Section):
    """Which model is trained."""

    section = "model"

    model_name: Text = "tiny"
    """Hugging Face id or folder; tiny is the embedded model, a small Llama with a tokenizer."""
    tiny_layers: PositiveInt = 2
    """Layers of the embedded model."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of computation and frozen weights; auto: bfloat16 on a GPU, float32 on a CPU.
    Trained weights are float32."""
    device: Device = "auto"
    """cpu, cuda, cuda:1 or mps; auto takes the best available."""
    trust_remote_code: bool = False
    """Run code that comes with the model."""
    critic: Literal["shared", "detached", "separate"] = "shared"
    """Where the value head is: on the policy's trunk (shared), on it without gradients into the
    trunk (detached), or on a trunk of its own (separate)."""
    lora_rank: NonNegativeInt = 0
    """Rank of LoRA adapters; only the adapters are trained. 0 trains all weights."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: slower, but needs less memory."""

    @property
    def is_embedded(self) -> bool:
        """Whether the trainer builds a small model itself."""
        return self.model_name == "tiny"


class InferenceConfig(Section):
    """How the model plays."""

    section = "inference"

    backend: Backend = "transformers"
    """Inference engine: transformers, vllm, sglang, or module:Class for your own."""
    engine: JSONDict = {}
    """Settings of the engine, such as gpu_memory_utilization or tensor_parallel_size for vllm."""
    num_envs: PositiveInt = 32
    """Episodes that each engine plays in parallel."""
    isolated_batch_size: PositiveInt | None = None
    """Episodes per isolated batch. Batches are never mixed, so results are bit-equal for any number
    of actors. None: one batch, or an equal share per actor."""
    max_tokens: PositiveInt = 256
    """Maximum tokens of a reply."""
    temperature: Annotated[float, Field(ge=1e-5)] = 1.0
    """Sampling temperature."""
    context: Literal["history", "verbatim", "observation"] = "history"
    """What the model reads: the episode in the chat template, which may drop earlier reasoning
    (history); the episode with every reply as sampled (verbatim); or only the current
    observation."""
    template_options: JSONDict = {}
    """Variables of the chat template, such as enable_thinking=false."""
    stop: list[Text] = []
    """Strings that end a reply, in addition to the model's end-of-turn tokens."""
    system_prompt: str | None = None
    """Replaces the environment's system prompt; "" for none."""
    max_turns: PositiveInt | None = None
    """Maximum replies of an episode; None for the environment's own limit."""
    bootstrap_at_turn_limit: bool = False
    """Whether an episode at max_turns is truncated, so that the critic estimates the rest. By
    default it is terminated."""


class WarmStartConfig(Section):
    """Imitation before the first iteration, so that some episodes get a reward."""

    section = "warm_start"

    player: WarmStartPlayer = "none"
    """Whose moves are imitated: none, random (a random legal player), best_random (its best
    episodes of many), reflex (a simple policy), solver, or FILE.jsonl (conversations that llm-gym
    export episodes wrote). auto takes the solver if there is one, else random."""
    turns: PositiveInt = 4000
    """Number of moves to imitate."""
    steps: PositiveInt = 200
    """Optimizer steps."""
    rounds: PositiveInt = 1
    """Maximum rounds of imitation. With solver, reflex or best_random another round follows while
    fewer than 90 % of the episodes are won or over 10 % of the replies are unusable; with random,
    while over 10 % are unusable and each round after the first repairs a quarter of them."""
    rate: PositiveFloat = 3e-3
    """Learning rate of AdamW."""

    @property
    def is_file(self) -> bool:
        """Whether the moves come from a file."""
        return self.player.endswith(".jsonl")


class TrainingConfig(Section):
    """How the policy learns."""

    section = "training"

    # --- how long and from how much -------------------------------------------------------
    num_epochs: PositiveInt = 10
    """Epochs, each of num_iters_per_epoch iterations."""
    num_iters_per_epoch: PositiveInt = 10
    """Iterations per epoch; an iteration plays a batch of episodes and learns from it."""
    batch_size: PositiveInt = 32
    """Episodes per iteration."""
    group_size: PositiveInt = 1
    """Episodes per seed, for estimators that compare them."""
    ppo_epochs: PositiveInt = 2
    """Passes over each batch."""
    mini_batch_size: PositiveInt = 8
    """Episodes per optimizer step."""
    micro_batch_tokens: PositiveInt = 16384
    """Maximum tokens of a forward pass; a longer sequence (gspo: episode) gets its own pass. It
    limits memory and does not change gradients."""
    seed: NonNegativeInt = 0
    """Seed of episodes, sampling and initial weights."""

    # --- advantages -----------------------------------------------------------------------
    adv_estimator: Estimator = "gae"
    """Advantage estimator: gae, gae_turn, grpo, dr_grpo, rloo, reinforce_plus_plus,
    reinforce_plus_plus_baseline, gigpo, state_td, vine; or module:function."""
    estimator_settings: JSONDict = {}
    """More settings of the estimator. grpo, dr_grpo, rloo: credit=turn compares turns instead of
    whole episodes. grpo: norm_by_std=false. gae: discount=token applies gamma and gae_lambda per
    token; whiten=false. state_td, vine: branches=K plays K more episodes from every state."""
    gamma: Fraction = 1.0
    """Discount per turn."""
    gae_lambda: Fraction = 0.95
    """Lambda of generalised advantage estimation, per turn."""

    # --- losses ---------------------------------------------------------------------------
    policy_loss: Loss = "ppo"
    """Policy loss: ppo, gspo, cispo, or module:function."""
    loss_settings: JSONDict = {}
    """More settings of the policy loss, such as dual_clip=2 for ppo, or clip_ratio=[0.2,0.28] for a
    lower and an upper range."""
    clip_ratio: Annotated[float, Field(gt=0, le=1)] | None = None
    """Clip range of the policy ratio around 1; None for the loss's published value (ppo: 0.2)."""
    loss_agg: Aggregation | None = None
    """How token losses are averaged; None for the published choice of the policy loss."""
    importance_cap: PositiveFloat | None = 2.0
    """Maximum importance weight between trainer and sampler log-probs; None for no weights."""
    entropy_coef: NonNegativeFloat = 0.0
    """Weight of the entropy bonus. It shrinks as the scores of the episodes become equal."""
    value_coef: NonNegativeFloat = 0.5
    """Weight of the critic's loss."""
    normalise_values: bool = False
    """Normalise the critic's targets by their running mean and standard deviation."""

    # --- what is left out of the batch ----------------------------------------------------
    resample_zero_variance_groups: NonNegativeInt = 0
    """Maximum groups played again for each group whose episodes all scored the same."""
    mask_truncated_replies: bool = False
    """Leave episodes out of the loss if max_tokens truncated one of their replies."""
    max_learned_turns: PositiveInt | None = None
    """Maximum turns per episode in the loss; None for all. Turns are drawn at random and weighted,
    so that the expected gradient stays the same. Updates become cheaper and noisier."""

    # --- the distance to the model that training began with -------------------------------
    kl: Literal["none", "reward", "loss"] = "none"
    """Where the penalty for the KL to the initial model goes: nowhere, in the rewards, or in the
    loss."""
    kl_coef: PositiveFloat = 0.001
    """Weight of the KL penalty."""
    max_kl: PositiveFloat = 0.1
    """Maximum KL between the policies before and after an update (mean over sampled tokens). It is
    multiplied by min(1, 8 / mean reply length in tokens) and by the square of the batch's signal (0
    if all episodes score the same, at most 1). A larger update is scaled back, and the learning
    rate is lowered."""

    # --- the optimizer --------------------------------------------------------------------
    optimizer: Literal["adamw", "adamw_8bit", "adamw_paged"] = "adamw"
    """adamw is torch's; adamw_8bit (8-bit state) and adamw_paged (paged 32-bit state) are
    bitsandbytes' and need a GPU."""
    learning_rate: PositiveFloat = 1e-5
    """Learning rate of AdamW."""
    value_learning_rate: PositiveFloat | None = None
    """Learning rate of the critic; None for learning_rate."""
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate falls to 0 over the run; constant does not change it."""
    warmup_iters: NonNegativeInt = 0
    """Iterations over which the learning rate rises from 0."""
    critic_warmup_iters: NonNegativeInt = 0
    """Iterations at the start in which only the critic learns."""
    adam_eps: PositiveFloat = 1e-8
    """Epsilon of AdamW."""
    max_grad_norm: PositiveFloat = 1.0
    """Maximum gradient norm, for policy and critic separately."""

    @property
    def iterations(self) -> int:
        """Iterations of the whole run."""
        return self.num_epochs * self.num_iters_per_epoch


class CheckpointConfig(Section):
    """What a run saves."""

    section = "checkpoint"

    output_dir: Text = "./checkpoints"
    """Folder of the run, for config, metrics, curve, episodes and checkpoints."""
    save_interval: NonNegativeInt = 1
    """Epochs between two checkpoints; 0 saves only at the end."""
    keep_last_n: PositiveInt = 3
    """Newest checkpoints to keep; the best one is always kept."""
    end_with_best: bool = True
    """End the run with the best weights (those after the warm start count, too). If held-out
    success falls below their interval, return to them; a third fall ends the run."""
    record_every: NonNegativeInt = 10
    """Iterations between two records of training episodes; 0 for none."""
    resume: bool = False
    """Continue from the newest checkpoint in output_dir."""
    tracker: Tracker | None = None
    """Also log to wandb/PROJECT or trackio/PROJECT."""


class EnvConfig(Section):
    """Which environments are played and evaluated."""

    section = "environment"

    env_id: Text | None = None
    """Registered id, such as llm_gym/TextGameEasy-v0."""
    mix: Mix = {}
    """Several environments instead of env_id, each with a weight: its share of the episodes."""
    mix_by: Literal["weight", "signal"] = "weight"
    """weight uses the weights of mix. signal is a curriculum: the further an environment's success
    is from 50 %, the lower its weight, down to a tenth."""
    env_kwargs: JSONDict = {}
    """Settings of the environment. With mix they apply to all environments; settings under an id
    apply only to that one."""
    max_steps: PositiveInt = 10
    """Maximum steps of an episode of a BaseEnvironment."""
    workers: NonNegativeInt = 0
    """Worker processes for slow environments; 0 steps them in the trainer's process."""
    timeout: PositiveFloat | None = None
    """Maximum seconds of a step in a worker; then its episode is dropped. None for no limit."""
    train_split: Split | None = "train"
    """Split to train on; None for all instances."""
    eval_split: Split | None = "test"
    """Split to evaluate on; None for all instances."""
    eval_interval: NonNegativeInt = 10
    """Iterations between two evaluations; 0 for none."""
    eval_episodes: PositiveInt = 64
    """Episodes of an evaluation."""
    stop_at_success: Fraction | None = None
    """End the run once the lower end of an evaluation's 95 % interval reaches this success."""

    @property
    def env_ids(self) -> list[str]:
        """The ids that are played."""
        return list(self.mix) or ([] if self.env_id is None else [self.env_id])

    @property
    def env_label(self) -> str | None:
        """A short name of what is played."""
        named = next(iter(self.env_ids), None)
        return f"{len(self.mix)} environments" if len(self.mix) > 1 else named

    def kwargs_of(self, env_id: str) -> dict[str, Any]:
        """Return the settings of one environment."""
        if env_id not in self.mix:
            return self.env_kwargs
        shared = {name: each for name, each in self.env_kwargs.items() if name not in self.mix}
        return {**shared, **self.env_kwargs.get(env_id, {})}

    def __getattr__(self, name: str) -> Any:
        # A BaseEnvironment is given this section as its config, and looks in it for parameters
        # of its own. ``__dict__``, because a copy that is being made has no env_kwargs yet.
        own = self.__dict__.get("env_kwargs", {})
        return own[name] if name in own else super().__getattr__(name)


class RayConfig(Section):
    """Sampling on Ray actors, on one machine or many."""

    section = "ray"

    use_ray: bool = False
    """Play episodes on Ray actors instead of in the trainer's process."""
    num_actors: PositiveInt = 1
    """Number of actors; each has an engine, environments and one CPU core."""
    address: Text | None = None
    """Address of a running Ray cluster (auto or HOST:PORT); None starts one on this machine."""
    num_gpus_per_actor: NonNegativeFloat | None = None
    """GPUs per actor; 0.3 puts three actors on one GPU. None is 1 if the machine has GPUs."""
    staleness: NonNegativeInt = 0
    """Iterations that sampling may run ahead of learning; 0 is synchronous."""
    timeout: PositiveFloat | None = 1800.0
    """Seconds without a finished shard of episodes after which an actor is replaced; at least twice
    the longest time so far, doubled after each loss. None for no limit."""


class ParallelConfig(Section):
    """Training on several GPUs, with one process per GPU, started by torchrun."""

    section = "parallel"

    mode: Literal["none", "ddp", "fsdp"] = "none"
    """ddp copies all weights to each GPU and splits the batch; fsdp also shards weights, gradients
    and optimizer state."""


def _whole(section: type[Section]) -> Any:
    # With a description, because tyro would search the source for one.
    return Field(default_factory=section, description=section.__doc__)


class Settings(BaseModel):
    """The settings of a run, by section."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: ModelConfig = _whole(ModelConfig)
    inference: InferenceConfig = _whole(InferenceConfig)
    warm_start: WarmStartConfig = _whole(WarmStartConfig)
    training: TrainingConfig = _whole(TrainingConfig)
    checkpoint: CheckpointConfig = _whole(CheckpointConfig)
    environment: EnvConfig = _whole(EnvConfig)
    ray: RayConfig = _whole(RayConfig)
    parallel: ParallelConfig = _whole(ParallelConfig)


# --- errors ----------------------------------------------------------------------------------


def _config_error(section: str, error: ValidationError) -> ConfigError:
    first = error.errors(include_url=False, include_context=False)[0]
    name, given = first["loc"][0], first["input"]
    must = first["msg"].replace("Input should be", "must be")
    must = must.replace("a valid integer", "a whole number").replace("a valid ", "a ")
    kind = SECTIONS[section].model_fields[str(name)].annotation
    is_range = first["type"].startswith(("greater", "less"))
    must += " or None" * (type(None) in get_args(kind) and not is_range)
    choices = [get_args(each) for each in (kind, *get_args(kind)) if get_origin(each) is Literal]
    meant = did_you_mean(given, choices[0]) if choices and isinstance(given, str) else ""
    return ConfigError(f"{section}.{name} {must}, got {given!r:.{MAX_SHOWN}}{meant}")


def _unknown_setting(section: str, name: str) -> UnknownSettingError:
    own = did_you_mean(name, SECTIONS[section].model_fields)
    is_elsewhere = any(name in other.model_fields for other in SECTIONS.values())
    meant = _full_name(name) if is_elsewhere or not own else own
    return UnknownSettingError(f"{section} has no setting {name!r}{meant}")


def unknown_section(name: str) -> UnknownSettingError:
    """Return the error about a section that does not exist."""
    meant = did_you_mean(name, SECTIONS) or _full_name(name)
    known = ", ".join(SECTIONS)
    return UnknownSettingError(f"config has no section {name!r}{meant}; it has {known}")


def _full_name(name: str) -> str:
    """Return a question with the full name of the setting ``name``, or nothing.

    It looks in every section: the right name in the wrong section is the commonest mistake.
    """
    names = {
        setting: f"{section}.{setting}"
        for section, cls in SECTIONS.items()
        for setting in cls.model_fields
    }
    meant = closest(name, names)
    return f" (did you mean {names[meant]!r}?)" if meant else ""
