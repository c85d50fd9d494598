"""Small households of our own, in the layout and the language of ALFWorld's games.

ALFWorld's thousands come from the network. Its domain and its grammar are in its package, so what
is written here is what ``alfworld-generate`` writes: a problem in PDDL for each game, beside the
``traj_data.json`` that says what kind of task it is.
"""

import json
from pathlib import Path

PROBLEM = """
(define (problem plan_trial)
 (:domain alfred)
 (:objects
  agent1 - agent
  {things} - object
  {types} - otype
  CounterTopType FridgeType CabinetType SinkBasinType MicrowaveType - rtype
  loc_bar_0_bar_0_bar_0_bar_0 {locations} - location
  {places} - receptacle
 )
 (:init
  (= (total-cost) 0)
  (atLocation agent1 loc_bar_0_bar_0_bar_0_bar_0)
  {facts}
 )
 (:goal (and (exists (?r - receptacle) (exists (?o - object) (and
  (receptacleType ?r {to}Type) (objectType ?o {what}Type) (inReceptacle ?o ?r) {state})))))
 (:metric minimize (total-cost)))
"""
PLACES = {"CounterTop": False, "Fridge": True, "Cabinet": True, "SinkBasin": False}
TASKS = {
    "pick_and_place_simple": "",
    "pick_clean_then_place_in_recep": "(isClean ?o)",
    "pick_cool_then_place_in_recep": "(isCool ?o)",
}


def write_games(folder: Path) -> Path:
    """Write five games in the three folders that ALFWorld has; return where they are."""
    home = folder / "json_2.1.1"
    kinds = list(TASKS)
    write_game(home / "train", kinds[0], "Apple", "Fridge", at="CounterTop")
    write_game(home / "train", kinds[1], "Plate", "Cabinet", at="CounterTop")
    write_game(home / "train", kinds[2], "Tomato", "CounterTop", at="Cabinet")
    write_game(home / "valid_seen", kinds[0], "Plate", "Fridge", at="Cabinet")
    write_game(home / "valid_unseen", kinds[1], "Apple", "CounterTop", at="Fridge")
    # Neither is played by ALFWorld: one cannot be solved, the other needs a knife.
    write_game(home / "train", kinds[0], "Apple", "Cabinet", at="Fridge", solvable=False)
    write_game(home / "train", kinds[0], "AppleSliced", "Fridge", at="CounterTop")
    return home


def write_game(root, kind, what, to, at, solvable=True):
    from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH

    place = root / f"{kind}-{what}-None-{to}-1" / "trial_T20261115_000000_000001"
    place.mkdir(parents=True)
    grammar = Path(ALFRED_TWL2_PATH).read_text()
    game = {
        "pddl_domain": Path(ALFRED_PDDL_PATH).read_text(),
        "grammar": grammar.replace("UNKNOWN GOAL", f"put some {what.lower()} in {to.lower()}"),
        "pddl_problem": problem(kind, what, to, at),
        "solvable": solvable,
        "walkthrough": None,
    }
    (place / "game.tw-pddl").write_text(json.dumps(game))
    (place / "traj_data.json").write_text(json.dumps({"task_type": kind}))


def problem(kind, what, to, at):
    things = {what: at, "Mug": "CounterTop", "Fork": "Cabinet"}
    ids = {name: f"{name}_bar__plus_01_dot_0{n}_bar__plus_00" for n, name in enumerate(things)}
    homes = {name: f"{name}_bar__minus_0{n}_dot_50_bar__plus_01" for n, name in enumerate(PLACES)}
    spots = {name: f"loc_bar_{n + 1}_bar_0_bar_0_bar_0" for n, name in enumerate(PLACES)}
    facts = []
    for name, home in homes.items():
        facts += [
            f"(receptacleType {home} {name}Type)",
            f"(receptacleAtLocation {home} {spots[name]})",
        ]
        facts += [f"(openable {home})"] * PLACES[name]
        facts += [f"(canContain {name}Type {thing}Type)" for thing in things]
    for name, inside in things.items():
        thing = ids[name]
        facts += [f"(objectType {thing} {name}Type)", f"(pickupable {thing})"]
        facts += [f"(cleanable {thing})", f"(coolable {thing})"]
        facts += [f"(inReceptacle {thing} {homes[inside]})"]
        facts += [f"(objectAtLocation {thing} {spots[inside]})"]
    types = [f"{name}Type" for name in things] + ["KnifeType", "ButterKnifeType"]
    return PROBLEM.format(
        things=" ".join(ids.values()), types=" ".join(types), locations=" ".join(spots.values()),
        places=" ".join(homes.values()), facts="\n  ".join(facts), to=to, what=what,
        state=TASKS[kind],
    )  # fmt: skip
