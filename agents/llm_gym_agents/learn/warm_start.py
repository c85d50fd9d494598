"""``WarmStart``: supervised training on a player's moves before the first RL iteration.

It chooses the player to imitate, collects moves, trains on them and reports the gain. A checkpoint
stores the result, so a resumed run does not repeat it.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym

from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import find_attribute, flag
from llm_gym.episodes import play_episode
from llm_gym.episodes.play import describe_env
from llm_gym.evaluate.result import Evaluation
from llm_gym.registry.user_code import close_user_env, explain_failures
from llm_gym.wrappers import EpisodeLimits
from llm_gym_agents.config import TrainingConfig, WarmStartConfig
from llm_gym_agents.config.profile import WARM_START_BATCH, WARM_START_TOKENS
from llm_gym_agents.engines.base import FinishReason
from llm_gym_agents.learn.imitation import (
    TEACHERS,
    Dialogue,
    DialogueEncoder,
    find_player,
    imitate,
    label_episode,
    load_demonstrations,
    play_demonstrations,
)
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.schedule import HeldOutSuccess
from llm_gym_agents.rollouts.mix import by_failure, in_env, shares_of
from llm_gym_agents.rollouts.sampler import Player, Sampler
from llm_gym_agents.rollouts.tasks import EpisodeTask, episode_id, episode_seed, split_options
from llm_gym_agents.run.files import write_atomically
from llm_gym_agents.run.metrics import FROM_SOLVER

WINNING = (*TEACHERS, "best_random")
"""Players whose moves win, and do not only show the format."""
ENOUGH_USABLE = 0.5
"""Share of usable replies below which ``auto`` warm-starts a pretrained model."""
SELDOM = 0.5
"""Success in the probe below which ``auto`` imitates a solver, if there is one."""
PROBE_IDS = 2**42
"""First episode id of the probe; ids seed the sampling."""
VISIT_IDS = 2**43
"""First episode id of the model's own episodes that a solver labels."""
VISITED_TOKENS = 30_000
"""Tokens sampled for these episodes per round and environment; sampling is the main cost."""
PROBED = 16
"""Episodes of the probe."""
PROBED_TURNS = 4
"""Turns per probed episode; a few are enough to see whether a model can write moves."""
FEW, ROOMY = 4, 256
"""Episodes and minimum ``max_tokens`` of a second probe, if replies were truncated."""
EMBEDDED_DECAY, MORE_DECAY = 0.3, 1.0
"""Weight decay of the embedded model that imitates moves that win, and after it has memorized a
round.

Random moves are not memorized, so weight decay would only slow learning there."""
MEMORIZED = 0.03
"""Final loss of a round below which the moves count as memorized."""
UNLEARNED, BEHIND = 0.3, 0.05
"""Loss above which, and success below which, later rounds take smaller steps."""
SMALLER = 4
"""Number of smaller steps per normal step: the same data, but more updates."""
UNUSABLE = 0.1
"""Share of unusable replies above which another round may follow."""
HELPED = 0.75
"""If more than this share of the unusable replies remains after a round, it is the last."""
MASTERED = 0.9
"""Success above which imitating a solver needs no further round."""
ROUNDS_APART = 1_000_003
"""Seed offset between rounds, so that they play different episodes."""
STARTED = ("warm_start/success", "warm_start/success_low", "warm_start/success_high")
"""Metrics of held-out success after the warm start, in the order of ``HeldOutSuccess``."""
MEASURED = 256
"""Maximum episodes on which success before and after is measured: by default those of every
evaluation, so that the success that RL must keep is of the same episodes."""


def warm_start_success(found: Mapping[str, float] | None) -> HeldOutSuccess | None:
    """Return the held-out success after a warm start from its metrics; None if none ran."""
    if not found or not found.keys() >= set(STARTED):
        return None
    return HeldOutSuccess(*(found[name] for name in STARTED))


