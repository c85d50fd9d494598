"""``WarmStart``: decide whether there is one, collect, imitate, and say what it brought.

Called once, before the first iteration. What it decides and measures is plain data, so that a
checkpoint can keep it and a resumed run does not do it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from llm_gym.core.infos import flag, reward_terms
from llm_gym.episodes import Trajectory, play_episode
from llm_gym.errors import ConfigError
from llm_gym.evaluate.result import Evaluation
from llm_gym.registry.user_code import close_user_env
from llm_gym.wrappers import EpisodeLimits
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.imitation import (
    Dialogue,
    DialogueEncoder,
    find_player,
    imitate,
    load_demonstrations,
    play_demonstrations,
    split_options,
    write_losses,
)
from llm_gym_agents.learn.learner import Learner
from llm_gym_agents.learn.schedule import HeldOutSuccess
from llm_gym_agents.rollouts.sampler import Player
from llm_gym_agents.rollouts.tasks import EpisodeTask, episode_seed
from llm_gym_agents.run.metrics import FROM_SOLVER

BATCH_SIZE = 96
"""Moves of an optimizer step."""
ENOUGH_USABLE = 0.5
"""Share of usable replies below which ``auto`` teaches a given model."""
PROBE_IDS = 2**42
"""Where the ids of probed episodes begin: ids decide what is sampled."""
PROBED = 16
"""Episodes that a probe plays."""
PROBED_TURNS = 4
"""Turns of each that are looked at: a model that cannot write moves shows it at once."""
UNUSABLE = 0.1
"""Share of replies that cannot be used above which there is another round, if there is one left."""
HELPED = 0.75
"""Share of the unusable replies that a round may leave, or it is the last."""
MASTERED = 0.9
"""Success above which a solver's moves need no other round."""
ROUNDS_APART = 1_000_003
"""Keeps the episodes of later rounds away from those of other seeds."""
STARTED = ("warm_start/success", "warm_start/success_low", "warm_start/success_high")
"""Held-out success of the model that was taught, as in ``HeldOutSuccess``."""
MEASURED = 64
"""Most episodes that success before and after is measured on."""


def warm_start_success(found: Mapping[str, float] | None) -> HeldOutSuccess | None:
    """Return the held-out success after a warm start, by what its ``run`` found, if it ran."""
    if not found or not found.keys() >= set(STARTED):
        return None
    return HeldOutSuccess(*(found[name] for name in STARTED))


def another_round(
    player: str, last: Evaluation, now: Evaluation, *, first: bool = False
) -> str | None:
    """Return why there is to be another round of imitation, by what the last one brought, if so.

    Legal moves are all there is to learn from random play. Who imitates a solver is to win: what it
    never does, reinforcement learning will hardly find, and one wrong move in a long way leads to
    where no solver has been, so that there are unusable ones to the end.
    """
    if player == "solver":
        won = f"{now.success:.0%} of the episodes are won, fewer than {MASTERED:.0%}"
        return won if now.success < MASTERED else None
    if now.invalid > UNUSABLE and (first or now.invalid <= HELPED * last.invalid):
        return f"{now.invalid:.0%} of the replies cannot be used"
    return None


class Decision(NamedTuple):
    """Who is imitated, and why."""

    player: str
    why: str

    def __str__(self) -> str:
        whose = {"none": "none", "solver": "imitating the solver's moves"}
        what = whose.get(self.player, f"imitating {self.player} moves")
        return f"warm start: {what}, because {self.why}"


