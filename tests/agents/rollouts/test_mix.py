"""Several environments in one run: drawn by weight, played, recorded, compared among themselves."""

import pickle
from collections import Counter
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym.episodes import play_episode, read_episodes
from llm_gym_agents.algo import TokenStream, get_advantage
from llm_gym_agents.commands.plan import find_suite
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.defaults import apply_defaults
from llm_gym_agents.config.profile import TaskProfile
from llm_gym_agents.config.trust import untrusted
from llm_gym_agents.learn.schedule import Schedule
from llm_gym_agents.learn.stabilizers import estimate_by_env
from llm_gym_agents.learn.warm_start import Decision
from llm_gym_agents.rollouts.mix import (
    ENV,
    MixedEnv,
    by_signal,
    draw_envs,
    env_metrics,
    follow_success,
)
from llm_gym_agents.rollouts.sampler import Sampler
from llm_gym_agents.rollouts.tasks import training_tasks
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.text.tokenizers import byte_tokenizer
from llm_gym_agents.trainer import build
from llm_gym_agents.trainer.build import build_one_env
from llm_gym_agents.trainer.ppo_trainer import PPOTrainer
from tests.agents.checks import record_calls, same
from tests.agents.learn.test_ppo import data
from tests.agents.learn.test_schedule import sections
from tests.agents.learn.test_warm_start import teacher_of
from tests.agents.scored import episode
from tests.agents.scripted import ScriptedEngine
from tests.agents.small_run import config_with, small, trained, untimed

HANOI, PENDULUM = "llm_gym/TowerOfHanoiEasy-v0", "Pendulum-v1"
ECHO, NUMBER, LAKE = "llm_gym/Echo-v0", "llm_gym/GuessTheNumberEasy-v0", "FrozenLake-v1"
MIX = {ECHO: 1.0, NUMBER: 3.0}

# --- which is played -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_each_environment_gets_its_share_of_the_groups(seed):
    draws = [draw_envs({"a": 1, "b": 3, "c": 4}, seed, at, 8) for at in range(50)]
    assert all(Counter(each) == {"a": 1, "b": 3, "c": 4} for each in draws)
    assert len(set(map(tuple, draws))) > 1, "in another order each time"


def test_a_share_is_right_on_average_and_a_weight_counts_beside_the_others():
    draws = [Counter(draw_envs({"a": 1, "b": 2}, 0, at, 4)) for at in range(600)]
    assert {each["a"] for each in draws} == {1, 2}
    assert sum(each["a"] for each in draws) == pytest.approx(600 * 4 / 3, rel=0.04)
    one, other = ({"a": 1, "b": 3}, {"a": 0.25, "b": 0.75})
    assert draw_envs(one, 5, 7, 16) == draw_envs(other, 5, 7, 16)


def test_a_group_has_one_environment_and_the_seeds_of_any_run():
    how = {"batch_size": 16, "group_size": 4, "options": {"split": "train"}}
    mixed, plain = (training_tasks(3, 2, **how, mix=mix) for mix in (MIX, None))
    assert [task[:3] for task in mixed] == [task[:3] for task in plain]
    played = {(task.group, task.options[ENV]) for task in mixed}
    assert Counter(env_id for _, env_id in played) == {ECHO: 1, NUMBER: 3}
    assert {task.options["split"] for task in mixed} == {"train"}


@pytest.mark.parametrize("requested", [5, 6, None])
def test_each_environment_has_as_many_held_out_episodes(requested):
    config = config_with(environment__mix=MIX, environment__eval_episodes=5)
    schedule = Schedule(*sections(config), has_splits=True)
    found = schedule.held_out_tasks(requested)
    assert Counter(task.options[ENV] for task in found) == {ECHO: 3, NUMBER: 3}
    fresh = schedule.held_out_tasks(schedule.reported)
    assert Counter(task.options[ENV] for task in fresh) == {ECHO: 3, NUMBER: 3}
    assert not {task.seed for task in found} & {task.seed for task in fresh}


def test_success_is_a_moving_average():
    rows = [{"env/x/a/success": 1.0, "env/x/a/return": 9.0}, {"env/x/a/success": 0.0}, {"kl": 1.0}]
    success = {}
    for row in rows:
        success = follow_success(success, row)
    assert success == {"x/a": pytest.approx(0.7)}  # the first batch whole, three tenths of the next


def test_a_curriculum_keeps_success_in_the_middle():
    """Levels as a skill wins them; the learner gets better, and the levels played get harder."""
    levels = {"easy": 1.0, "plain": 1.0, "hard": 1.0}
    for skill, favourite in ((0.0, "easy"), (0.5, "plain"), (1.0, "hard")):
        reach = {each: 0.5 + skill - at / 2 for at, each in enumerate(levels)}
        chance = {each: min(0.95, max(0.05, share)) for each, share in reach.items()}
        shares = by_signal(levels, chance)
        assert max(shares, key=shares.get) == favourite
        drawn = draw_envs(shares, 0, 0, 100)
        assert 0.3 < sum(chance[each] for each in drawn) / 100 < 0.7
        assert set(drawn) == set(levels), "each is still measured"


