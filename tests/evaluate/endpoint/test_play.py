"""A served model plays: what is sent, what is recorded, many conversations at once."""

import threading

import gymnasium as gym
import pytest

from llm_gym import play_episode, read_episodes
from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import StopReason
from llm_gym.episodes.replay import rebuild, replay
from llm_gym.evaluate.endpoint import play
from tests.evaluate.endpoint.fake_server import FakeServer, hangs_up, solver, status

GUESS = "llm_gym/GuessTheNumber-v0"


def test_a_served_solver_plays_as_it_does_in_process(server, tmp_path):
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


def test_missing_token_counts_are_noted():
    with FakeServer(solver, usage=False) as server:
        result = play(GUESS, server.url, "m", 1)
    assert result.usage.uncounted == result.usage.requests == result.episodes[0].num_turns
    assert result.tokens == 0
    assert "did not count the tokens" in result.notes()[0]


def test_the_rules_are_the_system_prompt_and_the_whole_history_is_sent(server):
    play(GUESS, server.url, "m", 1, num_envs=1)
    third = server.requests[2]["messages"]
    roles = ["system", "user", "assistant", "user", "assistant", "user"]
    assert [message["role"] for message in third] == roles
    assert third[0]["content"].startswith("I am thinking of a whole number")
    assert third[:2] == server.requests[0]["messages"]


@pytest.mark.parametrize(("prompt", "expected"), [("Play.", ["Play."]), ("", [])])
def test_a_given_system_prompt_replaces_the_rules(prompt, expected):
    with FakeServer(lambda messages: "3") as server:
        [episode] = play(GUESS, server.url, "m", 1, system_prompt=prompt).episodes
    for messages in (server.requests[-1]["messages"], episode.messages):
        assert [m["content"] for m in messages if m["role"] == "system"] == expected


def test_every_reply_has_its_own_seed_for_any_number_of_threads():
    def seeds(num_envs, seed):
        with FakeServer(lambda messages: "3") as server:
            play(GUESS, server.url, "m", 3, num_envs=num_envs, seed=seed)
        return sorted(request["seed"] for request in server.requests)

    alone = seeds(1, 0)
    assert seeds(3, 0) == alone
    assert len(set(alone)) == len(alone) == 15
    assert all(0 <= seed < 2**31 for seed in alone)
    assert not set(seeds(1, 7)) & set(alone)


def test_conversations_run_concurrently():
    together = threading.Barrier(4)

    def model(messages):
        if len(messages) == 2:
            together.wait(timeout=120)  # breaks unless four first turns are being requested at once
        return "3"

    with FakeServer(model) as server:
        result = play(GUESS, server.url, "m", 8, num_envs=4)
    assert len(result.episodes) == 8
    assert result.usage.retries == 0


def test_a_slow_reply_delays_no_other_episode():
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

    with FakeServer(model) as server:
        result = play(GUESS, server.url, "m", 6, num_envs=2, on_end=on_end)
    assert len(result.episodes) == 6
    assert result.usage.retries == 0, "the slow one was waited for, and not requested again"


def test_a_thread_keeps_its_connection_open(server):
    result = play(GUESS, server.url, "m", 9, num_envs=3)
    assert result.usage.requests > 9
    assert server.connections <= 3
    before = server.connections
    server.faults += [hangs_up, hangs_up]
    result = play(GUESS, server.url, "m", 1)
    assert result.usage.retries <= 2  # where a request was on its way as the server hung up
    assert server.connections == before + 3


def test_reasoning_is_not_the_move():
    thoughts = {"reasoning_content": "7, surely", "content": "<think>8?</think>\n5"}
    with FakeServer(lambda messages: thoughts) as server:
        [episode] = play(GUESS, server.url, "m", 1).episodes
    assert set(episode.moves) == {"5"}
    assert not any("surely" in message["content"] for message in server.requests[-1]["messages"])


def thinker(thought, answer="5"):
    """A model that thinks for 300 tokens, and a server that cuts it at ``max_tokens``."""

    def fault(handler):
        cut = handler.server.requests[-1]["max_tokens"] < 300
        end = "<|channel|>final<|message|>" if "channel" in thought else "</think>"
        message = {"content": thought if cut else f"{thought}{end}{answer}"}
        if not thought:  # the server hides it
            message = {"content": "" if cut else answer, "reasoning_content": "hm"}
        choice = {"message": message, "finish_reason": "length" if cut else "stop"}
        handler.say(200, {"choices": [choice]})

    return fault


@pytest.mark.parametrize("thought", ["", "<think>8 or 5? ", "<|channel|>analysis<|message|>8? "])
def test_a_reply_cut_while_thinking_is_requested_again_with_more_tokens(thought):
    with FakeServer(None) as server:
        server.always = thinker(thought)
        result = play(GUESS, server.url, "m", 2, num_envs=1)
    limits = [request["max_tokens"] for request in server.requests]
    assert limits == [64, *[1024] * (len(limits) - 1)]
    assert server.requests[0]["messages"] == server.requests[1]["messages"]
    assert (result.cut, result.empty, result.invalid) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("settings", [{"max_tokens": 64}, {"body": {"max_tokens": 64}}])
def test_a_given_max_tokens_is_kept_and_cut_replies_are_noted(settings):
    with FakeServer(None) as server:
        server.always = thinker("")
        result = play(GUESS, server.url, "m", 1, **settings)
    assert {request["max_tokens"] for request in server.requests} == {64}
    summary = result.summary()
    assert (summary["cut"], summary["empty"], summary["success"]) == (1.0, 1.0, 0.0)
    assert any("100% of the replies were cut" in note and "--max-tokens" in note
               for note in result.notes())  # fmt: skip


def test_a_cut_reply_without_thinking_is_not_requested_again():
    def fault(handler):
        choice = {"message": {"content": "Well, " * 60}, "finish_reason": "length"}
        handler.say(200, {"choices": [choice]})

    with FakeServer(None) as server:
        server.always = fault
        result = play(GUESS, server.url, "m", 1)
    assert {request["max_tokens"] for request in server.requests} == {64}
    assert result.cut == 1.0
    with FakeServer(lambda messages: "<think>5</think>") as server:
        result = play(GUESS, server.url, "m", 1)
    assert (result.cut, result.empty) == (0.0, 1.0)
    assert any("empty" in note for note in result.notes()), "for another reason"


@pytest.mark.parametrize("content", [None, "", [{"type": "image"}]])
def test_a_reply_without_text_is_an_unusable_move(content):
    with FakeServer(lambda messages: {"content": content}) as server:
        [episode] = play(GUESS, server.url, "m", 1).episodes
    assert episode.stop_reason == StopReason.LOST
    assert set(episode.actions) == {""}
    assert episode.infos[-1]["invalid_actions"] == episode.num_turns


@pytest.mark.parametrize("before", [0, 2])
def test_a_full_context_truncates_only_its_own_episode(before):
    full = {"error": {"message": "This model's maximum context length is 8 tokens.", "code": 400}}
    with FakeServer(lambda messages: "3") as server:
        server.faults += [None] * before + [status(400, full)]
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
    ("settings", "why"),
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
def test_a_bad_setting_is_refused_before_any_request(server, settings, why):
    arguments = {"env": GUESS, "url": server.url, "model": "m", "episodes": 2, **settings}
    with pytest.raises(ConfigError, match=why) as found:
        play(**arguments)
    assert "secret" not in str(found.value)
    assert server.requests == []