@dataclass(kw_only=True)
class WarmStart:
    """Teaches a model the language of an environment.

    Args:
        config: Every setting of the run.
        sampler: Plays, for the probe.
        learner: Whose model is taught.
        make_env: Makes an environment as the run plays it.
        evaluate: Plays so many held-out episodes with the present weights.
        publish: Hands new weights to the engine.
        embedded: Whether the model is the built-in one, of random weights.
        say: Told, in a sentence, what is decided and done.
    """

    config: ConfigStore
    sampler: Player
    learner: Learner
    make_env: Callable[[], gym.Env[str, str]]
    evaluate: Callable[[int], Evaluation]
    publish: Callable[[], object]
    embedded: bool
    say: Callable[[str], None]
    losses: list[float] = field(default_factory=list)

    def run(self) -> dict[str, float]:
        """Do what the config asks for; return what is to be known about it, empty for nothing."""
        if self.config.warm_start.player == "none":
            return {}
        decision = self.decide()
        self.say(str(decision))
        if decision.player == "none":
            return {}
        start = time.perf_counter()
        before = self._measure()
        turns, after = self._rounds(decision.player, before)
        write_losses(Path(self.config.checkpoint.output_dir), self.losses)
        self.say(
            f"warm start: {turns:,} moves, {len(self.losses)} steps, loss {self.losses[0]:.2f} to "
            f"{self.losses[-1]:.2f}; unusable replies {before.invalid:.0%} to {after.invalid:.0%}, "
            f"success {before.success:.1%} to {after.success:.1%} "
            f"({time.perf_counter() - start:.0f} s)"
        )
        return {
            FROM_SOLVER: float(decision.player == "solver"),
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
        return self.evaluate(min(MEASURED, self.config.environment.eval_episodes))

    def _rounds(self, player: str, before: Evaluation) -> tuple[int, Evaluation]:
        """Imitate round by round, while it helps; return all moves, and what they brought."""
        turns, after = self._teach(player, 0), self._measure()
        # A file has no other moves for another round.
        rounds = 1 if player == "file" else self.config.warm_start.rounds
        last = before
        for at in range(1, rounds):
            why = another_round(player, last, after, first=at == 1)
            if why is None:
                break
            self.say(f"warm start: {why}, once more")
            turns += self._teach(player, at)
            last, after = after, self._measure()
        return turns, after

    def _teach(self, player: str, at: int) -> int:
        """Imitate for a round, of moves of its own; return how many there were."""
        settings, training = self.config.warm_start, self.config.training
        data = self.collect(player, at)
        self.losses += imitate(
            self.learner.model,
            data,
            steps=settings.steps,
            batch_size=BATCH_SIZE,
            learning_rate=settings.rate,
            fall=self.fall(player, at),
            seed=training.seed + at,
            micro_batch_tokens=training.micro_batch_tokens,
        )
        self._copies_follow()
        self.publish()
        return sum(map(len, data))

    def fall(self, player: str, at: int) -> tuple[float, float]:
        """Return between which factors the rate falls in a round.

        At a constant rate the last steps decide how many moves are wrong, and in a long episode one
        is enough. Over rounds of a solver's moves it therefore falls to 0.
        """
        rounds = self.config.warm_start.rounds
        if player != "solver" or rounds == 1:
            return 1.0, 1.0
        return 1.0 - at / rounds, 1.0 - (at + 1) / rounds

    # --- whether -------------------------------------------------------------------------

    def decide(self) -> Decision:
        """Return who is imitated; ``auto`` looks at the model, and where it must, probes it."""
        player = self.config.warm_start.player
        if player != "auto":
            return Decision(player, f"warm_start.player is {player!r}")
        found = self._auto()
        if found.player == "none":
            return found
        env, split = self.make_env(), self.config.environment.train_split
        try:
            find_player(env, found.player)
            turns = self.config.warm_start.turns  # as many as are played to be imitated
            luck = play_at_random(env, self.config.training.batch_size, turns=turns, split=split)
            if not luck.is_enough and has_solver(env):
                return Decision("solver", f"{found.why}, and {luck}")
        except ConfigError as error:
            return Decision("none", f"{found.why}, but {error}")
        finally:
            close_user_env(env)
        return found

    def _auto(self) -> Decision:
        if self.embedded:
            return Decision("random", "the embedded model has random weights and writes no moves")
        usable, replies = self.probe()
        limit = ENOUGH_USABLE
        if not replies:
            return Decision("none", "the environment does not say which replies it can use")
        share = f"{usable / replies:.0%} of {replies} probed replies can be used"
        if usable / replies < limit:
            return Decision("random", f"only {share}, fewer than {limit:.0%}")
        return Decision("none", f"{share}, at least {limit:.0%}")

    def probe(self) -> tuple[int, int]:
        """Play a few episodes; return how many of how many replies could be used."""
        split = self.config.environment.train_split
        options = {"split": split} if split and self.sampler.has_splits else None
        todo = [
            EpisodeTask(PROBE_IDS + at, episode_seed(-2, at), at, options) for at in range(PROBED)
        ]
        infos = [
            info
            for episode in self.sampler.play(todo).all_episodes
            for info in episode.infos[: PROBED_TURNS + 1]
        ]
        told = [usable for info in infos if (usable := flag(info, "valid_action")) is not None]
        return sum(told), len(told)

    # --- what ----------------------------------------------------------------------------

    def collect(self, player: str, at: int = 0) -> list[Dialogue]:
        """Return what is imitated in a round."""
        policy, settings = self.sampler.policy, self.config.warm_start
        scene = DialogueEncoder(
            policy.chat, policy.context, policy.system_prompt, policy.engine.context_length
        )
        if player == "file":
            return load_demonstrations(settings.file or "", scene)
        env = self.make_env()
        try:
            return play_demonstrations(
                env,
                player,
                scene,
                settings.turns,
                seed=(self.config.training.seed + at * ROUNDS_APART) * settings.turns,
                split=self.config.environment.train_split,
            )
        finally:
            close_user_env(env)

    def _copies_follow(self) -> None:
        """Bring copies of the policy up to date: it began to train only now."""
        learner = self.learner
        if learner.reference is not None:
            learner.reference.lm.load_state_dict(learner.lm.state_dict())
        if learner.model.critic_lm is not None:
            learner.model.critic_lm.load_state_dict(learner.lm.base_model.state_dict())


# --- random play ----------------------------------------------------------------------

BATCHES = 4
"""Batches of random play that are looked at; with a paid episode in each there is a way."""
_RUN = -4
"""Names the episodes that are looked at, apart from all that are trained or evaluated on."""
_TURNS = 100
_ROUNDING = 1e-9


class RandomPlay(NamedTuple):
    """What random play comes to."""

    paid: int
    """Episodes in which a usable move was paid, for good or bad, by more than shaping."""
    played: int
    batch: int

    @property
    def is_enough(self) -> bool:
        """Whether a batch can be expected to have something to choose from.

        So it is said of less than a batch, too: that would show nothing.
        """
        return self.played < self.batch or self.paid * self.batch >= self.played

    def __str__(self) -> str:
        return (
            f"random play was paid in {self.paid} of {self.played:,} episodes, less than once in a "
            f"batch of {self.batch}"
        )


def play_at_random(
    env: gym.Env[str, str], batch: int, *, turns: int, split: str | None = None
) -> RandomPlay:
    """Play at random until it was paid often enough, four batches and ``turns`` turns at most."""
    env = EpisodeLimits(env, max_turns=_TURNS)
    options = split_options(env, split)
    paid = played = gone = 0
    while played < BATCHES * batch and paid < BATCHES and gone < turns:
        seed = episode_seed(_RUN, played)
        episode = play_episode(env, find_player(env, "random", seed), seed, options)
        played, gone = played + 1, gone + episode.num_turns
        paid += _is_paid(episode)
    return RandomPlay(paid, played, batch)


def has_solver(env: gym.Env[str, str]) -> bool:
    """Whether ``env`` brings a solver along, and it plays."""
    try:
        play_episode(EpisodeLimits(env, max_turns=1), find_player(env, "solver"), 0)
    except ConfigError:
        return False
    return True


def _is_paid(episode: Trajectory) -> bool:
    """Whether a move that could be used was paid; a penalty for nonsense teaches no game."""
    return any(
        abs(reward - _shaping(info)) > _ROUNDING and flag(info, "valid_action") is not False
        for info, reward in zip(episode.infos, episode.rewards, strict=True)
    )


def _shaping(info: Mapping[str, Any]) -> float:
    """Return the part of a reward that only says how near the goal is."""
    return reward_terms(info).get("shaping", 0.0)
