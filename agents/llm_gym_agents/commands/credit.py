"""``llm-gym eval --credit``: compares advantage estimators with the true advantage of a turn.

The true advantage is measured: the same policy plays K branches (extra episodes) from every state
of some episodes. The estimators see the episodes, but not these branches. Read ``_judge`` first.

Shapes: N judged turns, K turns of all episodes, T sampled tokens.
"""

import filecmp
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from llm_gym.core.errors import ConfigError
from llm_gym.episodes import Trajectory
from llm_gym.registry.sources import EnvSource
from llm_gym.wrappers import EpisodeLimits, StateInfo
from llm_gym_agents.algo import get_advantage
from llm_gym_agents.algo.credit import Floats, Truth, compare, explained_variance
from llm_gym_agents.algo.tensor_ops import segment_mean
from llm_gym_agents.config import ModelConfig, TrainingConfig
from llm_gym_agents.learn.branches import Branch, Place, all_places, play_branches, state_tensors
from llm_gym_agents.learn.ppo import estimator_settings, token_stream
from llm_gym_agents.learn.scoring import BatchScorer, Scores
from llm_gym_agents.learn.stabilizers import Stabilizers
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.model.weights import compute_dtype, without_dropout
from llm_gym_agents.rollouts.pack import Packer
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.recorder import episode_tokens
from llm_gym_agents.rollouts.rollout_data import RolloutData, assemble
from llm_gym_agents.rollouts.sampler import Sampler
from llm_gym_agents.rollouts.tasks import EpisodeTask, Play, Rollout, why_unplayed
from llm_gym_agents.run.checkpoints import MODEL, VALUES, load_checkpoint
from llm_gym_agents.run.state import set_module_state
from llm_gym_agents.trainer.build import load_lm
from llm_gym_agents.trainer.run_folder import FINAL, WARM_START

TURNS, GROUP = 64, 8
"""Default number of judged turns, and of episodes per start if the run has no groups."""
POTENTIAL = 1e9
"""A shrinkage so large that only the prior is left."""
JUDGED: Mapping[str, tuple[str, dict[str, Any]]] = {
    "gae": ("gae", {}),
    "gae_turn": ("gae_turn", {}),
    "grpo": ("grpo", {}),
    "grpo, credit=turn": ("grpo", {"credit": "turn"}),
    "rloo": ("rloo", {}),
    "reinforce_plus_plus": ("reinforce_plus_plus", {}),
    "gigpo": ("gigpo", {}),
    "state_td": ("state_td", {}),
    "state_td, shrinkage=0": ("state_td", {"shrinkage": 0.0}),
    "state_td, prior alone": ("state_td", {"shrinkage": POTENTIAL}),
    "vine, branches=1": ("vine", {"branches": 1}),
    "state_td, branches=1": ("state_td", {"branches": 1}),
}
"""The judged estimators: name → estimator and its settings."""

Critic = Callable[[RolloutData], Scores]


@dataclass(kw_only=True)
class CreditReport:
    """The result for one environment. A list of three is a value and its 95 % interval."""

    env_id: str | None
    episodes: int
    starts: int
    """Starts that the episodes share, in equal groups."""
    success: float
    turns: int
    """Number of judged turns."""
    branches: int
    """Branches from each state."""
    tokens: int
    """Tokens sampled to measure the true advantages."""
    spread: float
    """Standard deviation of the true advantages."""
    ceiling: float
    """Correlation of a perfect estimate; it is below 1 because the measured truth has noise."""
    critic: list[float | None] | None
    """Share of the variance of the true values that the critic explains; None without a critic."""
    critic_ceiling: float
    estimators: dict[str, dict[str, Any]]
    """Correlation, sign agreement, bias and sampled tokens of each estimator."""
    seconds: float


