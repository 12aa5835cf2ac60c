#include "run/own_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"

namespace wherry::run {
namespace {

// Few programs have more files open than this.
constexpr int first_number_max = 512;

// The library's files, sorted. Set once, before other threads can ask, and never freed.
std::atomic<const std::vector<int>*> own{nullptr};
// The file that open_own_file() has opened; -1 if there is none.
std::atomic<int> appended_to{-1};

int first_number() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur / 2, first_number_max));
}

// The numbers of all open files from `first` on.
std::vector<int> open_files(int first) {
  std::vector<int> numbers;
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return numbers;
  while (const dirent* const entry = ::readdir(folder)) {
    const int number = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && number >= first && number != ::dirfd(folder))
      numbers.push_back(number);
  }
  ::closedir(folder);
  std::ranges::sort(numbers);
  return numbers;
}

// Whether the file is of a kind that the library opens, and closes on exec. The program's other
// threads may have opened files meanwhile.
bool may_be_own(int number) {
  if (const int flags = ::fcntl(number, F_GETFD); flags < 0 || (flags & FD_CLOEXEC) == 0)
    return false;
  char text[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(number);
  if (::readlink(link.c_str(), text, sizeof text - 1) <= 0) return false;
  const std::string_view name = text;
  return name.starts_with("anon_inode:") || name.starts_with("/memfd:wherry") ||
         name.starts_with("/wherry-") || name.ends_with("/pagemap") ||
         name == impl::environment("WHERRY_TRACE");
}

std::vector<int> fillers;
std::vector<int> before;

}  // namespace

OwnFiles::OwnFiles() {
  const int first = first_number();
  before = open_files(first);
  for (;;) {
    const int filler = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (filler < 0) return;
    if (filler >= first) {
      ::close(filler);
      return;
    }
    fillers.push_back(filler);
  }
}

OwnFiles::~OwnFiles() {
  for (const int filler : fillers) ::close(filler);
  fillers.clear();
  auto* const numbers = new std::vector<int>;
  std::ranges::set_difference(open_files(first_number()), before, std::back_inserter(*numbers));
  std::erase_if(*numbers, [](int number) { return !may_be_own(number); });
  own.store(numbers, std::memory_order_release);
}

int open_own_file(const char* path) {
  const int low = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (low < 0) return -1;
  appended_to = ::fcntl(low, F_DUPFD_CLOEXEC, first_number());
  ::close(low);
  return appended_to;
}

int next_own_file(int file) {
  const int first = appended_to >= file ? appended_to.load() : -1;
  const std::vector<int>* const numbers = own.load(std::memory_order_acquire);
  if (numbers == nullptr) return first;
  const auto next = std::ranges::lower_bound(*numbers, file);
  if (next == numbers->end()) return first;
  return first >= 0 ? std::min(*next, first) : *next;
}

bool is_own_file(int file) {
  return next_own_file(file) == file && file >= 0;
}

void forget_own_files() {
  own.store(nullptr, std::memory_order_release);
}

}  // namespace wherry::run
