"""New weights come in between two replies, never during one, and nobody waits for ever."""

import threading

from llm_gym_agents.rollouts.turnstile import Turnstile


def test_whoever_plays_is_interrupted_only_where_it_lets_in():
    gate, order = Turnstile(), []
    arrived = threading.Event()

    def visit():
        arrived.set()
        gate.enter()
        order.append("weights")
        gate.leave()

    with gate.playing():
        visitor = threading.Thread(target=visit)
        visitor.start()
        arrived.wait()
        while not gate.wanted:
            pass
        order.append("reply")  # being sampled while somebody waits
        gate.let_in()
        order.append("reply")
    visitor.join()
    assert order == ["reply", "weights", "reply"]
    assert not gate.wanted


def test_nobody_waits_where_nobody_plays():
    gate = Turnstile()
    gate.enter()
    gate.enter()
    gate.leave()
    gate.leave()
    with gate.playing():
        assert not gate.wanted


def test_playing_waits_for_weights_that_are_coming_in():
    gate, order = Turnstile(), []
    gate.enter()

    def play():
        with gate.playing():
            order.append("play")

    player = threading.Thread(target=play)
    player.start()
    order.append("weights")
    gate.leave()
    player.join()
    assert order == ["weights", "play"]


def test_a_visitor_gets_in_when_the_play_is_over_without_a_pause():
    gate = Turnstile()
    inside = threading.Event()

    def visit():
        gate.enter()
        inside.set()
        gate.leave()

    with gate.playing():
        visitor = threading.Thread(target=visit)
        visitor.start()
        assert not inside.is_set()
    visitor.join()
    assert inside.is_set()
