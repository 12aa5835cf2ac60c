from machines.attempt import Unavailable

NAMES = ("arm64",)


def attempt(attempt):
    raise Unavailable("not written yet")
