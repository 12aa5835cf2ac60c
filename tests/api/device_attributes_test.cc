#include "objects/device_attributes.h"

#include "support/catch.h"

namespace wherry::test::device_attributes_test {

using namespace wherry::impl;

TEST_CASE("attributes agree with the topology of a device", "[api]") {
  Topology topology;
  topology.host_nodes = {1, 3};
  topology.devices.resize(2);
  topology.devices[0].node = 2;
  topology.devices[0].workers = 12;
  topology.devices[1].node = 1;
  topology.devices[1].emulated = true;
  topology.devices[1].concurrent = false;
  const auto value = [&](CUdevice_attribute attribute, int ordinal) {
    return device_attribute(attribute, topology, ordinal).value();
  };

  CHECK(value(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0) == 12);
  CHECK(value(CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, 0) == CU_DEVICE_NUMA_CONFIG_NUMA_NODE);
  CHECK(value(CU_DEVICE_ATTRIBUTE_NUMA_ID, 0) == 2);
  CHECK(value(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0) == 1);

  // An emulated device has no node of its own: the host uses the same node.
  CHECK(value(CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, 1) == CU_DEVICE_NUMA_CONFIG_NONE);
  CHECK(value(CU_DEVICE_ATTRIBUTE_NUMA_ID, 1) == -1);
  CHECK(value(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1) == 0);

  topology.cpu_clock_khz = 2'500'000;
  CHECK(value(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 0) == 2'500'000);
  CHECK(value(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 0) > 0);
  CHECK(value(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0) == 1);
  CHECK(value(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 1) == 1);
}

TEST_CASE("a device that runs in the program shares its page table, whatever its node", "[api]") {
  Topology topology;
  topology.host_nodes = {0};
  topology.devices.resize(2);
  topology.devices[1].kind = DeviceKind::coherent;
  for (const CUdevice_attribute attribute :
       {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
        CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM}) {
    for (const bool emulated : {false, true}) {
      topology.devices[0].emulated = topology.devices[1].emulated = emulated;
      CHECK(device_attribute(attribute, topology, 0) == 0);
      CHECK(device_attribute(attribute, topology, 1) == 1);
    }
  }
}

TEST_CASE("every attribute of the enumeration has a value, and no other number has", "[api]") {
  Topology topology;
  topology.host_nodes = {0};
  topology.devices.resize(1);
  for (int number = -2; number < 300; ++number) {
    const bool known = number >= 1 && number < CU_DEVICE_ATTRIBUTE_MAX;
    INFO("attribute " << number);
    CHECK(device_attribute(static_cast<CUdevice_attribute>(number), topology, 0).has_value() ==
          known);
  }
}

}  // namespace wherry::test::device_attributes_test
