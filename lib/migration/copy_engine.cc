#include "migration/copy_engine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "base/page.h"
#include "base/patience.h"
#include "migration/creation.h"

namespace wherry::impl {
namespace {

// A ring's kernel thread takes longer to wake than to copy less.
constexpr std::uint64_t ring_bytes_min = 64 << 10;
// What one copier does of a job with small pieces before the others' turn comes.
constexpr std::uint64_t task_bytes = 1 << 20;
constexpr auto pause = std::chrono::microseconds(20);
// How long a piece waits for others: flights, room that faults have spoken for.
constexpr std::uint64_t wait_limit_ns = 10'000'000'000;
// How often a copy that came to nothing is tried again.
constexpr int failures_max = 3;

// What is read where there are no pages. Never written, so it takes no memory.
alignas(page_size) std::array<std::byte, block_size> zeros;

bool is_managed(const CopyRequest::Side& side) {
  return side.memory == CopyRequest::Memory::managed;
}
bool is_of_arena(const CopyRequest::Side& side) {
  return is_managed(side) || side.memory == CopyRequest::Memory::device;
}

// Requires: the side is of files, and the address in it.
const FilePart& part_at(const CopyRequest::Side& side, std::uint64_t address) {
  const auto past = std::ranges::upper_bound(*side.parts, address, {}, &FilePart::start);
  return *std::prev(past);
}

// How many bytes lie side by side in one block of what holds them.
std::uint64_t bytes_together(const CopyRequest::Side& side, std::uint64_t place) {
  if (side.memory == CopyRequest::Memory::host) return block_size;
  if (side.memory != CopyRequest::Memory::files) return block_size - place % block_size;
  const FilePart& part = part_at(side, place);
  return std::min(part.end() - place, block_size - part.offset_of(place) % block_size);
}

ByteTransfer::Place place_of(const CopyRequest::Side& side, std::uint64_t where) {
  if (side.memory == CopyRequest::Memory::host) return reinterpret_cast<std::byte*>(where);
  if (side.memory != CopyRequest::Memory::files) return ByteTransfer::InPool{side.owner, where};
  const FilePart& part = part_at(side, where);
  return ByteTransfer::InFile{part.file->get(), part.offset_of(where)};
}

// The same with as few rows as possible.
CopyRequest flattened(CopyRequest request) {
  const auto fits = [&](std::uint64_t CopyRequest::Side::*step, std::uint64_t bytes) {
    return request.to.*step == bytes && (request.pattern || request.from.*step == bytes);
  };
  if (request.rows == 1 || fits(&CopyRequest::Side::pitch, request.width)) {
    request.width *= request.rows;
    request.rows = request.layers;
    request.layers = 1;
    request.to.pitch = request.to.layer;
    request.from.pitch = request.from.layer;
    if (request.rows == 1 || fits(&CopyRequest::Side::pitch, request.width)) {
      request.width *= request.rows;
      request.rows = 1;
    }
  }
  return request;
}

}  // namespace

struct CopyEngine::Pages {
  CopyRequest::Side& side;
  Piece& piece;
  std::uint64_t where;  // of the piece, from the arena's base
  bool written;
  // Nothing: there are none, and they read as zeros.
  std::optional<Processor> owner = {};

  BlockIndex block() const { return block_of(where / page_size); }
  PageRun run() const {
    const std::uint64_t first = where / page_size;
    const std::uint64_t end = round_up(where + piece.bytes, page_size) / page_size;
    return run_in_block(block(), {first, end - first});
  }
  PageSpan span() const { return span_of(block(), run()); }
  // Leaves of the piece what lies in the first pages.
  void cut_to(PageRun kept) {
    piece.bytes =
        std::min(piece.bytes, span_of(block(), kept).offset() + kept.count * page_size - where);
  }
};

// Part of a request, from position to position as if its rows lay side by side.
class CopyEngine::TransferTask final : public Copiers::Step {
 public:
  TransferTask(CopyEngine& engine, const CopyRequest& what, std::uint64_t begin,
               std::uint64_t its_end)
      : request(what), position(begin), end(its_end), engine_(engine) {}

