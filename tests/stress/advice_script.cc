#include "stress/advice_script.h"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

namespace wherry::test {
namespace {

constexpr int host = CU_DEVICE_CPU;
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t page_words = page_bytes / sizeof(std::uint64_t);
constexpr std::array processors{host, 0, 1};
constexpr unsigned slots = 5;
constexpr unsigned most_pages = 40;         // of most allocations
constexpr unsigned more_pages = 1200;       // of one: more than a device holds
constexpr unsigned pages_per_touch = 8;     // at most
constexpr unsigned touches_per_burst = 48;  // at most

// The failed expectation of one operation.
struct Contradiction : std::runtime_error {
  Contradiction(std::size_t operation, const std::string& what)
      : std::runtime_error(what), operation(operation) {}
  std::size_t operation;
};

std::string name_of_processor(int processor) {
  return processor == host ? "host" : "device " + std::to_string(processor);
}

const char* name_of_advice(CUmem_advise advice) {
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
      return "set read-mostly";
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      return "unset read-mostly";
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      return "set preferred location";
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      return "unset preferred location";
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      return "set accessed-by";
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      return "unset accessed-by";
  }
  return "?";
}

CUmemLocation location_of(const Operation& operation) {
  if (operation.node) return {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0};
  return operation.processor == host
             ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0}
             : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, operation.processor};
}

unsigned up_to(std::mt19937_64& random, unsigned most) {
  return 1 + static_cast<unsigned>(random() % most);
}

Operation draw_range(std::mt19937_64& random, unsigned pages) {
  Operation operation;
  // Half of the ranges lie in the large allocation, whose pages do not fit into a device.
  operation.slot = random() % 2 == 0 ? 0 : static_cast<unsigned>(random() % slots);
  operation.first =
      static_cast<unsigned>(random() % (operation.slot == 0 ? more_pages : most_pages));
  operation.count = up_to(random, pages);
  return operation;
}

Operation draw_advice(std::mt19937_64& random) {
  constexpr std::array advice{
      CU_MEM_ADVISE_SET_READ_MOSTLY,          CU_MEM_ADVISE_UNSET_READ_MOSTLY,
      CU_MEM_ADVISE_SET_PREFERRED_LOCATION,   CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
      CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, CU_MEM_ADVISE_SET_ACCESSED_BY,
      CU_MEM_ADVISE_SET_ACCESSED_BY,          CU_MEM_ADVISE_UNSET_ACCESSED_BY};
  Operation operation = draw_range(random, 2 * most_pages);
  operation.kind = Operation::Kind::advise;
  operation.processor = processors[random() % processors.size()];
  operation.advice = advice[random() % advice.size()];
  operation.node = operation.advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION && random() % 8 == 0;
  return operation;
}

}  // namespace

std::string Operation::describe() const {
  const std::string range = " slot " + std::to_string(slot) + " pages " + std::to_string(first) +
                            "+" + std::to_string(count);
  switch (kind) {
    case Kind::allocate:
      return "allocate slot " + std::to_string(slot) + ", " + std::to_string(count) + " pages";
    case Kind::free:
      return "free slot " + std::to_string(slot);
    case Kind::advise:
      return std::string{"advise"} + range + ": " + name_of_advice(advice) + " " +
             (node ? "host's current node" : name_of_processor(processor));
    case Kind::write:
      return name_of_processor(processor) + " writes" + range;
    case Kind::read:
      return name_of_processor(processor) + " reads" + range;
    case Kind::query:
      return "query" + range;
  }
  return "?";
}

