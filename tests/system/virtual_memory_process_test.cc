// Memory of cuMemCreate is passed to another process as a descriptor.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/fd_message.h"
#include "support/virtual_memory.h"

namespace wherry::test::virtual_memory_process_test {

namespace {

constexpr const char* devices = "capacity=16M,workers=1;capacity=16M,workers=1";

// A process with its own instance of the library, and a socket that carries descriptors.
class Partner {
 public:
  template <typename Body>
  explicit Partner(const Body& body) {
    expect(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets_) == 0, "no sockets");
    process_ = std::make_unique<Child>([this, body] {
      ::close(sockets_[0]);
      body(sockets_[1]);
    });
    ::close(sockets_[1]);
  }
  ~Partner() { ::close(sockets_[0]); }
  int socket() const { return sockets_[0]; }
  Outcome wait() { return process_->wait(); }

 private:
  int sockets_[2] = {};
  std::unique_ptr<Child> process_;
};

void send(int socket, std::uint64_t number, int fd = -1) {
  expect(send_to(socket, number, fd), "nothing can be sent");
}
std::uint64_t receive(int socket, int* fd = nullptr) {
  std::uint64_t number = 0;
  int received = -1;
  expect(receive_from(socket, number, received), "nothing was received");
  if (fd != nullptr) *fd = received;
  return number;
}

CUmemGenericAllocationHandle import(int fd) {
  CUmemGenericAllocationHandle handle = 0;
  WHERRY_TRY(cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  return handle;
}

}  // namespace

TEST_CASE("another process that gets the descriptor has the same memory", "[system]") {
  REQUIRE(in_fresh_process([] {
            Partner partner([](int socket) {
              const Session own(devices);
              int fd = -1;
              receive(socket, &fd);
              const CUmemGenericAllocationHandle handle = import(fd);
              ::close(fd);
              std::size_t free_bytes = 0;
              std::size_t total = 0;
              WHERRY_TRY(cuMemGetInfo(&free_bytes, &total));
              expect(free_bytes == total, "memory was counted in the other process");
              const Addresses place(2 * vm_step);
              const Mapped mapped(place, 2 * vm_step, handle);
              WHERRY_TRY(cuMemRelease(handle));
              WHERRY_TRY(give_access(place, 2 * vm_step, on_device(0)));
              std::uint64_t* const words = words_at(place);
              own.run(0, [words] {
                words[1] = words[0] + 1;
                words[vm_step / sizeof *words] = 77;
              });
              send(socket, 0);
              // The first process has released the memory.
              receive(socket);
              std::uint64_t seen[2] = {};
              WHERRY_TRY(cuMemcpyDtoH(seen, place, sizeof seen));
              expect(seen[0] == 40 && seen[1] == 50, "the contents are lost");
              send(socket, 0);
            });
            const Session own(devices);
            const Addresses place(2 * vm_step);
            {
              Physical physical(2 * vm_step, on_device(0), /*exportable=*/true);
              const Mapped mapped(place, 2 * vm_step, physical);
              WHERRY_TRY(give_access(place, 2 * vm_step, on_device(0)));
              std::uint64_t* const words = words_at(place);
              own.run(0, [words] { words[0] = 40; });
              const int fd = physical.descriptor();
              send(partner.socket(), 0, fd);
              ::close(fd);
              receive(partner.socket());
              std::uint64_t seen[2] = {};
              WHERRY_TRY(cuMemcpyDtoH(&seen[0], place + sizeof *words, sizeof seen[0]));
              WHERRY_TRY(cuMemcpyDtoH(&seen[1], place + vm_step, sizeof seen[1]));
              expect(seen[0] == 41 && seen[1] == 77,
                     "writes of the other process's kernel are not seen");
              own.run(0, [words] { words[1] = 50; });
            }
            send(partner.socket(), 0);
            receive(partner.socket());
            const Outcome outcome = partner.wait();
            expect(outcome.passed(), outcome.describe());
          }).passed());
}

TEST_CASE("many allocations of physical memory leave the program its descriptors", "[system]") {
  REQUIRE(in_fresh_process([] {
            const Session own(devices);
            const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
            rlimit limit{};
            expect(next >= 0 && ::getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
            // The limit is about twice the number of descriptors that are open already.
            limit.rlim_cur = 2 * static_cast<rlim_t>(next) + 4;
            expect(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
            std::vector<std::unique_ptr<Physical>> memories;
            for (int i = 0; i < 16; ++i)
              memories.push_back(std::make_unique<Physical>(vm_step, on_device(i % 2)));
            const int last = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
            expect(last >= 0 && last <= next + 4,
                   "the memories use up the program's descriptor numbers");
          }).passed());
}

}  // namespace wherry::test::virtual_memory_process_test
