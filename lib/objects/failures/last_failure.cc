#include "objects/failures/last_failure.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/render.h"
#include "os/memory/mapped_memory.h"

namespace wherry::impl {
namespace {

// A formatted reason: for values that cannot be stored as integers.
struct ReasonText {
  std::array<char, reason_bytes_max> text;
  std::size_t bytes = 0;
};
thread_local MappedPtr<ReasonText> reason_text;

}  // namespace

[[gnu::tls_model("initial-exec")]] constinit thread_local LastFailure last_failure{};

std::size_t detail::render_reason(fmt::string_view format, fmt::format_args values, char* text,
                                  std::size_t bytes) {
  return vrender({text, bytes}, format, values);
}

void detail::note_words(CUresult code, fmt::string_view format, RenderReason render,
                        const ReasonWords& words) {
  LastFailure& last = last_failure;
  last.has_reason = false;
  last.explained = code;
  last.ended = CUDA_SUCCESS;
  last.render = render;
  last.format = format.data();
  last.format_bytes = format.size();
  last.words = words;
}

void detail::note_text(CUresult code, fmt::string_view format, fmt::format_args values) {
  MappedPtr<ReasonText>& reason = reason_text;
  try {
    if (reason == nullptr) reason = make_mapped<ReasonText>();
  } catch (const std::bad_alloc&) {
    return;  // without memory, the message has no reason
  }
  reason->bytes = render_reason(format, values, reason->text.data(), reason->text.size());
  LastFailure& last = last_failure;
  last.has_reason = false;
  last.explained = code;
  last.ended = CUDA_SUCCESS;
  last.render = nullptr;
}

std::size_t write_reason(char* text, std::size_t bytes) {
  const LastFailure& last = last_failure;
  if (!last.has_reason) return 0;
  if (last.render != nullptr)
    return last.render({last.format, last.format_bytes}, last.words, text, bytes);
  const ReasonText& reason = *reason_text;
  const std::size_t written = std::min(reason.bytes, bytes);
  std::memcpy(text, reason.text.data(), written);
  return written;
}

}  // namespace wherry::impl
