#include "device_product.h"

#include <algorithm>

namespace wherry::tool {
namespace {

// The lowest column in some rows, and one past the highest; {0, 0} if there is none.
struct ColumnRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

ColumnRange columns_of(const CsrView& matrix, std::size_t begin, std::size_t end) {
  const std::uint32_t* const first = matrix.columns + matrix.offsets[begin];
  const std::uint32_t* const last = matrix.columns + matrix.offsets[end];
  if (first == last) return {};
  const auto [lowest, highest] = std::minmax_element(first, last);
  return {*lowest, *highest + 1};
}

}  // namespace

Share::Share(const CsrView& matrix, std::size_t begin, std::size_t end)
    : first_row(begin),
      offsets(end - begin + 1),
      columns(matrix.offsets[end] - matrix.offsets[begin]),
      values(columns.size()),
      q(end - begin) {
  const ColumnRange range = columns_of(matrix, begin, end);
  first_column = range.first;
  p = managed_array<double>(range.end - range.first);
  const std::uint64_t first_entry = matrix.offsets[begin];
  std::transform(matrix.offsets + begin, matrix.offsets + end + 1, offsets.begin(),
                 [&](std::uint64_t offset) { return offset - first_entry; });
  std::transform(matrix.columns + first_entry, matrix.columns + matrix.offsets[end],
                 columns.begin(), [&](std::uint32_t column) { return column - range.first; });
  std::copy_n(matrix.values + first_entry, values.size(), values.begin());
}

void Share::advise(const device& user) {
  wherry::advise(offsets.span(), advice::set_read_mostly);
  wherry::advise(columns.span(), advice::set_read_mostly);
  wherry::advise(values.span(), advice::set_read_mostly);
  wherry::advise(p.span(), advice::set_preferred_location, user);
  wherry::advise(q.span(), advice::set_preferred_location, user);
}

DeviceProduct::DeviceProduct(const CsrView& matrix, int devices, bool advise,
                             const runtime& library) {
  std::size_t begin = 0;
  for (const std::size_t end : split_rows(matrix, static_cast<std::size_t>(devices))) {
    streams_.emplace_back(library.device(static_cast<int>(shares_.size())));
    shares_.emplace_back(matrix, begin, end);
    if (advise) shares_.back().advise(streams_.back().device());
    begin = end;
  }
}

void DeviceProduct::multiply(std::span<const double> p, std::span<double> q,
                             PhaseRecorder& recorder) {
  recorder.enter(Phase::exchange);
  for (Share& share : shares_)
    std::copy_n(p.begin() + static_cast<std::ptrdiff_t>(share.first_column), share.p.size(),
                share.p.begin());

  recorder.enter(Phase::multiply);
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    Share& share = shares_[i];
    streams_[i].parallel_for(
        share.q.size(),
        [matrix = share.view(), from = share.p.data(), to = share.q.data()](
            std::size_t begin, std::size_t end) { multiply_rows(matrix, from, to, begin, end); });
  }
  for (const stream& each : streams_) each.synchronize();

  recorder.enter(Phase::exchange);
  for (const Share& share : shares_)
    std::copy(share.q.begin(), share.q.end(),
              q.begin() + static_cast<std::ptrdiff_t>(share.first_row));
}

}  // namespace wherry::tool
