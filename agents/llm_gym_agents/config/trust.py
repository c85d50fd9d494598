"""What in the config of a run would run code of whoever wrote it."""

from __future__ import annotations

from collections.abc import Collection

from llm_gym.episodes.replay import risky_setting
from llm_gym_agents.config.store import ConfigStore


def untrusted(config: ConfigStore, imported: Collection[str] = ()) -> str:
    """Return the first setting that names code, a program or a server, or nothing.

    Args:
        config: As it was found in a folder.
        imported: Modules that the user has named on the command line.
    """
    if config.model.trust_remote_code:
        return "model.trust_remote_code is set, which runs Python from the model's folder"
    module, colon, _ = (config.environment.env_id or "").rpartition(":")
    if colon and module not in imported:
        return f"environment.env_id imports the module {module!r:.60}"
    if setting := risky_setting(config.environment.env_kwargs):
        return f"environment.env_kwargs has {setting}"
    if config.inference.backend != "transformers" and config.inference.engine:
        return "inference.engine has settings of a program that is started"
    if setting := risky_setting(config.inference.engine):
        return f"inference.engine has {setting}"
    return ""
