from machines.attempt import Unavailable

NAMES = ("debian12", "debian13", "sid")


def attempt(attempt):
    raise Unavailable("not written yet")
