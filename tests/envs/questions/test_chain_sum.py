"""ChainSum: the rules, one test per rule."""

import pytest

from llm_gym.envs.questions.number_question import ChainSumEnv, chain_value


def make(chain="12 + 5 - 30", **kwargs):
    env = ChainSumEnv(**kwargs)
    env.reset(seed=0)
    env._chain = chain
    return env


def drawn(count=200, **kwargs):
    env = ChainSumEnv(**kwargs)
    env.reset(seed=0)
    return [(env.reset(), env._chain)[1] for _ in range(count)]


@pytest.mark.parametrize(
    ("chain", "value"),
    [("1 + 1", 2), ("0 - 7", -7), ("12 + 5 - 30", -13), ("9 - 9", 0), ("8 - 3 - 4", 1)],
)
def test_values_of_known_chains(chain, value):
    assert chain_value(chain) == value
    obs, reward, terminated, truncated, info = make(chain).step(str(value))
    assert obs == f"Yes, it is {value}."
    assert (reward, terminated, truncated, info["stop_reason"]) == (1.0, True, False, "won")


def test_the_question_shows_the_chain():
    assert make().describe() == "What is 12 + 5 - 30?"


@pytest.mark.parametrize("text", ["13", "-12", "0", "-13.5", "-130"])
def test_a_wrong_number_loses_at_once_and_is_put_right(text):
    obs, reward, terminated, truncated, info = make().step(text)
    assert obs == "No. The answer is -13."
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.0, True, False, "lost")


@pytest.mark.parametrize("text", ["\u221213", "-13.", "12 + 5 - 30 = -13", "The answer is -13."])
def test_other_ways_to_write_the_number_win_too(text):
    assert make().step(text)[4]["success"]


def test_thousands_may_have_commas():
    assert make("999 + 1").step("1,000")[4]["success"]


@pytest.mark.parametrize("text", ["minus thirteen", "-13 or 13", "?", "12 + 5 - 30"])
def test_no_number_or_several_is_unusable_and_pays_nothing(text):
    obs, reward, terminated, _, info = make().step(text)
    assert (reward, terminated, info["valid_action"]) == (0.0, True, False)
    assert obs.endswith("The answer is -13.")


def test_terms_and_digits_are_as_was_asked_for():
    chains = drawn(min_terms=3, max_terms=5, min_digits=2, max_digits=4)
    assert {len(chain.split()[::2]) for chain in chains} == {3, 4, 5}
    terms = [term for chain in chains for term in chain.split()[::2]]
    assert {len(term) for term in terms} == {2, 3, 4}
    assert all(term[0] != "0" for term in terms)
    assert {sign for chain in chains for sign in chain.split()[1::2]} == {"+", "-"}


def test_zero_and_every_other_digit_is_drawn():
    chains = drawn(max_terms=2, max_digits=1)
    assert {term for chain in chains for term in chain.split()[::2]} == set("0123456789")
