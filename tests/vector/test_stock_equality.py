"""TextVectorEnv returns what gymnasium.vector.SyncVectorEnv returns, and infos as it does."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_gym.vector import make_vec
from llm_gym.vector.rows import stack_infos
from tests.vector.odd import GUESS, MODES, Odd, assert_same, assert_same_batch


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "factory",
    [
        Odd,
        lambda: gym.make(GUESS, low=1, high=6, max_turns=4),
        lambda: gym.make(GUESS, low=1, high=6, max_episode_steps=2),
    ],
    ids=["odd", "guess", "guess cut after 2 steps"],
)
@settings(max_examples=6)
@given(data=st.data())
def test_every_step_equals_that_of_sync_vector_env(mode, factory, data):
    n = data.draw(st.integers(1, 5))
    seed = data.draw(st.none() | st.integers(0, 99) | st.lists(st.integers(0, 9), min_size=n))
    seed = seed[:n] if isinstance(seed, list) else (seed if seed is not None else 5)
    ours = make_vec(factory, n, autoreset_mode=mode)
    stock = SyncVectorEnv([factory] * n, autoreset_mode=mode)
    assert_same_batch(ours.reset(seed=seed), stock.reset(seed=seed))
    for _ in range(12):
        actions = data.draw(st.lists(st.sampled_from("123456x"), min_size=n, max_size=n))
        if data.draw(st.booleans()):
            actions[0] = "cut"
        mine, theirs = ours.step(actions), stock.step(actions)
        assert_same_batch(mine, theirs)
        over = mine[2] | mine[3]
        if mode is AutoresetMode.DISABLED and over.any():
            assert_same_batch(
                ours.reset(options={"reset_mask": over}), stock.reset(options={"reset_mask": over})
            )


leaf = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(-1e6, 1e6),
    st.none(),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.sampled_from([np.float32(1.5), np.int8(3), np.bool_(True), np.ones(2), np.ones((2, 2))]),
)
node = st.dictionaries(st.sampled_from(["a", "b", "final_obs"]), leaf, max_size=3)
infos = st.dictionaries(st.sampled_from(["a", "b", "c", "final_obs"]), leaf, max_size=4)


@given(st.lists(st.tuples(infos, st.none() | node, st.booleans()), min_size=1, max_size=5))
def test_infos_are_stacked_as_gymnasium_does_without_raising(drawn):
    stock = VectorEnv()
    stock.num_envs = len(drawn)
    each = {row: {**one, "deep": deep} if deep else one for row, (one, deep, _) in enumerate(drawn)}
    each = {row: info for row, info in each.items() if drawn[row][2]}
    ours = stack_infos(len(drawn), list(each), list(each.values()))
    expected = {}
    try:
        for row, info in each.items():
            expected = stock._add_info(expected, info, row)
    except (TypeError, ValueError, OverflowError):
        return  # values that do not fit one array: ours keeps them as objects
    assert_same(ours, expected)


@pytest.mark.parametrize(
    "values", [(1, None), (2**70, 1), ({"a": 1}, 5), (np.ones(2), np.ones(3)), (1, "one")]
)
def test_values_that_do_not_fit_one_array_are_kept_as_objects(values):
    column = stack_infos(2, [0, 1], [{"key": value} for value in values])["key"]
    assert column.dtype == object
    assert column[0] is values[0]
    assert column[1] is values[1]


def test_masks_do_not_share_memory():
    stacked = stack_infos(2, range(2), [{"a": 1, "b": {"c": 2}}] * 2)
    stacked["_a"][0] = False
    assert stacked["_b"].all()
    assert stacked["b"]["_c"].all()


@pytest.mark.parametrize("mode", MODES)
def test_episode_statistics_of_gymnasium_count_right(mode):
    class OneEach(Odd):
        def step(self, action):
            text, _, terminated, truncated, info = super().step(action)
            return text, 1.0, terminated, truncated, info

    envs = RecordEpisodeStatistics(make_vec(OneEach, 2, length=3, autoreset_mode=mode))
    envs.reset(seed=0)
    for _ in range(3):
        *_, infos = envs.step(["a", "b"])
    assert infos["episode"]["r"].tolist() == [3.0, 3.0]
    assert infos["episode"]["l"].tolist() == [3, 3]


def test_a_masked_reset_leaves_the_statistics_of_other_rows():
    envs = RecordEpisodeStatistics(make_vec(Odd, 2, length=3, autoreset_mode="Disabled"))
    envs.reset(seed=0)
    envs.step(["cut", "b"])
    envs.reset(options={"reset_mask": np.array([True, False])})
    envs.step(["a", "b"])
    *_, infos = envs.step(["a", "b"])
    assert infos["_episode"].tolist() == [False, True]
    assert infos["episode"]["l"].tolist() == [0, 3]
