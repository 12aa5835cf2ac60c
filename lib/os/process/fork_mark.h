// Whether this process is the one that set the mark: memory that the kernel wipes in every child,
// however it was forked.
#pragma once

namespace wherry::impl {

class ForkMark {
 public:
  // Sets the mark. Throws std::system_error.
  ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;
  ~ForkMark();

  // False in a child of the process that set it. Any thread; one read.
  bool is_here() const { return *word_ != 0; }

 private:
  volatile int* word_;
};

}  // namespace wherry::impl
