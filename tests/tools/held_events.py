"""Adds events to recorded traces, as docs/trace-format.md describes them: pages that were held.
Which pages Linux holds cannot be chosen from outside of a program, but a trace can be changed."""

import json
import struct
import zlib

from cli_test import wherry

PAGE = 4096
HOST, DEVICE, NONE = 0, 1, -1
# Kinds of chunks and of events, causes, and bits of an event's fields.
EVENTS_CHUNK, END_CHUNK = 2, 5
HELD = 18
FAULT, RELEASE = 1, 9
HAS_ADDRESS, HAS_BYTES, HAS_ENDS, HAS_REASON = 1, 2, 16, 32


def number(value):
    encoded = bytearray()
    while value > 0x7f:
        encoded.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def step(difference):
    return number(difference << 1)


def event(time_step, address_step, pages, source, destination, cause):
    """Steps are from the event before in the chunk."""
    return (bytes([HELD, HAS_ADDRESS | HAS_BYTES | HAS_ENDS | HAS_REASON]) + step(time_step)
            + step(address_step) + number(pages * PAGE)
            + bytes([source + 1 | destination + 1 << 4, cause, 0]))


def chunk(kind, payload):
    head = struct.pack("<II", kind, len(payload))
    return head + struct.pack("<I", zlib.crc32(head + payload)) + payload


def start_of_end_chunk(data):
    at = 12
    while struct.unpack_from("<I", data, at)[0] != END_CHUNK:
        at += 12 + struct.unpack_from("<I", data, at + 4)[0]
    return at


def add_held_pages(trace):
    """Adds two events about the first memory that moved: the device needed 3 pages that the host
    kept, and 2 pages of the device were freed. Returns the name of the memory."""
    done = wherry("trace", trace, "--format", "json")
    first = next(event for event in json.loads(done.stdout)["events"]
                 if event["kind"] == "migration" and event["name"])
    events = number(2) + event(first["time_ns"], first["address"], 3, HOST, DEVICE, FAULT) \
        + event(1, 0, 2, DEVICE, NONE, RELEASE)
    data = trace.read_bytes()
    end = start_of_end_chunk(data)
    trace.write_bytes(data[:end] + chunk(EVENTS_CHUNK, events) + data[end:])
    return first["name"]
