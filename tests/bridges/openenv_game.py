"""A game for OpenEnv's own server: guess a number; it counts turns, and refuses one word."""

import random

from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app


class GuessAction(Action):
    message: str


class GuessObservation(Observation):
    text: str = ""


class Guess(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **_):
        self.secret, self.turns = random.Random(seed).randint(1, 10), 0
        return GuessObservation(text="Guess a number from 1 to 10.")

    def step(self, action, **_):
        if action.message == "refuse me":
            raise ValueError("no")
        self.turns += 1
        if action.message.strip() == str(self.secret):
            return GuessObservation(text="Right.", reward=1.0, done=True)
        return GuessObservation(text=f"Turn {self.turns}.", reward=0.0, done=self.turns == 5)

    @property
    def state(self):
        return State(episode_id="0", step_count=self.turns)


def app():
    return create_fastapi_app(Guess, GuessAction, GuessObservation, max_concurrent_envs=8)
