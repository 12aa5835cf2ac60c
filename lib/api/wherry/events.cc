// The C functions of wherry/events.h: recording of events for the program itself, and names.
#include <wherry/events.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "api/entry.h"
#include "base/clock.h"
#include "objects/failures/bad_arguments.h"
#include "trace/event_rings.h"
#include "trace/marks.h"
#include "trace/recorder.h"

using namespace wherry::impl;

namespace {

constexpr std::size_t default_capacity = 16384;
constexpr std::size_t smallest_event = offsetof(wherryEvent, bytes) + sizeof(std::uint64_t);

// The public constants have the values of those in trace/event.h.
static_assert(WHERRY_EVENT_HELD + 1 == event_kinds &&
              WHERRY_EVENT_HELD == static_cast<int>(EventKind::held));
static_assert(WHERRY_CAUSE_SAMPLE + 1 == event_causes &&
              WHERRY_CAUSE_SAMPLE == static_cast<int>(EventCause::sample));
static_assert(WHERRY_ADVICE_PREFETCH + 1 == advice_details &&
              WHERRY_ADVICE_PREFETCH == static_cast<int>(AdviceDetail::prefetch));
static_assert(WHERRY_EVENT_WRITE == static_cast<int>(EventAccess::write));
static_assert(WHERRY_FAULT_REFUSED == fault_refused);
static_assert(WHERRY_NO_PROCESSOR == TraceEvent::no_processor);

wherryEvent public_event(const TraceEvent& event, std::size_t size) {
  wherryEvent result{};
  result.size = size;
  result.time_ns = event.time_ns;
  result.duration_ns = event.duration_ns;
  result.address = event.address;
  result.bytes = event.bytes;
  result.thread = event.thread;
  result.value = event.value;
  result.kind = code_of(event.kind);
  result.cause = code_of(event.cause);
  result.access = code_of(event.access);
  result.detail = event.detail;
  result.source = event.source;
  result.destination = event.destination;
  result.processors = event.processors;
  return result;
}

// Takes as many events as there are, at most `count`. Returns false if the program has not started
// recording.
bool take_up_to(std::size_t count, std::vector<TraceEvent>& taken) {
  constexpr std::size_t batch = 4096;
  for (;;) {
    const std::size_t before = taken.size();
    const std::size_t wanted = std::min(count - before, batch);
    taken.resize(before + wanted);
    std::size_t found = 0;
    if (!take_events(EventReader::program, std::span(taken).subspan(before), found)) return false;
    taken.resize(before + found);
    if (found < wanted || taken.size() == count) return true;
  }
}

// Writes the caller's version of the struct, which may be shorter or longer than the library's.
// `to` may be in managed memory, so no lock is held.
void write_events(std::span<const TraceEvent> events, std::byte* to, std::size_t size) {
  for (const TraceEvent& event : events) {
    const wherryEvent value = public_event(event, size);
    const std::size_t known = std::min(size, sizeof value);
    std::memcpy(to, &value, known);
    std::memset(to + known, 0, size - known);
    to += size;
  }
}

CUresult refuse_acquired() {
  return fail(CUDA_ERROR_ALREADY_ACQUIRED,
              "events are recorded already, by the program or for WHERRY_TRACE; stop that first");
}

CUresult refuse_idle() {
  return fail(CUDA_ERROR_ILLEGAL_STATE,
              "the program does not record events; call wherryStartEvents first");
}

}  // namespace

CUresult wherryStartEvents(std::uint64_t kinds, size_t capacity) {
  return enter([&](Driver&) {
    const auto known = static_cast<EventKinds>(kinds & all_event_kinds);
    if (known == 0)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "kinds is {:#x}, which names no kind of event; pass WHERRY_EVENT_ALL", kinds);
    if (capacity > EventRings::capacity_max)
      return fail(CUDA_ERROR_INVALID_VALUE, "capacity is {}; pass at most {}", capacity,
                  EventRings::capacity_max);
    return start_recording(EventReader::program, known, capacity == 0 ? default_capacity : capacity)
               ? CUDA_SUCCESS
               : refuse_acquired();
  });
}

