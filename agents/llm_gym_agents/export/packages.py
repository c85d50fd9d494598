"""Write an environment as a package for verifiers 0.4 or OpenEnv 0.10."""

import json
import re
from pathlib import Path
from typing import Any

from llm_gym import __version__
from llm_gym.core.errors import ConfigError


def write_verifiers(folder: str | Path, env_id: str, **kwargs: Any) -> Path:
    """Write a package in the layout of verifiers' ``environments/``; return its folder."""
    name = _name(env_id)
    settings = "".join(f", {key}={value!r}" for key, value in kwargs.items())
    files = {"pyproject.toml": _PROJECT, f"{name}/__init__.py": _MODULE, "README.md": _README}
    return _write(Path(folder) / name, files, name, env_id, settings)


def write_openenv(folder: str | Path, env_id: str, **kwargs: Any) -> Path:
    """Write ``openenv.yaml`` and a Dockerfile that runs ``llm-gym serve``; return the folder."""
    name = _name(env_id)
    settings = "".join(f', "--set", {json.dumps(f"{k}={v}")}' for k, v in kwargs.items())
    files = {"openenv.yaml": _OPENENV, "Dockerfile": _DOCKERFILE, "README.md": _OPENENV_README}
    return _write(Path(folder) / name, files, name, env_id, settings)


def _name(env_id: str) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", env_id.rpartition("/")[2]).lower()
    name = re.sub(r"\W", "_", name.rpartition("-v")[0] or name)
    if not name.isidentifier():
        raise ConfigError(f"no package can be called after {env_id}")
    return name


def _write(root: Path, files: dict[str, str], name: str, env_id: str, settings: str) -> Path:
    about = {"module": name, "name": name.replace("_", "-"), "env": env_id, "settings": settings}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text.format(ours=__version__, **about))
    return root


_PROJECT = """\
[project]
name = "{name}"
description = "{env} of llm-gym"
tags = ["multi-turn", "llm-gym", "train", "eval"]
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["verifiers>=0.4,<0.5", "llm-gym[train]>={ours}"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["{module}"]
"""
_MODULE = '''\
"""{env} of llm-gym, as a taskset of verifiers."""

from llm_gym_agents.export.verifiers import game

GameTaskset, GameEnv = game({env!r}{settings})

__all__ = ["GameEnv", "GameTaskset"]
'''
_README = """\
# {name}

`{env}` of llm-gym, for verifiers.

```bash
pip install -e .
vf-validate {name} -n 3 --runtime.type subprocess
vf-eval {name} -n 3 -m MODEL --client.base-url URL
```
"""
_OPENENV = """\
spec_version: 1
name: {module}
version: 0.1.0
type: space
port: 8000
validation:
  reward:
    range: [0.0, 1.0]
    oracle_tolerance: 0.0
    floor_margin: 0.1
  resources:
    cpu: 1.0
    memory_mb: 512
    disk_mb: 512
    episode_timeout_s: 600.0
  capabilities:
    verifier:
      kind: reward_channel
  types:
    tags: [game]
"""
_DOCKERFILE = """\
FROM python:3.12-slim
RUN pip install --no-cache-dir "llm-gym[serve]=={ours}"
EXPOSE 8000
CMD ["llm-gym", "serve", "{env}", "--host", "0.0.0.0", "--port", "8000"{settings}]
"""
_OPENENV_README = """\
# {name}

`{env}` of llm-gym, for OpenEnv. Every client needs the token: `http://any:TOKEN@host:8000`.

```bash
openenv validate . --level static
docker build -t {name} . && docker run -p 8000:8000 -e LLM_GYM_SERVE_TOKEN=TOKEN {name}
```
"""
