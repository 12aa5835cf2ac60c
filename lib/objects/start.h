// The start of the library in this process, and its end: what the first cuInit does, and what
// happens when the program forks or ends.
#pragma once

#include <wherry/cuda.h>
#include <wherry/policy.hpp>

namespace wherry::impl {

// cuInit: makes the driver (objects/driver.h). Logs the reason if the error code alone does not
// tell it. Any thread.
CUresult start_driver();

// wherrySetPolicy(): replaces WHERRY_POLICY for a later start. Any thread.
CUresult set_policy(const char* text);
// Does what wherryRegisterPolicy() does. Any thread.
CUresult add_policy(const char* name, unsigned version, wherry::make_policy* make);

// While a DeviceStart exists, the calling thread forks a device process, and the program's fork
// handlers do nothing.
class DeviceStart {
 public:
  DeviceStart();
  ~DeviceStart();
  DeviceStart(const DeviceStart&) = delete;
  DeviceStart& operator=(const DeviceStart&) = delete;
};

}  // namespace wherry::impl
