"""llm_gym imports without torch, nothing imports upwards, heavy packages have one door."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = (
    "torch",
    "torchrl",
    "tensordict",
    "vllm",
    "sglang",
    "ray",
    "transformers",
    "datasets",
    "wandb",
)
FORBIDDEN = {  # folder -> first names that its files may not import at any depth
    "llm_gym": (*HEAVY, "llm_gym_agents", "agents"),
    "agents/llm_gym_agents": ("agents", "benchmarks", "tests"),
}
ONE_DOOR = ("vllm", "sglang", "ray", "wandb")


def imports(path, top_level_only=False):
    tree = ast.parse(path.read_text())
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_point_downwards(folder):
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in imports(path)
        if name in FORBIDDEN[folder]
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ONE_DOOR)
def test_heavy_packages_have_one_door_and_it_opens_late(package):
    files = sorted((ROOT / "agents/llm_gym_agents").rglob("*.py"))
    doors = [path.name for path in files if package in imports(path)]
    assert len(doors) <= 1, doors
    assert not any(package in imports(path, top_level_only=True) for path in files)


CORE = """
import sys
for name in {heavy!r}: sys.modules[name] = None
import pkgutil, importlib, gymnasium as gym, llm_gym
for module in pkgutil.walk_packages(llm_gym.__path__, "llm_gym."):
    importlib.import_module(module.name)
for env_id in [i for i in gym.registry if i.startswith("llm_gym/")]:
    gym.make(env_id).reset(seed=0)
print("played")
"""


def test_the_whole_core_works_when_torch_cannot_be_imported():
    code = CORE.format(heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "played\n", done.stderr


def test_importing_loads_no_environment_and_nothing_heavy():
    code = (
        "import sys, gymnasium; before = set(sys.modules); import llm_gym; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert not [name for name in loaded if name.startswith("llm_gym.registry.suite.")]
    assert not set(HEAVY) & {name.split(".")[0] for name in loaded}
    assert "multiprocessing" not in loaded


def test_the_agents_folder_never_shadows_the_openai_sdk():
    assert not (ROOT / "agents" / "__init__.py").exists()


def test_every_public_name_is_there():
    import llm_gym

    assert all(getattr(llm_gym, name) is not None for name in llm_gym.__all__)
    assert set(llm_gym.__all__) <= set(dir(llm_gym))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = llm_gym.nothing
