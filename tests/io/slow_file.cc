#include "io/slow_file.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

#include "support/session.h"
#include "support/waiting.h"

namespace wherry::test {
namespace {

// The file system has only its root, which is the file: Linux mounts it on another file.
constexpr mode_t mode = S_IFREG | 0444;
constexpr std::size_t request_max = 1 << 20;

// A read that waits.
struct Pending {
  std::uint64_t number;
  std::size_t offset;
  std::size_t bytes;
};

void answer(int device, std::uint64_t number, int error, const void* data, std::size_t bytes) {
  fuse_out_header header{};
  header.len = static_cast<std::uint32_t>(sizeof header + bytes);
  header.error = -error;
  header.unique = number;
  const iovec parts[] = {{&header, sizeof header}, {const_cast<void*>(data), bytes}};
  // The result is ignored: Linux may have forgotten the request, if its caller was killed.
  (void)!::writev(device, parts, bytes == 0 ? 1 : 2);
}
template <typename Data>
void answer(int device, std::uint64_t number, const Data& data) {
  answer(device, number, 0, &data, sizeof data);
}

}  // namespace

std::unique_ptr<SlowFile> SlowFile::make(std::size_t bytes) {
  const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  char path[] = "/tmp/wherry_slow_file_XXXXXX";
  const int place = ::mkstemp(path);
  expect(place >= 0, "mkstemp");
  ::close(place);
  const std::string options =
      "fd=" + std::to_string(device) + ",rootmode=100444,user_id=0,group_id=0";
  if (device < 0 || ::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("wherry", path, "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    std::printf("no slow file: %s\n", std::strerror(errno));
    ::unlink(path);
    return nullptr;
  }
  return std::unique_ptr<SlowFile>(new SlowFile(bytes, path, device));
}

SlowFile::SlowFile(std::size_t bytes, std::string path, int device)
    : bytes_(bytes), path_(std::move(path)), device_(device), server_([this] { serve(); }) {
  // At the first close Linux asks the server, which answers that it need not be asked again: at
  // later closes, perhaps at the end of the process, there may be no server any more.
  ::close(this->open(0));
}

SlowFile::~SlowFile() {
  release();
  is_ending_ = true;
  server_.join();
  ::umount2(path_.c_str(), MNT_DETACH);
  ::unlink(path_.c_str());
  ::close(device_);
}

int SlowFile::open(int flags) const {
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | flags);
  // Linux asks for the size, which a mapping of the file needs.
  struct stat about;
  expect(file >= 0 && ::fstat(file, &about) == 0,
         "cannot open the slow file: " + std::string(std::strerror(errno)));
  return file;
}

bool SlowFile::is_read() const {
  return comes_true([this] { return waiting_ > 0; });
}

void SlowFile::serve() {
  std::vector<char> request(request_max + 4096);
  std::vector<char> data(request_max);
  std::deque<Pending> pending;
  while (!is_ending_) {
    if (!is_held_) {
      for (const Pending& read : pending) {
        const std::size_t start = std::min(read.offset, bytes_);
        const std::size_t count = std::min({read.bytes, bytes_ - start, data.size()});
        for (std::size_t i = 0; i < count; ++i) data[i] = byte_at(start + i);
        answer(device_, read.number, 0, data.data(), count);
      }
      pending.clear();
    }
    waiting_ = static_cast<int>(pending.size());
    pollfd polled{device_, POLLIN, 0};
    if (::poll(&polled, 1, /*timeout=*/2) != 1) continue;
    if (::read(device_, request.data(), request.size()) < 0) {
      if (errno == ENODEV) return;  // unmounted
      continue;
    }
    fuse_in_header header;
    std::memcpy(&header, request.data(), sizeof header);
    const char* const rest = request.data() + sizeof header;
    if (header.opcode == FUSE_INIT) {
      fuse_init_out out{};
      out.major = FUSE_KERNEL_VERSION;
      out.minor = FUSE_KERNEL_MINOR_VERSION;
      out.max_readahead = 0;
      out.max_write = 4096;
      answer(device_, header.unique, out);
    } else if (header.opcode == FUSE_GETATTR) {
      fuse_attr_out out{};
      out.attr.ino = FUSE_ROOT_ID;
      out.attr.size = bytes_;
      out.attr.mode = mode;
      out.attr.nlink = 1;
      answer(device_, header.unique, out);
    } else if (header.opcode == FUSE_OPEN) {
      answer(device_, header.unique, fuse_open_out{});
    } else if (header.opcode == FUSE_READ) {
      fuse_read_in in;
      std::memcpy(&in, rest, sizeof in);
      pending.push_back({header.unique, in.offset, in.size});
    } else if (header.opcode == FUSE_RELEASE) {
      answer(device_, header.unique, 0, nullptr, 0);
    } else if (header.opcode != FUSE_FORGET && header.opcode != FUSE_BATCH_FORGET &&
               header.opcode != FUSE_INTERRUPT) {
      answer(device_, header.unique, ENOSYS, nullptr, 0);
    }
  }
}

}  // namespace wherry::test
