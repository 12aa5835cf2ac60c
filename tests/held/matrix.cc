#include "held/matrix.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "held/held_counter.h"
#include "support/waiting.h"

namespace wherry::test {
namespace {

constexpr std::size_t block_pages = block_bytes / page_bytes;
constexpr std::size_t half_words = block_words / 2;
// Memory that fills the device, so that it evicts: more than its capacity.
constexpr std::size_t filler_words = 6 * block_words;
constexpr std::uint64_t old_salt = 1;
constexpr std::uint64_t new_salt = 2;
constexpr std::uint64_t later_salt = 3;
// The consolidator makes its first attempts after 50 ms and 100 ms.
constexpr int merge_attempts_ms = 130;
constexpr std::chrono::seconds moves_again_limit{20};
// No thread may wait for a holder. One that takes this long counts as waiting.
constexpr std::chrono::seconds wait_limit{8};

// Pages by their number from the first page of the memory on.
struct Pages {
  std::size_t first = 0;
  std::size_t count = 0;

  std::size_t end() const { return first + count; }
  bool contains(std::size_t page) const { return page >= first && page < end(); }
};

bool frees_held(Mover mover) {
  return mover == Mover::free_held || mover == Mover::free_whole;
}
// Whether the contents of the held pages are undefined afterwards.
bool loses_contents(Mover mover) {
  return mover == Mover::discard || frees_held(mover);
}
// Whether the mover can move the same pages again.
bool is_repeatable(Mover mover) {
  return mover != Mover::discard && mover != Mover::free_beside && !frees_held(mover);
}

bool is_possible(const Row& row, bool huge) {
  if (row.pinned && (!writes(row.holder) || is_wrapped(row.holder) || frees_held(row.mover)))
    return false;
  // A processor that maps the pages where they are does not fault, and one that has a copy of its
  // own does not map another's.
  if (row.through_map && (row.mover == Mover::fault || row.mover == Mover::collapse)) return false;
  if (row.mover == Mover::evict && !row.at_device) return false;
  if (row.mover == Mover::merge && !huge) return false;
  // A program that frees memory in the middle of its own read() does not get it right anywhere.
  if (is_wrapped(row.holder) && writes(row.holder) && loses_contents(row.mover)) return false;
  // Brief holders read all the time, so also when the contents are undefined already.
  if (is_brief(row.holder) && loses_contents(row.mover)) return false;
  // ptrace reads through a thread of the host, so the host's page table must lead to the pages.
  if (row.holder == HolderKind::ptrace_peek && row.at_device != row.through_map) return false;
  return true;
}

// Writes a word of each page, without changing its value.
void rewrite(std::uint64_t* first, std::size_t pages) {
  for (std::size_t i = 0; i < pages * page_words; i += page_words) {
    auto* const word = const_cast<volatile std::uint64_t*>(first + i);
    *word = *word;
  }
}

void prefetch(const std::uint64_t* first, std::size_t bytes, int to) {
  WHERRY_TRY(cuMemPrefetchAsync(address_of(first), bytes, location_of(to), 0, nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
}

std::string describe(const Comparison& seen) {
  std::ostringstream text;
  text << seen.wrong << " of " << seen.compared << " words wrong, " << seen.zeros
       << " of them zero, first at word " << seen.first_wrong << ": " << std::hex
       << seen.first_difference;
  return text.str();
}

// Runs one row: a holder and a mover, at one place.
class RowRun {
 public:
  struct Parts {
    const Stage& stage;
    const Session& session;
    const Places& places;
    const Matrix::Setting& setting;
    Progress& progress;
    HoldAnswer* answer;
  };
  RowRun(const Parts& parts, const Row& row, std::uint64_t seed)
      : parts_(parts), row_(row), random_(seed) {}

  RowResult run() {
    step("allocate");
    if (!allocate()) return {.missing = "no two allocations came into one block"};
    choose_pages();
    step("place");
    place();
    step("begin to hold");
    if (begin()) {
      try {
        move_while_held();
      } catch (...) {
        end();  // so that the next row has a holder
        throw;
      }
      step("end the hold");
      end();
      step("move again");
      judge_moves();
      step_ = nullptr;  // which has a limit of its own
      step("compare");
      compare();
    }
    step("free");
    free_all();
    result_.failures = failures_.str();
    return result_;
  }

 private:
  int home() const { return row_.at_device ? device0 : host; }
  int other() const { return row_.at_device ? host : device0; }
  Place holder_place() const {
    if (is_of_peer(row_.holder)) return Place::peer;
    return owner_place();
  }
  // Whose page table leads the holder to the pages.
  Place owner_place() const {
    return row_.at_device != row_.through_map ? Place::device : Place::host;
  }
  const Stage& stage() const { return parts_.stage; }
  void step(const char* what) {
    parts_.progress.step(what);
    const auto now = std::chrono::steady_clock::now();
    if (step_ != nullptr && now - step_began_ > wait_limit)
      fail(std::string{"too long a wait in the step: "} + step_);
    step_ = what;
    step_began_ = now;
  }
  void fail(const std::string& what) { failures_ << "; " << what; }

  std::uint64_t* word_of(std::size_t page) const { return first_ + page * page_words; }
  std::size_t bytes_of(const Pages& pages) const { return pages.count * page_bytes; }
  std::size_t draw(std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random_);
  }

  // The memory has whole blocks of its own, or one block that two allocations share.
  bool allocate() {
    if (row_.mover == Mover::free_beside || row_.mover == Mover::free_held)
      return allocate_beside();
    memory_ = std::make_unique<Words>(3 * block_words);
    first_ = whole_block_of(*memory_);
    pages_ = 2 * block_pages;
    return true;
  }
  bool allocate_beside() {
    std::deque<std::unique_ptr<Words>> tried;
    for (int i = 0; i < 8; ++i) {
      tried.push_back(std::make_unique<Words>(half_words));
      for (auto& one : tried) {
        if (one->data() != whole_block_of(*one)) continue;
        for (auto& two : tried) {
          if (two->data() != one->data() + half_words) continue;
          first_ = one->data();
          const bool first_is_held = draw(0, 1) == 0;
          memory_ = std::move(first_is_held ? one : two);
          beside_ = std::move(first_is_held ? two : one);
          pages_ = block_pages;
          return true;
        }
      }
    }
    return false;
  }

  void choose_pages() {
    const std::size_t held_count = draw(17, 32);
    Pages room{0, pages_};
    if (beside_) room = {memory_->data() == first_ ? 0 : block_pages / 2, block_pages / 2};
    held_ = {draw(room.first, room.end() - held_count), held_count};
    // What moves contains the held pages, and some on both sides.
    const std::size_t first = held_.first - std::min(held_.first - room.first, draw(1, 20));
    const std::size_t end = held_.end() + std::min(room.end() - held_.end(), draw(1, 20));
    moving_ = {first, end - first};
    if (row_.mover == Mover::prefetch_whole || row_.mover == Mover::free_whole) moving_ = room;
    if (row_.mover == Mover::free_held) moving_ = room;
    if (row_.mover == Mover::free_beside)
      moving_ = {beside_->data() == first_ ? 0 : block_pages / 2, block_pages / 2};
  }

  void place() {
    for (std::size_t i = 0; i < pages_ * page_words; ++i)
      first_[i] = value_at(first_ + i, old_salt);
    if (row_.through_map) {
      advise_all(CU_MEM_ADVISE_SET_ACCESSED_BY, other());
    }
    prefetch_all(other());
    if (row_.mover == Mover::merge) {
      // A block that comes in parts has small pages.
      const std::size_t part = (moving_.first + 1) * page_bytes;
      prefetch(first_, part, home());
      prefetch(first_ + part / sizeof *first_, pages_ * page_bytes - part, home());
    } else {
      prefetch_all(home());
    }
    if (beside_ && parts_.setting.huge) wait_until_merged();
    if (row_.mover == Mover::collapse) {
      advise_all(CU_MEM_ADVISE_SET_READ_MOSTLY, host);
      (void)stage().read_pages(other(), first_, pages_ * page_bytes);
    }
    touch();
    if (!row_.pinned) return;
    WHERRY_TRY(wherryPinPages(address_of(word_of(held_.first)), bytes_of(held_)));
    // Usually home(). But touch() moves a page if the touching process's view cannot change.
    for (std::size_t page = held_.first; page < held_.end(); ++page)
      pinned_in_.push_back(stage().residents(word_of(page)));
  }
  void prefetch_all(int to) {
    for (const Words* words : {memory_.get(), beside_.get()})
      if (words != nullptr) prefetch_words(*words, to);
  }
  // Prefetches the part of the allocation that lies in the whole blocks from first_ on.
  void prefetch_words(const Words& words, int to) {
    if (beside_)
      prefetch(words.data(), words.bytes(), to);
    else
      prefetch(first_, pages_ * page_bytes, to);
  }
  void advise_all(CUmem_advise advice, int processor) {
    for (const Words* words : {memory_.get(), beside_.get()})
      if (words != nullptr) advise(*words, advice, processor);
  }
  // A block of two allocations becomes one huge page in the background, where that is possible.
  void wait_until_merged() const {
    const pid_t process = Witness::process_of(index_of(home()));
    const auto entries = [&] { return huge_entries(process, first_); };
    const std::uint64_t before = entries();
    (void)comes_true([&] { return entries() > before; }, std::chrono::seconds(1));
  }
  // Makes page-table entries for the held pages in the process whose memory the holder looks up.
  // Where faults inside system calls are not answered, the holder needs them.
  void touch() {
    const unsigned flags = touch_flags(row_.holder);
    const auto* const start = word_of(held_.first);
    const std::size_t bytes = bytes_of(held_);
    parts_.places.run(owner_place(), [start, bytes, flags] {
      expect(wherryTouchPages(start, bytes, flags) == CUDA_SUCCESS, "wherryTouchPages");
    });
  }

  bool begin() {
    HoldOrder order;
    order.kind = row_.holder;
    order.first = word_of(held_.first);
    order.bytes = bytes_of(held_);
    order.salt = old_salt;
    order.new_salt = new_salt;
    order.target = Witness::process_of(owner_place() == Place::host ? 0 : 1);
    order.protects = parts_.setting.protects;
    order.thread = parts_.setting.idle_thread;
    order.serves_system_calls =
        owner_place() == Place::host ? parts_.setting.serves_host : parts_.setting.serves_devices;
    HoldAnswer* const answer = parts_.answer;
    parts_.places.run(holder_place(), [order, answer] { begin_hold(order, *answer); });
    if (answer->missing[0] != 0) result_.missing = answer->missing;
    if (answer->failure[0] != 0) fail(std::string{"the holder does not begin: "} + answer->failure);
    return answer->missing[0] == 0 && answer->failure[0] == 0;
  }
  void end() {
    HoldAnswer* const answer = parts_.answer;
    parts_.places.run(holder_place(), [answer] { end_hold(*answer); });
    if (answer->failure[0] != 0) fail(std::string{"the holder fails: "} + answer->failure);
    if (answer->seen.wrong != 0) fail("the holder has read " + describe(answer->seen));
    if (!writes(row_.holder) && answer->failure[0] == 0 && answer->seen.compared == 0)
      fail("the holder has read nothing");
  }

  void move_while_held() {
    const std::uint64_t held_before = held_count();
    step("move");
    move();
    step("look");
    result_.held = held_count() - held_before;
    result_.moved = count_moved();
    if (frees_held(row_.mover)) allocate_later();
  }
  void move() {
    switch (row_.mover) {
      case Mover::fault:
      case Mover::collapse:
        return access(other());
      case Mover::merge:
        ::poll(nullptr, 0, merge_attempts_ms);
        return prefetch(word_of(moving_.first), bytes_of(moving_), other());
      case Mover::prefetch:
      case Mover::prefetch_whole:
        return prefetch(word_of(moving_.first), bytes_of(moving_), other());
      case Mover::evict: {
        const Words filler(filler_words);
        return prefetch(filler.data(), filler.bytes(), device0);
      }
      case Mover::discard: {
        CUdeviceptr start = address_of(word_of(moving_.first));
        std::size_t bytes = bytes_of(moving_);
        WHERRY_TRY(cuMemDiscardBatchAsync(&start, &bytes, 1, 0, parts_.session.stream(0)));
        return WHERRY_TRY(parts_.session.wait(0));
      }
      case Mover::free_beside:
        return beside_->free();
      case Mover::free_held:
      case Mover::free_whole:
        return memory_->free();
    }
  }
  // Accesses the moving pages for writing, and leaves their contents as they are.
  void access(int processor) {
    const auto work = [start = word_of(moving_.first), count = moving_.count] {
      rewrite(start, count);
    };
    if (processor == host)
      work();
    else
      parts_.session.run(processor, work);
  }

  bool has_moved(std::size_t page) const {
    const std::uint32_t now = residents(page);
    return (now & bit_of(home())) == 0 || (!is_duplicated() && (now & bit_of(other())) != 0);
  }
  // The pools that have the page: by Linux's view, or by the library's where forced reads through
  // page protection fill the holes of a pool with zeros.
  std::uint32_t residents(std::size_t page) const {
    const bool is_filled = parts_.setting.protects && is_brief(row_.holder) && !beside_;
    return is_filled ? page_state(word_of(page)).resident : stage().residents(word_of(page));
  }
  bool is_duplicated() const { return row_.mover == Mover::collapse; }
  std::uint64_t count_moved() const {
    std::uint64_t moved = 0;
    for (std::size_t page = moving_.first; page < moving_.end(); ++page)
      if (has_moved(page)) ++moved;
    return moved;
  }
  bool all_moved() const { return count_moved() == moving_.count; }

  // What the freed addresses are used for next.
  void allocate_later() {
    step("allocate again");
    later_ = std::make_unique<Words>(beside_ ? half_words : 2 * block_words);
    for (std::size_t i = 0; i < later_->size(); ++i)
      (*later_)[i] = value_at(later_->data() + i, later_salt);
    const std::size_t part = later_->bytes() / 2;
    prefetch(later_->data(), part, device0);
    (void)stage().read_pages(device0, later_->data(), later_->bytes());
  }

  void judge_moves() {
    if (row_.pinned) {
      for (std::size_t page = held_.first; page < held_.end(); ++page) {
        const std::uint32_t pools = stage().residents(word_of(page));
        const std::uint32_t before = pinned_in_[page - held_.first];
        if (pools == before) continue;
        fail("a pinned page has moved: page " + std::to_string(page) + " is in pools " +
             std::to_string(pools) + " (bits), was in " + std::to_string(before) +
             ", for the library in " + std::to_string(page_state(word_of(page)).resident));
        break;
      }
      WHERRY_TRY(wherryUnpinPages(address_of(word_of(held_.first)), bytes_of(held_)));
    }
    if (result_.held == 0 && result_.moved == 0 && !has_only_pinned_pages())
      fail("no page has moved, and the library does not count one as held");
    if (frees_held(row_.mover) || (row_.pinned && row_.mover == Mover::discard)) return;
    // A processor that maps pinned pages where they are does not fault afterwards.
    if (row_.pinned && (row_.mover == Mover::fault || row_.mover == Mover::collapse)) return;
    if (all_moved()) return;
    const auto moves = [&] {
      if (is_repeatable(row_.mover)) move();
      return all_moved();
    };
    if (!comes_true(moves, moves_again_limit))
      fail(std::to_string(moving_.count - count_moved()) + " of " + std::to_string(moving_.count) +
           " pages do not move after the hold");
  }
  bool has_only_pinned_pages() const { return row_.pinned && moving_.count == held_.count; }

  // What the memory contains in the end, by both processors.
  void compare() {
    if (later_) compare_words("new memory", *later_, later_salt);
    if (frees_held(row_.mover)) {
      if (row_.mover == Mover::free_held) compare_words("the memory beside it", *beside_, old_salt);
      return;
    }
    Comparison outside, changed;
    for (std::size_t page = 0; page < pages_; ++page) {
      if (row_.mover == Mover::free_beside && moving_.contains(page)) continue;
      if (row_.mover == Mover::discard && moving_.contains(page)) continue;
      const bool is_written = writes(row_.holder) && held_.contains(page);
      for (const std::uint64_t* word = word_of(page); word != word_of(page + 1); ++word) {
        const std::uint64_t found = *const_cast<const volatile std::uint64_t*>(word);
        if (!is_written)
          outside.add(&found, word, 1, old_salt);
        else if (is_wrapped(row_.holder) || row_.pinned || found != value_at(word, old_salt))
          changed.add(&found, word, 1, new_salt);
      }
    }
    if (outside.wrong != 0) fail("the memory has " + describe(outside));
    if (changed.wrong != 0) fail("what the holder wrote has " + describe(changed));
  }
  void compare_words(const char* what, const Words& words, std::uint64_t salt) {
    Comparison found;
    found.add(words.data(), words.data(), words.size(), salt);
    if (found.wrong != 0) fail(std::string{what} + " has " + describe(found));
  }

  void free_all() {
    for (auto* words : {&memory_, &beside_, &later_}) words->reset();
  }

  const Parts parts_;
  const Row row_;
  std::mt19937_64 random_;
  std::unique_ptr<Words> memory_, beside_, later_;
  std::uint64_t* first_ = nullptr;
  std::size_t pages_ = 0;  // from first_ on
  Pages held_, moving_;
  std::vector<std::uint32_t> pinned_in_;  // the pools of each held page when it was pinned
  const char* step_ = nullptr;
  std::chrono::steady_clock::time_point step_began_;
  RowResult result_;
  std::ostringstream failures_;
};

}  // namespace

const char* name_of(Mover mover) {
  constexpr std::array names{
      "fault",    "prefetch", "prefetch of whole blocks", "eviction",   "discard",
      "collapse", "merge",    "free beside it",           "free of it", "free of its blocks"};
  return names.at(static_cast<std::size_t>(mover));
}

std::string Row::describe() const {
  return std::string{name_of(holder)} + (pinned ? ", pinned" : "") + ", " + name_of(mover) +
         ", memory of the " + (at_device ? "device" : "host") +
         (through_map ? ", mapped there by the holder" : "");
}

std::vector<Row> all_rows(bool huge) {
  std::vector<Row> rows;
  for (const HolderKind holder : all_holders())
    for (int mover = 0; mover <= static_cast<int>(Mover::free_whole); ++mover)
      for (const bool pinned : {false, true})
        for (const bool at_device : {false, true})
          for (const bool through_map : {false, true})
            if (const Row row{holder, static_cast<Mover>(mover), pinned, at_device, through_map};
                is_possible(row, huge))
              rows.push_back(row);
  return rows;
}

HoldAnswer* shared_answer() {
  static auto* const answer = static_cast<HoldAnswer*>(map_shared(sizeof(HoldAnswer)));
  return answer;
}

Matrix::Matrix(Stage& stage, const Peer& peer, const Setting& setting, Progress& progress)
    : stage_(stage),
      places_(stage.session(), peer),
      setting_(setting),
      progress_(progress),
      answer_(shared_answer()) {}

RowResult Matrix::run(const Row& row, std::uint64_t seed) {
  try {
    return RowRun({stage_, stage_.session(), places_, setting_, progress_, answer_}, row, seed)
        .run();
  } catch (const std::exception& error) {
    return {.failures = std::string{"; "} + error.what()};
  }
}

}  // namespace wherry::test
