#include "stress/rig.h"

#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "streams/thread_target.h"

namespace wherry::test {
namespace {

constexpr std::chrono::seconds launch_limit{200};
constexpr std::chrono::milliseconds look{100};

constexpr std::size_t still_bytes = 16384;  // so few bytes that devices leave them mapped

std::byte* map_still_memory() {
  void* const place =
      ::mmap(nullptr, still_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) throw std::runtime_error("no shared memory");
  return static_cast<std::byte*>(place);
}

impl::RuntimeOptions make_options(const std::string& devices, unsigned region_pages,
                                  unsigned transfer_pages_min, Injector& injector) {
  ::setenv("WHERRY_DEVICES", devices.c_str(), 1);
  impl::OptionsError error;
  auto options = impl::RuntimeOptions::from_environment(error);
  if (!options) throw std::runtime_error(error.message);
  options->region_pages = region_pages;
  options->wrap_mapper = [&injector](impl::Processor processor, impl::Mapper& mapper) {
    return injector.wrap(processor, mapper);
  };
  options->wrap_pool = [&injector](impl::Processor processor, impl::PoolFile& pool) {
    return injector.wrap(processor, pool);
  };
  options->wrap_changer = [&injector](impl::Processor processor, impl::ViewChanger& changer) {
    return injector.wrap(processor, changer);
  };
  options->wrap_backend = [&injector](std::unique_ptr<impl::CopyBackend> backend) {
    return injector.wrap(std::move(backend));
  };
  options->transfer_pages_min = transfer_pages_min;
  return *options;
}

}  // namespace

Rig::Rig(const std::string& devices, unsigned region_pages, unsigned transfer_pages_min)
    : still_(map_still_memory()),
      runtime_(
          new impl::Runtime(make_options(devices, region_pages, transfer_pages_min, injector_))) {
  for (int device = 0; device < runtime_->device_count(); ++device) {
    if (!runtime_->options().is_coherent(device)) continue;
    const impl::DeviceConfig& config = runtime_->device_config(device);
    // Never destroyed, because that would wait for a kernel that hangs.
    threads_[device] = std::shared_ptr<impl::LaunchTarget>(
        new impl::ThreadTarget(runtime_->attached_threads(), {device, config.workers, config.cpus}),
        [](impl::LaunchTarget*) {});
  }
}

std::shared_ptr<impl::LaunchTarget> Rig::target(int device) const {
  if (const auto threads = threads_.find(device); threads != threads_.end()) return threads->second;
  return std::make_shared<impl::ProcessTarget>(runtime_->devices().process(device));
}

std::byte* Rig::zeroed_still_memory(std::size_t bytes) {
  if (bytes > still_bytes) throw std::runtime_error("the still memory is smaller");
  std::memset(still_, 0, still_bytes);
  return still_;
}

std::byte* Rig::allocate(std::size_t bytes) {
  const auto allocation = runtime_->heap().allocate(bytes, 1);
  if (!allocation) throw std::runtime_error("no managed memory");
  return reinterpret_cast<std::byte*>(runtime_->heap().address_of(*allocation));
}

void Rig::free(std::byte* memory) {
  if (!runtime_->heap().free(reinterpret_cast<std::uintptr_t>(memory)))
    throw std::runtime_error("free refused");
}

void Rig::advise(const std::byte* memory, std::size_t bytes, const impl::AdviceChange& change) {
  const impl::PageIndex first =
      *runtime_->layout().page_of(reinterpret_cast<std::uintptr_t>(memory));
  if (!runtime_->advice().advise({first, impl::round_up(bytes, impl::page_size) / impl::page_size},
                                 change))
    throw std::runtime_error("advice refused");
}

void Rig::prefetch(const std::byte* memory, std::size_t bytes, impl::Location to) {
  request(memory, bytes, to, impl::PrefetchRequest::Kind::prefetch);
}

void Rig::discard(const std::byte* memory, std::size_t bytes) {
  request(memory, bytes, impl::Location::host(), impl::PrefetchRequest::Kind::discard);
}

void Rig::request(const std::byte* memory, std::size_t bytes, impl::Location to,
                  impl::PrefetchRequest::Kind kind) {
  if (prefetches_open_.load() >= 2) return;
  const impl::PageIndex first =
      *runtime_->layout().page_of(reinterpret_cast<std::uintptr_t>(memory));
  const impl::PageSpan pages{first, impl::round_up(bytes, impl::page_size) / impl::page_size};
  ++prefetches_open_;
  runtime_->prefetcher().submit({{{pages, pages, to}}, kind, 0}, [this] { --prefetches_open_; });
}

void Rig::wait_for_prefetches() const {
  const auto deadline = std::chrono::steady_clock::now() + launch_limit;
  for (; prefetches_open_.load() != 0; ::poll(nullptr, 0, 1))
    if (std::chrono::steady_clock::now() >= deadline)
      throw std::runtime_error("a prefetch did not end within its limit");
}

impl::BlockIndex Rig::block_of(const std::byte* memory) const {
  return impl::block_of(*runtime_->layout().page_of(reinterpret_cast<std::uintptr_t>(memory)));
}

void Rig::sample(const std::byte* memory) {
  const impl::PageIndex page =
      *runtime_->layout().page_of(reinterpret_cast<std::uintptr_t>(memory));
  runtime_->usage_sampler()->sample(page);
}

void Rig::copy_out(const std::byte* memory, std::size_t bytes) {
  if (copies_.exchange(true)) return;
  copied_.resize(bytes);
  impl::CopyRequest request;
  request.from.memory = impl::CopyRequest::Memory::managed;
  request.from.start = *runtime_->heap().offset_of(reinterpret_cast<std::uintptr_t>(memory));
  request.to.start = reinterpret_cast<std::uintptr_t>(copied_.data());
  request.width = bytes;
  // The copy's status is ignored: injected failures are expected.
  runtime_->copy_engine().submit(std::move(request), [this](impl::OpStatus) { copies_ = false; });
}

std::uint64_t Rig::post(int device, impl::KernelFunction kernel, const void* args, std::size_t size,
                        std::size_t items) {
  const auto target = this->target(device);
  auto address = target->resolve(kernel);
  if (!address && target->load(kernel) == 0) address = target->resolve(kernel);
  if (!address) throw std::runtime_error("the device does not know the kernel");
  impl::LaunchRequest request;
  request.id = next_id_++;
  request.address = *address;
  request.args = args;
  request.args_size = size;
  request.items = items;
  running_.insert(request.id);
  if (!target->try_post(request)) throw std::runtime_error("no launch slot is free");
  return request.id;
}

bool Rig::finished(int device, std::uint64_t id) {
  for (const std::uint64_t done : target(device)->take_completed()) running_.erase(done);
  return !running_.contains(id);
}

void Rig::wait_for(int device, std::uint64_t id) {
  const auto target = this->target(device);
  std::chrono::steady_clock::duration waited{};
  for (auto before = std::chrono::steady_clock::now(); !finished(device, id);) {
    pollfd polled[2] = {{target->completion_fd(), POLLIN, 0}, {target->exit_fd(), POLLIN, 0}};
    ::poll(polled, 2, static_cast<int>(look.count()));
    if (polled[1].revents != 0) throw std::runtime_error("a device process ended");
    const auto now = std::chrono::steady_clock::now();
    // Time in which this thread did not run does not count as waiting.
    waited += std::min<std::chrono::steady_clock::duration>(now - before, 2 * look);
    before = now;
    if (waited >= launch_limit) throw std::runtime_error("a kernel did not end within its limit");
  }
}

std::uint64_t Rig::pages_moved() const {
  const wherryStats stats = runtime_->inspector().stats();
  return stats.populated + stats.migrated_in + stats.duplicated + stats.mapped_remotely;
}

}  // namespace wherry::test
