#include "trace_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "progress.h"
#include "trace_source.h"

namespace wherry::tool {

namespace {

struct OpenFile {
  explicit OpenFile(const std::string& name) : path(name) {}

  const std::string path;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::fopen(path.c_str(), "rb"),
                                                             std::fclose};
  const std::uintmax_t bytes = size_or_0(path);
  std::uintmax_t done = 0;
  Progress progress;

  // 0 for a pipe, whose size is unknown.
  static std::uintmax_t size_or_0(const std::string& path) {
    std::error_code unknown;
    const std::uintmax_t size = std::filesystem::file_size(path, unknown);
    return unknown ? 0 : size;
  }
};

}  // namespace

TraceStream::ReadBytes read_file(const std::string& path) {
  const auto opened = std::make_shared<OpenFile>(path);
  if (!opened->file) throw std::system_error(errno, std::generic_category(), path);
  return [opened](std::span<std::byte> bytes) {
    const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), opened->file.get());
    if (std::ferror(opened->file.get()) != 0)
      throw std::system_error(errno, std::generic_category(), opened->path);
    opened->progress.show_part("reading the trace", opened->done += got, opened->bytes);
    return got;
  };
}

std::variant<Trace, std::string> load_trace(const std::string& path) {
  try {
    auto result = read_trace(read_file(path));
    if (const auto* error = std::get_if<TraceError>(&result))
      return fmt::format("{}: {}", path, error->message);
    return std::move(std::get<Trace>(result));
  } catch (const std::system_error& error) {
    return error.what();
  }
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
