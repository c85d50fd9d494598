"""Dataset: how replies are paid, what a prompt looks like, players and copies."""

import json
from pathlib import Path

import gymnasium as gym
import pytest

from llm_gym.core.errors import RecordError
from llm_gym.datasets import NumberGrader, questions
from llm_gym.envs.questions.dataset import DatasetEnv
from llm_gym.evaluate.checker import check_text_env
from llm_gym.reading.formats import FORMATS
from llm_gym.vector import make_vec
from tests.envs.questions.numbered_rows import ROWS, make, numbers, write


def test_a_right_answer_wins_and_a_wrong_one_is_shown_the_answer():
    env = make()
    right = env.oracle_action()
    saved = env.snapshot()
    assert env.step(right)[1:3] == (1.0, True)
    env.restore(saved)
    obs, reward, terminated, _, info = env.step("x")
    assert (reward, terminated, info["stop_reason"]) == (0.0, True, "lost")
    assert obs.endswith(f"The answer was {right}.")
    assert info["answer"] == right


def test_further_attempts_get_feedback():
    env = make(max_turns=3)
    prompt = env.describe()
    obs, reward, terminated, *_ = env.step("x")
    assert (obs, reward, terminated) == ("That is not right.\nTurns left: 2.", 0.0, False)
    assert prompt not in obs
    assert env.step(env.oracle_action())[1:3] == (1.0, True)
    env = make(grader="number", max_turns=2)
    obs, _, terminated, _, info = env.step("it is 3 or 4")
    assert (terminated, info["valid_action"]) == (False, False)
    assert obs.startswith("I read 3 and 4 in your reply, but in doubt.")
    assert env.step("no idea")[0].startswith("I cannot use that reply. Answer with one number.")


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


def test_a_partial_score_is_paid_for_the_last_attempt_only():
    def share(reply, answer):
        return sum(a == b for a, b in zip(reply, answer, strict=False)) / len(answer)

    env = make([{"prompt": "Say abcd.", "answer": "abcd"}], grader=share, max_turns=2)
    assert env.step("abc?")[1:3] == (0.0, False)
    _, reward, terminated, _, info = env.step("ab??")
    assert (reward, terminated, info["success"]) == (0.5, True, False)
    env.reset(seed=0)
    assert env.step("abcd")[1:3] == (1.0, True)


def by_row(reply, row):
    return reply == row["answer"] or reply in row["meta"]["also"]


def by_letters(reply, answer):
    return len(reply) == answer["letters"]


THOUGHT = "<think>41?</think>He has 6 boxes of 7.\nThe answer is $42.00."
PAID = {
    "any of several answers": (
        ["Amsterdam", "A'dam"], "exact", {"amsterdam": 1.0, "A'dam": 1.0, "Den Haag": 0.0},
    ),
    "reasoning before the answer": ("He has 6 x 7.\n#### 42", "number", {THOUGHT: 1.0}),
    "a function of the whole row": ("4", by_row, {"four": 1.0, "4": 1.0, "five": 0.0}),
    "a function of an answer of any kind": ({"letters": 4}, by_letters, {"word": 1.0}),
    "a grader with settings": (3.14159, NumberGrader(tolerance=0.01), {"3.14": 1.0}),
    "a grader without": (3.14159, "number", {"3.14": 0.0}),
}  # fmt: skip


@pytest.mark.parametrize("case", PAID)
def test_a_reply_is_paid_by_the_grader(case):
    answer, grader, replies = PAID[case]
    env = make([{"prompt": "?", "answer": answer, "meta": {"also": ["four"]}}], grader=grader)
    saved = env.snapshot()
    for reply, reward in replies.items():
        env.restore(saved)
        assert env.step(reply)[1] == reward, reply


def test_rows_without_answers_finish_without_a_reward():
    env = make([{"prompt": "Write a poem."}, "Write a song."], answer=None, shuffle_seed=None)
    obs, _ = env.reset(seed=1)
    assert obs == "Answer the message.\n\nWrite a song."
    _, reward, terminated, _, info = env.step("la " * 10_000)
    assert (reward, terminated, info["stop_reason"]) == (0.0, True, "finished")
    assert info["answer"] is None
    assert env.random_action()
    with pytest.raises(NotImplementedError, match="no oracle"):
        env.oracle_action()


def test_reward_functions_can_read_the_whole_row():
    env = make([{**ROWS[0], "level": 3}])
    assert env.read_row(env.reset(seed=0)[1]["row"])["level"] == 3


CHAT = [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "Say 7."}]


def test_a_system_message_precedes_the_rules():
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


def test_chat_messages_are_a_data_set_and_instruction_replaces_the_first_sentence():
    rows = [{"messages": [*CHAT, {"role": "assistant", "content": "7"}]}]
    assert make(rows, prompt="messages").step("7")[1] == 1.0
    env = make(instruction="Obey.")
    assert env.reset(seed=0)[0].startswith("Obey. You have 1 ")


