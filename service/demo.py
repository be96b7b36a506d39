"""The demo model: a made-up catalogue in which a person sees at once whether the answers make sense.

Twenty topics with 160 items each, all with readable titles, and the users 1 to 1000, each of whom loves two topics
(`tastes`; user 42 loves jazz and cooking). Vectors are made of the topics and some noise, users have seen a few items
of their topics, and whoever met some items can be folded in. Items have a category, an author, a price, a stock, tags
and a date to filter by. The same model comes out every time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from greedy_core import Attributes, FoldIn, build_bundle

if TYPE_CHECKING:
    import numpy.typing as npt

    from greedy_core import Bundle

VERSION = "demo"
# What `scenario=home` and others mean in the demo.
SCENARIOS = Path(__file__).with_name("demo_scenarios.toml")
N_USERS = 1000
ITEMS_PER_TOPIC = 160

_N_DIMS = 32
_SEED = 42
# So certain that two or three meetings say as much as a user's own vector.
_FOLD_IN = FoldIn(regularization=1.0, alpha=200.0)
_AUTHORS = (
    "Ada Brook", "Ben Okafor", "Clara Lindqvist", "Dmitri Sand", "Elif Demir", "Farid Nassar", "Greta Holm",
    "Hiro Tanabe", "Ines Duarte", "Jonas Weber", "Kofi Mensah", "Lena Fischer",
)  # fmt: skip
_NEWEST = np.datetime64("2026-11-01")

_ADJECTIVES = (
    "Quiet", "Golden", "Late-Night", "Everyday", "Forgotten", "Northern", "Little", "Grand", "Secret", "Sunday",
    "Electric", "Wild", "Gentle", "Midnight", "Honest", "Wandering", "Crimson", "Slow", "Bright", "Old",
)  # fmt: skip

_NOUNS = {
    "jazz": (
        "Saxophone Ballads, Trio Sessions, Swing Standards, Bebop Nights, Trumpet Blues, Big Band Hits, Piano "
        "Solos, Bossa Grooves, Vocal Jazz, Cool Jazz Moods"
    ),
    "cooking": (
        "Noodle Soups, Sourdough Breads, Curry Recipes, Garden Salads, Roasts and Gravies, Street Food "
        "Recipes, Cakes and Pies, Pickles and Ferments, One-Pot Suppers, Sauces"
    ),
    "chess": (
        "Chess Openings, Endgame Studies, King's Gambits, Rook Endings, Chess Puzzles, Sicilian Defences, "
        "Grandmaster Games, Pawn Structures, Blitz Tactics, Queen Sacrifices"
    ),
    "astronomy": (
        "Star Charts, Moon Watching, Comet Stories, Telescope Guides, Galaxy Portraits, Planet Walks, Meteor "
        "Showers, Eclipse Diaries, Nebula Atlases, Black Hole Lectures"
    ),
    "gardening": (
        "Rose Beds, Vegetable Plots, Herb Gardens, Pruning Lessons, Wildflower Meadows, Bonsai Trees, Compost "
        "Heaps, Balcony Tomatoes, Fruit Trees, Seed Catalogues"
    ),
    "sailing": (
        "Ocean Crossings, Harbour Pilots, Knots and Ropes, Dinghy Races, Lighthouse Routes, Regatta Tales, "
        "Island Hopping, Storm Sails, Wooden Boats, Sea Charts"
    ),
    "crime": (
        "Detective Stories, Murder Mysteries, Courtroom Dramas, Heist Tales, Noir Streets, Cold Cases, "
        "Village Murders, Poison Plots, Missing Persons, Inspector Novels"
    ),
    "hiking": (
        "Mountain Trails, Hut Walks, Ridge Routes, Forest Paths, Coastal Hikes, Pilgrim Ways, Waterfall "
        "Walks, Winter Hikes, Valley Rambles, Backpacking Guides"
    ),
    "robots": (
        "Robot Kits, Walking Machines, Soldering Projects, Drone Builds, Circuit Boards, Maze Solvers, Robot "
        "Arms, Sensor Hacks, Line Followers, Servo Tricks"
    ),
    "opera": (
        "Arias, Verdi Evenings, Soprano Recitals, Opera Choruses, Mozart Duets, Wagner Cycles, Overtures, "
        "Tenor Gems, Baroque Operas, Bel Canto Scenes"
    ),
    "knitting": (
        "Wool Sweaters, Sock Patterns, Cable Scarves, Lace Shawls, Mitten Designs, Crochet Blankets, Fair "
        "Isle Hats, Baby Cardigans, Yarn Dyeing, Stitch Dictionaries"
    ),
    "football": (
        "Cup Finals, Penalty Shootouts, Derby Days, Goalkeeper Legends, Training Drills, League Histories, "
        "Free Kicks, World Cup Stories, Terrace Songs, Tactics Boards"
    ),
    "dinosaurs": (
        "Fossil Hunts, Raptor Tales, Tyrannosaur Facts, Jurassic Journeys, Bone Digs, Dinosaur Eggs, "
        "Triceratops Stories, Amber Finds, Extinction Riddles, Footprint Maps"
    ),
    "coffee": (
        "Espresso Blends, Pour-Over Guides, Roasting Notes, Latte Art, Coffee Farms, Cold Brews, Grinder "
        "Reviews, Barista Lessons, Bean Tastings, Café Portraits"
    ),
    "photography": (
        "Portrait Lessons, Street Photographs, Darkroom Notes, Landscape Shots, Lens Guides, Night Exposures, "
        "Wildlife Frames, Polaroid Albums, Studio Lights, Photo Essays"
    ),
    "cycling": (
        "Mountain Passes, Gravel Rides, Bike Repairs, Tour Diaries, Track Sprints, Commuter Tips, Cargo "
        "Bikes, Climbing Legs, Touring Routes, Wheel Building"
    ),
    "poetry": (
        "Sonnets, Haiku, Love Poems, Ballad Collections, Elegies, Prose Poems, Spoken Verses, Nature Odes, "
        "Limericks, Epic Songs"
    ),
    "horror": (
        "Ghost Stories, Haunted Houses, Vampire Tales, Zombie Nights, Witch Trials, Cursed Dolls, Werewolf "
        "Legends, Creature Features, Asylum Diaries, Graveyard Shifts"
    ),
    "history": (
        "Roman Roads, Viking Sagas, Silk Road Letters, Castle Sieges, Royal Courts, Pirate Chronicles, "
        "Ancient Egypt, Medieval Markets, Revolutions, Explorers' Journals"
    ),
    "birds": (
        "Owl Portraits, Birdsong Recordings, Migration Maps, Garden Birds, Seabird Colonies, Nest Boxes, Hawk "
        "Watching, Penguin Diaries, Feather Guides, Crane Dances"
    ),
}

TOPICS = tuple(_NOUNS)

_TAGS = ("new edition", "gift", "signed", "for children", "bestseller")


def tastes(user: int) -> tuple[str, str]:
    """Return the two topics that a user, from 1 to 1000, loves; the first one more."""
    if user == 42:
        return "jazz", "cooking"
    first = user * 7 % len(TOPICS)
    # From 1 to 19 places further, so that it is another topic.
    second = (first + 1 + user * 11 // len(TOPICS) % (len(TOPICS) - 1)) % len(TOPICS)
    return TOPICS[first], TOPICS[second]


def make(path: str | Path) -> Bundle:
    """Write the demo model as a new bundle. Takes a second or two."""
    rng = np.random.default_rng(_SEED)
    topics = _topic_vectors(rng)
    items = _item_vectors(rng, topics)
    users = _user_vectors(rng, topics)
    return build_bundle(
        path,
        items=items,
        users=users,
        item_ids=[f"{topic}-{number:04d}" for topic in TOPICS for number in range(1, ITEMS_PER_TOPIC + 1)],
        user_ids=range(1, N_USERS + 1),
        titles=[title for topic in TOPICS for title in _titles(topic)],
        seen=_seen(rng, items),
        fold_in=_FOLD_IN,
        attributes=_attributes(len(items)),
        metadata={
            "about": "A made-up catalogue. Users 1 to 1000 love two topics each; ids of items begin with their topic.",
            "topics": list(TOPICS),
            "tastes": {str(user): list(tastes(user)) for user in (1, 2, 3, 4, 5, 42, 100, 1000)},
        },
        version=VERSION,
    )


def _attributes(n_items: int) -> Attributes:
    """Return what a shop knows of its items: category, author, price, stock, tags and a date, some of them missing."""
    rng = np.random.default_rng(_SEED + 1)
    prices = np.round(rng.gamma(3.0, 6.0, n_items) + 1, 2)
    prices[rng.random(n_items) < 0.02] = np.nan
    tags = np.array(_TAGS)
    days = rng.integers(0, 3650, n_items)
    # Each topic has four authors of its own choice, so that one meets the same names again.
    authors = rng.integers(0, len(_AUTHORS), (len(TOPICS), 4))
    chosen = rng.integers(0, 4, n_items)
    return Attributes.from_columns(
        {
            "category": np.repeat(TOPICS, ITEMS_PER_TOPIC),
            "author": np.array(_AUTHORS)[authors[np.arange(n_items) // ITEMS_PER_TOPIC, chosen]],
            "price": prices,
            "in_stock": rng.random(n_items) < 0.8,
            "tags": [tags[rng.random(len(tags)) < 0.25].tolist() for _ in range(n_items)],
            "published": _NEWEST - days.astype("timedelta64[D]"),
        },
        n_items,
    )


def _titles(topic: str) -> list[str]:
    """Return titles that are all different: every noun with every adjective, as far as they are needed."""
    nouns = _NOUNS[topic].split(", ")
    # Both move at each step, so that neighbours differ in both; the turn shifts the pairing.
    return [
        f"{_ADJECTIVES[(number + number // len(_ADJECTIVES)) % len(_ADJECTIVES)]} {nouns[number % len(nouns)]}"
        for number in range(ITEMS_PER_TOPIC)
    ]


def _topic_vectors(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return one direction per topic: at right angles, so that topics do not leak, and some stronger than others.

    Made with sums only and no linear algebra library, whose last bits differ between machines.
    """
    topics = rng.standard_normal((len(TOPICS), _N_DIMS))
    for t in range(len(TOPICS)):
        for before in range(t):
            topics[t] -= (topics[t] * topics[before]).sum() * topics[before]
        topics[t] /= np.sqrt((topics[t] ** 2).sum())
    strengths: npt.NDArray[np.float64] = np.linspace(1.1, 0.9, len(TOPICS))[:, np.newaxis]
    return topics * strengths


