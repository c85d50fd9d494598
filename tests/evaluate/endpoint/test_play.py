"""A served model plays: what is asked, what is recorded, many conversations at once."""

import threading

import gymnasium as gym
import pytest

from llm_gym import play_episode, read_episodes
from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import StopReason
from llm_gym.episodes.replay import rebuild, replay
from llm_gym.evaluate.endpoint import play
from tests.evaluate.endpoint.stand_in import StandIn, hangs_up, says, solver

GUESS = "llm_gym/GuessTheNumber-v0"


def test_a_model_that_reads_only_the_conversation_plays_as_well_as_in_process(server, tmp_path):
    result = play(GUESS, server.url, "clever", 12, seed=5, records=tmp_path / "played.jsonl")
    env = gym.make(GUESS, rules="system")
    local = [
        play_episode(env, lambda _: env.unwrapped.solver_action(), seed=5 + i) for i in range(12)
    ]
    assert [e.actions for e in result.episodes] == [e.actions for e in local]
    assert result.success == sum(e.success for e in local) / 12 > 0.5
    assert [(e.episode_id, e.group, e.seed) for e in result.episodes] == [
        (i, i, 5 + i) for i in range(12)
    ]
    assert result.env_id == GUESS
    assert {e.policy for e in result.episodes} == {"clever"}
    assert list(read_episodes(tmp_path / "played.jsonl")) == result.episodes
    assert [replay(rebuild(episode), episode) for episode in result.episodes] == [""] * 12
    assert [path.name for path in tmp_path.iterdir()] == ["played.jsonl"]


def test_tokens_are_counted(server):
    result = play(GUESS, server.url, "m", 4)
    turns = sum(episode.num_turns for episode in result.episodes)
    assert result.usage == (turns, 0, 10 * turns, 3 * turns, 0)
    assert result.tokens == 3 * turns
    assert result.episodes[0].extra["tokens_in"] == [10] * result.episodes[0].num_turns
    summary = result.summary()
    assert summary["tokens_in"] == 10 * turns
    assert (summary["episodes"], summary["success"]) == (4, result.success)
    assert result.notes() == []


def test_a_server_that_does_not_count_tokens_is_no_problem_but_is_told_of():
    with StandIn(solver, usage=False) as server:
        result = play(GUESS, server.url, "m", 1)
    assert result.usage.uncounted == result.usage.requests == result.episodes[0].num_turns
    assert result.tokens == 0
    assert "did not count the tokens" in result.notes()[0]


def test_rules_are_the_system_prompt_and_the_whole_history_is_sent(server):
    play(GUESS, server.url, "m", 1, num_envs=1)
    third = server.asked[2]["messages"]
    roles = ["system", "user", "assistant", "user", "assistant", "user"]
    assert [message["role"] for message in third] == roles
    assert third[0]["content"].startswith("I am thinking of a whole number")
    assert third[:2] == server.asked[0]["messages"]


@pytest.mark.parametrize(("prompt", "told"), [("Play.", ["Play."]), ("", [])])
def test_a_system_prompt_of_ones_own_takes_the_place_of_the_rules(prompt, told):
    with StandIn(lambda messages: "3") as server:
        [episode] = play(GUESS, server.url, "m", 1, system_prompt=prompt).episodes
    for messages in (server.asked[-1]["messages"], episode.messages):
        assert [m["content"] for m in messages if m["role"] == "system"] == told


def test_every_reply_has_a_seed_of_its_own_however_many_play_at_once():
    def seeds(num_envs, seed):
        with StandIn(lambda messages: "3") as server:
            play(GUESS, server.url, "m", 3, num_envs=num_envs, seed=seed)
        return sorted(asked["seed"] for asked in server.asked)

    alone = seeds(1, 0)
    assert seeds(3, 0) == alone
    assert len(set(alone)) == len(alone) == 15
    assert all(0 <= seed < 2**31 for seed in alone)
    assert not set(seeds(1, 7)) & set(alone)


def test_conversations_are_held_at_once():
    together = threading.Barrier(4)

    def model(messages):
        if len(messages) == 2:
            together.wait(timeout=120)  # breaks unless four first turns are being asked at once
        return "3"

    with StandIn(model) as server:
        result = play(GUESS, server.url, "m", 8, num_envs=4)
    assert len(result.episodes) == 8
    assert result.usage.retries == 0


def test_nobody_waits_for_the_slowest():
    others_ended = threading.Event()
    slow_is_waiting = []

    def model(messages):
        if not slow_is_waiting:
            slow_is_waiting.append(True)
            assert others_ended.wait(timeout=120)
        return "3"

    def on_end(ended):
        if ended == 5:
            others_ended.set()

    with StandIn(model) as server:
        result = play(GUESS, server.url, "m", 6, num_envs=2, on_end=on_end)
    assert len(result.episodes) == 6
    assert result.usage.retries == 0, "the slow one was waited for, not asked again"


def test_a_thread_keeps_its_connection_open(server):
    result = play(GUESS, server.url, "m", 9, num_envs=3)
    assert result.usage.requests > 9
    assert server.connections <= 3
    before = server.connections
    server.manners += [hangs_up, hangs_up]
    result = play(GUESS, server.url, "m", 1)
    assert result.usage.retries <= 2  # where a request was on its way as the server hung up
    assert server.connections == before + 3


