"""Whom a warm start imitates, and when it goes on for another round."""

import itertools
from types import SimpleNamespace

import pytest

from llm_gym.evaluate.result import Evaluation
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.engines.base import Completion, FinishReason
from llm_gym_agents.learn.warm_start import Decision, WarmStart, another_round
from llm_gym_agents.rollouts.sampler import Sampler
from llm_gym_agents.trainer import build
from tests.agents.scored import episode
from tests.agents.scripted import ScriptedEngine
from tests.agents.small_run import config_with
from tests.agents.text.chat_templates import FAMILIES, base_tokenizer, build_tokenizer


def seen(success, invalid=0.0):
    return SimpleNamespace(success=success, invalid=invalid)


def teacher_of(config, **given):
    """Return a warm start that lacks everything but its settings and what is given."""
    lacking = dict.fromkeys(set(WarmStart.__dataclass_fields__) - {"losses", "mix", "kept"})
    own = {"settings": config.warm_start, "training": config.training, "make_envs": {}}
    return WarmStart(**lacking | own | given)


def test_unusable_replies_lead_to_another_round_while_it_helps():
    assert "98%" in another_round("random", seen(0, 0.99), seen(0, 0.98), first=True)
    assert "30%" in another_round("random", seen(0, 0.4), seen(0, 0.3))
    assert another_round("random", seen(0, 0.4), seen(0, 0.31)) is None
    assert another_round("random", seen(0, 0.4), seen(0, 0.1)) is None


@pytest.mark.parametrize(
    ("won", "invalid", "share"),
    [(0.0, 0.5, "0%"), (0.89, 0.0, "89%"), (0.9, 0.5, "50%"), (0.9, 0.1, None)],
)
def test_a_solver_is_imitated_until_most_is_won_with_usable_replies(won, invalid, share):
    why = another_round("solver", seen(won, invalid), seen(won, invalid))
    assert share in why if share else why is None
    assert another_round("random", seen(won), seen(won)) is None


@pytest.mark.parametrize(
    ("player", "rounds", "falls"),
    [
        ("solver", 4, [(1.0, 0.75), (0.75, 0.5), (0.5, 0.25), (0.25, 0.0)]),
        ("solver", 1, [(1.0, 1.0)]),
        ("reflex", 2, [(1.0, 0.5), (0.5, 0.0)]),
        ("best_random", 2, [(1.0, 0.5), (0.5, 0.0)]),
        ("random", 2, [(1.0, 1.0), (1.0, 1.0)]),
    ],
)
def test_the_rate_falls_to_0_over_the_rounds_of_a_solver(player, rounds, falls):
    teacher = teacher_of(config_with(warm_start__rounds=rounds))
    assert [teacher.rate_decay(player, at) for at in range(rounds)] == falls


USUAL, SMALLER = (250, 96, 6144), (1000, 24, 1536)


@pytest.mark.parametrize(
    ("player", "embedded", "won", "loss", "took", "decays"),
    [
        ("solver", True, 0.02, 0.5, [USUAL, SMALLER], [0.3, 0.3]),
        ("solver", True, 0.1, 0.5, [USUAL] * 2, [0.3, 0.3]),
        # By heart: twice the rounds, and more weight decay.
        ("solver", True, 0.02, 0.01, [USUAL] * 4, [0.3, 1.0, 1.0, 1.0]),
        ("solver", True, 0.0, 0.2, [USUAL] * 2, [0.3, 0.3]),  # nothing shows what wins
        ("best_random", True, 0.02, 0.5, [USUAL, SMALLER], [0.3, 0.3]),
        ("random", True, 0.02, 0.5, [USUAL] * 2, [0.0, 0.0]),
        ("random", True, 0.1, 0.01, [USUAL] * 2, [0.0, 0.0]),
        ("solver", False, 0.02, 0.5, [(250, 96, None)] * 2, [0.0, 0.0]),
        ("solver", False, 0.1, 0.01, [(250, 96, None)] * 2, [0.0, 0.0]),
    ],
)
def test_the_result_of_a_round_decides_steps_rounds_and_weight_decay(
    monkeypatch, player, embedded, won, loss, took, decays
):
    def imitate(model, data, *, steps, batch_size, batch_tokens, weight_decay, **others):
        found.append((steps, batch_size, batch_tokens))
        decayed.append(weight_decay)
        return [loss]

    monkeypatch.setattr("llm_gym_agents.learn.warm_start.imitate", imitate)
    config, found, decayed = config_with(warm_start__rounds=2, warm_start__steps=250), [], []
    idle = SimpleNamespace(model=None, start_from_here=lambda: None)
    teacher = teacher_of(config, embedded=embedded, say=str, tick=str, publish=str, learner=idle)
    teacher.collect = lambda decision, at, visit: []
    teacher._measure = lambda: seen(won, invalid=0.5)
    teacher._rounds(SimpleNamespace(player=player), seen(0.0, invalid=1.0))
    assert (found, decayed) == (took, decays)