def test_long_prompts_stay_inside_the_observation_space():
    env = make([{"prompt": "word " * 20_000, "answer": "x"}], max_turns=2)
    assert env.observation_space.contains(env.reset(seed=0)[0])
    assert env.observation_space.contains(env.step("no")[0])
    assert env.observation_space.contains(env.step("no")[0])


@pytest.mark.parametrize(
    ("grader", "row"),
    [
        ("exact", {"answer": "caf\u00e9 {x}"}),
        ("number", {"answer": "$1,200.50"}),
        ("choice", {"answer": "b", "choices": ["x", "y"]}),
        ("choice", {"answer": "(D)"}),
        ("contains", {"answer": "New York"}),
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


def test_a_custom_data_set_passes_the_checker(tmp_path):
    rows = [{"prompt": f"{n}?", "answer": n, "extra": None} for n in range(50)]
    check_text_env(DatasetEnv(dataset=write(tmp_path / "a.jsonl", rows), max_turns=2))


def test_an_answer_of_several_lines_works_where_the_format_can_write_it():
    rows = [{"prompt": "Code?", "answer": "a = 1\nb = 2"}]
    with pytest.raises(RecordError, match="action_format"):
        make(rows)
    env = make(rows, action_format="tag")
    assert env.step(env.oracle_action())[1] == 1.0


def test_a_snapshot_holds_no_data_and_another_data_set_has_no_solver():
    env = make([{"prompt": f"{n} {'x' * 1000}", "answer": n} for n in range(500)])
    assert len(env.snapshot()) < 20_000
    with pytest.raises(NotImplementedError, match="questions"):
        make().solver_action()


def test_many_environments_in_workers_read_one_file(tmp_path):
    path = str(write(tmp_path / "a.jsonl"))
    envs = make_vec(lambda: DatasetEnv(dataset=path), 4, workers=2)
    observations, infos = envs.reset(seed=0)
    assert infos["row"].tolist() == numbers(make(), range(4))
    assert [obs.rpartition("\n")[2] for obs in observations] == [
        ROWS[row]["prompt"] for row in infos["row"]
    ]
    envs.close()


def test_the_solver_knows_the_answer_to_every_question_of_the_file():
    rows = [json.loads(line) for line in Path(questions.path()).read_text().splitlines()]
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


SUM = {"prompt": "What is 6 * 7?", "answer": "42"}
CITY = {
    "prompt": "The capital of France?",
    "choices": ["London", "Paris", "Rome", "Berlin"],
    "answer": "B",
}


def is_right(grader, row, reply, **settings):
    env = gym.make("llm_gym/Dataset-v0", dataset=[row], grader=grader, **settings)
    env.reset(seed=0)
    info = env.step(reply)[4]
    return info["success"]


# A stated answer counts; one that is denied, asked about or one of several does not.
REPLIES = [
    ("number", SUM, True,
     ["42", "The answer is 42, not 41.", "It's 40... wait, no, 42.", "I think it is 42",
      "First I thought 41, but it is 42.", "6 * 7 = 42", "Answer: 42 apples", "$42.00",
      "The answer is 42. Let me know if you need 3 more examples.",
      "42<|im_end|>\n<|im_start|>user\n43", "42\n\nUser: thanks\nAssistant: 43",
      "Step 1: 6 * 5 = 30\nStep 2: 30 + 12 = 42\nFinal answer: 42",
      "He had 42 apples in the end."]),
    ("number", SUM, False,
     ["The answer is not 42.", "The answer isn't 42.", "42?", "Is it 42?", "42 or 43", "\u221a42",
      "42. Wait, no, 41.", "The answer is 42. Actually, it is 41.", "41, 42, 43", "41 42 43",
      "It is not 42 but 41.", "\\boxed{42} \\boxed{43}", "It is between 41 and 43.",
      "Tell me if you want 42."]),
    ("choice", CITY, True,
     ["B", "(B) Paris", "I choose B.", "I think the answer is B", "It must be B.", "Not A. B.",
      "The capital of France is Paris.", "Paris is the capital.", "It's B, not A.",
      "A is London, which is wrong. The answer is B.", "A... wait, no, B.",
      "B is correct because A, C and D are capitals of other countries.",
      "The answer is Paris (B).", "A fine question! It is **B**."]),
    ("choice", CITY, False,
     ["Not B", "The answer is not B.", "A or B", "Is it B?", "A, B, C and D", "A B C D",
      "All of the above", "Both A and B", "B. Wait, no, A.", "The answer is A, not B.",
      "London, Paris, Rome or Berlin", "Paris? No.", "It is not Paris."]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("grader", "row", "right", "reply"),
    [(*case, reply) for *case, replies in REPLIES for reply in replies],
)
def test_a_reply_is_right_only_where_it_states_one_answer(grader, row, right, reply):
    assert is_right(grader, row, reply) is right


def test_strict_accepts_only_the_letter_of_an_option():
    assert is_right("choice", CITY, "B", strict=True)
    assert not is_right("choice", CITY, "I choose B.", strict=True)
