"""Two threads, each on one half of an array: a program that knows nothing of Wherry, for
docs/run.md.
"""

import threading

import numpy

values = numpy.empty(24 << 20)  # 192 MiB
sums = [0.0, 0.0]


def work(half):
    part = numpy.split(values, 2)[half]
    part[:] = half + 0.5
    for _ in range(20):
        part *= 1.001
        sums[half] += float(part[::512].sum())


threads = [threading.Thread(target=work, args=(half,)) for half in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"{sum(sums):.9f}")
