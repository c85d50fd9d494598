"""Branches repeat their parent to a turn and go on by themselves, as ordinary tasks."""

import itertools

import gymnasium as gym
import pytest

from llm_gym.core.outcome import StopReason
from llm_gym.core.spaces import AnyText
from llm_gym.wrappers import StateInfo
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.learn.branches import (
    BRANCH_IDS,
    all_places,
    play_branches,
    rewards_to_go,
    state_tensors,
)
from llm_gym_agents.rollouts.mix import MixedEnv
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.rollout_data import assemble
from llm_gym_agents.rollouts.sampler import Sampler
from llm_gym_agents.rollouts.tasks import EpisodeTask
from tests.agents.checks import record_calls
from tests.agents.tiny import tiny_policy

TURNS = 4


class Numbered(gym.Env[str, str]):
    """Answers with the seed, the turn and the last action; pays the turn's number."""

    observation_space = action_space = AnyText(1000)
    calls = itertools.count()

    def reset(self, *, seed=None, options=None):
        self.turn, self.seed = 0, seed
        return f"seed {seed}", {}

    def step(self, action):
        self.turn += 1
        return self.text(action), float(self.turn), self.turn == TURNS, False, {}

    def text(self, action):
        return f"{self.seed} {self.turn} {action}"


class Nondeterministic(Numbered):
    """Gives another observation every time."""

    def text(self, action):
        return f"{next(self.calls)}"


def make(env=Numbered, context="history", **pool):
    policy = tiny_policy(sampling=Sampling(max_tokens=3), run_seed=3, context=context)
    return Sampler(policy, TextEnvPool(env, 3, **pool))


