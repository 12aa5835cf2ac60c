"""How much of a test runs: below full length (WHERRY_TEST_SCALE below 1) a part of its cases.

The parts of successive runs follow each other: after at most 20 runs each case has run.
WHERRY_TEST_RUN is the number of the run. tools/test counts its runs of a build folder; without the
variable the number is random.
"""

import math
import os
import random

SCALE = min(1.0, float(os.environ.get("WHERRY_TEST_SCALE", "1")))
IS_SHORT = SCALE < 1
RUN = int(os.environ.get("WHERRY_TEST_RUN", random.randrange(1 << 32)))
RUNS_FOR_ALL = 20


def some_of(things, what, part=1.0, below_full=SCALE):
    """That part of them, and below full length that part of the part; at least one, others in the
    next run. `what` they are is printed; tools/test_summary.py adds these lines up."""
    things = list(things)
    count = max(math.ceil(len(things) * part * (below_full if IS_SHORT else 1)),
                math.ceil(len(things) / RUNS_FOR_ALL))
    print(f"WHERRY_TEST_RUN={RUN}: {count} of {len(things)} {what}", flush=True)
    # Not sorted: neighbours often test similar things.
    order = random.Random(what).sample(range(len(things)), len(things))
    return [things[i] for i in sorted(order[(RUN * count + k) % len(things)]
                                      for k in range(count))]
