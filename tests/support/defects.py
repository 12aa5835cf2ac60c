"""Lines of the library's log that only a defect of the library can cause. A test in whose output
one occurs has failed, whatever its result is.

support/watched.py looks at what each test prints. A test that reads the output of a program itself
passes it to noticed(), or the line would go unseen."""

import sys

LINES = ("the page never came free",)


def found_in(text):
    """The first such line in the text; empty if there is none."""
    return next((line for line in LINES if line in text), "")


def noticed(done):
    """Returns the result of subprocess.run() of a program of Wherry. Prints such a line, so that
    support/watched.py sees it."""
    for text in (done.stdout, done.stderr):
        if line := found_in(text or ""):
            print(f"{done.args}: {line}", file=sys.stderr)
    return done