@pytest.fixture
def tasks():
    return [EpisodeTask(at, 10 + at // 2, at // 2) for at in range(4)]


@pytest.mark.parametrize("context", ["history", "verbatim", "observation"])
def test_a_branch_repeats_its_parent_up_to_the_turn(tasks, context):
    sampler = make(context=context)
    parents = sampler.play(tasks)
    branches = play_branches(sampler.play, parents, [(1, 2), (3, 0), (3, 3)], 2)
    assert [branch.place for branch in branches] == [(1, 2)] * 2 + [(3, 0)] * 2 + [(3, 3)] * 2
    for branch in branches:
        at, turn = branch.place
        parent, own = parents.episodes[at], branch.episode
        assert own.actions[:turn] == parent.actions[:turn]
        assert own.states[: turn + 1] == parent.states[: turn + 1]
        assert (own.seed, own.group, own.num_turns) == (parent.seed, parent.group, TURNS)
        assert own.episode_id >= BRANCH_IDS
        assert branch.to_go(1.0) == sum(range(turn + 1, TURNS + 1))
    different = {branch.episode.actions[2] for branch in branches[:2]}
    assert len(different | {parents.episodes[1].actions[2]}) == 3
    sampler.close()


@pytest.mark.parametrize("context", ["history", "observation"])
def test_a_branch_reads_the_tokens_of_its_parent(tasks, context):
    sampler = make(context=context)
    parents = sampler.play(tasks)
    calls = record_calls(sampler, "play")
    (branch,) = play_branches(sampler.play, parents, [(2, 2)], 1)
    rollout = calls[0].result
    (turns,) = rollout.turns
    parent = parents.turns[2]
    assert [turn.number for turn in turns] == list(range(TURNS))
    assert [turn.prompt_ids for turn in turns[:3]] == [turn.prompt_ids for turn in parent[:3]]
    assert [turn.reply_ids for turn in turns[:2]] == [turn.reply_ids for turn in parent[:2]]
    assert branch.tokens == sum(len(turn.reply_ids) for turn in turns[2:])
    # A branch is a whole episode, which could be trained on like any other.
    scored = sampler.engine.score([assemble(rollout).ids_S.tolist()])
    assert len(scored) == 1
    sampler.close()


def test_branches_depend_only_on_their_episode_ids(tasks):
    sampler = make()
    parents = sampler.play(tasks)
    some = play_branches(sampler.play, parents, [(0, 1), (2, 3)], 2)
    again = play_branches(sampler.play, parents, [(2, 3)], 1, first=1)
    assert again[0].episode.episode_id in {branch.episode.episode_id for branch in some}
    (same,) = (b for b in some if b.episode.episode_id == again[0].episode.episode_id)
    assert again[0].episode.actions == same.episode.actions
    assert play_branches(sampler.play, parents, [], 2) == []
    assert play_branches(sampler.play, parents, [(0, 1)], 0) == []
    sampler.close()


def test_branches_of_a_nondeterministic_environment_fail(tasks):
    sampler = make(Nondeterministic)
    parents = sampler.play(tasks)
    calls = record_calls(sampler, "play")
    branches = play_branches(sampler.play, parents, all_places(parents), 1)
    assert {branch.place[1] for branch in branches} == {0}  # an ordinary episode of that seed
    rollout = calls[0].result
    assert len(rollout.unplayed) == 4 * (TURNS - 1)
    assert {episode.stop_reason for episode in rollout.unplayed} == {StopReason.ERROR}
    assert "not deterministic" in rollout.failures[0]
    assert len(sampler.play(tasks).episodes) == 4  # and the rows play on
    sampler.close()


class Grid(gym.Env[str, str]):
    """Names its states itself; its potential grows with the turn."""

    observation_space = action_space = AnyText(1000)

    def reset(self, *, seed=None, options=None):
        self.turn = 0
        return "?", {}

    def step(self, action):
        self.turn += 1
        return "?", 1.0, self.turn == 3, False, {}

    def state_key(self):
        return "even" if self.turn % 2 == 0 else "odd"

    def potential(self):
        return self.turn / 3


def test_state_keys_of_the_environment_are_numbered_within_a_group():
    sampler = make(Grid, wrappers=[StateInfo])
    rollout = sampler.play([EpisodeTask(at, 0, at // 2) for at in range(4)])
    branches = play_branches(sampler.play, rollout, [(0, 1), (3, 2)], 1)
    found = state_tensors(rollout, branches, gamma=0.5)
    assert found["state_K"].tolist() == [0, 1, 0, 0, 1, 0, 2, 3, 2, 2, 3, 2]
    assert found["potential_K"].tolist() == pytest.approx([0, 1 / 3, 2 / 3] * 4)
    assert found["branch_turn_B"].tolist() == [1, -1, 11]
    assert found["branch_state_B"].tolist() == [1, 0, 2]
    assert found["branch_return_B"].tolist() == [1.5, 1.0, 1.0]
    sampler.close()


def test_states_without_a_key_are_the_observation_and_the_turn(tasks):
    sampler = make(Numbered)
    rollout = sampler.play(tasks)
    found = state_tensors(rollout)
    assert set(found) == {"state_K", "potential_K"}
    first = found["state_K"].view(4, TURNS)[:, 0].tolist()
    assert first[0] == first[1] != first[2] == first[3]
    assert found["potential_K"].isnan().all()
    assert rewards_to_go(rollout.episodes[0], 1.0) == [10.0, 9.0, 7.0, 4.0]
    sampler.close()


def test_branches_of_a_mix_stay_in_their_environment():
    ids = ["llm_gym/TowerOfHanoiEasy-v0", "llm_gym/FifteenPuzzleEasy-v0"]
    settings = {env_id: {"rules": "system"} for env_id in ids}
    sampler = make(lambda: MixedEnv(settings), context="observation")
    sampler.policy.system_prompt = ""  # the rules do not fit the tiny model
    rollout = sampler.play([EpisodeTask(at, 5, at, {"env": ids[at % 2]}) for at in range(4)])
    branches = play_branches(sampler.play, rollout, [(0, 2), (3, 1)], 1, mixed=True)
    assert [branch.episode.env_id for branch in branches] == ids
    assert branches[1].episode.states[:2] == rollout.episodes[3].states[:2]
    sampler.close()