def _item_vectors(rng: np.random.Generator, topics: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return items: a topic, a little of another one, and noise; the length says how good an item is."""
    own = np.repeat(np.arange(len(TOPICS)), ITEMS_PER_TOPIC)
    other = rng.integers(0, len(TOPICS), len(own))
    quality = rng.uniform(0.4, 1.6, (len(own), 1))
    noise = rng.standard_normal((len(own), _N_DIMS)) * 0.07
    return (quality * (topics[own] + 0.3 * topics[other] + noise)).astype(np.float32)


def _user_vectors(rng: np.random.Generator, topics: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    loved = np.array([[TOPICS.index(topic) for topic in tastes(user)] for user in range(1, N_USERS + 1)])
    noise = rng.standard_normal((N_USERS, _N_DIMS)) * 0.04
    users: npt.NDArray[np.float64] = topics[loved[:, 0]] + 0.95 * topics[loved[:, 1]] + noise
    return users.astype(np.float32)


def _seen(
    rng: np.random.Generator, items: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Each user has seen 5 to 30 items of the two topics, the good ones rather than the others."""
    quality = np.sqrt((items.astype(np.float64) ** 2).sum(axis=1)).reshape(len(TOPICS), ITEMS_PER_TOPIC)
    starts, seen = [0], []
    for user in range(1, N_USERS + 1):
        rows = [TOPICS.index(topic) for topic in tastes(user)]
        pool = np.concatenate([np.arange(row * ITEMS_PER_TOPIC, (row + 1) * ITEMS_PER_TOPIC) for row in rows])
        weights = quality[rows].reshape(-1) ** 2
        count = int(rng.integers(5, 31))
        seen.append(np.sort(rng.choice(pool, count, replace=False, p=weights / weights.sum())))
        starts.append(starts[-1] + count)
    return np.array(starts, dtype=np.int64), np.concatenate(seen).astype(np.int32)
