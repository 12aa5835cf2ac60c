"""How much of a test runs: below full length (WHERRY_TEST_SCALE below 1) a part of it."""

import math
import os
import random

SCALE = min(1.0, float(os.environ.get("WHERRY_TEST_SCALE", "1")))
IS_SHORT = SCALE < 1


def some_of(things, what, part=1.0, below_full=SCALE):
    """That part of them, and below full length that part of the part; at least one, others each
    time. `what` they are is printed."""
    things = list(things)
    count = math.ceil(len(things) * part * (below_full if IS_SHORT else 1))
    seed = int(os.environ.get("WHERRY_TEST_SEED", random.randrange(1 << 32)))
    print(f"WHERRY_TEST_SEED={seed}: {count} of {len(things)} {what}")
    chosen = random.Random(seed).sample(range(len(things)), count)
    return [things[i] for i in sorted(chosen)]
