#!/usr/bin/env python3
"""Heat spreads in a plate: the 2D heat equation with numpy, numba and two devices, each of which
has half of the rows. The program's own threads count as the devices.

Usage: PYTHONPATH=build/lib/python docs/examples/heat.py

Without WHERRY_DEVICES it uses two coherent devices.
"""

import os
import sys

import numba
import numpy as np
import wherry
from wherry.nopython import thread_attach, thread_detach

ROWS, COLUMNS, STEPS = 1026, 2048, 20
DEVICES = 2


@numba.njit
def spread(old, new, begin, end):
    for row in range(begin, end):
        for i in range(1, old.shape[1] - 1):
            new[row, i] = old[row, i] + 0.2 * (
                old[row, i - 1] + old[row, i + 1] + old[row - 1, i] + old[row + 1, i]
                - 4 * old[row, i])


@numba.njit
def first_row(device):
    """The first row of a device's part. The plate's edge keeps its temperature."""
    return 1 + (ROWS - 2) * device // DEVICES


@numba.njit(parallel=True)
def step(old, new):
    """Each part runs on a thread that counts as its device meanwhile."""
    for device in numba.prange(DEVICES):
        thread_attach(device)
        spread(old, new, first_row(device), first_row(device + 1))
        thread_detach()


def fill(plate):
    plate[...] = 0
    plate[0] = 100  # the hot edge


def run(old, new):
    """Returns the plate after all steps."""
    for _ in range(STEPS):
        step(old, new)
        old, new = new, old
    return old


def share_of(device, plate):
    """The part of the device's rows that is in its memory, from 0 to 1."""
    rows = plate[first_row(device):first_row(device + 1)]
    there = sum(part.nbytes for part in wherry.where(rows) if part.holders == (device,))
    return there / rows.nbytes


def main():
    os.environ.setdefault("WHERRY_DEVICES", "kind=coherent;kind=coherent")
    devices = wherry.devices()
    if len(devices) < DEVICES or not all(device.coherent for device in devices[:DEVICES]):
        print(f"heat.py: it needs {DEVICES} devices with kind=coherent in WHERRY_DEVICES",
              file=sys.stderr)
        sys.exit(2)
    grids = [wherry.empty((ROWS, COLUMNS)) for _ in range(2)]
    for grid, name in zip(grids, ("plate.even", "plate.odd")):
        fill(grid)
        wherry.name(grid, name)
        # Each device's rows go to its memory ahead of their use.
        for device in range(DEVICES):
            wherry.prefetch(grid[first_row(device):first_row(device + 1)], device)
    wherry.synchronize()
    plate = run(*grids)
    for device in range(DEVICES):
        most = "most" if share_of(device, plate) > 0.8 else "few"
        print(f"{most} of the rows of device {device} are in its memory")

    ordinary = [np.empty((ROWS, COLUMNS)) for _ in range(2)]
    for grid in ordinary:
        fill(grid)
    same = np.array_equal(plate, run(*ordinary))
    print(f"sum {plate.sum():.3f}, {'as' if same else 'NOT as'} with ordinary arrays")
    sys.exit(0 if same else 1)


main()
