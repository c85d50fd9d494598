"""Every setting of a run, by section: its type, its default, and what it does.

``docs/settings.md`` is written from the types, defaults and docstrings here. What settings mean
together is said by ``rules``, ``unused_settings`` and ``defaults``; ``store`` holds all sections.
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
)

MAX_SHOWN = 200
"""Characters of a wrong value that an error repeats."""


class UnknownSettingError(ConfigError, AttributeError):
    """A setting or a section that does not exist."""


SECTIONS: dict[str, type[Section]] = {}
"""By name, in the order of this file."""


class Section(BaseModel):
    """Settings that belong together.

    Whole numbers, numpy's scalars and paths are taken for what they stand for. True and False are
    no numbers, and text is not read as one.
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
    """Hugging Face id or folder; tiny builds a small Llama and its tokenizer on the spot."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the arithmetic and of frozen weights; auto is bfloat16 on a GPU and float32 on a
    CPU. Weights that are trained are kept in float32."""
    device: Device = "auto"
    """cpu, cuda, cuda:1 or mps; auto takes the best there is."""
    trust_remote_code: bool = False
    """Run code that comes with the model."""
    critic: Literal["shared", "detached", "separate"] = "shared"
    """Value head on the policy's trunk, on the trunk without a gradient into it, or on a copy."""
    lora_rank: NonNegativeInt = 0
    """Rank of LoRA adapters, which are then all that is trained; 0 trains every weight."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: slower, with less memory."""

    @property
    def is_embedded(self) -> bool:
        """Whether the model is the small one that is built on the spot."""
        return self.model_name == "tiny"


class InferenceConfig(Section):
    """How the model plays."""

    section = "inference"

    backend: Backend = "transformers"
    """Inference engine: transformers, vllm, sglang, or module:Class for one of your own."""
    engine: JSONDict = {}
    """Settings of that engine, such as gpu_memory_utilization or tensor_parallel_size for vllm."""
    num_envs: PositiveInt = 32
    """Episodes played side by side, by each player."""
    isolated_batch_size: PositiveInt | None = None
    """Episodes batched together and apart from all others, so that results are equal to the bit
    whoever plays them; None for all of them, or an equal share for each of several players."""
    max_tokens: PositiveInt = 256
    """Most tokens of a reply."""
    temperature: Annotated[float, Field(ge=1e-5)] = 1.0
    """Divides the logits. Greedy play (0) has nothing to learn from."""
    context: Literal["history", "verbatim", "observation"] = "history"
    """What the model reads: the episode so far as the chat template writes it, which may drop
    earlier reasoning; the same with every reply verbatim; or only the current observation."""
    template_options: JSONDict = {}
    """Variables of the chat template, such as enable_thinking=false."""
    stop: list[Text] = []
    """Strings that end a reply, besides the tokens that the model ends it with."""
    system_prompt: str | None = None
    """System prompt in place of the environment's; "" for none."""
    max_turns: PositiveInt | None = None
    """Replies after which an episode is over; None leaves it to the environment."""
    bootstrap_at_turn_limit: bool = False
    """Whether max_turns truncates an episode, so that the critic estimates the rest, instead of
    ending it."""


class WarmStartConfig(Section):
    """What a model imitates before the first iteration, so that rewards differ."""

    section = "warm_start"

    player: Literal["auto", "random", "solver", "file", "none"] = "none"
    """Whose moves are imitated: random legal ones, a solver's, or those of a file. auto takes the
    solver's where there is one, else random ones; a given model that writes usable moves only
    imitates after a quarter of a run that gained less than 20 points of held-out success."""
    turns: PositiveInt = 4000
    """Moves to collect."""
    steps: PositiveInt = 200
    """Optimizer steps."""
    rounds: PositiveInt = 1
    """Most rounds of collecting and imitating. There is another while over a tenth of the replies
    are unusable and a round makes a quarter of them usable; with a solver, until nine of ten
    episodes are won."""
    rate: PositiveFloat = 3e-3
    """Learning rate of AdamW."""
    file: Text | None = None
    """Conversations to imitate, as llm-gym export episodes writes them."""


