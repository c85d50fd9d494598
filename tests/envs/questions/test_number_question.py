"""ChainSum and LetterCounting: a question whose answer is a number, and one try."""

from llm_gym.envs.questions.number_question import LetterCountingEnv
from llm_gym.envs.shared.word_list import all_words
from tests.envs.playing import start_game


def drawn(count=200, **kwargs):
    env = start_game("ChainSum", **kwargs)
    return [(env.reset(), env._chain)[1] for _ in range(count)]


def test_terms_and_digits_follow_the_settings():
    chains = drawn(min_terms=3, max_terms=5, min_digits=2, max_digits=4)
    assert {len(chain.split()[::2]) for chain in chains} == {3, 4, 5}
    terms = [term for chain in chains for term in chain.split()[::2]]
    assert {len(term) for term in terms} == {2, 3, 4}
    assert all(term[0] != "0" for term in terms)
    assert {sign for chain in chains for sign in chain.split()[1::2]} == {"+", "-"}
    digits = drawn(max_terms=2, max_digits=1)
    assert {term for chain in digits for term in chain.split()[::2]} == set("0123456789")


def test_words_follow_the_settings_and_zero_is_an_answer():
    env, sizes, answers = LetterCountingEnv(min_words=2, max_words=4), set(), []
    for seed in range(300):
        state = env.reset(seed=seed)[0].split("\n\n")[1]
        assert not any(character.isdigit() for character in state), "the answer is not in it"
        assert set(env._text.split()) <= set(all_words())
        sizes.add(len(env._text.split()))
        answers.append(int(env.oracle_move()))
    assert sizes == {2, 3, 4}
    assert 0 < answers.count(0) < 150
    assert len(set(answers)) > 3