def another_round(
    player: str, last: Evaluation, now: Evaluation, *, first: bool = False
) -> str | None:
    """Return the reason for another round of imitation, or None.

    Random moves teach only the format, so rounds end when replies are usable. Imitating moves that
    win should win, because RL rarely finds moves that the model never makes.
    """
    if player in WINNING:
        if now.success < MASTERED:
            return f"{now.success:.0%} of the episodes are won, fewer than {MASTERED:.0%}"
        return (
            f"{now.invalid:.0%} of the replies cannot be used" if now.invalid > UNUSABLE else None
        )
    if now.invalid > UNUSABLE and (first or now.invalid <= HELPED * last.invalid):
        return f"{now.invalid:.0%} of the replies cannot be used"
    return None


class ProbedReplies(NamedTuple):
    """Counts of usable and truncated first replies of a model, and of won episodes."""

    usable: int
    replies: int
    cut: int
    """Unusable replies that ``max_tokens`` truncated."""
    won: int
    episodes: int

    @property
    def is_enough(self) -> bool:
        """Whether most replies are usable."""
        return self.usable >= ENOUGH_USABLE * self.replies

    def __str__(self) -> str:
        return f"{self.usable / self.replies:.0%} of {self.replies} probed replies can be used"


class Decision(NamedTuple):
    """Whom to imitate, and why."""

    player: str
    """In a mix: the solver, if any environment's solver is imitated."""
    why: str
    players: Mapping[str, str] = {}
    """In a mix: the player of each environment."""

    @property
    def solved(self) -> float:
        """Share of the environments whose solver or reflex player is imitated."""
        played = list(self.players.values()) or [self.player]
        return sum(player in TEACHERS for player in played) / len(played)

    def __str__(self) -> str:
        labels = {each: f"imitating the {each}'s moves" for each in TEACHERS} | {"none": "none"}
        labels["best_random"] = "imitating random moves of the best episodes"
        what = labels.get(self.player, f"imitating {self.player} moves")
        many = Counter(self.players.values())
        counts = ", ".join(f"{who} in {count}" for who, count in sorted(many.items()))
        return f"warm start: {what}{f' ({counts})' * bool(counts)}, because {self.why}"


