"""Dataset: which row a seed shows, how replies are paid, and what a bad data set says."""

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_gym.checker import check_text_env
from llm_gym.data import Number, questions
from llm_gym.envs.dataset import DatasetEnv, as_dataset_env
from llm_gym.episodes import play_episode
from llm_gym.errors import ConfigError, RecordError
from llm_gym.formats import FORMATS
from llm_gym.splits import SPLITS, split_of
from llm_gym.vector import make_vec

ROOT = Path(__file__).parents[2]
ROWS = [{"prompt": f"Say the number {n}.", "answer": str(n)} for n in range(40)]


def make(rows=ROWS, seed=0, **kwargs):
    env = DatasetEnv(dataset=rows, **kwargs)
    env.reset(seed=seed)
    return env


def write(path, rows=ROWS):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def numbers(env, seeds, options=None):
    return [env.reset(seed=seed, options=options)[1]["row"] for seed in seeds]


# --- which row ---------------------------------------------------------------------------------


def test_as_many_seeds_as_rows_visit_each_row_once_and_then_again_in_another_order():
    env = make()
    first, second = numbers(env, range(40)), numbers(env, range(40, 80))
    assert sorted(first) == sorted(second) == list(range(40))
    assert first != second != sorted(first)


def test_a_seed_shows_the_same_row_whatever_was_reset_before():
    env, other = make(), make(seed=17)
    for _ in range(3):
        other.reset()
    assert numbers(env, [5, 900, 5]) == numbers(other, [5, 900, 5])


