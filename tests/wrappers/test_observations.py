"""ChatObservation and TranscriptObservation: the episode so far, for players without a memory."""

from llm_gym.core.legacy import SimpleGameEnvironment, as_gym
from llm_gym.wrappers import ChatObservation, TranscriptObservation
from tests.wrappers.guessing import guessing


def test_the_conversation_grows_by_two_messages_a_turn():
    bare, env = guessing(), ChatObservation(guessing())
    first, _ = bare.reset(seed=0)
    assert env.reset(seed=0)[0] == ({"role": "user", "content": first},)
    second = bare.step("1")[0]
    messages, reward, terminated, truncated, _ = env.step("1")
    assert messages[1:] == (
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": second},
    )
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert messages in env.observation_space
    assert len(env.reset(seed=0)[0]) == 1


def test_system_prompts_come_first_the_users_own_before_the_environments():
    env = ChatObservation(guessing(rules="system"), "You are clever.")
    (system, user), info = env.reset(seed=0)
    assert system == {"role": "system", "content": "You are clever.\n\n" + info["system_prompt"]}
    assert user["content"] == "Turns left: 20."
    silent = ChatObservation(guessing(rules="system"))
    assert silent.reset(seed=0)[0][0]["content"] == info["system_prompt"]


def test_old_turns_are_dropped_but_not_the_rules():
    env = ChatObservation(guessing(), max_turns=2)
    opening = env.reset(seed=0)[0]
    *_, (messages, *_) = [env.step(move) for move in "12345"]
    assert messages[0] == opening[0]
    assert [one["content"] for one in messages if one["role"] == "assistant"] == ["4", "5"]


def test_messages_can_be_rendered_and_are_copies():
    env = ChatObservation(guessing(), render=lambda messages: f"{len(messages)} messages")
    assert (env.reset(seed=0)[0], env.step("1")[0]) == ("1 messages", "3 messages")
    assert "3 messages" in env.observation_space
    env = ChatObservation(guessing())
    env.reset(seed=0)[0][0]["content"] = "spoilt"
    assert env.step("1")[0][0]["content"] != "spoilt"


def test_the_prompt_prefix_of_old_environments_is_a_system_message():
    class Old(SimpleGameEnvironment):
        def get_prompt_prefix(self):
            return "Old rules."

    messages, _ = ChatObservation(as_gym(Old({"seed": 0}))).reset(seed=0)
    assert messages[0] == {"role": "system", "content": "Old rules."}


def test_a_transcript_holds_everything_in_order():
    bare, env = guessing(), TranscriptObservation(guessing())
    parts = [bare.reset(seed=0)[0]]
    assert env.reset(seed=0)[0] == parts[0]
    for move in ("1", "no idea", "3"):
        parts.append(f"> {move}\n{bare.step(move)[0]}")
        assert env.step(move)[0] == "\n\n".join(parts)


def test_a_transcript_is_limited_by_turns():
    env = TranscriptObservation(guessing(), max_turns=2)
    first, _ = env.reset(seed=0)
    *_, (shown, *_) = [env.step(move) for move in "12345"]
    assert shown.startswith(f"{first}\n\n[3 earlier turns left out]\n\n> 4\n")
    assert "> 5\n" in shown


def test_a_transcript_is_limited_by_characters():
    def shown(max_chars, moves=3):
        env = TranscriptObservation(guessing(), max_chars=max_chars)
        env.reset(seed=0)
        return [env.step(str(move))[0] for move in range(1, moves + 1)]

    whole = shown(10_000)[-1]
    assert shown(len(whole))[-1] == whole
    assert "[1 earlier turn left out]" in shown(len(whole) - 1)[-1]
    for max_chars in (600, 900):
        texts = shown(max_chars, 18)
        assert all(len(text) < max_chars + 60 for text in texts)
        assert all(f"> {move}\n" in text for move, text in enumerate(texts, 1))
        assert "earlier turns left out" in texts[-1]


def test_the_first_and_the_last_observation_always_stay():
    env = TranscriptObservation(guessing(), max_chars=1)
    first, _ = env.reset(seed=0)
    shown, *_ = env.step("1")
    assert shown.startswith(first)
    assert "higher than 1" in shown
    env.step("2")
    assert "[1 earlier turn left out]" in env._shown()
    assert shown in env.observation_space
