#include "trial_file.h"

#include <unistd.h>

#include <cerrno>

#include "os/files/new_file.h"

namespace wherry::tool {

int try_create_in_place_of(const std::string& path) {
  impl::NewFile made;
  if (const int error = impl::create_beside(path, made)) return error;
  return ::unlink(made.name.c_str()) == 0 ? 0 : errno;
}

}  // namespace wherry::tool