def test_a_run_by_signal_plays_less_of_what_is_always_lost():
    config = config_with(environment__mix={ECHO: 1.0, NUMBER: 1.0}, training__batch_size=22)
    played = {}
    for how in ("weight", "signal"):
        config.environment.mix_by = how
        schedule = Schedule(
            *sections(config), has_splits=False, success=lambda: {ECHO: 0.0, NUMBER: 0.5}
        )
        played[how] = Counter(task.options[ENV] for task in schedule.tasks(3))
    assert played == {"weight": {ECHO: 11, NUMBER: 11}, "signal": {ECHO: 2, NUMBER: 20}}


# --- one environment of several --------------------------------------------------------------


def mixed():
    settings = {ECHO: {"rules": "system"}, NUMBER: {"high": 3}, LAKE: {}}
    return pickle.loads(pickle.dumps(partial(MixedEnv, settings)))()


@pytest.mark.parametrize("env_id", [ECHO, NUMBER, LAKE])
def test_an_episode_of_a_mix_equals_that_of_its_environment(env_id):
    env = mixed()
    for options in ({ENV: LAKE}, {ENV: env_id, "split": "train"}):  # the last one is forgotten
        found = play_episode(env, lambda _: env.get_wrapper_attr("random_action")(), 7, options)
    assert found.env_id == env_id
    assert found.env_spec is not None
    assert (found.messages[0]["role"] == "system") == (env_id == ECHO)
    if env_id == NUMBER:
        assert found.env_spec["kwargs"]["high"] == 3


def test_an_unnamed_environment_is_drawn_and_one_outside_the_mix_is_refused():
    env = mixed()
    drawn = [env.reset(seed=seed) and env.episode_env["env_id"] for seed in range(20)]
    assert set(drawn) == {ECHO, NUMBER, LAKE}
    again = mixed()
    assert drawn == [again.reset(seed=at) and again.episode_env["env_id"] for at in range(20)]
    with pytest.raises(ConfigError, match="env"):
        mixed().reset(options={ENV: "llm_gym/Memory-v0"})


# --- advantages within an environment --------------------------------------------------------


def scored(scores, envs):
    """Return four episodes of these environments with these scores, and their stream."""
    batch = data(0)
    batch.env_E, batch.reward_T = torch.tensor(envs), torch.zeros_like(batch.reward_T)
    batch.reward_T[batch.lengths_E.cumsum(0) - 1] = torch.tensor(scores)
    stream = TokenStream(
        reward_T=batch.reward_T,
        lengths_E=batch.lengths_E,
        turn_ends_T=batch.turn_ends_T,
        value_T=torch.randn(batch.tokens),  # a critic that knows nothing yet
    )
    return batch, stream


def test_advantages_are_whitened_within_each_environment():
    batch, stream = scored([1.0, 100.0, 0.0, -100.0], [0, 1, 0, 1])
    estimate = partial(get_advantage("reinforce_plus_plus"), gamma=0.9)
    found, signal = estimate_by_env(estimate, batch, stream)
    assert signal == 1.0
    for number in (0, 1):
        own_E = batch.env_E == number
        own_T = stream.on_tokens(own_E)
        alone = estimate(stream.where(own_E))
        assert found.advantages_T[own_T].equal(alone.advantages_T)
        assert found.returns_T[own_T].equal(alone.returns_T)
        assert float(alone.advantages_T.mean()) == pytest.approx(0.0, abs=1e-6)
        assert float(alone.advantages_T.var()) == pytest.approx(1.0, rel=1e-3)


def test_an_environment_that_is_always_won_moves_nothing():
    batch, stream = scored([1.0, 1.0, 1.0, 0.0], [0, 0, 1, 1])
    found, signal = estimate_by_env(partial(get_advantage("gae")), batch, stream)
    won_T = stream.on_tokens(batch.env_E == 0)
    assert found.advantages_T[won_T].abs().max() == 0.0
    assert found.advantages_T[~won_T].abs().max() > 0.0
    assert signal == pytest.approx(0.5)  # of the mean: half the episodes tell all they can


