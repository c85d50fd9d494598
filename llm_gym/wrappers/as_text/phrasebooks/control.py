"""Phrasebooks of Gymnasium's classic control tasks and of LunarLander."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from llm_gym.wrappers.as_text.phrasebooks.book import Phrasebook
from llm_gym.wrappers.as_text.phrasebooks.observations import label_numbers


class CartPoleWords(Phrasebook):
    """Position and speed of the cart, angle and speed of the pole."""

    names = ("push left", "push right")
    aliases = {"left": 0, "right": 1}
    labels = ("Cart position", "cart speed", "pole angle", "pole speed")
    end_text = "The pole has fallen or the cart has left the track."

    def rules_text(self) -> str:
        track, angle = self.game.x_threshold, self.game.theta_threshold_radians
        return (
            "A pole stands on a cart, which you push to the left or to the right. Keep the pole "
            f"up as long as you can. It has fallen when its angle leaves {-angle:.3g} to "
            f"{angle:.3g} radians, and the track ends at {-track:g} and {track:g}. What is to the "
            f"right is positive: position, angle and speeds."
        )

    def oracle_move(self) -> str:
        """Push under the pole, and a little back to the middle."""
        x, speed, angle, turning = map(float, self.game.state)
        return self.names[int(angle + 0.3 * turning + 0.02 * x + 0.06 * speed > 0.0)]


class MountainCarWords(Phrasebook):
    """Position and speed of the car."""

    names = ("push left", "do nothing", "push right")
    aliases = {"left": 0, "nothing": 1, "wait": 1, "right": 2}
    labels = ("Position", "speed")
    end_text = "The car is on the hill."
    end_is_success = True

    def rules_text(self) -> str:
        game = self.game
        return (
            "A car stands in a valley between two hills. Its motor is too weak to drive straight "
            f"up: swing to and fro to gain speed. The goal is the position {game.goal_position:g}, "
            f"up on the right; the valley is lowest at -0.52 and ends on the left at "
            f"{game.min_position:g}. Speed is positive to the right. Every move costs 1 point."
        )

    def oracle_move(self) -> str:
        """Push the way that the car rolls."""
        return self.names[2 if float(self.game.state[1]) >= 0.0 else 0]


class AcrobotWords(Phrasebook):
    """Angles and speeds of the two links, and how high the tip is."""

    names = ("torque -1", "torque 0", "torque 1")
    aliases = {"torque +1": 2, "+1": 2, "-1": 0}
    labels = ("First angle", "second angle", "first speed", "second speed", "tip height")
    end_text = "The tip is up."
    end_is_success = True

    def rules_text(self) -> str:
        return (
            "Two links hang in a chain from a fixed point. You turn the joint between them with a "
            "torque of -1, 0 or 1; swing the tip up until its height is above 1. Both links hang "
            "down at angle 0, with the tip at height -2. The second angle is relative to the first "
            "link. Angles are in radians. Every move costs 1 point."
        )

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        cos1, sin1, cos2, sin2, speed1, speed2 = map(float, observation)
        first, second = math.atan2(sin1, cos1), math.atan2(sin2, cos2)
        height = -cos1 - math.cos(first + second)
        return label_numbers(self.labels, (first, second, speed1, speed2, height))

    def oracle_move(self) -> str:
        """Turn the joint so that the first link gains speed."""
        return self.names[0 if float(self.game.state[2]) > 0.0 else 2]


class LunarLanderWords(Phrasebook):
    """Where the lander is, how it moves, how it is tilted, and which legs stand."""

    names = ("do nothing", "fire left engine", "fire main engine", "fire right engine")
    aliases = {"nothing": 0, "wait": 0, "left": 1, "main": 2, "right": 3}
    labels = ("Sideways", "height", "sideways speed", "vertical speed", "tilt", "tilt speed")

    def _action_names(self) -> Sequence[str] | None:
        if getattr(self.game, "continuous", False):
            return ("main engine", "side engines")
        return super()._action_names()

    def rules_text(self) -> str:
        parts = [
            "Land softly on the pad, which is at sideways 0 and height 0. To the right and up are "
            "positive. Tilt is in radians, positive to the left. The main engine pushes the lander "
            "along its axis, up when it is upright; the left engine pushes and tilts it to the "
            "left, the right engine to the right. A crash costs 100 points, coming to rest earns "
            "100, each leg on the ground 10; engines cost fuel. 200 points count as a success."
        ]
        if getattr(self.game, "continuous", False):
            parts.append(
                "The main engine burns above 0, from half power to full at 1. The side engines "
                "burn beyond 0.5: the left one below -0.5, the right one above 0.5."
            )
        if getattr(self.game, "enable_wind", False):
            parts.append("There is wind.")
        return " ".join(parts)

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        *numbers, left, right = map(float, observation)
        legs = ["down" if leg else "up" for leg in (left, right)]
        text = label_numbers(self.labels, numbers)
        return f"{text}, left leg {legs[0]}, right leg {legs[1]}"

    def ending(self, reward: float) -> str:
        return "The lander is at rest." if reward > 0 else "The lander has crashed."
