#include "trace_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "trace_source.h"

namespace wherry::tool {
namespace {

// Stops reading if the file is not a trace, because it may be endless. Returns 0 or an errno.
int read_file(const std::string& path, impl::TraceBytes& bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file) return errno;
  constexpr std::size_t piece = std::size_t{1} << 20;
  for (std::size_t done = 0;;) {
    bytes.resize(done + piece);
    const std::size_t got = std::fread(bytes.data() + done, 1, piece, file.get());
    bytes.resize(done += got);
    if (got < piece) return std::ferror(file.get()) != 0 ? errno : 0;
    if (!begins_as_trace(bytes)) return 0;
  }
}

}  // namespace

std::variant<Trace, std::string> load_trace(const std::string& path) {
  impl::TraceBytes bytes;
  if (const int error = read_file(path, bytes))
    return fmt::format("{}: {}", path, std::strerror(error));
  auto result = read_trace(bytes);
  if (const auto* error = std::get_if<TraceError>(&result))
    return fmt::format("{}: {}", path, error->message);
  return std::move(std::get<Trace>(result));
}

TraceEnding how_it_ends(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (!file || error) return TraceEnding::unknown;
  impl::TraceBytes header(impl::chunk_header_bytes);
  const auto read_header = [&] {
    return static_cast<bool>(file.read(reinterpret_cast<char*>(header.data()),
                                       static_cast<std::streamsize>(header.size())));
  };
  static_assert(impl::trace_header_bytes == impl::chunk_header_bytes);
  if (!read_header()) return TraceEnding::within_chunk;
  if (!begins_as_trace(header)) return TraceEnding::unknown;
  std::uint64_t at = header.size();
  std::uint32_t kind = 0;
  while (at < size) {
    if (!read_header()) return TraceEnding::within_chunk;
    TraceSource words(header);
    kind = words.take_word();
    at += header.size() + words.take_word();
    file.seekg(static_cast<std::streamoff>(at));
  }
  if (at > size || kind == 0) return TraceEnding::within_chunk;
  return kind == static_cast<std::uint32_t>(impl::TraceChunk::end) ? TraceEnding::complete
                                                                   : TraceEnding::between_chunks;
}

}  // namespace wherry::tool
