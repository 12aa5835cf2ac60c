#include "os/memory/sealed_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "os/files/file_io.h"
#include "os/process/resource_limits.h"

namespace wherry::impl {
namespace {

constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

Fd make_file(const std::string& name, std::size_t bytes) {
  Fd file(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw_errno(errno, name);
  if (const int error = set_file_size(file.get(), bytes)) throw_errno(error, name);
  return file;
}

void seal(const Fd& file, int seals) {
  if (::fcntl(file.get(), F_ADD_SEALS, seals | F_SEAL_SEAL) != 0) throw_errno(errno, "F_ADD_SEALS");
}

}  // namespace

Fd make_sealed_file(const std::string& name, std::span<const std::byte> content) {
  Fd file = make_file(name, content.size());
  if (const int written = write_at(file.get(), 0, content); written < 0)
    throw_errno(-written, name);
  seal(file, size_seals | F_SEAL_WRITE);
  return file;
}

SealedMemory::SealedMemory(Fd file, std::size_t bytes) : file_(std::move(file)), bytes_(bytes) {
  void* const start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (start == MAP_FAILED) throw_errno(errno, "mmap of shared memory");
  start_ = start;
  ::madvise(start, bytes, MADV_DONTFORK);
}

SealedMemory::SealedMemory(const std::string& name, std::size_t bytes)
    : SealedMemory(make_file(name, bytes), bytes) {
  seal(file_, size_seals);
}

SealedMemory SealedMemory::of(Fd file, std::size_t bytes) {
  struct stat status {};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & size_seals) != size_seals || ::fstat(file.get(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) != bytes)
    return {};
  return {std::move(file), bytes};
}

void SealedMemory::reopen() {
  const std::string path = "/proc/self/fd/" + std::to_string(file_.get());
  Fd again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!again) throw_errno(errno, path);
  file_ = std::move(again);
}

SealedMemory::~SealedMemory() {
  if (start_ != nullptr) ::munmap(start_, bytes_);
}

}  // namespace wherry::impl
