"""Sessions end when they are closed, idle, or hang, and leave nothing behind."""

import asyncio
import gc
import time

import gymnasium as gym
import pytest

from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv
from llm_gym.server.run import is_light
from llm_gym.server.sessions import EnvSession, ServerLimits, SessionRunner, Sessions
from tests.server.servers import GUESS, Caller, Hanging, name, serving


@pytest.fixture
def sessions():
    return Sessions(lambda: gym.make(GUESS), ServerLimits(sessions=100, idle_s=10))


def in_loop(sessions):
    return SessionRunner(sessions, in_loop=True, threads=1)


def begin(sessions, row, now=0.0, player=""):
    return in_loop(sessions).play_here((name(row), 1, "reset", [row, None]), now, player)


def test_idle_sessions_are_ended_and_active_ones_stay(sessions):
    begin(sessions, 0, now=0.0)
    begin(sessions, 1, now=5.0)
    ended = []
    sessions._table[name(0)].on_end = lambda: ended.append(0)
    sessions.end_idle(now=11.0)
    assert list(sessions._table) == [name(1)]
    assert ended == [0]
    assert sessions.counts["sessions idle"] == 1
    sessions.end_idle(now=15.1)
    assert len(sessions) == 0


def test_a_repeated_request_keeps_its_session_alive(sessions):
    first = begin(sessions, 0, now=0.0)
    _, again = sessions.accept((name(0), 1, "reset", [0, None]), now=9.0)
    assert again == first
    sessions.end_idle(now=18.0)
    assert len(sessions) == 1


def test_a_busy_session_is_not_idle_and_closes_after_its_step(sessions):
    begin(sessions, 0)
    job = (name(0), 2, "step", "1")
    session, _ = sessions.accept(job, 0.0)
    sessions.end_idle(now=100.0)
    assert len(sessions) == 1
    assert sessions.accept(job, 100.0)[1]["error"] == "busy"
    sessions.end(name(0), "timeout")
    assert session.env is not None
    sessions.settle(session, job, [], 101.0)
    assert session.env is None


def test_every_environment_is_closed_even_if_close_raises():
    closed = []

    class Rude(Hanging):
        def close(self):
            closed.append(self)
            raise OSError("no")

    with serving("rude", Rude) as server:
        answers = Caller(server).rows(*([name(row), 1, "reset", [0, None]] for row in range(5)))
        assert [answer[0] for answer in answers] == ["hello"] * 5
    assert len(closed) == 6, "with the one that was looked at before"
    assert len(server.sessions) == 0


def test_an_environment_that_exits_fails_only_its_own_step():
    class Exits(Hanging):
        def step(self, action):
            raise SystemExit(7)

    sessions = Sessions(Exits, ServerLimits())
    begin(sessions, 0)
    answer = in_loop(sessions).play_here((name(0), 2, "step", "1"), 0.0)
    assert (answer["error"], "SystemExit: 7" in str(answer)) == ("failed", True)


def test_no_client_takes_more_than_its_share_of_sessions(sessions):
    def ask(row, player):
        return begin(sessions, row, float(row), player)

    for row in range(100):
        ask(row, "greedy")
    assert ask(100, "greedy")["error"] == "full"
    for row in range(101, 151):
        assert isinstance(ask(row, "modest"), list), row
    assert ask(151, "modest")["error"] == "full", "both have their half"
    assert isinstance(ask(152, "third"), list)
    assert len(sessions) == 100
    assert name(0) not in sessions._table, "the one that was idle the longest"
    assert sessions.counts["sessions displaced"] == 51


def test_the_event_loop_runs_between_the_steps_of_a_request():
    class Slow(Hanging):
        def step(self, action):
            time.sleep(0.01)
            return super().step(action)

    sessions = Sessions(Slow, ServerLimits())
    turns = []

    async def play():
        begin(sessions, 0)
        steps = [(name(0), number, "step", "") for number in range(2, 12)]
        task = asyncio.create_task(in_loop(sessions).run(steps))
        while not task.done():
            turns.append(None)
            await asyncio.sleep(0)

    asyncio.run(play())
    assert len(turns) >= 9


def count(*kinds):
    gc.collect()
    return [sum(type(one) is kind for one in gc.get_objects()) for kind in kinds]


# The collection also finds garbage of other tests.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_closed_sessions_leave_no_objects():
    with serving(limits=ServerLimits(sessions=200)) as server:
        caller = Caller(server)
        _play_many(caller, 100)
        before = count(EnvSession, GuessTheNumberEnv)
        objects = len(gc.get_objects())
        for _ in range(10):
            _play_many(caller, 100)
        assert count(EnvSession, GuessTheNumberEnv) == before
        # A thousand would be there if one object of each stayed.
        assert len(gc.get_objects()) - objects < 500
        for what in ("sessions opened", "sessions closed", "episodes", "steps"):
            assert caller.count(what) == 1100, what
        assert caller.count("sessions") == 0


def _play_many(caller, many):
    ids = [name(row) for row in range(many)]
    caller.rows(*([one, 1, "reset", [0, None]] for one in ids))
    caller.rows(*([one, 2, "step", "1"] for one in ids))
    for _ in range(2):  # also where there is no such session any more
        assert caller.rows(*([one, 3, "close", None] for one in ids)) == [[]] * many


def kinds(answers):
    return [one["error"] if isinstance(one, dict) else one[0] for one in answers]


def test_a_hanging_environment_loses_only_its_own_session():
    Hanging.let_go.clear()
    limits = ServerLimits(step_s=1.5)  # a busy machine needs a while for a step
    with serving("odd", make=Hanging, limits=limits, threads=2) as server:
        caller = Caller(server)
        ids = [name(row) for row in range(6)]
        caller.rows(*([one, 1, "reset", [0, None]] for one in ids))
        moves = ["a", "hang", "b", "hang", "c", "raise"]
        rows = [[one, 2, "step", move] for one, move in zip(ids, moves, strict=True)]
        answers = caller.rows(*rows)
        assert kinds(answers) == ["a", "timeout", "b", "timeout", "c", "failed"]
        assert "ZeroDivisionError: on demand" in answers[5]["message"]
        again = caller.rows(*([one, 3, "step", "on"] for one in ids))
        assert kinds(again) == ["on", "lost", "on", "lost", "on", "on"]
        assert caller.count("sessions timeout") == 2
    Hanging.let_go.set()


def test_light_games_are_played_in_the_loop_and_solvers_in_a_thread():
    assert is_light(gym.make("llm_gym/Sokoban-v0"))
    for heavy in ("llm_gym/MathPython-v0", "llm_gym/TextToSQL-v0", "llm_gym/Dataset-v0"):
        assert not is_light(gym.make(heavy)), heavy
    assert not is_light(Hanging())
    work = in_loop(Sessions(Hanging, ServerLimits()))
    assert not work.in_loop("call")
    assert work.in_loop("step")
