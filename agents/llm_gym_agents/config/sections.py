"""Which model, how it plays, where, and what is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from llm_gym_agents.config.fields import (
    Bounds,
    Count,
    Fraction,
    NotNegative,
    Pattern,
    Positive,
    Settings,
    Text,
    Whole,
)
from llm_gym_agents.config.section import Section

Device = Annotated[
    str, Pattern(r"auto|cpu|mps|cuda(:\d+)?", "auto, cpu, mps, cuda or cuda with a number (cuda:1)")
]
Split = Literal["train", "dev", "test"]


@dataclass(kw_only=True)
class ModelConfig(Section, section="model"):
    """Which model is trained."""

    model_name: Text = "tiny"
    """Hugging Face id or folder; tiny builds a small Llama and its tokenizer on the spot."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the arithmetic and of frozen weights; auto is bfloat16 on a GPU and float32 on a
    CPU. Weights that are trained are kept in float32."""
    logprob_kernel: Literal["auto", "chunked", "liger", "cut"] = "auto"
    """What computes log-probs: plain torch, Liger or cut-cross-entropy; auto measures on a GPU."""
    device: Device = "auto"
    """cpu, cuda, cuda:1 or mps; auto takes the best there is."""
    tensor_parallel_size: Count = 1
    """GPUs that an inference engine spreads one model over."""
    trust_remote_code: bool = False
    """Run code that comes with the model."""
    critic: Literal["shared", "detached", "separate"] = "shared"
    """Value head on the policy's own trunk, there without a gradient into it, or on a copy."""
    lora_rank: Whole = 0
    """Rank of LoRA adapters, which are then all that is trained; 0 trains every weight."""
    lora_alpha: Positive = 16.0
    """Scale of the adapters, divided by their rank."""
    gradient_checkpointing: bool = False
    """Compute activations again on the way back: slower, with less memory."""
    cuda_graphs: bool | None = None
    """Hand over a GPU's passes at once, as recorded graphs; None does so for models below a billion
    weights that are trained whole, on one card with room for the engine as well."""


@dataclass(kw_only=True)
class InferenceConfig(Section, section="inference"):
    """How the model plays."""

    backend: Literal["transformers", "vllm", "sglang"] = "transformers"
    """Inference engine."""
    engine: Settings = field(default_factory=dict)
    """Settings of that engine, such as gpu_memory_utilization for vllm."""
    sync_replies: bool | None = None
    """Wait for every reply before any environment moves, for runs that are equal to the bit; None
    does so with transformers only."""
    num_envs: Count = 32
    """Episodes played side by side, by each player."""
    isolated_batch_size: Count | None = None
    """Episodes played together and apart from all others, so that who plays them, and after what,
    changes no bit; None for all of them, or an equal share for each of several players."""
    max_tokens: Count = 256
    """Most tokens of a reply."""
    temperature: NotNegative = 1.0
    """Divides the logits; 0 is greedy, which cannot be trained on."""
    context: Literal["history", "observation"] = "history"
    """What the model reads: the episode so far, or only the current observation."""
    system_prompt: str | None = None
    """Told to the model instead of what the environment says; "" tells nothing."""
    max_turns: Count | None = None
    """Replies after which an episode is over; None leaves it to the environment."""
    bootstrap_at_turn_limit: bool = False
    """Whether max_turns truncates an episode, so that the critic estimates the rest, instead of
    ending it."""


@dataclass(kw_only=True)
class CheckpointConfig(Section, section="checkpoint"):
    """What is kept of a run."""

    output_dir: Text = "./checkpoints"
    """Folder of the run: config, metrics, curve, episodes, checkpoints."""
    save_interval: Whole = 1
    """Epochs between two checkpoints; 0 for one at the end."""
    keep_last_n: Count = 3
    """Checkpoints kept besides the best one."""
    end_with_best: bool = True
    """End a run with its best weights, its warm start's among them, instead of the last ones."""
    record_every: Whole = 10
    """Iterations from one record of training episodes to the next; 0 for none."""
    resume: bool = False
    """Go on from the newest checkpoint in output_dir."""
    wandb_project: Text | None = None
    """Weights & Biases project to log to as well."""


@dataclass(kw_only=True)
class EnvironmentConfig(Section, section="environment"):
    """What is played."""

    env_id: Text | None = None
    """Registered id, such as llm_gym/TextGameEasy-v0."""
    env_kwargs: Settings = field(default_factory=dict)
    """Settings of the environment."""
    max_steps: Count = 10
    """Steps after which an episode of a BaseEnvironment is over."""
    workers: Whole = 0
    """Processes to spread slow environments over; 0 for none."""
    timeout: Positive | None = None
    """Seconds that a step in a worker may take before its episode is given up."""
    train_split: Split | None = "train"
    """Instances to train on; None for all."""
    eval_split: Split | None = "test"
    """Instances to evaluate on; None for all."""
    eval_interval: Whole = 10
    """Iterations between two evaluations; 0 for none."""
    eval_episodes: Count = 64
    """Episodes of an evaluation."""
    eval_greedy: bool = False
    """Evaluate with the most likely token each time instead of sampling as in training."""
    stop_at_success: Fraction | None = None
    """End the run once the lower end of an evaluation's 95 % interval reaches this success; None
    for the full length."""
    stop_after_no_gain: Count | None = None
    """End the run after so many evaluations without one above the interval of the last gain; None
    for the full length."""
    curriculum: Annotated[float, Bounds(above=0, below=1)] | None = None
    """Success in training above which the difficulty rises, and below which it falls; None for no
    curriculum."""

    def __getattr__(self, name: str) -> Any:
        # A BaseEnvironment is given this section as its config, and looks in it for parameters
        # of its own. ``__dict__``, because a copy that is being made has no env_kwargs yet.
        own = self.__dict__.get("env_kwargs", {})
        return own[name] if name in own else super().__getattr__(name)
