#include "machine/visible_devices.h"

#include "machine/device_uuid.h"
#include "support/catch.h"

namespace wherry::test::visible_devices_test {

using namespace wherry::impl;

namespace {

using Places = std::vector<std::size_t>;

Places of(std::string_view list) {
  return visible_devices(
      list, {"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-8a32f937-d72c-4106-c12f-20bd9faed9f6",
             "GPU-8b32f937-d72c-4106-c12f-20bd9faed9f6"});
}

}  // namespace

TEST_CASE("devices are named by their numbers, in the order of the list", "[api]") {
  CHECK(of("0,1,2") == Places{0, 1, 2});
  CHECK(of("2,1") == Places{2, 1});
  CHECK(of(" 1 ,\t0 ") == Places{1, 0});
}

TEST_CASE("the first invalid name ends the list", "[api]") {
  CHECK(of("0,2,-1,1") == Places{0, 2});
  CHECK(of("-1,0").empty());
  CHECK(of("1,3,0") == Places{1});
  CHECK(of("1,,0") == Places{1});
  CHECK(of("1,2x,0") == Places{1});
  CHECK(of("1,99999999999999999999") == Places{1});
  CHECK(of("1,") == Places{1});
  CHECK(of(",1").empty());
  CHECK(of("MIG-GPU-8932f937/1/2").empty());
}

TEST_CASE("an empty list names no device", "[api]") {
  CHECK(of("").empty());
  CHECK(of("  ").empty());
  CHECK(of("NoDevFiles").empty());
}

TEST_CASE("devices are named by their uuids, or by unique beginnings of them", "[api]") {
  CHECK(of("GPU-8a32f937-d72c-4106-c12f-20bd9faed9f6,GPU-8932f937-d72c-4106-c12f-20bd9faed9f6") ==
        Places{1, 0});
  CHECK(of("GPU-8b,GPU-89") == Places{2, 0});
  CHECK(of("gpu-8B") == Places{2});
  CHECK(of("GPU-8b,0") == Places{2, 0});
  CHECK(of("GPU-8,0").empty());  // the beginning of every uuid
  CHECK(of("GPU-").empty());
  CHECK(of("0,GPU-9,1") == Places{0});
  CHECK(of("GPU-8a32f937-d72c-4106-c12f-20bd9faed9f60").empty());  // longer than a uuid
}

TEST_CASE("a device that is named twice leaves no device", "[api]") {
  CHECK(of("0,1,0").empty());
  CHECK(of("0,GPU-89").empty());
  CHECK(of("0,-1,0") == Places{0});  // the list ended before
}

TEST_CASE("visible devices keep their attributes when others are hidden", "[api]") {
  Topology topology;
  topology.devices.resize(3);
  for (int i = 0; i < 3; ++i) {
    topology.devices[static_cast<std::size_t>(i)].number = i;
    topology.devices[static_cast<std::size_t>(i)].workers = 10 + i;
  }
  Topology all = topology;
  keep_visible(all, nullptr);
  CHECK(all.devices.size() == 3);
  const std::string list = "2," + uuid_text(device_uuid(0)).substr(0, 6);
  keep_visible(topology, list.c_str());
  REQUIRE(topology.devices.size() == 2);
  CHECK(topology.devices[0].number == 2);
  CHECK(topology.devices[0].workers == 12);
  CHECK(topology.devices[1].number == 0);
  CHECK(topology.devices[1].workers == 10);
  keep_visible(all, "");
  CHECK(all.devices.empty());
}

TEST_CASE("a uuid is converted to text", "[api]") {
  DeviceUuid uuid;
  for (std::size_t i = 0; i < uuid.size(); ++i) uuid[i] = static_cast<std::uint8_t>(0xf0 + i);
  CHECK(uuid_text(uuid) == "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
}

}  // namespace wherry::test::visible_devices_test
