#include "support/test_device.h"

#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <variant>

#include "base/page.h"
#include "os/process/permissions.h"
#include "trap/fault_board.h"
#include "trap/trap_choice.h"

namespace wherry::test {
namespace {

impl::TrapMode chosen_trap() {
  const char* setting = std::getenv("WHERRY_TRAP");
  const auto choice =
      impl::choose_trap(setting == nullptr ? "" : setting, impl::permissions(), /*remedy=*/"");
  return std::get<impl::TrapChoice>(choice).mode;
}

}  // namespace

TestArena::TestArena()
    : range_(impl::Mapping::reserve(bytes, impl::block_size)),
      pool_("wherry-test-pool", bytes, impl::HugePages::never) {
  if (impl::map_closed(base(), {pool_.fd(), 0, bytes}) != 0 ||
      impl::prepare_view(base(), bytes, /*huge_pages=*/false) != 0 ||
      impl::set_access(base(), bytes, impl::Access::write) != 0)
    throw std::runtime_error("cannot map the test's pool");
}

TestDevice::TestDevice(const TestArena& arena, int ordinal, int workers, const impl::Annex* annex,
                       std::uint64_t command_limit_ns) {
  impl::DeviceProcessOptions options;
  options.command_limit_ns = command_limit_ns;
  if (annex != nullptr) {
    options.annex_base = annex->base();
    options.annex_size = annex->size();
  }
  options.ordinal = ordinal;
  options.layout = &arena.layout();
  options.arena_open = {{{0}, open_bytes / impl::page_size}};
  options.pools = {{{}, {arena.pool_fd()}}};
  options.workers = workers;
  options.trap = chosen_trap();
  process_ = impl::DeviceProcess::start(options);
  // With a userfaultfd the arena is not registered: Linux lets accesses fill the pool, or refuses
  // them.
  process_->take_userfaultfd().reset();
  if (impl::traits_of(options.trap.kind).signals_devices)
    faults_ = std::make_unique<impl::BoardSource>(process_, process_->fault_board(),
                                                  process_->fault_notifier());
  process_->run();
}

std::optional<std::uintptr_t> resolve_kernel(impl::DeviceProcess& process,
                                             impl::KernelFunction kernel) {
  if (const auto known = process.find_kernel(kernel)) return known;
  return process.load_module_of(kernel) == 0 ? process.find_kernel(kernel) : std::nullopt;
}

std::uint64_t TestDevice::post(impl::KernelFunction kernel, const void* args, std::size_t args_size,
                               std::size_t items) {
  impl::LaunchRequest request;
  request.id = ++last_id_;
  request.args = args;
  request.args_size = args_size;
  request.items = items;
  const auto address = resolve_kernel(*process_, kernel);
  if (!address) throw std::runtime_error("the device does not have the kernel");
  request.address = *address;
  for (int attempt = 0; !process_->try_post(request); ++attempt) {
    if (attempt == 2000) throw std::runtime_error("no slot became free");
    wait_for_news(10);
    for (const auto id : process_->take_completed()) completed_.push_back(id);
  }
  return request.id;
}

std::optional<impl::DeviceFailure> TestDevice::wait(std::uint64_t id) {
  for (int attempt = 0; attempt < 200; ++attempt) {
    for (const auto finished : process_->take_completed()) completed_.push_back(finished);
    const auto found = std::find(completed_.begin(), completed_.end(), id);
    if (found != completed_.end()) {
      completed_.erase(found);
      return {};
    }
    if (wait_for_news(100)) return process_->failure();
  }
  throw std::runtime_error("a launch neither finished nor failed");
}

impl::DeviceFailure TestDevice::wait_for_end() {
  pollfd polled{process_->pidfd(), POLLIN, 0};
  if (::poll(&polled, 1, 20'000) != 1) throw std::runtime_error("the device does not end");
  return process_->failure();
}

bool TestDevice::wait_for_news(int limit_ms) {
  pollfd polled[] = {{process_->completion_fd(), POLLIN, 0},
                     {process_->pidfd(), POLLIN, 0},
                     {faults_ ? faults_->fd() : -1, POLLIN, 0}};
  ::poll(polled, std::size(polled), limit_ms);
  while (polled[2].revents != 0) {
    const auto message = faults_->read_message();
    if (!message) break;
    faults_->answered(*message, /*refused=*/true);
  }
  return polled[1].revents != 0;
}

}  // namespace wherry::test
