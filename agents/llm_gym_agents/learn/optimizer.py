"""AdamW, or bitsandbytes' variants that need less GPU memory."""

from typing import Any

import torch
from torch import Tensor, nn

from llm_gym.core.errors import ConfigError, require_package
from llm_gym_agents.config import TrainingConfig
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.model.weights import full_tensor

_BYTES_OF_STATE = {"adamw": 8.0, "adamw_8bit": 2.1, "adamw_paged": 0.0}


def bytes_of_state(optimizer: str, *, lora_rank: int = 0) -> float:
    """Return the bytes of optimizer state on a GPU per trained parameter.

    bitsandbytes pages only weights of 100,000 numbers or more, so adapters are not paged.

    >>> bytes_of_state("adamw_paged"), bytes_of_state("adamw_paged", lora_rank=16)
    (0.0, 8.0)
    """
    return _BYTES_OF_STATE["adamw" if optimizer == "adamw_paged" and lora_rank else optimizer]


def make_optimizer(model: PolicyValueModel, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return the optimizer, with policy and critic as separate parameter groups."""
    policy = trained(model.lm)
    own = {id(parameter) for parameter in model.lm.parameters()}
    critic = [parameter for parameter in trained(model) if id(parameter) not in own]
    value_rate = config.value_learning_rate or config.learning_rate
    groups: list[dict[str, Any]] = [
        {"params": policy, "lr": config.learning_rate, "base_lr": config.learning_rate}
    ]
    if critic:
        groups.append({"params": critic, "lr": value_rate, "base_lr": value_rate})
    settings: dict[str, Any] = {"eps": config.adam_eps, "weight_decay": 0.0}
    kind: Any = torch.optim.AdamW
    if config.optimizer != "adamw":
        kind = _bitsandbytes(config.optimizer, model.device)
    elif model.device.type == "cuda":
        settings["fused"] = True  # one kernel for all weights instead of a dozen for each
    made: torch.optim.Optimizer = kind(groups, **settings)
    return made


def trained(module: nn.Module) -> list[nn.Parameter]:
    """Return the trainable parameters of ``module``."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def clip_gradients(optimizer: torch.optim.Optimizer, largest: float) -> list[Tensor]:
    """Clip the gradient norm of each group to ``largest``; return the norms before.

    Each group has its own norm, so that a large critic loss does not shrink the policy's step.
    """
    norms = (nn.utils.clip_grad_norm_(group["params"], largest) for group in optimizer.param_groups)
    return [full_tensor(norm) for norm in norms]


def _bitsandbytes(name: str, device: torch.device) -> Any:
    """Return an optimizer class of bitsandbytes; only this function imports it."""
    require_package("bitsandbytes", f"training.optimizer='{name}'", "gpu")
    if device.type != "cuda":
        raise ConfigError(
            f"training.optimizer='{name}' needs a GPU, got a model on {device.type}; use 'adamw'"
        )
    import bitsandbytes

    return {
        "adamw_8bit": bitsandbytes.optim.AdamW8bit,
        "adamw_paged": bitsandbytes.optim.PagedAdamW32bit,
    }[name]
