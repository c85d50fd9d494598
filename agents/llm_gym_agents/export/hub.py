"""Publish a run: its model on a hub, and its recorded episodes as a data set."""

import json
from pathlib import Path

from llm_gym.core.errors import ConfigError
from llm_gym.episodes import read_episodes
from llm_gym_agents.export.episodes import episode_row, need

_CARD = """\
---
license: other
task_categories: [text-generation]
tags: [llm-gym, reinforcement-learning]
configs:
- config_name: default
  data_files:
{files}
---
# Episodes of {name}

{count} episodes that llm-gym recorded, one a line.

```python
from datasets import load_dataset

data = load_dataset("PATH")
```
"""


def write_dataset(run: Path, out: Path) -> int:
    """Write the episodes that ``run`` recorded as a folder for ``load_dataset``; return how many.

    Each kind of record is a split: ``train``, ``eval``, ``before``, ``after``.
    """
    records = sorted(path for path in (run / "episodes").glob("*.jsonl") if path.is_file())
    if not records:
        raise ConfigError(f"{run} must hold recorded episodes, got none (checkpoint.record_every)")
    splits: dict[str, list[str]] = {}
    for path in records:
        lines = splits.setdefault(path.stem.partition("-")[0], [])
        for episode in read_episodes(path, torn="skip"):
            lines.append(json.dumps(episode_row(episode) | {"env_id": episode.env_id or ""}))
    (out / "data").mkdir(parents=True, exist_ok=True)
    for split, lines in splits.items():
        (out / "data" / f"{split}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    files = "\n".join(f"  - split: {split}\n    path: data/{split}.jsonl" for split in splits)
    count = sum(map(len, splits.values()))
    (out / "README.md").write_text(_CARD.format(files=files, name=run.name, count=count), "utf-8")
    return count


def push(folder: Path, name: str) -> str:
    """Upload a run's model, or a folder of ``write_dataset``, to the hub; return its URL.

    A new repository is private. ``HF_TOKEN`` and ``HF_ENDPOINT`` set account and hub.
    """
    hub = need("huggingface_hub", "huggingface_hub")
    is_data = (folder / "data").is_dir()
    place = folder if is_data or not (folder / "final").is_dir() else folder / "final"
    if not is_data and not (place / "config.json").is_file():
        raise ConfigError(
            f"{folder} must be a finished run, a model or a data set of export records"
        )
    for path in (place, *place.rglob("*")):  # a link would send what nobody named
        if not path.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(
                f"only files of {folder} are sent, got {path}, a link to {path.resolve()}; put a "
                "copy in its place, or remove it"
            )
    kind = "dataset" if is_data else "model"
    try:
        url = hub.create_repo(name, repo_type=kind, private=True, exist_ok=True)
        hub.upload_folder(
            repo_id=url.repo_id,
            folder_path=str(place),
            repo_type=kind,
            ignore_patterns="manifest.json",
        )
    except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError) as error:
        raise ConfigError(f"the hub did not take {name}: {error!s:.300}") from error
    return str(url)
