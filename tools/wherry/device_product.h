// q = A p on several devices. Each device has a share: some rows of A, a copy of the part of p that
// these rows read, and its part of q, all in managed memory of its own. So no two devices access
// the same page, and pages move only between the host and one device: A once, and in every product
// p to the devices and q back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>
#include <wherry/wherry.hpp>

#include "csr.h"
#include "phases.h"

namespace wherry::tool {

// The share of one device. Its columns are counted from first_column.
struct Share {
  std::size_t first_row = 0;
  std::size_t first_column = 0;
  managed_array<std::uint64_t> offsets;
  managed_array<std::uint32_t> columns;
  managed_array<double> values;
  managed_array<double> p;
  managed_array<double> q;

  // Copies the rows [begin, end) of `matrix`.
  Share(const CsrView& matrix, std::size_t begin, std::size_t end);

  // Advises the library how the arrays are used: the matrix is read-mostly; p and q are preferred
  // on the device. Called before the first access to p and q, so that they are created there.
  void advise(const device& user);

  CsrView view() const { return {q.size(), offsets.data(), columns.data(), values.data()}; }
};

class DeviceProduct {
 public:
  // Divides the rows among the first `devices` devices; the calling thread writes the shares. With
  // `advise`, pages of p and q stay on the device, and the host accesses them there.
  DeviceProduct(const CsrView& matrix, int devices, bool advise, const runtime& library);

  // Computes q = A p for vectors of the host. Returns when q is complete. Enters the phases
  // exchange and multiply, and leaves the recorder in exchange. Throws wherry::error.
  void multiply(std::span<const double> p, std::span<double> q, PhaseRecorder& recorder);

  const std::vector<Share>& shares() const { return shares_; }

 private:
  std::vector<Share> shares_;    // by device
  std::vector<stream> streams_;  // by device
};

}  // namespace wherry::tool
