"""Answers in sentences: what is said counts; what is denied, asked or listed does not."""

import gymnasium as gym
import pytest

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


@pytest.mark.parametrize(
    "reply",
    ["42", "The answer is 42, not 41.", "It's 40... wait, no, 42.", "I think it is 42",
     "First I thought 41, but it is 42.", "6 * 7 = 42", "Answer: 42 apples", "$42.00",
     "The answer is 42. Let me know if you need 3 more examples.",
     "42<|im_end|>\n<|im_start|>user\n43", "42\n\nUser: thanks\nAssistant: 43",
     "Step 1: 6 * 5 = 30\nStep 2: 30 + 12 = 42\nFinal answer: 42", "He had 42 apples in the end."],
)  # fmt: skip
def test_a_number_that_is_said_is_the_answer(reply):
    assert is_right("number", SUM, reply)


@pytest.mark.parametrize(
    "reply",
    ["The answer is not 42.", "The answer isn't 42.", "42?", "Is it 42?", "42 or 43", "\u221a42",
     "42. Wait, no, 41.", "The answer is 42. Actually, it is 41.", "41, 42, 43", "41 42 43",
     "It is not 42 but 41.", "\\boxed{42} \\boxed{43}", "It is between 41 and 43.",
     "Tell me if you want 42."],
)  # fmt: skip
def test_a_number_that_is_denied_asked_or_one_of_several_earns_nothing(reply):
    assert not is_right("number", SUM, reply)


@pytest.mark.parametrize(
    "reply",
    ["B", "(B) Paris", "I choose B.", "I think the answer is B", "It must be B.", "Not A. B.",
     "The capital of France is Paris.", "Paris is the capital.", "It's B, not A.",
     "A is London, which is wrong. The answer is B.", "A... wait, no, B.",
     "B is correct because A, C and D are capitals of other countries.",
     "The answer is Paris (B).", "A fine question! It is **B**."],
)  # fmt: skip
def test_an_option_that_is_named_is_chosen(reply):
    assert is_right("choice", CITY, reply)


@pytest.mark.parametrize(
    "reply",
    ["Not B", "The answer is not B.", "A or B", "Is it B?", "A, B, C and D", "A B C D",
     "All of the above", "Both A and B", "B. Wait, no, A.", "The answer is A, not B.",
     "London, Paris, Rome or Berlin", "Paris? No.", "It is not Paris."],
)  # fmt: skip
def test_no_option_is_chosen_by_a_list_a_denial_or_a_question(reply):
    assert not is_right("choice", CITY, reply)


def test_strict_keeps_to_the_letter_of_an_option():
    assert is_right("choice", CITY, "B", strict=True)
    assert not is_right("choice", CITY, "I choose B.", strict=True)