def test_states_and_branches_stay_with_their_episodes():
    whole = TokenStream(
        reward_T=torch.arange(6.0),
        lengths_E=torch.tensor([2, 2, 2]),
        turn_ends_T=torch.ones(6, dtype=torch.bool),
        state_K=torch.tensor([0, 1, 2, 3, 0, 4]),
        branch_state_B=torch.tensor([1, 2, 0, 4]),
        branch_turn_B=torch.tensor([1, 2, -1, 5]),
        branch_return_B=torch.tensor([1.0, 2.0, 3.0, 4.0]),
    )
    found = whole.where(torch.tensor([True, False, True]))
    assert found.reward_T.tolist() == [0, 1, 4, 5]
    assert found.state_K.tolist() == [0, 1, 0, 4]
    assert found.branch_turn_B.tolist() == [1, -1, -1, 3]  # the second left from another's turn
    assert found.branch_return_B.equal(whole.branch_return_B)


def test_metrics_of_each_environment():
    won = [{"success": True, "valid_action": True}]
    lost = [{"success": False, "valid_action": False}]
    played = [
        episode((1.0,), env_id="a", infos=won),
        episode((0.0,), env_id="a", infos=lost),
        episode((5.0,), env_id="b", infos=won),
    ]
    assert env_metrics(played, "env") == {
        "env/a/success": 0.5, "env/a/return": 0.5, "env/a/usable": 0.5, "env/a/share": 2 / 3,
        "env/b/success": 1.0, "env/b/return": 5.0, "env/b/usable": 1.0, "env/b/share": 1 / 3,
    }  # fmt: skip
    assert env_metrics(played[:2], "env", "a") == env_metrics(played[:2], "env") == {}
    assert env_metrics(played[2:], "env", "2 environments")["env/b/share"] == 1.0


# --- settings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mix",
    [{ECHO: 0}, {ECHO: -1}, {ECHO: float("nan")}, {ECHO: float("inf")}, {ECHO: True},
     {ECHO: "1"}, {"": 1}, {" ": 1}, {1: 1}, [ECHO], ECHO],
)  # fmt: skip
def test_a_mix_must_be_ids_with_weights(mix):
    with pytest.raises(ConfigError, match=r"environment\.mix"):
        ConfigStore().environment.mix = mix


def test_an_unknown_id_is_refused_before_anything_is_built(tmp_path):
    with pytest.raises(ConfigError, match=r"environment\.mix"):
        PPOTrainer(small(tmp_path, environment={"mix": {ECHO: 1, "llm_gym/Ecko-v0": 1}}))


@pytest.mark.parametrize("argument", ["environment", "dataset", "val_dataset"])
def test_a_mix_excludes_an_environment_or_dataset_argument(argument, tmp_path):
    given = {argument: ECHO if argument == "environment" else [{"prompt": "1", "answer": "1"}]}
    with pytest.raises(ConfigError, match=r"environment\.mix"):
        PPOTrainer(small(tmp_path, environment={"mix": MIX}), **given)


def test_env_kwargs_may_be_for_all_or_for_one_environment():
    kwargs = {"rules": "system", NUMBER: {"high": 3, "rules": "observation"}}
    env = config_with(environment__mix=MIX, environment__env_kwargs=kwargs).environment
    assert env.kwargs_of(ECHO) == {"rules": "system"}
    assert env.kwargs_of(NUMBER) == {"rules": "observation", "high": 3}


def test_a_mix_with_a_module_needs_trust():
    assert not untrusted(config_with(environment__mix=MIX))
    assert "evil" in untrusted(config_with(environment__mix={**MIX, "evil:Game": 1}))


def test_each_environment_gets_the_settings_that_it_would_get_alone():
    kwargs = {NUMBER: {"penalty": 0.7}}
    config = config_with(environment__mix=MIX, environment__env_kwargs=kwargs)
    members = {
        ECHO: TaskProfile(model="full", env="suite", turns=50),
        NUMBER: TaskProfile(model="full", env="suite", turns=4, has_potential=True),
    }
    whole = TaskProfile(model="full", env="suite", turns=50, members=members)
    apply_defaults(config, whole)
    assert config.environment.env_kwargs == {
        ECHO: {"rules": "system", "penalty": 0.01},
        NUMBER: {"rules": "system", "penalty": 0.7, "shaping": True},
    }


@pytest.mark.parametrize(("count", "batch", "evaluated"), [(0, 128, 100), (24, 256, 192)])
def test_a_large_mix_has_enough_episodes_of_each(count, batch, evaluated):
    config = config_with(environment__mix={f"g{at}": 1 for at in range(count)})
    each = TaskProfile(model="full", env="suite", turns=8)
    members = dict.fromkeys(config.environment.mix, each)
    whole = TaskProfile(model="full", env="suite", members=members)
    apply_defaults(config, whole)
    assert (config.training.batch_size, config.environment.eval_episodes) == (batch, evaluated)
    config.check()


def test_the_easy_suite_has_all_families_with_a_level_of_that_name():
    easy = find_suite(["easy"])[0].config.environment.mix
    assert len(easy) == 24
    assert all("Easy" in env_id for env_id in easy)
    with pytest.raises(ConfigError, match="solver"):
        find_suite(["no such part"])