def credit(
    env: EnvSource,
    policy: LLMPolicy,
    training: TrainingConfig,
    *,
    episodes: int = 100,
    branches: int = 16,
    turns: int = TURNS,
    num_envs: int = 64,
    seed: int = 0,
    split: str | None = None,
    workers: int = 0,
    max_turns: int | None = None,
    env_kwargs: dict[str, Any] | None = None,
    critic: Critic | None = None,
) -> tuple[CreditReport, list[Trajectory]]:
    """Let ``policy`` play groups of episodes and judge every estimator on their turns.

    Returns the report, and the judged episodes with two advantages for each turn: the true one and
    that of the run's own estimator (``grpo`` if its critic is not available).

    Episodes come in groups of ``training.group_size`` (8 if that is 1). From each state of at least
    ``turns`` turns, in whole episodes from all starts, ``branches`` are played. The same seed and
    the same actions must give the same episode. ``policy`` must sample: greedy branches would be
    equal. Without a ``critic``, estimators that need one are left out.
    """
    if policy.sampling.temperature == 0:
        raise ConfigError("--credit needs a policy that samples; pass --temperature 1")
    if branches < 2:
        raise ConfigError(f"--credit needs at least 2 branches from each state, got {branches}")
    size = training.group_size if training.group_size > 1 else GROUP
    options = {"split": split} if split else None
    starts = max(2, episodes // size)
    tasks = [EpisodeTask(at, seed + at // size, at // size, options) for at in range(starts * size)]
    limits = [] if max_turns is None else [partial(EpisodeLimits, max_turns=max_turns)]
    with ExitStack() as ends:
        pool = TextEnvPool(
            env,
            num_envs,
            workers=min(workers, num_envs),
            wrappers=[*limits, StateInfo],
            **(env_kwargs or {}),
        )
        ends.callback(pool.close, raise_if_closed=False)
        sampler = Sampler(policy, pool)
        ends.callback(sampler.collector.close)
        return _judge(sampler.play, tasks, training, critic, branches, turns, seed)


def _judge(
    play: Play,
    tasks: Sequence[EpisodeTask],
    training: TrainingConfig,
    critic: Critic | None,
    branches: int,
    turns: int,
    seed: int,
) -> tuple[CreditReport, list[Trajectory]]:
    """Play ``tasks`` and branches from some of their states, and judge every estimator."""
    start, gamma = perf_counter(), training.gamma
    everything = play(tasks)
    rollout = everything.without_failed()
    if not rollout.episodes:
        raise ConfigError(f"no episode could be played: {why_unplayed(everything)}")
    places = all_places(rollout)
    drawn = _drawn(rollout, turns, seed)
    truth_branches = play_branches(play, rollout, [p for p in places if p[0] in drawn], branches)
    returns: dict[Place, list[float]] = {}
    for branch in truth_branches:
        returns.setdefault(branch.place, []).append(branch.to_go(gamma))
    kept = [
        number
        for number, (at, turn) in enumerate(places)
        if (at, turn) in returns
        and ((at, turn + 1) in returns or turn + 1 == len(rollout.turns[at]))
    ]
    if not kept:
        raise ConfigError("no branch could be played; the environment must repeat its episodes")
    value, advantage = _truth(rollout, returns, [places[at] for at in kept], gamma)
    single = play_branches(play, rollout, places, 1, first=branches)
    groups = np.array([int(rollout.episodes[at].group or 0) for at, _ in (places[k] for k in kept)])
    estimates, value_K = _estimates(rollout, single, training, critic)
    own = rollout.tokens
    report = CreditReport(
        env_id=rollout.env_id,
        episodes=len(rollout.episodes),
        starts=len({episode.group for episode in rollout.episodes}),
        success=sum(episode.success for episode in rollout.episodes) / len(rollout.episodes),
        turns=len(kept),
        branches=branches,
        tokens=sum(branch.tokens for branch in truth_branches),
        spread=float(advantage.mean_N.std()),
        ceiling=advantage.ceiling,
        critic=None if value_K is None else explained_variance(value_K[kept], value, groups, seed),
        critic_ceiling=value.share,
        estimators={
            name: compare(estimate_K[kept], advantage, groups, seed)
            | {"tokens": own + sum(each.tokens for each in single if "branches" in JUDGED[name][1])}
            for name, estimate_K in estimates.items()
        },
        seconds=round(perf_counter() - start, 1),
    )
    shown = estimates.get(training.adv_estimator, estimates["grpo"])
    columns = {"advantages": shown, "true_advantages": np.full(len(places), np.nan)}
    columns["true_advantages"][kept] = advantage.mean_N
    if value_K is not None:
        columns["values"] = value_K
    return report, _with_columns(rollout, drawn, columns)


def _drawn(rollout: Rollout, turns: int, seed: int) -> set[int]:
    """Return episodes with at least ``turns`` turns: one of each start, then a second one, ..."""
    order = np.random.default_rng(seed).permutation(len(rollout.episodes)).tolist()
    seen = Counter[Any]()
    rounds = {}
    for at in order:
        rounds[at] = seen[group := rollout.episodes[at].group]
        seen[group] += 1
    found, count = set[int](), 0
    for at in sorted(order, key=rounds.__getitem__):
        if count < turns:
            found.add(at)
            count += len(rollout.turns[at])
    return found


def _with_columns(
    rollout: Rollout, drawn: set[int], columns: Mapping[str, Floats]
) -> list[Trajectory]:
    """Return the drawn episodes, with the turn number of each token."""
    first, found = 0, list[Trajectory]()
    for at, (episode, turns) in enumerate(zip(rollout.episodes, rollout.turns, strict=True)):
        if at in drawn:
            lengths = [len(turn.reply_ids) for turn in turns]
            own = {
                name: values_K[first : first + len(turns)].repeat(lengths).tolist()
                for name, values_K in columns.items()
            }
            episode.tokens = episode_tokens(turns, trained=own)
            episode.tokens.trained_on = None
            found.append(episode)
        first += len(turns)
    return found


def _truth(
    rollout: Rollout,
    returns: Mapping[Place, Sequence[float]],
    places: Sequence[Place],
    gamma: float,
) -> tuple[Truth, Truth]:
    """Return value and advantage of each turn in ``places``, measured by branches."""
    value = Truth.of([returns[place] for place in places])
    done = [
        [
            rollout.episodes[at].rewards[turn] + gamma * later
            for later in returns.get((at, turn + 1), [0.0])
        ]
        for at, turn in places
    ]
    return value, Truth.of(done).less(value)


def _estimates(
    rollout: Rollout, branches: Sequence[Branch], training: TrainingConfig, critic: Critic | None
) -> tuple[dict[str, Floats], Floats | None]:
    """Return the advantage of every turn by each estimator, and the critic's value before it."""
    data = assemble(rollout)
    scores = Scores(None, None, None, None) if critic is None else critic(data)
    states = state_tensors(rollout, branches, training.gamma)
    found: dict[str, Floats] = {}
    for name, (estimator, own) in JUDGED.items():
        spec = get_advantage(estimator)
        if spec.needs_critic and critic is None:
            continue
        plain = training.model_copy(update={"estimator_settings": own})
        for field, tensor in states.items():
            used = "branches" in own or not field.startswith("branch")
            setattr(data, field, tensor if used else None)
        stream = token_stream(data, data.reward_T, scores)
        advantages_T = spec(stream, **estimator_settings(spec, plain)).advantages_T
        found[name] = segment_mean(advantages_T.double(), stream.turn_lengths_K).cpu().numpy()
    if scores.value_T is None:
        return found, None
    starts_K = token_stream(data, data.reward_T, scores).turn_starts_K
    return found, scores.value_T[starts_K].double().numpy()


# --- the critic of a run -----------------------------------------------------------------------


def load_critic(
    path: str, model: ModelConfig, training: TrainingConfig, temperature: float
) -> Critic | None:
    """Return the critic that was trained with the model at ``path``; None if there is none."""
    place = _checkpoint_of(Path(path))
    if place is None or not get_advantage(training.adv_estimator).needs_critic:
        return None
    parts = load_checkpoint(place).parts
    lm, _ = load_lm(model, path)
    whole = PolicyValueModel(
        lm,
        critic=model.critic,
        temperature=temperature,
        compute_dtype=compute_dtype(model.dtype, lm.device),
    ).eval()
    without_dropout(whole)
    set_module_state(whole, parts["critic"], skip=("lm.",))
    stabilizers = Stabilizers(training, whole)
    stabilizers.load_state(parts["stabilizers"].values)
    scorer = BatchScorer(whole, training.micro_batch_tokens)
    return lambda data: stabilizers.unscale(scorer.score(Packer(data)))


def _checkpoint_of(model: Path) -> Path | None:
    """Return the checkpoint of this model: its parent folder, or one with equal weights."""
    if (model.parent / VALUES).is_file():
        return model.parent
    if model.name != FINAL:
        return None
    places = [*sorted((model.parent / "checkpoints").glob("*-*")), model.parent / WARM_START]
    weights = [file.name for file in model.glob("*.safetensors")]
    for place in places:
        same, *_ = filecmp.cmpfiles(model, place / MODEL, weights, shallow=False)
        if weights and len(same) == len(weights) and (place / VALUES).is_file():
            return place
    return None


# --- the table ---------------------------------------------------------------------------------


def credit_table(report: CreditReport) -> str:
    """Return the report as a readable table."""

    def cell(found: Sequence[float | None]) -> str:
        value, low, high = (float("nan") if each is None else each for each in found)
        return f"{value:6.2f} [{low:5.2f}, {high:5.2f}]"

    if all(row["correlation"][0] is None for row in report.estimators.values()):
        return (
            f"{report.env_id}: success {report.success:.0%} in {report.episodes} episodes; all "
            "ended alike, so no advantage differs; take a harder game or more episodes"
        )
    lines = [
        f"{report.env_id}: success {report.success:.0%} in {report.episodes} episodes from "
        f"{report.starts} starts; {report.turns} turns, {report.branches} branches from each "
        f"state, {report.tokens:,} tokens sampled for the true advantages",
        f"{'estimator':24}{'correlation':>23}{'sign agreement':>23}{'bias':>23}{'tokens':>10}",
    ]
    for name, row in report.estimators.items():
        cells = "".join(f"{cell(row[one]):>23}" for one in ("correlation", "sign", "bias"))
        lines.append(f"{name:24}{cells}{row['tokens']:>10,}")
    lines.append(
        f"a perfect estimate would have a correlation of {report.ceiling:.2f}: the truth has noise"
    )
    if report.critic is not None:
        lines.append(
            f"the critic explains{cell(report.critic)} of the variance of the true values, "
            f"of at most {report.critic_ceiling:.2f}"
        )
    return "\n".join(lines)
