"""llm_gym imports without torch, nothing imports upwards, heavy packages have one door."""

import ast
import graphlib
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


# The rooms of llm_gym in the order of the data: a room imports those above it in this table, never
# one below. ``view`` and ``cli`` ask for the version, which the package itself has.
LLM_GYM_ROOMS = (
    "errors",
    "reading",
    "core",
    "legacy",
    "sandbox",
    "registry",
    "as_text",
    "datasets",
    "episodes",
    "parsing",
    "tools",
    "envs",
    "vector",
    "wrappers",
    "evaluate",
    "endpoint",
    "bridges",
    "server",
    "view",
    "cli",
)


def modules_of(package):
    """Yield the dotted name and the path of every module of a package."""
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imported_modules(path):
    """Yield every module that a file imports, lazily or for types only as well."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_room_of_llm_gym_has_its_place():
    package = ROOT / "llm_gym"
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    files = {path.stem for path in package.glob("*.py")} - {"__init__"}
    assert rooms | files == set(LLM_GYM_ROOMS)


@pytest.mark.parametrize("room", LLM_GYM_ROOMS)
def test_no_room_of_llm_gym_turns_back(room):
    below = LLM_GYM_ROOMS[LLM_GYM_ROOMS.index(room) + 1 :]
    wrong = [
        f"{name} imports {found}"
        for name, path in modules_of(ROOT / "llm_gym")
        if (name + "..").split(".")[1] == room
        for found in imported_modules(path)
        if found.split(".")[0] == "llm_gym" and (found + "..").split(".")[1] in below
    ]
    assert wrong == []


def test_no_two_modules_of_llm_gym_import_each_other():
    modules = dict(modules_of(ROOT / "llm_gym"))
    packages = {name for name, path in modules.items() if path.name == "__init__.py"}
    arrows = {
        name: {found for found in imported_modules(path) if found in modules} - packages
        for name, path in modules.items()
    }
    while ends := [name for name, arrow in arrows.items() if not arrow & arrows.keys()]:
        for name in ends:
            del arrows[name]
    assert arrows == {}, "these import each other in a circle"


CORE = """
import sys
for name in {heavy!r}: sys.modules[name] = None
import pkgutil, importlib, gymnasium as gym, llm_gym
for module in pkgutil.walk_packages(llm_gym.__path__, "llm_gym."):
    importlib.import_module(module.name)
from llm_gym.registry.suite import NEEDS
for env_id in [i for i in gym.registry if i.startswith("llm_gym/") and i not in NEEDS]:
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


# --- the rooms of the trainer ----------------------------------------------------------------

TRAINER = ROOT / "agents/llm_gym_agents"
TRAINER_ROOMS = (
    ("algo", "text", "model", "run"),  # tensors, text, models and files: each knows itself only
    ("engines", "checkpoint", "export"),
    ("config",),  # above both: its rules ask algo and engines what they need
    ("rollouts",),
    ("batch",),
    ("learn",),
    ("build",),
    ("distributed",),  # builds in each actor what one process builds once
    ("run_folder",),
    ("trainer",),
    ("compat", "recipes"),
    ("commands",),  # above recipes, which ``train`` runs by name
)
"""In the order that data flows: a room imports from earlier lines only, and from itself."""


def trainer_modules():
    """Every module of the trainer, by its full name."""
    found = {}
    for path in sorted(TRAINER.rglob("*.py")):
        parts = path.relative_to(TRAINER.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def trainer_imports(modules):
    """(importer, imported) of every import, also those inside functions and for types only."""
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((name, alias.name) for alias in node.names if alias.name in modules)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name} imports by a relative name"
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    if full in modules or node.module in modules:
                        yield name, full if full in modules else node.module


def room(module):
    return module.split(".")[1] if "." in module else ""


def test_every_room_of_the_trainer_has_its_place():
    rooms = {room(module) for module in trainer_modules()} - {""}
    assert rooms - {name for line in TRAINER_ROOMS for name in line} == set()


def test_data_never_turns_back_in_the_trainer():
    floor = {name: at for at, line in enumerate(TRAINER_ROOMS) for name in line}
    back = [
        f"{importer} imports {imported}"
        for importer, imported in trainer_imports(trainer_modules())
        if room(importer)  # the package itself opens every room, for those who import names
        and room(importer) != room(imported)
        and (not room(imported) or floor[room(importer)] <= floor[room(imported)])
    ]
    assert back == []


def test_no_modules_of_the_trainer_import_in_a_circle():
    modules = trainer_modules()
    needs = {name: set() for name in modules}
    for importer, imported in trainer_imports(modules):
        # A room's own __init__ shows what is inside; who is inside does not ask it.
        if importer != "llm_gym_agents" and importer != imported:
            needs[importer].add(imported)
    # Which raises on a circle, and names it.
    assert set(graphlib.TopologicalSorter(needs).static_order()) >= set(needs)
