from machines.attempt import Unavailable

NAMES = ("kernel-5.10", "kernel-6.1", "kernel-6.12", "kernel-newest")


def attempt(attempt):
    raise Unavailable("not written yet")
