// The page of a report: one HTML file that loads no other file. page/embed.py makes it when Wherry
// is built.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace wherry::report {

// `data`: as to_json() (report_json.h) returns it.
std::string page_with(std::string_view data);

}  // namespace wherry::report