Script draw_script(std::mt19937_64& random, std::size_t operations) {
  Script script;
  for (unsigned slot = 0; slot < slots; ++slot) {
    Operation operation;
    operation.kind = Operation::Kind::allocate;
    operation.slot = slot;
    operation.count = slot == 0 ? more_pages : up_to(random, most_pages);
    script.push_back(operation);
  }
  while (script.size() < operations) {
    const auto what = random() % 100;
    if (what < 2) {
      Operation operation = draw_range(random, most_pages);
      if (operation.slot == 0) operation.count = more_pages;
      operation.kind = Operation::Kind::free;
      script.push_back(operation);
      operation.kind = Operation::Kind::allocate;
      script.push_back(operation);
    } else if (what < 40) {
      for (unsigned n = up_to(random, 4); n != 0; --n) script.push_back(draw_advice(random));
    } else if (what < 50) {
      Operation operation = draw_range(random, most_pages);
      operation.kind = Operation::Kind::query;
      script.push_back(operation);
    } else {
      const int processor = processors[random() % processors.size()];
      const auto writes = random() % 3;  // none of the burst, a quarter, or half
      for (unsigned n = up_to(random, touches_per_burst); n != 0; --n) {
        Operation operation = draw_range(random, pages_per_touch);
        operation.kind = random() % 4 < writes ? Operation::Kind::write : Operation::Kind::read;
        operation.processor = processor;
        script.push_back(operation);
      }
    }
  }
  script.resize(operations);
  return script;
}

ScriptRunner::ScriptRunner(const Session& session, void* table)
    : session_(session), table_(*static_cast<Table*>(table)) {
  static_assert(sizeof(Table) <= table_bytes);
}

std::optional<ScriptFailure> ScriptRunner::run(const Script& script) {
  slots_.assign(slots, {});
  touched_by_.clear();
  std::optional<ScriptFailure> failure;
  try {
    for (current_ = 0; current_ < script.size(); ++current_) step(script[current_]);
    flush();
  } catch (const Contradiction& contradiction) {
    failure = {contradiction.operation, contradiction.what(), true};
  } catch (const std::exception& error) {
    failure = {current_, error.what(), false};
  }
  for (Slot& slot : slots_) release(slot);
  return failure;
}

void ScriptRunner::release(Slot& slot) {
  if (slot.data != nullptr) WHERRY_TRY(cuMemFree(reinterpret_cast<CUdeviceptr>(slot.data)));
  slot = {};
}

void ScriptRunner::step(const Operation& drawn) {
  Operation operation = drawn;
  Slot& slot = slots_[operation.slot];
  using Kind = Operation::Kind;
  const bool touches = operation.kind == Kind::write || operation.kind == Kind::read;
  if (!touches || operation.processor != waiting_for_) flush();
  if (operation.kind == Kind::allocate) {
    if (slot.data != nullptr) return;
    CUdeviceptr address = 0;
    WHERRY_TRY(cuMemAllocManaged(&address, operation.count * page_bytes, CU_MEM_ATTACH_GLOBAL));
    slot.data = reinterpret_cast<std::uint64_t*>(address);
    slot.pages.resize(operation.count);
    return;
  }
  if (operation.first >= slot.pages.size()) return;
  operation.count =
      std::min(operation.count, static_cast<unsigned>(slot.pages.size()) - operation.first);
  switch (operation.kind) {
    case Kind::allocate:
      break;
    case Kind::free:
      return release(slot);
    case Kind::advise:
      return advise(operation, slot);
    case Kind::write:
    case Kind::read:
      return touch(operation, slot);
    case Kind::query:
      return query(operation, slot);
  }
}

void ScriptRunner::touch(const Operation& operation, Slot& slot) {
  waiting_for_ = operation.processor;
  for (unsigned i = operation.first; i < operation.first + operation.count; ++i) {
    if (touched_by_.size() == std::size(table_.touches)) flush();
    Page& page = slot.pages[i];
    const bool writes = operation.kind == Operation::Kind::write;
    if (writes) page.value = ++last_value_;
    page.touched = true;
    table_.touches[touched_by_.size()] = {slot.data + i * page_words, page.value, writes ? 1u : 0u};
    touched_by_.push_back(current_);
  }
}

// The first word of a page and the last one have its value.
void ScriptRunner::carry_out(Table& table, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const Touch& touch = table.touches[i];
    for (volatile std::uint64_t* const word : {touch.page, touch.page + page_words - 1}) {
      if (touch.write != 0) {
        *word = touch.value;
        continue;
      }
      const std::uint64_t seen = *word;
      if (seen == touch.value || table.wrong != 0) continue;
      table.wrong = i + 1;
      table.seen = seen;
    }
  }
}