def test_a_seed_shows_the_same_row_in_another_process():
    code = (
        "from llm_gym.envs.dataset import DatasetEnv; env = DatasetEnv();"
        "print([env.reset(seed=s, options={'split': 'train'})[1]['row'] for s in range(9)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == numbers(DatasetEnv(), range(9), {"split": "train"})


def test_resets_without_a_seed_visit_each_row_once_per_pass():
    env = make()
    for _ in range(2):
        assert sorted(env.reset()[1]["row"] for _ in range(40)) == list(range(40))


def test_environments_with_different_seeds_take_different_walks():
    walks = []
    for seed in (1, 2):
        env = make(seed=seed)
        walks.append([env.reset()[1]["row"] for _ in range(10)])
    again = make(seed=1)
    assert walks[0] == [again.reset()[1]["row"] for _ in range(10)]
    assert walks[0] != walks[1]


def test_a_look_at_another_split_does_not_disturb_the_walk():
    env = make()
    seen = []
    for _ in range(len(numbers_of(env, "train"))):
        seen.append(env.reset(options={"split": "train"})[1]["row"])
        env.reset(options={"split": "test"})
    assert sorted(seen) == numbers_of(env, "train")


def numbers_of(env, split):
    return sorted(set(numbers(env, range(200), {"split": split})))


def test_another_shuffle_seed_is_another_order_and_none_is_the_order_of_the_file():
    orders = [numbers(make(shuffle_seed=key), range(40)) for key in (0, 1, None)]
    assert orders[0] != orders[1]
    assert orders[2] == list(range(40))


def test_limit_keeps_the_first_rows():
    env = make(limit=3)
    assert env.num_rows == 3
    assert set(numbers(env, range(50))) == {0, 1, 2}


# --- splits ------------------------------------------------------------------------------------


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
@settings(max_examples=40, deadline=None)
def test_a_question_that_is_there_twice_is_never_in_two_splits(texts):
    rows = [{"prompt": text, "answer": n} for n, text in enumerate(texts * 2)]
    env = make(rows)
    splits = {}
    for seed in range(len(rows)):
        env.reset(seed=seed)
        splits.setdefault(" ".join(env.describe().split()), set()).add(split_of(env.instance_id()))
    assert all(len(found) == 1 for found in splits.values())


def test_a_split_column_decides_and_knows_other_names():
    names = ["train", "validation", "test", "Train", "val", "testing"]
    rows = [{**row, "split": name} for row, name in zip(ROWS, names, strict=False)]
    env = make(rows)
    assert [numbers_of(env, split) for split in SPLITS] == [[0, 3], [1, 4], [2, 5]]


def test_a_split_column_may_have_another_name_or_be_ignored():
    rows = [{**row, "part": "test"} for row in ROWS]
    assert numbers_of(make(rows, split_column="part"), "test") == list(range(40))
    assert len(numbers_of(make(rows, split_column=None), "test")) < 20


def test_a_dictionary_holds_a_data_set_for_each_split(tmp_path):
    env = make({"train": write(tmp_path / "a.jsonl", ROWS[:30]), "test": ROWS[30:]})
    assert numbers_of(env, "train") == list(range(30))
    assert numbers_of(env, "test") == list(range(30, 40))
    with pytest.raises(ConfigError, match="no dev rows, it has 30 train, 0 dev, 10 test;"):
        env.reset(options={"split": "dev"})


def test_the_same_question_in_two_splits_is_refused_with_both_places(tmp_path):
    rows = [{**ROWS[n % 5], "split": "train" if n < 7 else "test"} for n in range(9)]
    rows[7]["prompt"] = "something else"
    with pytest.raises(RecordError, match=r"line 9: .* two splits \(train and test\).* line 4;"):
        make(write(tmp_path / "a.jsonl", rows))
    make(write(tmp_path / "a.jsonl", rows), split_column=None)


def test_a_row_without_a_split_among_others_is_named(tmp_path):
    with pytest.raises(RecordError, match="line 2: a row must have a split where others"):
        make(write(tmp_path / "a.jsonl", [{**ROWS[0], "split": "test"}, ROWS[1]]))


def test_the_split_may_be_a_setting_and_an_option_overrides_it():
    env = make(split="test")
    assert set(numbers(env, range(100))) == set(numbers_of(make(), "test"))
    assert env.num_rows == len(numbers_of(make(), "test"))
    assert set(numbers(env, range(9), {"split": "dev"})) <= set(numbers_of(make(), "dev"))


# --- replies -----------------------------------------------------------------------------------


def test_the_right_answer_wins_and_a_wrong_one_is_told_the_answer():
    env = make()
    right = env.oracle_action()
    saved = env.snapshot()
    assert env.step(right)[1:3] == (1.0, True)
    env.restore(saved)
    obs, reward, terminated, _, info = env.step("x")
    assert (reward, terminated, info["stop_reason"]) == (0.0, True, "lost")
    assert obs.endswith(f"The answer was {right}.")
    assert info["answer"] == right


def test_further_attempts_get_feedback_and_the_prompt_is_not_repeated():
    env = make(max_turns=3)
    prompt = env.describe()
    obs, reward, terminated, *_ = env.step("x")
    assert (obs, reward, terminated) == ("That is not right.\nTurns left: 2.", 0.0, False)
    assert prompt not in obs
    assert env.step(env.oracle_action())[1:3] == (1.0, True)


def test_a_reply_that_cannot_be_used_says_what_is_wanted():
    env = make(grader="number", max_turns=2)
    obs, _, terminated, _, info = env.step("it is 3 or 4")
    assert (terminated, info["valid_action"]) == (False, False)
    assert obs.startswith("I cannot use that reply. Answer with one number.")


def test_any_of_several_answers_is_right():
    env = make([{"prompt": "Capital of NL?", "answer": ["Amsterdam", "A'dam"]}])
    saved = env.snapshot()
    for reply, reward in (("amsterdam", 1.0), ("A'dam", 1.0), ("Den Haag", 0.0)):
        env.restore(saved)
        assert env.step(reply)[1] == reward


def test_options_are_listed_and_chosen_by_letter_or_text():
    rows = [{"prompt": "Largest?", "choices": ["ant", "whale", "cat"], "answer": 1}]
    env = make(rows, grader="choice")
    assert env.describe() == "Largest?\nA) ant\nB) whale\nC) cat"
    assert env.legal_actions() == ["A", "B", "C"]
    saved = env.snapshot()
    for reply in ("B", "(b)", "Whale."):
        env.restore(saved)
        assert env.step(reply)[4]["success"], reply
    assert "A)" not in make(rows, grader="choice", choices=None).describe()
    assert "A)" not in make(rows, grader="number").describe()


def test_reasoning_before_the_answer_is_read_past():
    rows = [{"prompt": "How many?", "answer": "He has 6 x 7.\n#### 42"}]
    env = make(rows, grader="number")
    assert env.step("<think>41?</think>He has 6 boxes of 7.\nThe answer is $42.00.")[1] == 1.0


def test_a_score_between_is_paid_for_the_last_attempt_only():
    def share(reply, answer):
        return sum(a == b for a, b in zip(reply, answer, strict=False)) / len(answer)

    env = make([{"prompt": "Say abcd.", "answer": "abcd"}], grader=share, max_turns=2)
    assert env.step("abc?")[1:3] == (0.0, False)
    _, reward, terminated, _, info = env.step("ab??")
    assert (reward, terminated, info["success"]) == (0.5, True, False)
    env.reset(seed=0)
    assert env.step("abcd")[1:3] == (1.0, True)


def test_a_function_may_grade_answers_of_any_kind():
    rows = [{"prompt": "Say a word.", "answer": {"letters": 4}}]
    env = make(rows, grader=lambda reply, answer: len(reply) == answer["letters"])
    assert env.step("word")[1] == 1.0


def test_a_grader_may_have_settings():
    rows = [{"prompt": "Pi?", "answer": 3.14159}]
    assert make(rows, grader=Number(tolerance=0.01)).step("3.14")[1] == 1.0
    assert make(rows, grader="number").step("3.14")[1] == 0.0


def test_rows_without_answers_finish_with_nothing_to_win():
    env = make([{"prompt": "Write a poem."}, "Write a song."], answer=None, shuffle_seed=None)
    obs, _ = env.reset(seed=1)
    assert obs == "Answer the message.\n\nWrite a song."
    _, reward, terminated, _, info = env.step("la " * 10_000)
    assert (reward, terminated, info["stop_reason"]) == (0.0, True, "finished")
    assert info["answer"] is None
    assert env.random_action()
    with pytest.raises(NotImplementedError, match="no oracle"):
        env.oracle_action()


def test_the_rest_of_a_row_is_there_for_reward_functions():
    env = make([{**ROWS[0], "level": 3}])
    assert env.read_row(env.reset(seed=0)[1]["row"])["level"] == 3


# --- prompts -----------------------------------------------------------------------------------

CHAT = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "Say 7."},
]


