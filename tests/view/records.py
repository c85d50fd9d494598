"""Records to look at: a run folder made by hand, with every kind of file."""

import json
import threading
from contextlib import contextmanager

import gymnasium as gym

from llm_gym.episodes import Tokens, Trajectory, play_episode, write_episodes
from llm_gym.view.server import ViewServer
from llm_gym.view.sources import open_sources

GUESS = "llm_gym/GuessTheNumber-v0"
HOSTILE = (
    "<script>window.hacked = true</script><img src=x onerror='window.hacked = true'>"
    "</script><!-- \u202eright to left\u202c \x1b[31mred\x1b[0m zero\u200bwidth \x00 \u2028 "
    "\ud83d\ude00 </textarea> {{constructor}} javascript:alert(1)"
)
METRICS = [
    {"iteration": 1, "eval/success": 0.25, "policy/kl": 0.5, "time/elapsed_s": 3.0},
    {"iteration": 2, "eval/success": 0.5, "policy/kl": 0.25, "time/elapsed_s": 6.0},
]


def played(seed, moves=("7", "13", "2"), **settings):
    env = gym.make(GUESS, **settings)
    left = iter(moves)
    episode = play_episode(env, lambda observation: next(left, "1"), seed=seed)
    env.close()
    return episode


def with_tokens(count=6):
    """An episode of two turns whose figures can be told apart."""
    middle = count // 2
    nan = float("nan")
    sampled = [at % 3 != 0 for at in range(count)]

    def column(start):
        return [start + at / 64 if one else nan for at, one in enumerate(sampled)]

    episode = Trajectory(
        states=["Which way?", "And now?", "Done."],
        actions=["go north", "go home"],
        rewards=[0.25, 1.0],
        dones=[False, True],
        infos=[{"reward_terms": {"shaping": 0.25}}, {"success": True, "stop_reason": "won"}],
        group=0,
        env_id="made/ByHand-v0",
    )
    episode.tokens = Tokens(
        ids=list(range(100, 100 + count)),
        log_probs=column(-9.0),
        values=column(0.0),
        advantages=column(-1.0),
        true_advantages=column(-2.0),
        ratios=column(0.5),
        entropies=column(2.0),
        trained_on=sampled,
        weights_versions=[3] * count,
        turns=[0] * middle + [1] * (count - middle),
        texts=[f"t{at} " for at in range(count)],
    )
    return episode


def hostile():
    return Trajectory(
        states=[HOSTILE, HOSTILE * 500],
        actions=[HOSTILE],
        rewards=[float("inf")],
        dones=[True],
        infos=[{HOSTILE: HOSTILE, "reward_terms": {HOSTILE: 1.0}}],
        messages=[{"role": "system", "content": HOSTILE}],
        env_id=HOSTILE,
        policy=HOSTILE,
        group=HOSTILE,
        tokens=Tokens(ids=[1], log_probs=[-0.5], texts=[HOSTILE]),
    )


@contextmanager
def serving(*places):
    """The viewer's server over ``places``, for as long as the block lasts."""
    with ViewServer(open_sources(places)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def make_run(folder, metrics=METRICS, **settings):
    """Write a run: before, after, training with a group of two."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"training": {"gamma": 0.9, **settings}}))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics))
    (folder / "warm_start.jsonl").write_text('{"step": 1, "loss": 4.0}\n{"step": 2, "loss": 2.0}\n')
    write_episodes(folder / "episodes/before.jsonl", [played(seed) for seed in range(3)])
    after = [played(seed, ["5", "6", "8", "9"]) for seed in range(3)]
    write_episodes(folder / "episodes/after.jsonl", after)
    write_episodes(folder / "episodes/train-000001.jsonl", [with_tokens(), with_tokens(8)])
    return folder