void ScriptRunner::flush() {
  if (touched_by_.empty()) return;
  table_.wrong = 0;
  const std::size_t count = touched_by_.size();
  if (waiting_for_ == host)
    carry_out(table_, count);
  else
    session_.run(waiting_for_, [table = &table_, count] { carry_out(*table, count); });
  const std::vector<std::size_t> operations = std::move(touched_by_);
  touched_by_.clear();
  if (table_.wrong == 0) return;
  const Touch& touch = table_.touches[table_.wrong - 1];
  throw Contradiction(
      operations[table_.wrong - 1],
      "saw " + std::to_string(table_.seen) + " instead of " + std::to_string(touch.value));
}

void ScriptRunner::advise(const Operation& operation, Slot& slot) {
  WHERRY_TRY(cuMemAdvise(reinterpret_cast<CUdeviceptr>(slot.data + operation.first * page_words),
                         operation.count * page_bytes, operation.advice, location_of(operation)));
  const std::uint32_t bit = 1u << (operation.processor + 1);
  for (unsigned i = operation.first; i < operation.first + operation.count; ++i) {
    Page& page = slot.pages[i];
    switch (operation.advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY:
        page.read_mostly = true;
        break;
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        page.read_mostly = false;
        break;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        page.preferred = location_of(operation);
        break;
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        page.preferred = {CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
        break;
      case CU_MEM_ADVISE_SET_ACCESSED_BY:
        page.accessed_by |= bit;
        break;
      case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        page.accessed_by &= ~bit;
        break;
    }
  }
}

void ScriptRunner::query(const Operation& operation, const Slot& slot) {
  const auto require = [&](bool holds, const char* what) {
    if (!holds) throw Contradiction(current_, what);
  };
  const std::uint64_t* const data = slot.data + operation.first * page_words;
  const auto ask = [&](CUmem_range_attribute attribute, std::size_t values) {
    std::vector<int> answer(values);
    WHERRY_TRY(cuMemRangeGetAttribute(answer.data(), values * sizeof(int), attribute,
                                      reinterpret_cast<CUdeviceptr>(data),
                                      operation.count * page_bytes));
    return answer;
  };
  // What all pages have in common.
  const Page& first = slot.pages[operation.first];
  bool read_mostly = true, same_type = true, same_number = true;
  std::uint32_t accessed_by = ~0u;
  const auto number = [](const Page& page) {
    switch (page.preferred.type) {
      case CU_MEM_LOCATION_TYPE_INVALID:
        return CU_DEVICE_INVALID;
      case CU_MEM_LOCATION_TYPE_DEVICE:
        return static_cast<CUdevice>(page.preferred.id);
      default:
        return CU_DEVICE_CPU;
    }
  };
  for (unsigned i = operation.first; i < operation.first + operation.count; ++i) {
    const Page& page = slot.pages[i];
    read_mostly = read_mostly && page.read_mostly;
    accessed_by &= page.accessed_by;
    same_number = same_number && number(page) == number(first);
    same_type =
        same_type && page.preferred.type == first.preferred.type && number(page) == number(first);
  }
  require(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 1)[0] == (read_mostly ? 1 : 0),
          "read-mostly is not what was advised");
  require(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, 1)[0] ==
              (same_number ? number(first) : CU_DEVICE_INVALID),
          "the preferred location is not what was advised");
  // The current node is told as the node that it is.
  const int type = !same_type ? CU_MEM_LOCATION_TYPE_INVALID
                   : first.preferred.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
                       ? CU_MEM_LOCATION_TYPE_HOST_NUMA
                       : static_cast<int>(first.preferred.type);
  require(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, 1)[0] == type,
          "the preferred location's type is not what was advised");
  std::vector<int> accessors;
  for (const int processor : {0, 1, host})
    if ((accessed_by & 1u << (processor + 1)) != 0) accessors.push_back(processor);
  accessors.resize(4, CU_DEVICE_INVALID);
  require(ask(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, 4) == accessors,
          "accessed-by is not what was advised");

  const std::uint32_t residents = witness_.residents(data);
  require(page_info(data).resident == residents, "the kernel has the page elsewhere");
  require(!first.touched || residents != 0, "a page that was touched is nowhere");
  require(std::popcount(residents) <= 1 || first.read_mostly,
          "a page has copies, and is not read-mostly");
}

}  // namespace wherry::test
