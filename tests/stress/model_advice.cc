#include "stress/model_advice.h"

#include <array>
#include <bit>
#include <chrono>
#include <thread>

namespace wherry::test {
namespace {

// Other lanes may evict the page between the reads of its location, so the test retries.
constexpr auto limit_to_agree = std::chrono::seconds{20};

CUdevice number_of(const Slot::Page& page) {
  switch (page.preferred.type) {
    case CU_MEM_LOCATION_TYPE_INVALID:
      return CU_DEVICE_INVALID;
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return page.preferred.id;
    default:
      return CU_DEVICE_CPU;
  }
}

std::size_t first_page(const View& view) {
  return view.offset / model_page;
}
std::size_t end_page(const View& view) {
  return (view.end() + model_page - 1) / model_page;
}

}  // namespace

CUmemLocation location_of(int device) {
  return device < 0 ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0}
                    : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, device};
}

DrawnAdvice::DrawnAdvice(const Operation& operation) {
  constexpr std::array choices{
      CU_MEM_ADVISE_SET_READ_MOSTLY,          CU_MEM_ADVISE_UNSET_READ_MOSTLY,
      CU_MEM_ADVISE_SET_PREFERRED_LOCATION,   CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
      CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, CU_MEM_ADVISE_SET_ACCESSED_BY,
      CU_MEM_ADVISE_SET_ACCESSED_BY,          CU_MEM_ADVISE_UNSET_ACCESSED_BY};
  advice = choices[operation.variant % choices.size()];
  location = location_of(operation.device);
  const bool node = operation.variant / choices.size() % 8 == 0;
  if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION && node)
    location = {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0};
}

void note_advice(Slot& slot, const View& view, const DrawnAdvice& drawn) {
  const bool host = drawn.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
  const std::uint32_t bit = 1u << (host ? 0 : drawn.location.id + 1);
  for (std::size_t i = first_page(view); i < end_page(view); ++i) {
    Slot::Page& page = slot.pages()[i];
    switch (drawn.advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY:
        page.read_mostly = true;
        break;
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        page.read_mostly = false;
        break;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        page.preferred = drawn.location;
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

void check_attributes(World& world, Slot& slot, const View& view, std::size_t operation) {
  const auto require = [&](bool holds, const char* what) {
    if (!holds) fail(world.board(), operation, what);
  };
  const auto ask = [&](CUmem_range_attribute attribute, std::size_t values) {
    std::vector<int> answer(values);
    MODEL_TRY(world, operation,
              cuMemRangeGetAttribute(answer.data(), values * sizeof(int), attribute,
                                     slot.known(view.offset), view.width));
    return answer;
  };
  // The attributes that all pages have in common. The number of pages follows from the view's
  // width.
  const Slot::Page& first = slot.pages()[first_page(view)];
  const std::size_t end = first_page(view) + (view.width + model_page - 1) / model_page;
  bool read_mostly = true, same_type = true, same_number = true;
  std::uint32_t accessed_by = ~0u;
  for (std::size_t i = first_page(view); i < end; ++i) {
    const Slot::Page& page = slot.pages()[i];
    read_mostly = read_mostly && page.read_mostly;
    accessed_by &= page.accessed_by;
    same_number = same_number && number_of(page) == number_of(first);
    same_type = same_type && page.preferred.type == first.preferred.type &&
                number_of(page) == number_of(first);
  }
  require(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 1)[0] == (read_mostly ? 1 : 0),
          "read-mostly differs from the advice");
  require(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, 1)[0] ==
              (same_number ? number_of(first) : CU_DEVICE_INVALID),
          "the preferred location differs from the advice");
  // For "current node" the library returns that node's number.
  const int type = !same_type ? CU_MEM_LOCATION_TYPE_INVALID
                   : first.preferred.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
                       ? CU_MEM_LOCATION_TYPE_HOST_NUMA
                       : static_cast<int>(first.preferred.type);
  require(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, 1)[0] == type,
          "the preferred location's type differs from the advice");
  std::vector<int> accessors;
  for (int device = 0; device < model_devices; ++device)
    if ((accessed_by & 2u << device) != 0) accessors.push_back(device);
  if ((accessed_by & 1) != 0) accessors.push_back(CU_DEVICE_CPU);
  accessors.resize(model_devices + 2, CU_DEVICE_INVALID);
  require(ask(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, accessors.size()) == accessors,
          "accessed-by differs from the advice");

  const auto* const address = reinterpret_cast<const void*>(slot.known(view.offset));
  const auto deadline = std::chrono::steady_clock::now() + limit_to_agree;
  const auto agrees = [&] {
    const std::uint32_t told = page_state(address).resident;
    const std::uint32_t seen = world.witness().residents(address);
    return told == seen && (!first.touched || seen != 0) &&
           (std::popcount(seen) <= 1 || first.read_mostly);
  };
  while (!agrees()) {
    world.board().beats.fetch_add(1, std::memory_order_relaxed);
    if (std::chrono::steady_clock::now() > deadline) {
      fail(world.board(), operation,
           "the library has the page at mask " + std::to_string(page_state(address).resident) +
               ", Linux at " + std::to_string(world.witness().residents(address)) +
               (first.touched ? ", it was touched" : "") +
               (first.read_mostly ? ", it is read-mostly" : ""));
    }
    std::this_thread::yield();
  }
  world.board().count();
}

}  // namespace wherry::test
