"""Dataset: which row a seed shows, splits, and errors of bad data sets."""

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError, RecordError
from llm_gym.core.splits import SPLITS, split_of
from llm_gym.envs.questions.dataset import as_dataset_env
from llm_gym.episodes import play_episode
from tests.envs.questions.numbered_rows import ROWS, make, numbers, write


def test_consecutive_seeds_visit_each_row_once_per_pass():
    env = make()
    first, second = numbers(env, range(40)), numbers(env, range(40, 80))
    assert sorted(first) == sorted(second) == list(range(40))
    assert first != second != sorted(first)


def test_a_seed_shows_one_row_and_without_one_each_comes_once_per_pass():
    env, other = make(), make(seed=17)
    for _ in range(3):
        other.reset()
    assert numbers(env, [5, 900, 5]) == numbers(other, [5, 900, 5])
    env = make()
    for _ in range(2):
        assert sorted(env.reset()[1]["row"] for _ in range(40)) == list(range(40))


def test_environments_with_different_seeds_have_different_orders():
    walks = []
    for seed in (1, 2):
        env = make(seed=seed)
        walks.append([env.reset()[1]["row"] for _ in range(10)])
    again = make(seed=1)
    assert walks[0] == [again.reset()[1]["row"] for _ in range(10)]
    assert walks[0] != walks[1]


def test_a_reset_to_another_split_does_not_change_the_order():
    env = make()
    seen = []
    for _ in range(len(numbers_of(env, "train"))):
        seen.append(env.reset(options={"split": "train"})[1]["row"])
        env.reset(options={"split": "test"})
    assert sorted(seen) == numbers_of(env, "train")


def numbers_of(env, split):
    return sorted(set(numbers(env, range(200), {"split": split})))


def test_the_order_follows_the_shuffle_seed_and_limit_keeps_the_first_rows():
    orders = [numbers(make(shuffle_seed=key), range(40)) for key in (0, 1, None)]
    assert orders[0] != orders[1]
    assert orders[2] == list(range(40))
    env = make(limit=3)
    assert env.num_rows == 3
    assert set(numbers(env, range(50))) == {0, 1, 2}


def test_splits_by_content_hold_every_row_once():
    env = make()
    found = [numbers_of(env, split) for split in SPLITS]
    assert sorted(number for part in found for number in part) == list(range(40))
    assert all(found)


def test_a_row_keeps_its_split_when_others_come_and_go():
    def of_train(rows):
        env = make(rows)
        return {env.read_row(number)["answer"] for number in numbers_of(env, "train")}

    kept = ROWS[::-2]
    assert of_train(kept) == of_train(ROWS) & {row["answer"] for row in kept}


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=30))
def test_a_duplicate_question_is_in_one_split_only(texts):
    rows = [{"prompt": text, "answer": n} for n, text in enumerate(texts * 2)]
    env = make(rows)
    splits = {}
    for seed in range(len(rows)):
        env.reset(seed=seed)
        splits.setdefault(" ".join(env.describe().split()), set()).add(split_of(env.instance_id()))
    assert all(len(found) == 1 for found in splits.values())


def test_a_split_column_may_have_any_name_or_be_ignored():
    names = ["train", "validation", "test", "Train", "val", "testing"]
    rows = [{**row, "split": name} for row, name in zip(ROWS, names, strict=False)]
    env = make(rows)
    assert [numbers_of(env, split) for split in SPLITS] == [[0, 3], [1, 4], [2, 5]]
    rows = [{**row, "part": "test"} for row in ROWS]
    assert numbers_of(make(rows, split_column="part"), "test") == list(range(40))
    assert len(numbers_of(make(rows, split_column=None), "test")) < 20


def test_a_dictionary_holds_a_data_set_for_each_split(tmp_path):
    env = make({"train": write(tmp_path / "a.jsonl", ROWS[:30]), "test": ROWS[30:]})
    assert numbers_of(env, "train") == list(range(30))
    assert numbers_of(env, "test") == list(range(30, 40))
    with pytest.raises(ConfigError, match="no dev rows"):
        env.reset(options={"split": "dev"})


def test_the_same_question_in_two_splits_is_refused_with_both_places(tmp_path):
    rows = [{**ROWS[n % 5], "split": "train" if n < 7 else "test"} for n in range(9)]
    rows[7]["prompt"] = "something else"
    with pytest.raises(RecordError, match=r"line 9: .* two splits \(train and test\).* line 4;"):
        make(write(tmp_path / "a.jsonl", rows))
    make(write(tmp_path / "a.jsonl", rows), split_column=None)


def test_a_row_without_a_split_among_others_is_named(tmp_path):
    with pytest.raises(RecordError, match="line 2: "):
        make(write(tmp_path / "a.jsonl", [{**ROWS[0], "split": "test"}, ROWS[1]]))


def test_the_split_may_be_a_setting_and_an_option_overrides_it():
    env = make(split="test")
    assert set(numbers(env, range(100))) == set(numbers_of(make(), "test"))
    assert env.num_rows == len(numbers_of(make(), "test"))
    assert set(numbers(env, range(9), {"split": "dev"})) <= set(numbers_of(make(), "dev"))


def test_a_file_becomes_an_environment_with_a_spec(tmp_path):
    path = write(tmp_path / "a.jsonl")
    env = as_dataset_env(path, grader="number")
    assert env.spec.id == "llm_gym/Dataset-v0"
    assert env.spec.kwargs == {"dataset": str(path), "grader": "number"}
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.reset(seed=5)[0] == env.reset(seed=5)[0]
    episode = play_episode(env, lambda _: env.unwrapped.oracle_action(), seed=1)
    assert episode.success
    assert episode.env_id == "llm_gym/Dataset-v0"


def test_rows_become_an_environment_that_holds_them():
    env = as_dataset_env(iter(ROWS), max_turns=2)
    assert env.spec is None
    assert env.max_turns == 2
    assert env.num_rows == 40


def test_an_environment_is_returned_as_it_is():
    env = make()
    assert as_dataset_env(env) is env
    with pytest.raises(ConfigError, match="max_turns"):
        as_dataset_env(env, max_turns=2)
    with pytest.raises(ConfigError, match="collate_fn"):
        as_dataset_env(env, collate_fn=dict)


def test_rows_of_another_shape_are_made_into_ours(tmp_path):
    theirs = [{"q": row["prompt"], "a": row["answer"]} for row in ROWS]
    ours = make()
    for dataset in (theirs, iter(theirs), write(tmp_path / "a.jsonl", theirs), {"train": theirs}):
        env = as_dataset_env(
            dataset, collate_fn=lambda row: {"prompt": row["q"], "answer": row["a"]}
        )
        assert env.reset(seed=4)[0] == ours.reset(seed=4)[0]