# --- whom to imitate --------------------------------------------------------------------------


def test_each_environment_has_an_imitated_player_of_its_own():
    mix = {PENDULUM: 1.0, HANOI: 3.0}  # a pendulum of Gymnasium's has no solver
    config = config_with(environment__mix=mix, training__batch_size=8, warm_start__turns=400)
    config.warm_start.player = "auto"
    policy = SimpleNamespace(
        chat=ChatFormat.from_tokenizer(byte_tokenizer()),
        context="observation",
        system_prompt=None,
        engine=SimpleNamespace(context_length=None),
    )
    make_envs = {each: partial(build_one_env, config, each) for each in mix}
    sampler = SimpleNamespace(policy=policy)
    teacher = teacher_of(config, embedded=True, mix=mix, make_envs=make_envs, sampler=sampler)
    decision = teacher.decide()
    assert decision.players == {PENDULUM: "random", HANOI: "solver"}
    assert (decision.player, decision.solved) == ("solver", 0.5)
    one = Decision("random", "", {PENDULUM: "random", HANOI: "none"})
    assert len(teacher.collect(one, 0)) == 100
    assert len(teacher.collect(decision, 0)) == 400


@pytest.mark.parametrize("split", [None, "train"])  # there are too few numbers for splits
def test_visited_states_of_a_mix_are_labelled_by_each_solver(split):
    mix = {HANOI: 1.0, NUMBER: 1.0}
    tokenizer = byte_tokenizer()
    config = config_with(
        environment__mix=mix, training__batch_size=8, inference__context="observation"
    )
    engine = ScriptedEngine(say=lambda request: tokenizer.encode("1"))
    policy = build.build_policy(config, engine, tokenizer)
    pool = build.build_pool(config, build.training_env(config.environment, None, None, None), 8)
    sampler = Sampler(policy, pool)
    calls = record_calls(sampler, "play")
    make_envs = {each: partial(build_one_env, config, each) for each in mix}
    given = {"make_envs": make_envs, "sampler": sampler, "train_split": split}
    teacher = teacher_of(config, mix=mix, **given)
    talks = teacher.label_visited(dict.fromkeys(mix, "solver"), 1, 30)
    sampler.close()
    assert [task.options[ENV] for task in calls[0].args[0]] == [HANOI] * 4 + [NUMBER] * 4
    labels = [policy.chat.text_of(turn.learned_ids) for talk in talks for turn in talk]
    moves = [label for label in labels if " " in label]  # of disks: "1 3"
    assert min(len(moves), len(labels) - len(moves)) >= 15
    assert all(label.isdigit() for label in set(labels) - set(moves))


# --- a run -----------------------------------------------------------------------------------


def run(folder, **sections):
    config = small(
        folder,
        environment={"mix": MIX, "mix_by": "signal", "eval_interval": 1, "eval_episodes": 2},
        training={"num_iters_per_epoch": 2, "batch_size": 8},
        inference={"num_envs": 3, "max_turns": 3, "max_tokens": 3},
        warm_start={"player": "random", "turns": 20, "steps": 2},
        checkpoint={"record_every": 1, "save_interval": 1},
    )
    config.update(sections)
    return trained(config)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mix") / "whole"
    return run(folder), folder


def test_a_run_reports_metrics_of_each_environment(whole):
    trainer, folder = whole
    rows = trainer.metrics_history
    for env_id in MIX:
        assert all(f"env/{env_id}/{name}" in rows[0] for name in ("success", "usable"))
        assert all(f"eval/{env_id}/success" in row for row in rows)
    assert (rows[0][f"env/{ECHO}/share"], rows[0][f"env/{NUMBER}/share"]) == (0.25, 0.75)
    assert all(sum(row.get(f"env/{each}/share", 0) for each in MIX) == 1 for row in rows)
    recorded = list(read_episodes(folder / "episodes/train-000001.jsonl"))
    assert {each.env_id for each in recorded} <= set(MIX)
    assert all(each.options in (None, {"split": "train"}) for each in recorded)
    evaluated = list(read_episodes(folder / "episodes/eval-000002.jsonl"))
    assert Counter(each.env_id for each in evaluated) == {ECHO: 1, NUMBER: 1}
    assert rows[1]["eval/success"] == sum(rows[1][f"eval/{each}/success"] for each in MIX) / 2
    assert trainer.warm_start["warm_start/from_solver"] == 0.0


def test_a_mixed_run_resumes_to_the_bit(whole, tmp_path):
    run(tmp_path, training={"num_iters_per_epoch": 1})
    again = run(tmp_path, checkpoint={"resume": True})
    trainer, _ = whole
    assert untimed(again.metrics_history) == untimed(trainer.metrics_history)
    assert same(again.learner.lm.state_dict(), trainer.learner.lm.state_dict())