def test_a_system_message_goes_where_the_rules_go():
    rows = [{"prompt": CHAT, "answer": 7}]
    obs, _ = DatasetEnv(dataset=rows).reset(seed=0)
    assert obs.startswith("You are terse.\n\nAnswer the question.")
    assert obs.endswith("\n\nSay 7.")
    quiet = DatasetEnv(dataset=rows, rules="system")
    obs, info = quiet.reset(seed=0)
    assert obs == "Say 7."
    assert info["system_prompt"] == quiet.system_prompt
    assert info["system_prompt"].startswith("You are terse.\n\nAnswer the question.")


def test_the_system_message_of_one_row_does_not_stay_for_the_next():
    rows = [{"prompt": CHAT, "answer": 7}, {"prompt": "Say 8.", "answer": 8}]
    env = DatasetEnv(dataset=rows, shuffle_seed=None)
    assert "terse" in env.reset(seed=0)[0]
    assert "terse" not in env.reset(seed=1)[0]


def test_chat_data_for_supervised_training_is_a_data_set():
    rows = [{"messages": [*CHAT, {"role": "assistant", "content": "7"}]}]
    assert make(rows, prompt="messages").step("7")[1] == 1.0


def test_the_instruction_replaces_the_first_sentences():
    env = make(instruction="Obey.")
    assert env.reset(seed=0)[0].startswith("Obey. You have 1 ")


def test_long_prompts_stay_inside_the_observation_space():
    env = make([{"prompt": "word " * 20_000, "answer": "x"}], max_turns=2)
    assert env.observation_space.contains(env.reset(seed=0)[0])
    assert env.observation_space.contains(env.step("no")[0])
    assert env.observation_space.contains(env.step("no")[0])


# --- players, copies, processes ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("grader", "row"),
    [
        ("exact", {"answer": "caf\u00e9 {x}"}),
        ("number", {"answer": "$1,200.50"}),
        ("choice", {"answer": "b", "choices": ["x", "y"]}),
        ("choice", {"answer": "(D)"}),
        ("contains", {"answer": "New York"}),
        ("regex", {"answer": "(?i)colou?r"}),
    ],
)
@pytest.mark.parametrize("action_format", FORMATS)
def test_every_grader_keeps_the_contract_in_every_format(grader, row, action_format):
    rows = [{"prompt": f"Question {n}?", **row} for n in range(3)]
    env = DatasetEnv(dataset=rows, grader=grader, action_format=action_format, max_turns=2)
    for player in (env.oracle_action, env.random_action):
        env.reset(seed=0)
        assert env.step(player())[4]["valid_action"]
    env.reset(seed=0)
    assert env.step(env.oracle_action())[4]["success"]


def test_a_data_set_of_ones_own_keeps_the_contract(tmp_path):
    rows = [{"prompt": f"{n}?", "answer": n, "extra": None} for n in range(50)]
    check_text_env(DatasetEnv(dataset=write(tmp_path / "a.jsonl", rows), max_turns=2))