class TrainingConfig(Section):
    """How the policy learns."""

    section = "training"

    # --- how long and from how much -------------------------------------------------------
    num_epochs: PositiveInt = 10
    """Epochs, each of num_iters_per_epoch iterations."""
    num_iters_per_epoch: PositiveInt = 10
    """Iterations of an epoch. Each plays a batch and learns from it."""
    batch_size: PositiveInt = 32
    """Episodes of an iteration."""
    group_size: PositiveInt = 1
    """Episodes that start from one seed, for estimators that compare them."""
    ppo_epochs: PositiveInt = 2
    """Passes over a batch."""
    mini_batch_size: PositiveInt = 8
    """Episodes of an optimizer step."""
    micro_batch_tokens: PositiveInt = 16384
    """Most tokens read in one forward pass, or one longer sequence (gspo: episode) alone. It bounds
    memory and changes no gradient."""
    seed: NonNegativeInt = 0
    """Decides episodes, sampling and initial weights."""

    # --- advantages -----------------------------------------------------------------------
    adv_estimator: Estimator = "gae"
    """Advantage estimator: gae, gae_turn, grpo, dr_grpo, rloo, reinforce_plus_plus,
    reinforce_plus_plus_baseline, gigpo, state_td, vine; or module:function."""
    estimator_settings: JSONDict = {}
    """Further settings of the estimator. For grpo, dr_grpo and rloo credit=turn, which compares the
    reward to come of each turn and not whole episodes; for grpo norm_by_std=false; for gae
    discount=token, where gamma and gae_lambda count tokens and not turns, or whiten=false; for
    state_td and vine branches=K, episodes that are played on from every state."""
    gamma: Fraction = 1.0
    """Discount of one turn."""
    gae_lambda: Fraction = 0.95
    """Lambda of generalised advantage estimation, of one turn."""
    reward_mode: Literal["replace", "add"] = "replace"
    """Whether a reward function replaces the environment's rewards or adds to them."""

    # --- losses ---------------------------------------------------------------------------
    policy_loss: Loss = "ppo"
    """Policy loss: ppo, gspo, cispo, or module:function."""
    loss_settings: JSONDict = {}
    """Further settings of the policy loss, such as dual_clip=2 for ppo, or clip_ratio=[0.2,0.28] to
    clip less where the ratio rises."""
    clip_ratio: Annotated[float, Field(gt=0, le=1)] | None = None
    """How far the ratio of new to old policy may fall below 1 and rise above it; None for the
    range of the loss's authors, which is 0.2 for ppo."""
    loss_agg: Aggregation | None = None
    """How token losses become one number; None for what the policy loss's authors use."""
    importance_cap: PositiveFloat | None = 2.0
    """Largest weight of a token that trainer and sampler rate differently; None for no weights."""
    entropy_coef: NonNegativeFloat = 0.0
    """Weight of the entropy bonus, which fades as episodes come to score alike."""
    value_coef: NonNegativeFloat = 0.5
    """Weight of the critic's loss."""
    normalise_values: bool = False
    """Let the critic learn returns in units of their running mean and spread."""

    # --- what is left out of the batch ----------------------------------------------------
    resample_zero_variance_groups: NonNegativeInt = 0
    """Most further groups played in place of one whose episodes all scored the same."""
    mask_truncated_replies: bool = False
    """Leave episodes with a reply that max_tokens truncated out of the loss."""

    # --- the distance to the model that training began with -------------------------------
    kl: Literal["none", "reward", "loss"] = "none"
    """Where the KL to the initial model is a penalty: in the rewards, in the loss, or nowhere."""
    kl_coef: PositiveFloat = 0.001
    """Weight of the KL penalty."""
    max_kl: PositiveFloat = 0.1
    """Largest KL of an update from the policy before it, a mean over sampled tokens. A longer
    update is shortened, and the learning rate falls; after short ones it rises again."""

    # --- the optimizer --------------------------------------------------------------------
    optimizer: Literal["adamw", "adamw_8bit", "adamw_paged"] = "adamw"
    """AdamW; or on a GPU bitsandbytes', with 8-bit state or with paged 32-bit state."""
    learning_rate: PositiveFloat = 1e-5
    """Learning rate of AdamW."""
    value_learning_rate: PositiveFloat | None = None
    """Learning rate of the critic; None for learning_rate."""
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate falls to 0 over the run, if it does."""
    warmup_iters: NonNegativeInt = 0
    """Iterations over which the learning rate rises from 0."""
    critic_warmup_iters: NonNegativeInt = 0
    """First iterations, in which only the critic learns."""
    adam_eps: PositiveFloat = 1e-8
    """Epsilon of AdamW."""
    max_grad_norm: PositiveFloat = 1.0
    """Gradients with a larger norm are scaled down to it, policy and critic each by itself."""

    @property
    def iterations(self) -> int:
        """Iterations of the whole run."""
        return self.num_epochs * self.num_iters_per_epoch


class CheckpointConfig(Section):
    """What is kept of a run."""

    section = "checkpoint"

    output_dir: Text = "./checkpoints"
    """Folder of the run: config, metrics, curve, episodes, checkpoints."""
    save_interval: NonNegativeInt = 1
    """Epochs between two checkpoints; 0 for one at the end."""
    keep_last_n: PositiveInt = 3
    """Checkpoints kept besides the best one."""
    end_with_best: bool = True
    """Return to the best weights, the warm start's among them, when held-out success falls below
    their interval, and end with them; a third fall ends the run."""
    record_every: NonNegativeInt = 10
    """Iterations from one record of training episodes to the next; 0 for none."""
    resume: bool = False
    """Go on from the newest checkpoint in output_dir."""
    tracker: Text | None = None
    """wandb/PROJECT or trackio/PROJECT, to log to as well."""


class EnvConfig(Section):
    """What is played, and how it is evaluated."""

    section = "environment"

    env_id: Text | None = None
    """Registered id, such as llm_gym/TextGameEasy-v0."""
    mix: Mix = {}
    """Several environments in place of env_id, each with its weight: the share of its episodes."""
    mix_by: Literal["weight", "signal"] = "weight"
    """signal plays an environment of the mix less the further its success is from a half, down to a
    tenth of its weight: a curriculum over levels."""
    env_kwargs: JSONDict = {}
    """Settings of the environment; with mix those of all, and under an id those of that one."""
    max_steps: PositiveInt = 10
    """Steps after which an episode of a BaseEnvironment is over."""
    workers: NonNegativeInt = 0
    """Processes to spread slow environments over; 0 for none."""
    timeout: PositiveFloat | None = None
    """Seconds that a step in a worker may take before its episode is given up."""
    train_split: Split | None = "train"
    """Instances to train on; None for all."""
    eval_split: Split | None = "test"
    """Instances to evaluate on; None for all."""
    eval_interval: NonNegativeInt = 10
    """Iterations between two evaluations; 0 for none."""
    eval_episodes: PositiveInt = 64
    """Episodes of an evaluation."""
    stop_at_success: Fraction | None = None
    """End the run once the lower end of an evaluation's 95 % interval reaches this success; None
    for the full length."""

    @property
    def env_ids(self) -> list[str]:
        """What is played, by id."""
        return list(self.mix) or ([] if self.env_id is None else [self.env_id])

    @property
    def env_label(self) -> str | None:
        """What is played, in words."""
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
    """How playing is spread over processes and machines."""

    section = "ray"

    use_ray: bool = False
    """Play on actors of their own."""
    num_actors: PositiveInt = 1
    """Actors that play, each with an engine, environments and one CPU core."""
    address: Text | None = None
    """Of a running Ray cluster: auto, or HOST:PORT; None starts one on this machine."""
    num_gpus_per_actor: NonNegativeFloat | None = None
    """GPUs of each actor; a share such as 0.3 puts three on one. None is 1 where there are any."""
    staleness: NonNegativeInt = 0
    """Iterations that playing may run ahead of learning; 0 waits for fresh weights."""
    timeout: PositiveFloat | None = 1800.0
    """Seconds that an actor may take for its episodes before it is replaced, or twice the longest
    time so far, and twice as much after each loss; None for any."""


class ParallelConfig(Section):
    """How the learner is spread over the processes that torchrun starts, one for each GPU."""

    section = "parallel"

    mode: Literal["none", "ddp", "fsdp"] = "none"
    """ddp keeps all weights on each GPU and splits the batch; fsdp also shards weights, gradients
    and optimizer state."""


class Settings(BaseModel):
    """The settings of a run, by section."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: ModelConfig = Field(default_factory=ModelConfig)
    inference: InferenceConfig = Field(default_factory=InferenceConfig)
    warm_start: WarmStartConfig = Field(default_factory=WarmStartConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)
    environment: EnvConfig = Field(default_factory=EnvConfig)
    ray: RayConfig = Field(default_factory=RayConfig)
    parallel: ParallelConfig = Field(default_factory=ParallelConfig)


# --- errors ----------------------------------------------------------------------------------


def _config_error(section: str, error: ValidationError) -> ConfigError:
    """Return pydantic's first error as one sentence."""
    first = error.errors(include_url=False, include_context=False)[0]
    name, given = first["loc"][0], first["input"]
    must = first["msg"].replace("Input should be", "must be")
    kind = SECTIONS[section].model_fields[str(name)].annotation
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