CUresult wherryStopEvents() {
  return enter(
      [&](Driver&) { return stop_recording(EventReader::program) ? CUDA_SUCCESS : refuse_idle(); });
}

CUresult wherryReadEvents(wherryEvent* events, size_t count, size_t* read) {
  return enter([&](Driver&) {
    if (read == nullptr) return refuse_null("read");
    if (events == nullptr && count != 0) return refuse_null("events");
    const std::size_t size = count == 0 ? smallest_event : events->size;
    if (size < smallest_event) return refuse_size(size);
    std::vector<TraceEvent> taken;
    if (!take_up_to(count, taken))
      return is_recording_for(EventReader::trace) ? refuse_acquired() : refuse_idle();
    std::ranges::stable_sort(taken, {}, &TraceEvent::time_ns);
    write_events(taken, reinterpret_cast<std::byte*>(events), size);
    *read = taken.size();
    return CUDA_SUCCESS;
  });
}

CUresult wherryCountDroppedEvents(wherryEventKind kind, std::uint64_t* count) {
  return enter([&](Driver&) {
    const auto number = static_cast<std::uint64_t>(kind);
    if (count == nullptr) return refuse_null("count");
    if (number >= event_kinds)
      return fail(CUDA_ERROR_INVALID_VALUE, "kind is {}; pass a value of wherryEventKind", number);
    *count = dropped_events(static_cast<EventKind>(number));
    return CUDA_SUCCESS;
  });
}

CUresult wherryMark(const char* text) {
  return enter([&](Driver&) {
    if (text == nullptr) return refuse_null("text");
    mark_moment(text);
    return CUDA_SUCCESS;
  });
}

CUresult wherryPushRange(const char* text, int* level) {
  return enter([&](Driver&) {
    if (text == nullptr) return refuse_null("text");
    const std::size_t around = push_marked_range(text);
    if (level != nullptr) *level = static_cast<int>(around);
    return CUDA_SUCCESS;
  });
}

CUresult wherryPopRange(int* level) {
  return enter([&](Driver&) {
    const auto around = pop_marked_range();
    if (!around)
      return fail(CUDA_ERROR_ILLEGAL_STATE, "the thread has no open range; push one first");
    if (level != nullptr) *level = static_cast<int>(*around);
    return CUDA_SUCCESS;
  });
}

CUresult wherryStartRange(const char* text, std::uint64_t* range) {
  return enter([&](Driver&) {
    if (text == nullptr) return refuse_null("text");
    if (range == nullptr) return refuse_null("range");
    *range = start_marked_range(text);
    return CUDA_SUCCESS;
  });
}

CUresult wherryEndRange(std::uint64_t range) {
  return enter([&](Driver&) {
    return end_marked_range(range)
               ? CUDA_SUCCESS
               : fail(CUDA_ERROR_INVALID_VALUE,
                      "{} is no range that has not ended; end each range once", range);
  });
}

CUresult wherryNameRange(const void* pointer, size_t bytes, const char* name) {
  return enter([&](Driver& driver) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const std::size_t length = name == nullptr ? 0 : ::strnlen(name, name_bytes_max + 1);
    if (length == 0 || length > name_bytes_max)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "the name is NULL, empty or longer than {} bytes; pass a shorter one",
                  name_bytes_max);
    const auto record = driver.runtime().heap().find_record(address);
    if (bytes == 0 || !record || bytes > record->start_of_range(address) + record->bytes - address)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "the range {:#x}+{} is empty, or not inside one live allocation; check its size",
                  address, bytes);
    Runtime& runtime = driver.runtime();
    runtime.status().name(address, bytes, runtime.heap().offset_of(address).value_or(not_in_arena),
                          {name, length});
    if (TraceWriter* const trace = driver.trace())
      trace->name({TraceName::Kind::range, now_ns(), address, bytes, std::string(name, length)});
    return CUDA_SUCCESS;
  });
}
