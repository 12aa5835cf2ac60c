#include "memory/striped_file.h"

namespace wherry::impl {

PoolFiles StripedFile::descriptors() const {
  PoolFiles pool{stripes_, {}};
  for (const MemoryFile& file : files_) pool.fds.push_back(file.fd());
  return pool;
}

int StripedFile::prefer_nodes(PageSpan pages, std::span<const int> nodes) const {
  return stripes_.for_each(pages, [&](unsigned file, PageSpan part) {
    return files_[file].prefer_nodes(part.offset(), part.bytes(), nodes);
  });
}

}  // namespace wherry::impl
