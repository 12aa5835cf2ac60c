#!/usr/bin/env python3
"""Runs a test, passes on what it prints, and ends as it does; but fails if the test prints a line
that only a defect of the library can cause (support/defects.py).

Usage: watched.py COMMAND [ARGUMENT...]
The wrapper of all tests in tests/meson.build. It ends once the streams of the command are closed,
as Meson itself waits for that; Meson's limits for tests hold for both.
"""

import os
import select
import signal
import sys

import defects

FAILED = 1
BY_SIGNAL = 128  # Meson reads larger exit codes as this plus the number of a signal
PIECE = 65536
LONGEST = max(map(len, defects.LINES))


def start(command, streams):
    """`streams`: the write end of a pipe by the file descriptor that it becomes."""
    process = os.fork()
    if process != 0:
        return process
    try:
        for stream, end in streams.items():
            os.dup2(end, stream)
        # Python ignores them, and the test would inherit that.
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def write_all(stream, data):
    while data:
        data = data[os.write(stream, data):]


def pass_on(read_ends):
    """Copies from each read end to its stream until all are closed. Returns the first line of a
    defect that was in the data; empty if there was none."""
    found = ""
    last = dict.fromkeys(read_ends, b"")  # a line may come in two pieces
    poll = select.poll()
    for end in read_ends:
        poll.register(end, select.POLLIN)
    while read_ends:
        for end, _ in poll.poll():
            data = os.read(end, PIECE)
            if not data:
                poll.unregister(end)
                del read_ends[end]
                continue
            write_all(read_ends[end], data)
            text = last[end] + data
            found = found or defects.found_in(text.decode(errors="replace"))
            last[end] = text[-LONGEST:]
    return found


def main():
    # If both are one file, a single pipe keeps the order of what is written to them.
    is_one = os.path.sameopenfile(1, 2)
    read_end, write_end = os.pipe()
    read_ends, streams = {read_end: 1}, {1: write_end, 2: write_end}
    if not is_one:
        read_end, streams[2] = os.pipe()
        read_ends[read_end] = 2
    process = start(sys.argv[1:], streams)
    # Meson sends SIGTERM to both, and SIGKILL to both if this process does not end at once. So it
    # must not end before the test.
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, signal.SIG_IGN)
    for end in set(streams.values()):
        os.close(end)
    found = pass_on(read_ends)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if found:
        write_all(2, f"FAILED: only a defect of the library causes the line: {found}\n".encode())
        sys.exit(FAILED)
    sys.exit(BY_SIGNAL - code if code < 0 else code)


main()