  Copiers::Progress advance(Copiers::Load& load) override {
    if (position == end || status != OpStatus::ok) return Copiers::Progress::done;
    ByteTransfer transfer;
    switch (engine_.begin(*this, transfer)) {
      case CopyEngine::Step::ready:
        break;
      case CopyEngine::Step::moves:
        return Copiers::Progress::moves;
      case CopyEngine::Step::waits:
        return Copiers::Progress::waits;
      case CopyEngine::Step::failed:
        return Copiers::Progress::done;
    }
    if (transfer.bytes >= ring_bytes_min && !stays) {
      load = transfer;
      return Copiers::Progress::flies;
    }
    if (auto backend = engine_.backends_.borrow()) {
      backend->begin(0, transfer);
      engine_.end(*this, backend->next().status);
      engine_.backends_.give_back(std::move(backend));
    } else {
      engine_.end(*this, OpStatus::no_memory);
    }
    return Copiers::Progress::moves;
  }
  void complete_transfer(const TransferResult& outcome) override {
    engine_.end(*this, outcome.status);
  }
  void stay() override {
    engine_.end(*this, OpStatus::incomplete);
    stays = true;
  }

  const CopyRequest& request;  // the task's, or the caller's
  std::uint64_t position;
  const std::uint64_t end;
  OpStatus status = OpStatus::ok;
  bool stays = false;                          // this copier's ring carries nothing
  std::uint64_t carried = 0;                   // bytes that are under way
  std::array<std::uint64_t, 2> allocations{};  // that are held; 0: none
  std::array<std::optional<Hold>, 2> holds;
  std::array<PageSpan, 2> in_place{};  // of devices' own memory, that bytes are carried from or to
  Reservation reservation;
  bool at_home = true;  // there may be room where pages should be created
  int failures = 0;
  std::optional<Patience> patience = {};  // since it was first kept waiting

 private:
  CopyEngine& engine_;
};

class CopyEngine::Task final : public Copiers::Job {
 public:
  Task(CopyEngine& engine, CopyRequest request, std::function<void(OpStatus)> done)
      : engine_(engine), request_(flattened(std::move(request))), done_(std::move(done)) {}

  std::unique_ptr<Copiers::Step> next() override {
    if (!has_more()) return nullptr;
    const std::uint64_t begin = position_;
    const std::uint64_t bytes = request_.width >= ring_bytes_min
                                    ? piece_at(request_, begin).bytes
                                    : std::min(task_bytes, request_.bytes() - begin);
    position_ += bytes;
    return std::make_unique<TransferTask>(engine_, request_, begin, position_);
  }
  bool has_more() const override { return status_ == OpStatus::ok && position_ < request_.bytes(); }
  void finish(Copiers::Step& step) override {
    if (status_ == OpStatus::ok) status_ = static_cast<TransferTask&>(step).status;
  }
  void done() override { done_(status_); }

