"""What a run needs that is not here, said before a plan is made or a table is printed."""

from __future__ import annotations

import importlib.util

from llm_gym.errors import MissingExtraError, install_command
from llm_gym_agents.build import is_embedded
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.model.load import check_path


def check_needs(config: ConfigStore) -> None:
    """Raise one sentence for a package that is not installed, or a model that is not there."""
    served = config.inference.backend
    elsewhere = served == "sglang" and "url" in config.inference.engine
    wanted = {
        f"inference.backend {served}": (served, served != "transformers" and not elsewhere),
        "ray.use_ray": ("ray", config.ray.use_ray),
        "model.lora_rank": ("peft", bool(config.model.lora_rank)),
    }
    for setting, (package, is_wanted) in wanted.items():
        if is_wanted and importlib.util.find_spec(package) is None:
            extra = {"peft": "lora"}.get(package, package)
            raise MissingExtraError(
                f"{setting} needs {package}. Install it with: {install_command(extra)}"
            )
    if not is_embedded(config):
        check_path(config.model.model_name)