@dataclass(kw_only=True)
class WarmStart:
    """Trains a model to write the moves of an environment."""

    settings: WarmStartConfig
    training: TrainingConfig
    train_split: str | None
    measured: int
    """Held-out episodes on which success before and after is measured."""
    folder: Path
    sampler: Player
    learner: Learner
    make_envs: Mapping[str, Callable[[], gym.Env[str, str]]]
    """By id."""
    evaluate: Callable[[int], Evaluation]
    """Evaluates the current weights on so many held-out episodes."""
    publish: Callable[[], object]
    """Sends new weights to the engine."""
    embedded: bool
    """Whether the model is the built-in one, with random weights."""
    say: Callable[[str], None]
    """Called with a sentence about each decision and result."""
    tick: Callable[[str], None] = lambda text: None
    """Called at each step with a description of the current work."""
    mix: Mapping[str, float] = field(default_factory=dict)
    """Weights of the environments; empty for a single one."""
    losses: list[float] = field(default_factory=list)
    kept: list[Dialogue] = field(default_factory=list)
    """What later rounds imitate too: the solver's replies in states that the model reached, and the
    best random episodes."""

    def __post_init__(self) -> None:
        # A file has no further moves.
        self.rounds = 1 if self.settings.is_file else self.settings.rounds
        self.weight_decay = 0.0
        self.shares = shares_of(self.mix or dict.fromkeys(self.make_envs, 1.0))
        self.split = 1  # steps that share what one would read

    def run_second(self, why: str) -> dict[str, float]:
        """Imitate the solver in the middle of a run; return metrics, empty without a solver."""
        found = self._prefer_solvers(Decision("random", why))
        return self.run(found) if found.player == "solver" else {}

    def run(self, decision: Decision | None = None) -> dict[str, float]:
        """Imitate as ``decision`` or else ``decide`` says; return metrics, empty if nobody is."""
        if decision is None and self.settings.player == "none":
            return {}
        decision = decision or self.decide()
        self.say(str(decision))
        if decision.player == "none":
            return {}
        start = time.perf_counter()
        before = self._measure()
        turns, after = self._rounds(decision, before)
        lines = (json.dumps({"step": at, "loss": x}) for at, x in enumerate(self.losses, 1))
        write_atomically(self.folder / "warm_start.jsonl", "".join(f"{line}\n" for line in lines))
        self.say(
            f"warm start: {turns:,} moves, {len(self.losses)} steps, loss {self.losses[0]:.2f} to "
            f"{self.losses[-1]:.2f}; unusable replies {before.invalid:.0%} to {after.invalid:.0%}, "
            f"success {before.success:.1%} to {after.success:.1%} "
            f"({time.perf_counter() - start:.0f} s)"
        )
        return {
            FROM_SOLVER: decision.solved,
            "warm_start/turns": turns,
            "warm_start/steps": len(self.losses),
            "warm_start/loss_first": self.losses[0],
            "warm_start/loss": self.losses[-1],
            "warm_start/success_before": before.success,
            **{
                name: float(each)
                for name, each in zip(STARTED, HeldOutSuccess.of(after), strict=True)
            },
            "warm_start/return_before": before.mean_return,
            "warm_start/return": after.mean_return,
            "warm_start/invalid_before": before.invalid,
            "warm_start/invalid": after.invalid,
        }

    def _measure(self) -> Evaluation:
        self.tick(f"warm start: {self.measured} episodes to measure it")
        return self.evaluate(self.measured)

    def _rounds(self, decision: Decision, before: Evaluation) -> tuple[int, Evaluation]:
        """Imitate round by round while it helps; return the number of moves and the result."""
        player = decision.player
        may_memorize = self.embedded and player in WINNING
        self.weight_decay = EMBEDDED_DECAY if may_memorize else 0.0
        turns, after = self._teach(decision, 0), self._measure()
        if may_memorize:
            if self.losses[-1] < MEMORIZED:
                self.rounds, self.weight_decay = 2 * self.rounds, MORE_DECAY
            elif self.losses[-1] > UNLEARNED and after.success < BEHIND:
                self.split = SMALLER
        last = before
        for at in range(1, self.rounds):
            why = another_round(player, last, after, first=at == 1)
            if why is None:
                break
            self.say(f"warm start: {why}, once more")
            if self.mix:
                self.shares = shares_of(by_failure(self.mix, after.episodes))
            # On a solver's path a model never sees what its own unusable replies lead to.
            visit = decision.player in TEACHERS and after.invalid > UNUSABLE
            turns += self._teach(decision, at, visit=visit)
            last, after = after, self._measure()
        return turns, after

    def _teach(self, decision: Decision, at: int, *, visit: bool = False) -> int:
        """Imitate for round ``at``; return the number of moves. For ``visit`` see ``collect``."""
        self.tick(f"warm start: playing {self.settings.turns:,} moves to imitate")
        data = self.collect(decision, at, visit=visit)
        steps = self.settings.steps * self.split
        self.losses += imitate(
            self.learner.model,
            data,
            steps=steps,
            batch_size=WARM_START_BATCH // self.split,
            batch_tokens=WARM_START_TOKENS // self.split if self.embedded else None,
            learning_rate=self.settings.rate,
            weight_decay=self.weight_decay,
            decay=self.rate_decay(decision.player, at),
            seed=self.training.seed + at,
            micro_batch_tokens=self.training.micro_batch_tokens,
            on_step=lambda step, loss: self.tick(
                f"warm start: step {step} of {steps}, loss {loss:.2f}"
            ),
        )
        self.learner.start_from_here()
        self.publish()
        return sum(map(len, data))

    def rate_decay(self, player: str, at: int) -> tuple[float, float]:
        """Return the factors on the learning rate at the start and end of a round.

        When imitating moves that win, the rate falls to 0 over the rounds, because one wrong move
        can lose a long episode.
        """
        if player not in WINNING or self.rounds == 1:
            return 1.0, 1.0
        return 1.0 - at / self.rounds, 1.0 - (at + 1) / self.rounds

    # --- whom to imitate -----------------------------------------------------------------

    def decide(self) -> Decision:
        """Return whom to imitate; ``auto`` probes a pretrained model first."""
        player = self.settings.player
        if player != "auto":
            return Decision(player, f"warm_start.player is {player!r}")
        found = self._auto()
        return found if found.player == "none" else self._prefer_solvers(found)

    def _prefer_solvers(self, found: Decision) -> Decision:
        """Return ``found``, but the solver of each environment that has one."""
        each: dict[str, Decision] = {}
        for env_id, make in self.make_envs.items():
            env = make()
            try:
                if has_solver(env):
                    each[env_id] = Decision("solver", found.why)
                else:
                    find_player(env, found.player)
                    each[env_id] = found
            except ConfigError as error:
                each[env_id] = Decision("none", f"{found.why}, but {error}")
            finally:
                close_user_env(env)
        if not self.mix:
            return next(iter(each.values()))
        players = {env_id: one.player for env_id, one in each.items()}
        leading = min(players.values(), key=(*TEACHERS, "random", "none").index)
        return Decision(leading, found.why, players)

    def _auto(self) -> Decision:
        if self.embedded:
            return Decision("random", "the embedded model has random weights and writes no moves")
        found = self.probe()
        if not found.replies:
            return Decision("none", "the environment does not say which replies it can use")
        cut = 2 * found.cut > found.replies - found.usable and not found.is_enough
        roomy = self._probe_with_room(found) if cut else found
        if not roomy.is_enough:
            return Decision("random", f"only {found}, fewer than {ENOUGH_USABLE:.0%}")
        # A solver's bare moves would undo the reasoning of a model that thinks.
        if not self.sampler.policy.chat.thinks and roomy.won < SELDOM * roomy.episodes:
            few = f"only {roomy.won} of {roomy.episodes} probed episodes are won"
            taught = Decision("solver", f"{few}, fewer than {SELDOM:.0%}")
            if not cut or self._prefer_solvers(taught).player == "solver":
                return taught
        if not cut:
            return Decision("none", f"{found}, at least {ENOUGH_USABLE:.0%}")
        most = self.sampler.policy.sampling.max_tokens
        return Decision(
            "none",
            f"only {found}, and {found.cut} were cut at inference.max_tokens={most}: it can "
            "reply, and has no room; raise that, or turn its thinking off with "
            "inference.template_options",
        )

    def _probe_with_room(self, found: ProbedReplies) -> ProbedReplies:
        """Probe a model whose replies were truncated again, with a larger token limit.

        A model that thinks, or samples in other processes, counts as one that can reply.
        """
        policy = self.sampler.policy
        if policy.chat.thinks or not isinstance(self.sampler, Sampler):
            return found._replace(usable=found.replies)
        with policy.sampling_with(max_tokens=max(ROOMY, 4 * policy.sampling.max_tokens)):
            return self.probe(FEW)

    def probe(self, episodes: int = PROBED) -> ProbedReplies:
        """Play a few episodes; return counts of their first replies."""
        options = split_options(self.train_split, self.sampler.has_splits)
        todo = [
            EpisodeTask(PROBE_IDS + at, episode_seed(-2, at), at, options) for at in range(episodes)
        ]
        played = self.sampler.play(todo)
        known = [
            (usable, turn.finish == FinishReason.LENGTH)
            for episode, turns in zip(played.episodes, played.turns, strict=True)
            for info, turn in list(zip(episode.infos, turns, strict=False))[:PROBED_TURNS]
            if (usable := flag(info, "valid_action")) is not None
        ]
        cut = sum(cut and not usable for usable, cut in known)
        won = sum(episode.success for episode in played.episodes)
        count = sum(usable for usable, _ in known)
        return ProbedReplies(count, len(known), cut, won, len(played.episodes))

    # --- the moves -----------------------------------------------------------------------

    def label_visited(self, taught: Mapping[str, str], at: int, turns: float) -> list[Dialogue]:
        """Return turns of the model's own play, labelled by each environment's player (DAgger).

        All environments are played at once; each has its share of ``turns``.
        """
        wanted = {id: math.ceil(self.shares[id] * turns) for id in taught}
        sizes = {id: math.ceil(self.shares[id] * self.training.batch_size) for id in taught}
        split = split_options(self.train_split, self.sampler.has_splits)
        options = {id: in_env(split, id) if self.mix else split for id in taught}
        counts, sampled = Counter[str](), Counter[str]()
        found: list[Dialogue] = []
        first = VISIT_IDS + at * ROUNDS_APART
        with ExitStack() as ends:
            envs = {}
            for env_id in taught:
                envs[env_id] = EpisodeLimits(self.make_envs[env_id](), max_turns=wanted[env_id])
                ends.callback(close_user_env, envs[env_id])
            while going := [
                id for id in taught if counts[id] < wanted[id] and sampled[id] < VISITED_TOKENS
            ]:
                where = [env_id for env_id in going for _ in range(sizes[env_id])]
                todo = [
                    EpisodeTask(id, episode_seed(-5, id), id, options[env_id])
                    for id, env_id in enumerate(where, first)
                ]
                first += len(todo)
                played = self.sampler.play(todo)
                if not played.episodes:
                    break
                for episode, own in zip(played.episodes, played.turns, strict=True):
                    place = episode_id(episode) - todo[0].id
                    env_id, seed = where[place], todo[place].seed
                    how = (envs[env_id], taught[env_id], episode, own, self.sampler.policy.chat)
                    has_splits = find_attribute(envs[env_id], "has_splits")
                    own_split = split_options(self.train_split, has_splits)
                    found += label_episode(*how, seed, own_split)
                    counts[env_id] += len(own)
                    sampled[env_id] += sum(len(turn.reply_ids) for turn in own)
        return found

    def collect(self, decision: Decision, at: int, *, visit: bool = False) -> list[Dialogue]:
        """Return the moves of a round, different in each; of a mix, by share.

        With ``visit``, half of them are in states that the model reached. Later rounds keep these,
        and the best of random play.
        """
        turns = self.settings.turns
        if visit:
            taught = {id: decision.players.get(id, decision.player) for id in self.make_envs}
            taught = {id: player for id, player in taught.items() if player in TEACHERS}
            self.kept += self.label_visited(taught, at, turns / 2)
            turns //= 2
        policy = self.sampler.policy
        encoder = DialogueEncoder(
            policy.chat, policy.context, policy.system_prompt, policy.engine.context_length
        )
        if self.settings.is_file:
            return load_demonstrations(decision.player, encoder)
        found: list[Dialogue] = []
        for env_id, make in self.make_envs.items():
            player = decision.players.get(env_id, decision.player)
            if player == "none":
                continue
            env = make()
            try:
                found += play_demonstrations(
                    env,
                    player,
                    encoder,
                    math.ceil(self.shares[env_id] * turns),
                    seed=(self.training.seed + at * ROUNDS_APART) * self.settings.turns,
                    split=self.train_split,
                )
            finally:
                close_user_env(env)
        if decision.player == "best_random":
            self.kept += found
            return self.kept
        return found + self.kept if visit else found


def has_solver(env: gym.Env[str, str]) -> bool:
    """Whether ``env`` has a solver that plays."""
    try:
        with explain_failures(describe_env(env)["env_id"]):
            play_episode(EpisodeLimits(env, max_turns=1), find_player(env, "solver"), 0)
    except ConfigError:
        return False
    return True
