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


def some_tests(part):
    """Below full length a class of tests keeps that part of its own tests, by some_of()."""
    def keep(kind):
        names = [name for name in vars(kind) if name.startswith("test")]
        for name in set(names) - set(some_of(names, f"tests of {kind.__name__}", below_full=part)):
            delattr(kind, name)
        return kind
    return keep


def is_turn_of(what, one_in=3):
    """Whether a test that does a single thing, `what`, does it in this run: always at full length,
    else in one of so many runs."""
    is_turn = not IS_SHORT or (RUN + random.Random(what).randrange(one_in)) % one_in == 0
    print(f"WHERRY_TEST_RUN={RUN}: {int(is_turn)} of 1 {what}", flush=True)
    return is_turn
