"""The names of rooms, items and monsters; written for this project, under its Apache-2.0 licence.

Every name is one lower-case word. No name is in two lists, and none is a command word, so a text
can be parsed without ambiguity.
"""

ROOMS = (
    "hall", "kitchen", "den", "attic", "cellar", "library", "garden", "study",
    "chapel", "pantry", "workshop", "gallery", "tower", "stable", "bedroom", "courtyard",
    "cloister", "armory", "vault", "porch", "crypt", "orchard", "lounge", "foundry",
)  # fmt: skip
ITEMS = (
    "rope", "lamp", "coin", "book", "ring", "crown", "cup", "bell",
    "flute", "mirror", "candle", "letter", "apple", "feather", "compass", "statue",
    "goblet", "scroll", "amulet", "blanket", "bottle", "brush", "violin", "lantern",
)  # fmt: skip
METALS = ("brass", "iron", "copper", "silver", "golden", "bronze")
CONTAINERS = ("chest", "box", "crate", "cabinet", "barrel", "basket")
MONSTERS = ("troll", "goblin", "wolf", "ghost", "bandit", "serpent")
WEAPONS = ("sword", "axe", "spear", "bow", "hammer", "dagger")
MORE_ROOMS = (
    "parlor", "nursery", "laundry", "bathroom", "balcony", "terrace", "greenhouse", "observatory",
    "dungeon", "barracks", "brewery", "smithy", "bakery", "dairy", "granary", "barn",
    "boathouse", "gatehouse", "guardroom", "scullery", "larder", "dormitory", "refectory",
    "infirmary", "belfry", "archive", "theater", "ballroom", "salon", "office", "garage",
    "basement", "veranda", "patio", "alcove", "corridor", "foyer", "lobby", "loft", "rotunda",
)  # fmt: skip
