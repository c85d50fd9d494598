"""New weights come in between two replies, never during one, and nobody waits for ever."""

import threading

from llm_gym_agents.rollouts.policy import WeightSwapLock


def test_whoever_plays_is_interrupted_only_where_it_lets_in():
    gate, order = WeightSwapLock(), []
    arrived = threading.Event()

    def visit():
        arrived.set()
        gate.acquire()
        order.append("weights")
        gate.release()

    with gate.playing():
        visitor = threading.Thread(target=visit)
        visitor.start()
        arrived.wait()
        while not gate.requested:
            pass
        order.append("reply")  # being sampled while somebody waits
        gate.yield_to_update()
        order.append("reply")
    visitor.join()
    assert order == ["reply", "weights", "reply"]
    assert not gate.requested


def test_nobody_waits_where_nobody_plays():
    gate = WeightSwapLock()
    gate.acquire()
    gate.acquire()
    gate.release()
    gate.release()
    with gate.playing():
        assert not gate.requested


def test_playing_waits_for_weights_that_are_coming_in():
    gate, order = WeightSwapLock(), []
    gate.acquire()

    def play():
        with gate.playing():
            order.append("play")

    player = threading.Thread(target=play)
    player.start()
    order.append("weights")
    gate.release()
    player.join()
    assert order == ["weights", "play"]


def test_a_visitor_gets_in_when_the_play_is_over_without_a_pause():
    gate = WeightSwapLock()
    inside = threading.Event()

    def visit():
        gate.acquire()
        inside.set()
        gate.release()

    with gate.playing():
        visitor = threading.Thread(target=visit)
        visitor.start()
        assert not inside.is_set()
    visitor.join()
    assert inside.is_set()
