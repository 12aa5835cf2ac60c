#include "streams/stream_order.h"

#include <algorithm>

namespace wherry::impl {

bool StreamOrder::is_after(Moment moment) const {
  const auto known = std::ranges::find(moments_, moment.stream, &Moment::stream);
  return moment.number != 0 && known != moments_.end() && known->number >= moment.number;
}

void StreamOrder::add(Moment moment) {
  const auto known = std::ranges::find(moments_, moment.stream, &Moment::stream);
  if (known != moments_.end())
    known->number = std::max(known->number, moment.number);
  else if (moments_.size() < moments_max)
    moments_.push_back(moment);
  else
    *std::ranges::min_element(moments_, {}, &Moment::number) = moment;
}

std::shared_ptr<const StreamOrder> StreamOrder::extended(
    const std::shared_ptr<const StreamOrder>& order, Moment moment,
    const std::shared_ptr<const StreamOrder>& its) {
  const auto both = order ? std::make_shared<StreamOrder>(*order) : std::make_shared<StreamOrder>();
  if (its)
    for (const Moment& earlier : its->moments_) both->add(earlier);
  both->add(moment);
  return both;
}

}  // namespace wherry::impl
