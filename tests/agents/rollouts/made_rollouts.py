"""Rollouts made up on the spot: any number of turns, of either context, cut or ended."""

from hypothesis import strategies as st

from llm_gym.core.outcome import StopReason
from llm_gym.episodes import Trajectory
from llm_gym_agents.rollouts.turns import BootstrapPrompt, Rollout, Turn

ids = st.lists(st.integers(0, 255), min_size=1, max_size=4)


@st.composite
def episodes(draw, number):
    """Return an episode, its turns and what would have come next."""
    history, cut = draw(st.booleans()), draw(st.booleans())
    count = draw(st.integers(1, 3))
    turns = []
    for at in range(count):
        reply = draw(ids)
        turns.append(
            Turn(
                episode=number,
                number=at,
                prompt_ids=draw(ids),
                reply_ids=reply,
                log_probs=[-float(n) for n in range(len(reply))],
                finish="stop",
                version=draw(st.integers(0, 3)),
                new_sequence=at == 0 or not history,
            )
        )
    episode = Trajectory(
        episode_id=number,
        group=draw(st.integers(0, 3)),
        states=[""] * (count + 1),
        actions=[""] * count,
        rewards=draw(st.lists(st.floats(-1, 1, width=32), min_size=count, max_size=count)),
        terminated=[False] * (count - 1) + [not cut],
        truncated=[False] * (count - 1) + [cut],
    )
    episode.stop_reason = StopReason.MAX_STEPS if cut else StopReason.LOST
    closing = None
    if cut:
        closing = BootstrapPrompt(draw(st.lists(st.integers(0, 255), max_size=3)), not history)
        if closing.new_sequence and not closing.ids:
            closing = BootstrapPrompt([7], True)  # a prompt has an id at least
    return episode, turns, closing


@st.composite
def rollouts(draw, least=1, most=6):
    played = [draw(episodes(n)) for n in range(draw(st.integers(least, most)))]
    return rollout_of(played)


def rollout_of(played):
    return Rollout(
        episodes=[episode for episode, _, _ in played],
        turns=[turns for _, turns, _ in played],
        bootstrap_prompts=[closing for _, _, closing in played],
        unplayed=[],
        failures=[],
    )
