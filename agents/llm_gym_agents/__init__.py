"""Token-level RL for language models, on TorchRL.

``PPOTrainer(ConfigStore(), "llm_gym/Echo-v0").fit()`` trains a small model. Read
``trainer.ppo_trainer`` first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "BaseInferenceEngine", "BatchInferenceManager", "ConfigStore", "LLMPolicy",
    "MultiTurnChatHarness", "MultiTurnInferenceEngine", "PPOBatch", "PPOTrainer",
    "PolicyValueModel", "RayPPOTrainer", "RewardManager", "RolloutData", "SGLangInferenceEngine",
    "TextEnvPool", "VLLMInferenceEngine", "algo", "create_inference_engine", "create_trainer",
    "rollout",
]  # fmt: skip

# The module of each name. It is imported at first use: torch and transformers take seconds, which
# the command line's help and a config should not cost.
_MODULES = {
    "config": "ConfigStore",
    "engines.inference": "BaseInferenceEngine BatchInferenceManager SGLangInferenceEngine "
    "VLLMInferenceEngine create_inference_engine",
    "model.policy_value": "PolicyValueModel",
    "rollouts.evaluation": "rollout",
    "rollouts.multi_turn": "MultiTurnChatHarness MultiTurnInferenceEngine",
    "rollouts.pack": "PPOBatch",
    "rollouts.policy": "LLMPolicy",
    "rollouts.pool": "TextEnvPool",
    "rollouts.rewards": "RewardManager",
    "rollouts.rollout_data": "RolloutData",
    "trainer.ppo_trainer": "PPOTrainer RayPPOTrainer create_trainer",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

if TYPE_CHECKING:
    from llm_gym_agents import algo
    from llm_gym_agents.config import ConfigStore
    from llm_gym_agents.engines.inference import (
        BaseInferenceEngine,
        BatchInferenceManager,
        SGLangInferenceEngine,
        VLLMInferenceEngine,
        create_inference_engine,
    )
    from llm_gym_agents.model.policy_value import PolicyValueModel
    from llm_gym_agents.rollouts.evaluation import rollout
    from llm_gym_agents.rollouts.multi_turn import MultiTurnChatHarness, MultiTurnInferenceEngine
    from llm_gym_agents.rollouts.pack import PPOBatch
    from llm_gym_agents.rollouts.policy import LLMPolicy
    from llm_gym_agents.rollouts.pool import TextEnvPool
    from llm_gym_agents.rollouts.rewards import RewardManager
    from llm_gym_agents.rollouts.rollout_data import RolloutData
    from llm_gym_agents.trainer.ppo_trainer import PPOTrainer, RayPPOTrainer, create_trainer


def __getattr__(name: str) -> Any:
    if name == "algo":
        return import_module("llm_gym_agents.algo")
    if name not in _HOMES:
        raise AttributeError(f"module 'llm_gym_agents' has no attribute {name!r}")
    return getattr(import_module(f"llm_gym_agents.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
