// A read from a slow file during which a device takes the pages that Linux reads into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "io/both_ways.h"
#include "io/slow_file.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test {

// Pages that a device takes while a read into them waits for its data.
class HeldRead {
 public:
  static constexpr std::size_t page_bytes = 4096;
  static constexpr std::size_t bytes = 8 * page_bytes;

  HeldRead(const Session& session, SlowFile& file) : session_(session), file_(file) {
    std::memset(memory.data(), 1, memory.size());
  }

  // read() fills bytes of the memory, from `gap` on, from the file. Meanwhile a device uses the
  // pages, and does not wait.
  void check(const std::string& what, const std::function<void()>& read, std::size_t gap = 0) {
    file_.hold();
    std::exception_ptr failure;
    std::thread reader([&] {
      try {
        read();
      } catch (const std::runtime_error&) {
        failure = std::current_exception();
      }
    });
    try {
      expect(file_.is_read(), what + ": nobody reads");
      session_.run(0, [start = memory.data()] {
        for (std::size_t i = 0; i < bytes; i += page_bytes)
          (void)static_cast<const volatile char*>(start)[i];
      });
      constexpr std::uint32_t device_bit = 2;
      expect(Witness{}.residents(memory.data()) == device_bit, what + ": did not move");
    } catch (...) {
      reader.detach();  // the process ends soon
      throw;
    }
    file_.release();
    reader.join();
    if (failure) std::rethrow_exception(failure);
    expect(SlowFile::has_content(memory.data() + gap, bytes, 0), what + ": data was lost");
    std::memset(memory.data(), 1, memory.size());
  }

  const Managed<char> memory{bytes + page_bytes};

 private:
  const Session& session_;
  SlowFile& file_;
};

// body(session, file) in both ways, if there is a slow file.
inline void with_slow_file(const std::function<void(const Session&, SlowFile&)>& body) {
  in_both_ways([&] {
    const auto file = SlowFile::make(HeldRead::bytes);
    if (file == nullptr) return;
    const Session session("capacity=16M");
    body(session, *file);
  });
}

}  // namespace wherry::test
