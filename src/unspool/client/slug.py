"""A name for a session that people can say: adjective-verb-noun, as `slug` on its lines and its plan's file name."""

from __future__ import annotations

import hashlib

_ADJECTIVES = """\
amber ample azure bold brave breezy bright brisk calm candid careful cheerful clear clever cosy crisp curious
dapper deep eager early easy elegant fair fancy fine fleet fluffy fond frank fresh gentle glad golden graceful
grand happy hearty honest humble jolly keen kind light lively lucid lucky mellow merry mild misty modest neat
nimble noble patient playful polite proud quick quiet rapid ready robust rosy serene sharp silent silver sleek
smooth snug soft solid sparkling spry steady still sturdy sunny swift tender tidy tranquil vivid warm wise
witty zesty
"""
_VERBS = """\
baking bathing beaming blooming bouncing brewing building chasing chiming climbing coasting cooking crafting
dancing dashing digging dreaming drifting exploring finding floating flying foraging gathering gliding growing
humming hopping juggling jumping knitting leaping learning listening marching meandering mending mixing
munching napping orbiting painting pacing pondering prancing purring puzzling racing reading resting rolling
rowing running sailing scribbling searching shining singing sipping skating sketching sleeping sliding
snoozing soaring spinning splashing sprouting strolling swimming swinging tinkering tumbling waddling walking
wandering weaving whistling wishing wondering writing
"""
_NOUNS = """\
acorn anchor apple aspen badger bamboo barn beacon beaver berry birch bison brook candle canyon castle cedar
cherry cloud clover comet compass coral cove crane creek crystal daisy dawn dolphin dune eagle elm ember
falcon feather fern finch fjord forest fountain fox garden glacier grove harbour hare hawk hazel heron hill
island ivy jasmine kettle kite lagoon lake lantern lark leaf lily lynx maple marble meadow moon moss mountain
oak ocean orchard otter owl panda pebble pine planet plum pond poppy prairie puffin quail quilt rabbit raven
reef river robin rose sparrow spruce squirrel star stone stream sunrise swan thistle tiger tulip turtle valley
violet walnut willow wren zephyr
"""


def slug(session_id: str) -> str:
    """Return the name that goes with an id."""
    number = int.from_bytes(hashlib.sha256(session_id.encode()).digest()[:12], "big")
    words = []
    for choice in (_ADJECTIVES.split(), _VERBS.split(), _NOUNS.split()):
        number, place = divmod(number, len(choice))
        words.append(choice[place])
    return "-".join(words)