class Quiet:
    """An environment that nobody plays."""

    def close(self):
        pass


class Cut(ScriptedEngine):
    """Replies with one text, cut at ``max_tokens``."""

    def _finish(self, request):
        ids, most = self.say(request), request.sampling.max_tokens
        end = FinishReason.LENGTH if len(ids) > most else FinishReason.STOP
        return Completion(ids[:most], [-1.0] * len(ids[:most]), end, 0, request.key)


@pytest.mark.parametrize(
    ("thinks", "reply", "turns", "room", "player", "blames"),
    [
        (True, "<think>\n" + "hm. " * 40 + "</think>\n\nred", 4, 32, "none", True),
        (True, "<think>\n" + "hm. " * 40 + "</think>\n\nred", 4, 1024, "none", False),
        (True, "No idea at all of it.", 4, 32, "solver", False),
        # more room helps
        (False, "I look around, and " * 8 + "so I say:\nred", 1, 32, "none", True),
        (False, "I look around, and " * 8 + "so I say:\nred", 4, 32, "solver", False),  # too little
        (False, "and so on " * 400, 4, 32, "solver", False),  # it never ends: it cannot
        (False, "red", 4, 32, "solver", False),  # it can, and wins one game in 16
        (False, "red", 1, 32, "none", False),  # and here half of them
    ],
)
def test_no_player_is_imitated_because_max_tokens_is_too_small(
    thinks, reply, turns, room, player, blames
):
    tokenizer = build_tokenizer(FAMILIES["chatml"]) if thinks else base_tokenizer()
    config = ConfigStore()
    config.environment.env_id = "llm_gym/Echo-v0"
    config.environment.env_kwargs = {"words": 2, "max_turns": turns}
    config.inference.max_tokens, config.warm_start.player = room, "auto"
    engine = Cut(say=lambda request: tokenizer.encode(reply))
    policy = build.build_policy(config, engine, tokenizer)
    pool = build.build_pool(config, config.environment.env_id, 16)
    make_envs = {"": lambda: build.build_one_env(config, config.environment.env_id)}
    sampler = Sampler(policy, pool)
    decision = teacher_of(config, sampler=sampler, make_envs=make_envs).decide()
    sampler.close()
    assert decision.player == player
    assert ("inference.max_tokens" in decision.why) == blames
    assert policy.sampling.max_tokens == room


def test_later_rounds_keep_the_best_random_episodes_of_earlier_ones(monkeypatch):
    monkeypatch.setattr(
        "llm_gym_agents.learn.warm_start.play_demonstrations",
        lambda env, player, encoder, turns, *, seed, split: [(player, seed)],
    )
    config = config_with(warm_start__turns=10)
    engine = SimpleNamespace(context_length=None)
    policy = SimpleNamespace(chat=None, context=None, system_prompt=None, engine=engine)
    sampler, make_envs = SimpleNamespace(policy=policy), {"": Quiet}
    for player, sizes in (("best_random", [1, 2, 3]), ("random", [1, 1, 1])):
        teacher = teacher_of(config, sampler=sampler, make_envs=make_envs)
        rounds = [list(teacher.collect(Decision(player, "a test"), at)) for at in range(3)]
        assert list(map(len, rounds)) == sizes
        assert len(set(itertools.chain(*rounds))) == 3  # each round plays other episodes


def test_later_rounds_take_more_moves_of_the_environments_that_are_lost(monkeypatch):
    mix = {"won": 1.0, "lost": 1.0, "half": 2.0}
    wins = {"won": [True, True], "lost": [False, False], "half": [True, False]}
    played = [
        episode(env_id=env_id, infos=[{}, {"success": won}])
        for env_id, each in wins.items()
        for won in each
    ]
    config = ConfigStore()
    config.warm_start.rounds = 2
    teacher = teacher_of(
        config,
        make_envs=dict.fromkeys(mix),
        mix=mix,
        evaluate=lambda episodes: Evaluation(None, played, 0, 0.0),
        say=lambda text: None,
        tick=lambda text: None,
    )
    shares = []
    monkeypatch.setattr(teacher, "_teach", lambda *_, **__: shares.append(teacher.shares) or 0)
    teacher._rounds(Decision("solver", "a test says so"), teacher._measure())
    assert shares[0] == {"won": 0.25, "lost": 0.25, "half": 0.5}
    assert shares[1] == pytest.approx({"won": 1 / 9, "lost": 4 / 9, "half": 4 / 9})