 private:
  CopyEngine& engine_;
  const CopyRequest request_;
  const std::function<void(OpStatus)> done_;
  std::uint64_t position_ = 0;  // of the next leg
  OpStatus status_ = OpStatus::ok;
};

OpStatus CopyEngine::carry(const CopyRequest& request) {
  auto backend = backends_.borrow();
  if (!backend) return OpStatus::no_memory;
  const CopyRequest flat = flattened(request);
  TransferTask task(*this, flat, 0, flat.bytes());
  while (task.position != task.end && task.status == OpStatus::ok) {
    ByteTransfer transfer;
    switch (begin(task, transfer)) {
      case Step::ready:
        backend->begin(0, transfer);
        end(task, backend->next().status);
        break;
      case Step::waits:
        std::this_thread::sleep_for(pause);
        break;
      case Step::moves:
      case Step::failed:
        break;
    }
  }
  backends_.give_back(std::move(backend));
  return task.status;
}

void CopyEngine::submit(CopyRequest request, std::function<void(OpStatus)> done) {
  parts_.copiers.submit(std::make_shared<Task>(*this, std::move(request), std::move(done)));
}

CopyEngine::Piece CopyEngine::piece_at(const CopyRequest& request, std::uint64_t position) {
  const std::uint64_t row = position / request.width;
  const std::uint64_t in_row = position % request.width;
  const auto place = [&](const CopyRequest::Side& side) {
    return side.start + row / request.rows * side.layer + row % request.rows * side.pitch + in_row;
  };
  Piece piece{place(request.to), place(request.from), request.width - in_row};
  piece.bytes = std::min(piece.bytes, bytes_together(request.to, piece.to));
  if (request.pattern) {
    piece.from = reinterpret_cast<std::uint64_t>(request.pattern->data());
    piece.bytes = std::min<std::uint64_t>(piece.bytes, request.pattern->size());
  } else {
    piece.bytes = std::min(piece.bytes, bytes_together(request.from, piece.from));
  }
  return piece;
}

bool CopyEngine::hold_allocations(TransferTask& task) {
  std::uint64_t* held = task.allocations.data();
  for (const CopyRequest::Side* side : {&task.request.to, &task.request.from}) {
    if (!is_of_arena(*side)) continue;
    if (!parts_.address_space.hold(side->start, side->allocation)) {
      release(task);
      task.status = OpStatus::bad_address;
      return false;
    }
    *held++ = side->allocation;
  }
  return true;
}

CopyEngine::Step CopyEngine::begin(TransferTask& task, ByteTransfer& transfer) {
  if (!hold_allocations(task)) return Step::failed;
  Piece piece = piece_at(task.request, task.position);
  piece.bytes = std::min(piece.bytes, task.end - task.position);
  CopyRequest::Side to_side = task.request.to;
  CopyRequest::Side from_side = task.request.pattern ? CopyRequest::Side() : task.request.from;
  Pages to{to_side, piece, piece.to, true};
  Pages from{from_side, piece, piece.from, false};

  Step step = is_managed(to_side) ? create(task, to) : Step::ready;
  if (step == Step::ready)
    step = hold(task, is_managed(to_side) ? &to : nullptr, is_managed(from_side) ? &from : nullptr);
  if (step != Step::ready) release(task);
  if (step == Step::waits) {
    // A live flight ends, however slow its source is.
    if (!task.patience || is_carried(to) || is_carried(from)) task.patience.emplace(wait_limit_ns);
    task.patience->note_wait();
    if (task.patience->is_over()) step = give_up(task);
  }
  if (step != Step::ready) return step;
  task.patience.reset();
  // What never moves is held by its allocation alone.
  for (const Pages* part : {&to, &from}) {
    if (part->side.memory != CopyRequest::Memory::device) continue;
    const PageSpan span = part->span();
    parts_.engine.transfers().begun(span);
    (task.in_place[0].empty() ? task.in_place[0] : task.in_place[1]) = span;
  }
  task.reservation = Reservation();
  task.carried = piece.bytes;
  if (is_managed(to_side)) to_side.owner = *to.owner;
  if (is_managed(from_side)) {
    if (from.owner) {
      from_side.owner = *from.owner;
    } else {
      from_side.memory = CopyRequest::Memory::host;
      piece.from = reinterpret_cast<std::uint64_t>(zeros.data());
    }
  }
  transfer = {place_of(to_side, piece.to), place_of(from_side, piece.from), piece.bytes};
  return Step::ready;
}

bool CopyEngine::is_carried(const Pages& pages) const {
  return is_of_arena(pages.side) && parts_.engine.transfers().is_carried(pages.span());
}

void CopyEngine::end(TransferTask& task, OpStatus status) {
  release(task);
  if (status == OpStatus::ok) {
    task.position += task.carried;
    task.failures = 0;
  } else if (status != OpStatus::incomplete) {
    task.status = status;
  } else if (++task.failures == failures_max) {
    // A copy to or from the program's memory stops where that ends.
    const bool at_host = task.request.to.memory == CopyRequest::Memory::host ||
                         task.request.from.memory == CopyRequest::Memory::host;
    task.status = at_host ? OpStatus::bad_address : OpStatus::no_memory;
  }
}

CopyEngine::Step CopyEngine::create(TransferTask& task, Pages& pages) {
  std::uint64_t absent = 0;
  {
    const LockedBlock block(pages.block(), parts_.blocks.at(pages.block()));
    absent = (PageMask::of(pages.run()) & block.state.absent()).count();
  }
  if (absent == 0) {
    // Others may need it more while this waits for the pages.
    task.reservation.release();
    return Step::ready;
  }
  const auto advice = parts_.effects.advice_at(pages.where / page_size);
  pages.cut_to(run_in_block(pages.block(), advice.span));
  const Location preferred = advice.value.preferred;
  Processor home = preferred.is_none() ? task.request.home : preferred.processor();
  if (!task.at_home) {
    const auto found = elsewhere(task, pages, absent);
    if (!found) return give_up(task);
    home = *found;
  }
  switch (create_pages(parts_.engine, parts_.evictor, parts_.blocks, pages.block(), pages.run(),
                       home, task.reservation)) {
    case OpStatus::ok:
      return Step::ready;
    case OpStatus::incomplete:
      return Step::waits;
    default:
      break;
  }
  // There was room: the kernel has no memory.
  if (!task.at_home) return give_up(task);
  task.at_home = false;
  return Step::moves;
}

std::optional<Processor> CopyEngine::elsewhere(TransferTask& task, Pages& pages,
                                               std::uint64_t absent) {
  if (const auto all = find_room(parts_.engine, absent, task.reservation)) return all;
  pages.cut_to({pages.run().first, 1});
  return find_room(parts_.engine, 1, task.reservation);
}

CopyEngine::Step CopyEngine::give_up(TransferTask& task) {
  task.status = OpStatus::no_memory;
  return Step::failed;
}

CopyEngine::Step CopyEngine::settle(const CopyRequest& request, Pages& pages,
                                    const LockedBlock& block) {
  const PageRun run = pages.run();
  if (!(PageMask::of(run) & block.state.in_flight()).none()) return Step::waits;
  const ProcessorMask residents = block.state.residents(run.first);
  if (residents == 0) {
    if (pages.written) return Step::moves;
    pages.cut_to(block.state.absent().run_around(run.first));
    pages.owner.reset();
    return Step::ready;
  }
  Processor owner{std::countr_zero(residents)};
  if (pages.written && std::popcount(residents) > 1) {
    const Location preferred = parts_.effects.advice_at(pages.where / page_size).value.preferred;
    if (!preferred.is_none() && (residents & preferred.processor().bit()) != 0)
      owner = preferred.processor();
    else if ((residents & request.home.bit()) != 0)
      owner = request.home;
  }
  pages.cut_to(block.state.at(owner).resident.run_around(run.first));
  if (pages.written)
    for (const PageRun part : runs_of(PageMask::of(pages.run()) & block.state.held_beside(owner)))
      parts_.engine.collapse(block, part, owner, MoveCause::copy);
  parts_.engine.note_access(block, owner);
  pages.owner = owner;
  return Step::ready;
}

// Holds what is at rest in one block. `together`: further pages of it, which are not written.
CopyEngine::Step CopyEngine::hold_in_block(TransferTask& task, Pages& pages, Pages* together) {
  const LockedBlock block(pages.block(), parts_.blocks.at(pages.block()));
  Step step = settle(task.request, pages, block);
  if (step == Step::ready && together != nullptr) step = settle(task.request, *together, block);
  if (step != Step::ready) return step;
  Hold hold{pages.block(), {}};
  for (const Pages* part : {&pages, together})
    if (part != nullptr && part->owner) hold.pages |= PageMask::of(part->run());
  parts_.engine.begin_hold(block, hold.pages);
  (task.holds[0] ? task.holds[1] : task.holds[0]) = hold;
  return Step::ready;
}

// Nobody waits for a page while holding another, so the order does not matter.
CopyEngine::Step CopyEngine::hold(TransferTask& task, Pages* to, Pages* from) {
  const bool together = to != nullptr && from != nullptr && to->block() == from->block();
  Step step = Step::ready;
  if (to != nullptr) step = hold_in_block(task, *to, together ? from : nullptr);
  if (from != nullptr && !together && step == Step::ready)
    step = hold_in_block(task, *from, nullptr);
  return step;
}

void CopyEngine::release(TransferTask& task) {
  for (auto& hold : task.holds) {
    if (!hold) continue;
    {
      const LockedBlock block(hold->block, parts_.blocks.at(hold->block));
      parts_.engine.end_hold(block, hold->pages);
    }
    hold.reset();
  }
  for (PageSpan& span : task.in_place)
    if (!span.empty()) parts_.engine.transfers().ended(std::exchange(span, {}));
  for (std::uint64_t& allocation : task.allocations)
    if (const std::uint64_t held = std::exchange(allocation, 0)) parts_.address_space.let_go(held);
  parts_.engine.transfers().announce();
}

}  // namespace wherry::impl