def test_reasoning_is_not_the_move():
    thoughts = {"reasoning_content": "7, surely", "content": "<think>8?</think>\n5"}
    with StandIn(lambda messages: thoughts) as server:
        [episode] = play(GUESS, server.url, "m", 1).episodes
    assert set(episode.moves) == {"5"}
    assert not any("surely" in message["content"] for message in server.asked[-1]["messages"])


def thinker(thought, answer="5"):
    """A model that thinks for 300 tokens, and a server that cuts it at ``max_tokens``."""

    def manner(handler):
        cut = handler.server.asked[-1]["max_tokens"] < 300
        said = "<|channel|>final<|message|>" if "channel" in thought else "</think>"
        message = {"content": thought if cut else f"{thought}{said}{answer}"}
        if not thought:  # the server hides it
            message = {"content": "" if cut else answer, "reasoning_content": "hm"}
        choice = {"message": message, "finish_reason": "length" if cut else "stop"}
        handler.say(200, {"choices": [choice]})

    return manner


@pytest.mark.parametrize("thought", ["", "<think>8 or 5? ", "<|channel|>analysis<|message|>8? "])
def test_a_reply_that_is_cut_in_a_thought_is_asked_for_again_with_more_room(thought):
    with StandIn(None) as server:
        server.always = thinker(thought)
        result = play(GUESS, server.url, "m", 2, num_envs=1)
    rooms = [asked["max_tokens"] for asked in server.asked]
    assert rooms == [64, *[1024] * (len(rooms) - 1)]
    assert server.asked[0]["messages"] == server.asked[1]["messages"]
    assert (result.cut, result.empty, result.invalid) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("settings", [{"max_tokens": 64}, {"body": {"max_tokens": 64}}])
def test_a_limit_that_was_chosen_is_kept_and_what_it_cuts_is_said(settings):
    with StandIn(None) as server:
        server.always = thinker("")
        result = play(GUESS, server.url, "m", 1, **settings)
    assert {asked["max_tokens"] for asked in server.asked} == {64}
    summary = result.summary()
    assert (summary["cut"], summary["empty"], summary["success"]) == (1.0, 1.0, 0.0)
    assert any("100% of the replies were cut" in note and "--max-tokens" in note
               for note in result.notes())  # fmt: skip


def test_a_long_answer_without_a_thought_is_cut_and_not_asked_for_again():
    def manner(handler):
        choice = {"message": {"content": "Well, " * 60}, "finish_reason": "length"}
        handler.say(200, {"choices": [choice]})

    with StandIn(None) as server:
        server.always = manner
        result = play(GUESS, server.url, "m", 1)
    assert {asked["max_tokens"] for asked in server.asked} == {64}
    assert result.cut == 1.0
    with StandIn(lambda messages: "<think>5</think>") as server:
        result = play(GUESS, server.url, "m", 1)
    assert (result.cut, result.empty) == (0.0, 1.0)
    assert any("empty" in note for note in result.notes()), "for another reason"


@pytest.mark.parametrize("content", [None, "", [{"type": "image"}]])
def test_a_reply_without_text_is_an_unusable_move(content):
    with StandIn(lambda messages: {"content": content}) as server:
        [episode] = play(GUESS, server.url, "m", 1).episodes
    assert episode.stop_reason == StopReason.LOST
    assert set(episode.actions) == {""}
    assert episode.infos[-1]["invalid_actions"] == episode.num_turns


@pytest.mark.parametrize("before", [0, 2])
def test_a_conversation_that_outgrows_the_context_is_cut_and_the_others_go_on(before):
    full = {"error": {"message": "This model's maximum context length is 8 tokens.", "code": 400}}
    with StandIn(lambda messages: "3") as server:
        server.manners += [lambda handler: False] * before + [says(400, full)]
        result = play(GUESS, server.url, "m", 3, num_envs=1)
    first, *rest = result.episodes
    assert first.stop_reason == StopReason.CONTEXT
    assert (first.num_turns, first.success) == (before, False)
    assert first.truncated == [False] * (before - 1) + [True] * bool(before)
    assert not any(first.terminated)
    assert [episode.num_turns for episode in rest] == [5, 5]
    assert "outgrew the model's context" in result.notes()[0]
    first.to_json()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"episodes": 0}, "episodes"), ({"num_envs": 0}, "num_envs"),
        ({"context": "all"}, "context"), ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1.0}, "temperature"), ({"top_p": 0.0}, "top_p"),
        ({"timeout": 0.0}, "timeout"), ({"max_turns": 0}, "max_turns"),
        ({"env_kwargs": {"hihg": 3}}, "cannot build llm_gym/GuessTheNumber-v0"),
        ({"env": "llm_gym/Ges-v0"}, "there is no environment"),
        ({"env": lambda: gym.make(GUESS), "env_kwargs": {"high": 3}}, "env_kwargs are for an id"),
        ({"url": "localhost:8000"}, "url"), ({"url": "http://localhost:port"}, "url"),
        ({"url": "http://localhost/v1?key=secret\r\n"}, "url"),
        ({"url": "http://me:secret@localhost"}, "url"), ({"split": "eval"}, "split"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_honoured_is_one_sentence_and_asks_nobody(server, settings, says):
    arguments = {"env": GUESS, "url": server.url, "model": "m", "episodes": 2, **settings}
    with pytest.raises(ConfigError, match=says) as found:
        play(**arguments)
    assert "secret" not in str(found.value)
    assert server.asked == []
