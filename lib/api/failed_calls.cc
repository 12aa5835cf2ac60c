#include "api/failed_calls.h"

#include <fmt/format.h>
#include <wherry/wherry.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include "base/log.h"
#include "objects/failures/error_texts.h"
#include "os/memory/mapped_memory.h"

namespace wherry::impl {
namespace {

// Enough for the longest reason and the names before it.
constexpr std::size_t message_bytes_max = reason_bytes_max + 300;
using Message = std::array<char, message_bytes_max>;
// In memory of its own, because thread-local memory is part of each thread's stack
// (last_failure.h).
thread_local MappedPtr<Message> message;

// True for "cuMemFree", "cudaFree" and "wherryPinPages"; false for "current".
bool is_public(std::string_view call) {
  return call.starts_with("wherry") || call.starts_with("cuda") ||
         (call.size() > 2 && call.starts_with("cu") && call[2] >= 'A' && call[2] <= 'Z');
}

// Returns the name in the program's source, which lacks the suffixes of versioned symbols.
std::string_view name_in_source(std::string_view call) {
  for (const std::string_view suffix : {"_ptsz", "_ptds", "_v1", "_v2", "_v3", "_v4"})
    if (call.ends_with(suffix)) return name_in_source(call.substr(0, call.size() - suffix.size()));
  return call;
}

ErrorText text_of(const LastFailure& last) {
  if (last.of_runtime_api) {
    const auto error = static_cast<cudaError_t>(last.code);
    return {cudaGetErrorName(error), cudaGetErrorString(error)};
  }
  const ErrorText* const text = find_error_text(static_cast<CUresult>(last.code));
  return text != nullptr ? *text : ErrorText{"unknown code", "unknown error"};
}

void log_failure() {
  if (is_logged(LogLevel::info)) log_info("{}", wherryGetLastErrorMessage());
}

}  // namespace

void end_failed_call(const char* call, CUresult code) {
  if (code == CUDA_ERROR_NOT_READY) return;
  LastFailure& last = last_failure;
  last.call = call;
  last.code = last.ended = code;
  last.of_runtime_api = false;
  last.has_reason = last.explained == code;
  log_failure();
}

void end_failed_call(const char* call, cudaError_t error) {
  if (error == cudaErrorNotReady) return;
  LastFailure& last = last_failure;
  const bool is_of_called = last.ended == static_cast<int>(error);
  // After a failure in a helper of the runtime API, the called C function's name is kept.
  if (!is_of_called || is_public(call)) {
    last.call = call;
    last.of_runtime_api = true;
  }
  if (!is_of_called) last.has_reason = last.explained == static_cast<int>(error);
  last.code = error;
  if (!is_of_called) log_failure();
}

}  // namespace wherry::impl

using namespace wherry::impl;

const char* wherryGetLastErrorMessage(void) {
  const LastFailure& last = last_failure;
  if (last.call == nullptr) return "";
  MappedPtr<Message>& own = message;
  try {
    if (own == nullptr) own = make_mapped<Message>();
  } catch (const std::bad_alloc&) {
    return text_of(last).description;
  }
  Message& text = *own;
  char* const end = text.data() + text.size() - 1;
  char* at = text.data();
  const auto add = [&](std::string_view part) {
    const std::size_t fitting = std::min(part.size(), static_cast<std::size_t>(end - at));
    at = std::copy_n(part.data(), fitting, at);
  };
  if (is_public(last.call)) {
    add(name_in_source(last.call));
    add(": ");
  }
  const ErrorText error = text_of(last);
  add(error.name);
  add(" (");
  add(error.description);
  add(")");
  std::array<char, reason_bytes_max> reason;
  if (const std::size_t bytes = write_reason(reason.data(), reason.size()); bytes != 0) {
    add(": ");
    add({reason.data(), bytes});
  }
  *at = '\0';
  return text.data();
}
