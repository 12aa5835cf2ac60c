#include "managed_words.h"

namespace wherry::tool {

void touch_on_host(Words words) {
  for (std::size_t i = 0; i < words.size(); i += page_words) words[i] = words[i] + 1;
}

void touch_on_device(Words words, stream& in) {
  in.parallel_for(words.size() / page_words,
                  [words](std::size_t page) { words[page * page_words] += 1; });
  in.synchronize();
}

void prefetch_and_wait(Words words, const location& where, const stream& in) {
  prefetch(words, where, in);
  in.synchronize();
}

}  // namespace wherry::tool
