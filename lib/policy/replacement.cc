#include "policy/replacement.h"

#include <algorithm>

#include "base/check.h"

namespace wherry::impl {
namespace {

// The blocks that came last are on trial: a sixteenth of the pool's blocks, and at least two, so
// that a block that is being filled is not the only one.
constexpr std::uint64_t trial_share = 16;
constexpr std::uint64_t trial_min = 2;

// At least one of so many victims is a kept block. The shorter period applies if most evicted
// blocks on trial are missed within as many evictions as the pool has blocks: if the pool kept such
// blocks they would still be there, and the program may be using them now.
constexpr std::uint32_t probe_period = 32;
constexpr std::uint32_t urgent_probe_period = 8;

// Each later victim reduces the weight of the earlier ones by 1 / record_decay.
constexpr std::uint32_t record_decay = 8;
constexpr std::uint32_t one = 256;

// A block that is missed later than after this multiple of the pool's number of blocks, in
// evictions, does not count as missed: no policy would have kept it.
constexpr std::uint64_t memory_factor = 8;

constexpr std::uint32_t distance_weight = 8;

constexpr std::uint32_t place_of(std::uint64_t block) {
  return static_cast<std::uint32_t>(block + 1);
}

}  // namespace

void Replacement::Record::add_victim() {
  victims += one - victims / record_decay;
  missed -= missed / record_decay;
}

void Replacement::Record::add_missed() {
  missed = std::min(missed + one, record_decay * one);
}

std::uint32_t Replacement::Record::missed_share() const {
  return victims == 0 ? 0 : std::min(one, missed * one / victims);
}

std::uint64_t Replacement::trial_max() const {
  return std::max(trial_min, size_ / trial_share);
}

Replacement::Group Replacement::less_useful_trial() const {
  if (queue(fresh).size == 0) return returned;
  if (queue(returned).size == 0) return fresh;
  return records_[returned].missed_share() < records_[fresh].missed_share() ? returned : fresh;
}

Replacement::Group Replacement::more_useful_trial() const {
  const Group less = less_useful_trial();
  if (queue(fresh).size == 0 || queue(returned).size == 0) return less;
  return less == fresh ? returned : fresh;
}

void Replacement::push(std::uint64_t block, Group group) {
  const std::uint32_t place = place_of(block);
  Queue& to = queue(group);
  ReplacementLinks& mine = links(block);
  mine.older = to.youngest;
  mine.younger = 0;
  mine.group = group;
  mine.sampled = false;
  (to.youngest != 0 ? links(to.youngest - 1).younger : to.oldest) = place;
  to.youngest = place;
  ++to.size;
  ++size_;
}

void Replacement::take_out(std::uint64_t block) {
  ReplacementLinks& mine = links(block);
  Queue& from = queue(static_cast<Group>(mine.group));
  (mine.older != 0 ? links(mine.older - 1).younger : from.oldest) = mine.younger;
  (mine.younger != 0 ? links(mine.younger - 1).older : from.youngest) = mine.older;
  --from.size;
  --size_;
  mine.group = none;
}

void Replacement::fill_kept() {
  while (on_trial() > trial_max()) {
    const std::uint64_t block = queue(more_useful_trial()).oldest - 1;
    take_out(block);
    push(block, kept);
  }
}

void Replacement::came(std::uint64_t block) {
  ReplacementLinks& mine = links(block);
  WHERRY_CHECK(mine.group == none, "block {} is in queue {} already", block, mine.group);
  if (mine.left_group == none) {
    push(block, fresh);
  } else {
    const std::uint32_t distance = evictions_ - mine.evicted_at;
    if (distance <= memory_factor * std::max(size_, trial_min)) {
      if (mine.left_group == kept) {
        end_probe(block);
      } else {
        records_[mine.left_group].add_missed();
        missed_after_ += distance - missed_after_ / distance_weight;
      }
    }
    push(block, returned);
  }
  fill_kept();
}

void Replacement::left(std::uint64_t block, LeftBy how) {
  ReplacementLinks& mine = links(block);
  WHERRY_CHECK(mine.group != none, "block {} is in no queue", block);
  const auto group = static_cast<Group>(mine.group);
  take_out(block);
  mine.left_group = none;
  if (how == LeftBy::otherwise) return;
  ++evictions_;
  passed_over_ = 0;
  mine.evicted_at = evictions_;
  mine.left_group = group;
  if (group == kept) {
    last_of_kept_ = evictions_;
    begin_probe(block);
  } else {
    last_of_trial_ = evictions_;
    records_[group].add_victim();
  }
  end_late_probes();
}

void Replacement::begin_probe(std::uint64_t block) {
  for (Probe& probe : probes_) {
    if (probe.place != 0) continue;
    probe = {place_of(block), evictions_};
    return;
  }
}

void Replacement::end_probe(std::uint64_t block) {
  for (Probe& probe : probes_) {
    if (probe.place != place_of(block)) continue;
    probe = {};
    records_[kept].add_victim();
    records_[kept].add_missed();
  }
}

void Replacement::end_late_probes() {
  const std::uint32_t limit = 2 * std::max(missed_after_ / distance_weight, probe_period);
  for (Probe& probe : probes_) {
    if (probe.place == 0 || evictions_ - probe.evicted_at <= limit) continue;
    probe = {};
    records_[kept].add_victim();
  }
}

void Replacement::accessed(std::uint64_t block) {
  // An access to a block on trial is expected, and says nothing about later use.
  if (links(block).group != kept) return;
  take_out(block);
  push(block, kept);
}

void Replacement::passed_over(std::uint64_t block) {
  if (links(block).group == none) return;
  ++passed_over_;
  take_out(block);
  push(block, kept);
}

bool Replacement::kept_goes_first() const {
  if (queue(kept).size == 0) return false;
  if (on_trial() == 0) return true;
  const std::uint32_t missed = records_[less_useful_trial()].missed_share();
  const std::uint32_t missed_after = missed_after_ / distance_weight;
  // Kept blocks and blocks on trial both provide a victim from time to time; otherwise their
  // records would become outdated.
  if (kept_is_less_useful(missed, missed_after))
    return evictions_ - last_of_trial_ < urgent_probe_period;
  const bool urgent = missed > one / 2 && missed_after <= size_;
  return evictions_ - last_of_kept_ >= (urgent ? urgent_probe_period : probe_period);
}

bool Replacement::kept_is_less_useful(std::uint32_t trial_missed,
                                      std::uint32_t missed_after) const {
  if (records_[kept].victims != 0 && records_[kept].missed_share() < trial_missed / 2) return true;
  const ReplacementLinks& oldest = links(queue(kept).oldest - 1);
  return oldest.sampled && trial_missed > one / 2 &&
         evictions_ - oldest.sampled_at > 2 * missed_after;
}

std::optional<std::uint64_t> Replacement::victim() const {
  if (size_ == 0) return std::nullopt;
  // Blocks that cannot be evicted must not hide the others: kept blocks and blocks on trial take
  // turns until one is evicted.
  const bool both = queue(kept).size != 0 && on_trial() != 0;
  const bool from_kept = kept_goes_first() != (both && passed_over_ % 2 != 0);
  return queue(from_kept ? kept : less_useful_trial()).oldest - 1;
}

std::optional<std::uint64_t> Replacement::sample() {
  // Looks at the oldest blocks only. An accessed block becomes the youngest and is no longer
  // sampled.
  constexpr int looked_at_max = 8;
  std::uint32_t place = queue(kept).oldest;
  for (int i = 0; i < looked_at_max && place != 0; ++i) {
    ReplacementLinks& mine = links(place - 1);
    if (!mine.sampled) {
      mine.sampled = true;
      mine.sampled_at = evictions_;
      return place - 1;
    }
    place = mine.younger;
  }
  return std::nullopt;
}

void Replacement::check_invariants() const {
  std::uint64_t sum = 0;
  for (const Group group : {fresh, returned, kept}) {
    std::uint64_t size = 0;
    std::uint32_t before = 0;
    for (std::uint32_t place = queue(group).oldest; place != 0; place = links(place - 1).younger) {
      WHERRY_CHECK(links(place - 1).older == before && links(place - 1).group == group,
                   "block {} is not where its neighbours say", place - 1);
      before = place;
      ++size;
    }
    WHERRY_CHECK(queue(group).youngest == before && queue(group).size == size,
                 "queue {} has {} blocks, not {}", static_cast<int>(group), size,
                 queue(group).size);
    sum += size;
  }
  WHERRY_CHECK(sum == size_, "{} blocks in all, not {}", sum, size_);
}

}  // namespace wherry::impl
