// Why the calling thread's latest failed call of the API failed (wherryGetLastErrorMessage).
//
// Code that finds a reason returns fail(code, "reason; what to do", values...). The C function that
// returns the code then calls end_failed_call() (api/entry.h does). Without a reason the message is
// the code's general description.
//
// A failure costs little: integers are stored, and formatted only when the program asks for the
// message. Successful calls write two words. The state is thread-local, except for text: that is in
// memory which a thread gets from Linux with its first such failure. Thread-local memory is part of
// a thread's stack, and the smallest stack must suffice for a fault.
#pragma once

#include <fmt/core.h>
#include <wherry/cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

namespace wherry::impl {

inline constexpr std::size_t reason_words_max = 6;
inline constexpr std::size_t reason_bytes_max = 400;  // longer reasons are cut

using ReasonWords = std::array<std::uint64_t, reason_words_max>;
// Formats the words, and returns the number of characters written: at most `bytes`.
using RenderReason = std::size_t (*)(fmt::string_view format, const ReasonWords& words, char* text,
                                     std::size_t bytes);

struct LastFailure {
  const char* call = nullptr;  // the function that failed; null if none has
  int code = CUDA_SUCCESS;
  bool of_runtime_api = false;  // the code is a cudaError_t
  bool has_reason = false;      // the fields below are the reason of this failure
  // The code that the fields below explain, in the call under way; CUDA_SUCCESS: they explain none.
  int explained = CUDA_SUCCESS;
  // The code of a C function that the call under way has called and that failed; else CUDA_SUCCESS.
  int ended = CUDA_SUCCESS;
  RenderReason render = nullptr;  // null: the reason is text
  const char* format = nullptr;
  std::size_t format_bytes = 0;
  ReasonWords words{};
};
[[gnu::tls_model("initial-exec")]] extern constinit thread_local LastFailure last_failure;

namespace detail {

std::size_t render_reason(fmt::string_view format, fmt::format_args values, char* text,
                          std::size_t bytes);

template <typename... Args, std::size_t... I>
std::size_t render_words(fmt::string_view format, [[maybe_unused]] const ReasonWords& words,
                         char* text, std::size_t bytes, std::index_sequence<I...>) {
  [[maybe_unused]] const std::tuple<Args...> values{static_cast<Args>(words[I])...};
  return render_reason(format, fmt::make_format_args(std::get<I>(values)...), text, bytes);
}

void note_words(CUresult code, fmt::string_view format, RenderReason render,
                const ReasonWords& words);
void note_text(CUresult code, fmt::string_view format, fmt::format_args values);

}  // namespace detail

// Notes the reason for which the call under way fails, and returns the code, which the call must
// return. The reason names the argument or range, says what is wrong with it, and what to do.
template <typename... Args>
[[gnu::cold]] CUresult fail(CUresult code, fmt::format_string<const Args&...> format,
                            const Args&... values) {
  if constexpr (sizeof...(Args) <= reason_words_max && (std::is_integral_v<Args> && ...)) {
    detail::note_words(
        code, format,
        [](fmt::string_view text_format, const ReasonWords& words, char* text, std::size_t bytes) {
          return detail::render_words<Args...>(text_format, words, text, bytes,
                                               std::index_sequence_for<Args...>());
        },
        {static_cast<std::uint64_t>(values)...});
  } else {
    detail::note_text(code, format, fmt::make_format_args(values...));
  }
  return code;
}

// Changes the code of a failure from `from` to `to`, but keeps its reason. Returns `to`.
template <typename To>
To fail_instead(CUresult from, To to) {
  LastFailure& last = last_failure;
  if (last.explained == static_cast<int>(from)) last.explained = static_cast<int>(to);
  if (last.ended == static_cast<int>(from)) last.ended = static_cast<int>(to);
  return to;
}

// To be called when a call of the API begins.
inline void begin_call() {
  last_failure.explained = CUDA_SUCCESS;
  last_failure.ended = CUDA_SUCCESS;
}

// Writes the last failure's reason, and returns the number of characters, at most `bytes`; 0 if
// there is no reason.
std::size_t write_reason(char* text, std::size_t bytes);

}  // namespace wherry::impl
