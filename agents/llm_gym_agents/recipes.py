"""Runs worth repeating, each a config with its expected result.

    llm-gym train text-game-easy
    llm-gym train smollm2-frozen-lake --model.model-name FOLDER --inference.backend transformers

Any setting can be changed on the command line. They live inside the package, so that an installed
trainer has them too. ``benchmarks/learn/real_model.py`` runs those of SmolLM2, three seeds each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from llm_gym_agents.config import ConfigStore


class Recipe(NamedTuple):
    """A published run."""

    name: str
    about: str
    config: ConfigStore
    expected: str = ""
    """The measured result, and where it is published."""
    vocabulary_episodes: int = 0
    """Episodes whose words are the vocabulary of a small new model; 0: the config names a model."""


def text_game_easy() -> Recipe:
    """Return the laptop demo: from chance to a good player of a text adventure, on a CPU.

    A small Llama with random weights first learns to *write* moves, by imitating random legal ones:
    it then speaks the game's language and plays at chance. PPO does the rest, from the 0/1 success,
    potential-based shaping and a small penalty for moves that cannot be used. Nothing is shipped
    and nothing is downloaded.
    """
    from llm_gym_agents.config import ConfigStore

    config = ConfigStore()
    config.update(
        {
            "environment": {
                "env_id": "llm_gym/TextGameEasy-v0",
                # Shaping is potential-based: it adds up to nothing over an episode.
                "env_kwargs": {"rules": "system", "shaping": True, "penalty": 0.1},
                "eval_interval": 5,
                "eval_episodes": 200,
                # 192 of 200: the best of several looks is a lucky one, and fresh episodes are to be
                # won nine times of ten all the same.
                "stop_at_success": 0.92,
            },
            "inference": {
                "num_envs": 128,
                "max_tokens": 6,
                # One observation says all that matters, and reading less is three times cheaper.
                "context": "observation",
                # What observations begin with alike is so short that it is read faster than found.
                "engine": {"prefix_cache": False},
                # A model that knows this game only has no use for its rules.
                "system_prompt": "",
            },
            "warm_start": {"player": "random", "turns": 8_000, "steps": 100, "rate": 3e-3},
            "training": {
                "num_epochs": 6,
                "num_iters_per_epoch": 5,
                "batch_size": 128,
                "mini_batch_size": 16,
                "ppo_epochs": 2,
                "micro_batch_tokens": 4096,  # a mini-batch in two reads, which stay in the cache
                "learning_rate": 8e-4,
                "gamma": 0.9,
                "gae_lambda": 0.9,
                "entropy_coef": 0.01,
                "max_grad_norm": 0.5,
            },
        }
    )
    return Recipe(
        name="text-game-easy",
        about="A 92k-parameter Llama learns a text adventure from chance, on a CPU.",
        expected="held-out success from about 10 % to at least 90 % (benchmarks/results/demo.json)",
        config=config,
        vocabulary_episodes=200,
    )


# --- SmolLM2-135M-Instruct on one GPU, a few minutes each --------------------------------------

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
_SETTINGS: dict[str, dict[str, Any]] = {
    "model": {"model_name": MODEL},
    "environment": {
        # Shaping is potential-based: it adds up to nothing over an episode.
        "env_kwargs": {"rules": "system", "shaping": True, "penalty": 0.1},
        "eval_interval": 10,
        "eval_episodes": 200,
        "stop_at_success": 0.95,  # the lower end of the interval: 196 of 200 episodes
    },
    "inference": {"backend": "vllm", "engine": {"max_model_len": 3072}},
    "training": {
        "num_iters_per_epoch": 5,
        "batch_size": 128,
        "mini_batch_size": 32,
        "ppo_epochs": 1,  # a second pass drifts off policy
        "value_learning_rate": 1e-4,
        "gamma": 0.9,
        "gae_lambda": 0.9,
    },
}
FALLS = {"lr_schedule": "linear"}
"""At a constant rate some good players fall back."""
CRITIC_FIRST = {"critic_warmup_iters": 2}
"""Beside a critic that knows nothing, a player that is good already is taught noise."""


class GameSettings(NamedTuple):
    """What differs from game to game."""

    env_id: str
    max_tokens: int
    context: str = "observation"
    player: str = "random"
    turns: int = 4000
    steps: int = 120
    max_turns: int | None = None
    rules: bool = False
    """Whether it is told the rules. It learns them by playing; without them it reads a third."""
    epochs: int = 20
    """Of five iterations."""
    rate: float = 2e-5
    training: Mapping[str, Any] = {}
    """Further settings of that section."""


GAMES = {
    "text-game-easy": GameSettings("llm_gym/TextGameEasy-v0", 8),
    "text-game-medium": GameSettings("llm_gym/TextGameMedium-v0", 16, "history", "solver", 600, 60),
    # It allows 100 turns; who has not crossed in 20 walks in circles, and everybody waits.
    "frozen-lake": GameSettings(
        "llm_gym/FrozenLake-v0", 4, turns=1500, steps=40, max_turns=20, epochs=14, rate=3e-5,
        training=FALLS,
    ),
    "guess-the-number-easy": GameSettings(
        "llm_gym/GuessTheNumberEasy-v0", 4, "history", epochs=12, rate=5e-5, training=FALLS
    ),
    # In the form in which the suite is asked, to see what the model can do elsewhere afterwards;
    # few steps of imitation, because they teach it to forget the rest.
    "guess-the-number": GameSettings(
        "llm_gym/GuessTheNumber-v0", 32, "history", turns=1000, steps=24, rules=True, epochs=15,
        rate=5e-5, training=FALLS,
    ),
    # Chance never finds the way out, and its map has to be read: a solver shows how.
    "maze-easy": GameSettings(
        "llm_gym/MazeEasy-v0", 4, player="solver", epochs=6, rate=4e-5,
        training=FALLS | CRITIC_FIRST | {"micro_batch_tokens": 20480},
    ),
    "sokoban-easy": GameSettings(
        "llm_gym/SokobanEasy-v0", 4, player="solver", turns=8000, steps=240, epochs=12,
        training=FALLS | {"critic_warmup_iters": 1},
    ),
    "search-qa-easy": GameSettings("llm_gym/SearchQAEasy-v0", 20, "history", "solver", 400, 40),
    # After a few steps it writes moves, and has much to learn; after forty it wins.
    "search-qa": GameSettings(
        "llm_gym/SearchQA-v0", 20, "history", "solver", 150, 14, epochs=12, rate=4e-5,
        training=FALLS | CRITIC_FIRST,
    ),
}  # fmt: skip
"""By the name of the recipe, without what all of them begin with."""
PREFIX = "smollm2-"


def smollm2(name: str) -> Recipe:
    """Return the recipe of one of ``GAMES``.

    SmolLM2 speaks in its own chat template. Out of the box it hardly writes a move that can be
    used, so it first imitates some: random legal ones, from which it learns the language and plays
    at chance, or, where chance never wins, a few of a solver's. PPO does the rest.
    """
    from llm_gym_agents.config import ConfigStore

    game, config = GAMES[name], ConfigStore()
    config.update(_SETTINGS)
    config.update(
        {
            "environment": {"env_id": game.env_id},
            "inference": {
                "max_tokens": game.max_tokens, "context": game.context, "max_turns": game.max_turns,
                "system_prompt": None if game.rules else "",
            },
            "warm_start": {
                "player": game.player, "turns": game.turns, "steps": game.steps, "rate": 5e-5,
            },
            "training": {"num_epochs": game.epochs, "learning_rate": game.rate, **game.training},
        }
    )  # fmt: skip
    config.inference.num_envs = config.training.batch_size
    return Recipe(
        name=f"{PREFIX}{name}",
        about=f"SmolLM2-135M-Instruct learns {game.env_id}, on one GPU (docs/reports/results.md).",
        config=config,
    )


# --- by name -----------------------------------------------------------------------------------

NAMES = ("text-game-easy", *(f"{PREFIX}{name}" for name in GAMES))


def find_recipe(name: str) -> Recipe | None:
    """Return the recipe called ``name``, or None."""
    if name not in NAMES:
        return None
    return smollm2(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else text_game_easy()
