// Tells whether this process is the one that set the mark, or a child of it. The mark is memory
// that Linux wipes in every child, however the child was forked.
#pragma once

namespace wherry::impl {

class ForkMark {
 public:
  // Sets the mark. Throws std::system_error.
  ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;
  ~ForkMark();

  // Returns false in a child of the process that set the mark. Any thread; one load.
  bool is_here() const { return *word_ != 0; }

 private:
  volatile int* word_;
};

}  // namespace wherry::impl
