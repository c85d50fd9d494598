"""llm_gym imports without torch, in one direction, and heavy packages in one place only."""

import ast
import graphlib
from functools import cache

import pytest

from tests.processes import ROOT, run_python

HEAVY = (
    "torch", "torchrl", "tensordict", "vllm", "sglang", "ray", "transformers", "datasets", "wandb",
)  # fmt: skip
FORBIDDEN = {  # folder -> first names that its files may not import at any depth
    "llm_gym": (*HEAVY, "llm_gym_agents", "agents"),
    "agents/llm_gym_agents": ("agents", "benchmarks", "tests"),
}
ONE_IMPORTER = ("vllm", "sglang", "ray", "wandb")


@cache
def nodes(path, top_level_only=False):
    """Return the imports of a file."""
    tree = ast.parse(path.read_text())
    found = tree.body if top_level_only else ast.walk(tree)
    return [node for node in found if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path, top_level_only=False):
    """Return the packages that a file imports."""
    return {full.split(".")[0] for full in full_names(path, top_level_only)}


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_point_downwards(folder):
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in imports(path)
        if name in FORBIDDEN[folder]
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ONE_IMPORTER)
def test_each_heavy_package_is_imported_by_one_module_and_lazily(package):
    files = sorted((ROOT / "agents/llm_gym_agents").rglob("*.py"))
    importers = [path.name for path in files if package in imports(path)]
    assert len(importers) <= 1, importers
    assert not any(package in imports(path, top_level_only=True) for path in files)


# fmt: off
SUBPACKAGES = {
    "llm_gym": tuple((name,) for name in (
        "reading", "core", "registry", "datasets", "episodes", "tools", "envs", "vector",
        "wrappers", "evaluate", "bridges", "server", "view", "cli",
    )),
    "llm_gym_agents": (
        ("algo", "text", "model"),  # tensors, text and models: each knows itself only
        ("engines", "export", "run"),
        ("config", "rollouts"),  # config's rules ask algo and engines what they need
        ("learn", "recipes"),
        ("trainer",),
        ("commands",),
    ),
}
# fmt: on
"""In the order that data flows: a subpackage imports from itself and from earlier lines."""
each = pytest.mark.parametrize("package", SUBPACKAGES)


@cache
def modules_of(package):
    """Return the path of every module of a package by its full name."""
    home = ROOT if package == "llm_gym" else ROOT / "agents"
    paths = sorted((home / package).rglob("*.py"))
    names = [".".join(path.relative_to(home).with_suffix("").parts) for path in paths]
    return {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}


@cache
def import_edges(package):
    """Return (importer, imported) of every import, also those in functions and for types only."""
    modules = modules_of(package)
    found = ((name, full) for name, path in modules.items() for full in full_names(path))
    named = ((name, full if full in modules else full.rpartition(".")[0]) for name, full in found)
    return tuple((name, module) for name, module in named if module in modules)


def full_names(path, top_level_only=False):
    """Yield what a file imports: a module, or a module with a name in it."""
    for node in nodes(path, top_level_only):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            assert node.level == 0, f"{path} imports by a relative name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def subpackage(module):
    _, _, rest = module.removesuffix(".__main__").partition(".")
    return rest.split(".")[0]


@each
def test_every_subpackage_has_a_place_in_the_order(package):
    found = {subpackage(module) for module in modules_of(package)} - {""}
    assert found == {name for line in SUBPACKAGES[package] for name in line}


@each
def test_no_subpackage_imports_a_later_one(package):
    level = {name: at for at, line in enumerate(SUBPACKAGES[package]) for name in line}
    if package == "llm_gym":
        level[""] = -1  # the package itself has the version, which ``view`` and ``cli`` ask for
    wrong = [
        f"{importer} imports {imported}"
        for importer, imported in import_edges(package)
        if subpackage(importer)  # the package itself imports every subpackage to export names
        and subpackage(importer) != subpackage(imported)
        and imported != f"{package}.core.errors"  # imports nothing: every subpackage raises them
        and level[subpackage(importer)] <= level.get(subpackage(imported), len(level))
    ]
    assert wrong == []


@each
def test_no_import_cycles_exist(package):
    modules = modules_of(package)
    needs = {name: set() for name in modules}
    for importer, imported in import_edges(package):
        # An __init__ re-exports what is inside its folder.
        shown = package == "llm_gym" and modules[imported].name == "__init__.py"
        if importer not in (package, imported) and not shown:
            needs[importer].add(imported)
    # Which raises on a circle, and names it.
    assert set(graphlib.TopologicalSorter(needs).static_order()) >= set(needs)


LARGER_RUNS = (
    "llm_gym.bridges", "llm_gym.datasets", "llm_gym.envs.questions", "llm_gym.server",
    "llm_gym.tools.sandbox", "llm_gym_agents.engines.inference", "llm_gym_agents.engines.sglang",
    "llm_gym_agents.engines.vllm", "llm_gym_agents.export", "llm_gym_agents.rollouts.multi_turn",
    "llm_gym_agents.trainer.process_group", "llm_gym_agents.trainer.ray",
    "torch.distributed.fsdp", "datasets", "mlflow", "peft", "pyarrow", "sglang", "vllm", "wandb",
)  # fmt: skip
"""What a training run in one process, of one model and one environment, never loads."""


def loaded_with(name):
    """Return what importing a module imports in its turn, ours and others' modules, by name."""
    modules, found, todo = modules_of("llm_gym") | modules_of("llm_gym_agents"), set(), [name]
    while todo:
        parts = todo.pop().split(".")
        for name in {".".join(parts[:end]) for end in range(1, len(parts) + 1)} - found:
            found.add(name)
            # Not those in functions and under TYPE_CHECKING.
            todo += full_names(modules[name], top_level_only=True) if name in modules else ()
    return found


def test_a_plain_training_run_loads_nothing_of_larger_ones():
    found = loaded_with("llm_gym_agents.commands.run")
    assert {"llm_gym_agents.trainer.ppo_trainer", "llm_gym_agents.learn.ppo"} <= found
    assert found.isdisjoint(LARGER_RUNS)


@pytest.mark.slow
def test_a_plain_training_run_works_where_those_cannot_be_imported(tmp_path):
    """Also what functions import; transformers itself imports torch's FSDP."""
    pytest.importorskip("torchrl")
    absent = [name for name in (*LARGER_RUNS, "ray") if not name.startswith("torch")]
    command = ["train", "llm_gym/Echo-v0", "--smoke", "--checkpoint.output-dir", str(tmp_path)]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent})); "
        f"from llm_gym.cli import main; sys.exit(main({command}))"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "final").exists()


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
    done = run_python(CORE.format(heavy=HEAVY))
    assert done.stdout == "played\n", done.stderr


def test_importing_llm_gym_loads_no_environment_and_no_heavy_package():
    code = (
        "import sys, gymnasium; before = set(sys.modules); import llm_gym; "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = run_python(code).stdout.split()
    assert "llm_gym" in loaded
    later = ("llm_gym.envs", "llm_gym.vector", "llm_gym.wrappers")  # imported at first use
    assert not [name for name in loaded if name.startswith(later)]
    assert not set(HEAVY) & {name.split(".")[0] for name in loaded}


def test_the_agents_folder_never_shadows_the_openai_sdk():
    assert not (ROOT / "agents" / "__init__.py").exists()


def test_every_public_name_can_be_imported():
    import llm_gym

    assert all(getattr(llm_gym, name) is not None for name in llm_gym.__all__)
    assert set(llm_gym.__all__) <= set(dir(llm_gym))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = llm_gym.nothing