def test_an_answer_of_several_lines_works_where_the_format_can_write_it():
    rows = [{"prompt": "Code?", "answer": "a = 1\nb = 2"}]
    with pytest.raises(RecordError, match="cannot be written in action_format='plain'"):
        make(rows)
    env = make(rows, action_format="tag")
    assert env.step(env.oracle_action())[1] == 1.0


def test_a_snapshot_holds_the_episode_and_not_the_data():
    env = make([{"prompt": f"{n} {'x' * 1000}", "answer": n} for n in range(500)])
    assert len(env.snapshot()) < 20_000


def test_copies_share_the_rows_and_pickles_read_the_file_again(tmp_path):
    env = make()
    twin = copy.deepcopy(env)
    assert twin._table is env._table
    assert twin.step(env.oracle_action())[1] == 1.0
    read = DatasetEnv(dataset=write(tmp_path / "a.jsonl"))
    read.reset(seed=3)
    data = pickle.dumps(read)
    assert len(data) < 20_000
    assert pickle.loads(data).step(read.oracle_action())[1] == 1.0


def test_many_environments_in_workers_read_one_file(tmp_path):
    path = str(write(tmp_path / "a.jsonl"))
    envs = make_vec(lambda: DatasetEnv(dataset=path), 4, workers=2)
    observations, infos = envs.reset(seed=0)
    assert infos["row"].tolist() == numbers(make(), range(4))
    assert [obs.rpartition("\n")[2] for obs in observations] == [
        ROWS[row]["prompt"] for row in infos["row"]
    ]
    envs.close()


# --- the questions that come along -------------------------------------------------------------


def test_the_file_is_what_its_program_writes_and_the_solver_knows_every_answer():
    rows = [json.loads(line) for line in Path(questions.path()).read_text().splitlines()]
    assert rows == list(questions.questions())
    assert len(rows) == len({row["prompt"] for row in rows}) == 500
    assert all(questions.answer(row["prompt"]) == row["answer"] for row in rows)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is 12 minus 30?", "-18"),
        ("Ada has 40 coins and gives 3 of them away. How many coins are left?", "37"),
        ("Ada has 40 coins and gives 3 of them away. How many books are left?", None),
        ("Which day of the week comes 9 days after Friday?", "Sunday"),
        ("Which day of the week comes 9 days after Doomsday?", None),
        ("What is left over when 43 is divided by 0?", None),
        ("What is two plus 2?", None),
        ("", None),
    ],
)
def test_the_solver_computes_and_does_not_guess(question, answer):
    assert questions.answer(question) == answer


def test_another_data_set_has_no_solver():
    with pytest.raises(NotImplementedError, match="only the questions that come with"):
        make().solver_action()


# --- settings and the helper -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limit": 0}, "limit must be at least 1, got 0"),
        ({"max_turns": 0}, "max_turns must be at least 1, got 0"),
        ({"max_turns": 2, "answer": None}, "max_turns must be 1 where nothing is graded"),
        ({"split": "eval"}, "split must be one of train, dev, test, got 'eval'"),
        ({"split": "dev", "limit": 1}, "the data set has no dev rows"),
        ({"grader": "equal"}, "grader must be one of"),
        ({"action_format": "xml"}, "action_format must be one of"),
    ],
)
def test_bad_settings_are_named_with_their_value(settings, message):
    with pytest.raises(ConfigError, match=message):
        DatasetEnv(**{"dataset": ROWS, **settings})


def test_a_bad_row_is_named_when_the_environment_is_built(tmp_path):
    path = write(tmp_path / "a.jsonl", [*ROWS, {"prompt": "?", "answer": "a few"}])
    with pytest.raises(RecordError, match=r"a\.jsonl, line 41: the answer must be one number"):
        DatasetEnv(dataset=path, grader="number")


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
    with pytest.raises(ConfigError, match="has its settings already, got max_turns"):
        as_dataset_env(env, max_turns=2)
    with pytest.raises(ConfigError, match="has its settings already, got collate_fn"):
        as_dataset_env(env, collate_fn=dict)


def test_rows_of_another_shape_are_made_into_ours(tmp_path):
    theirs = [{"q": row["prompt"], "a": row["answer"]} for row in ROWS]
    ours = make()
    for dataset in (theirs, iter(theirs), write(tmp_path / "a.jsonl", theirs), {"train": theirs}):
        env = as_dataset_env(
            dataset, collate_fn=lambda row: {"prompt": row["q"], "answer": row["a"]}
        )
        assert env.reset(seed=4)[0] == ours.reset(seed=4)[0]
