// Counts words with TBB and the containers of std::pmr: each of two devices has half of a text, its
// own threads, and its own containers in managed memory.
//
//   pmr [PARAGRAPHS]    paragraphs of 4096 words
//
// Without WHERRY_DEVICES it uses two coherent devices.
#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory_resource>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>

#include "example.h"

namespace {

constexpr int devices = 2;
constexpr std::size_t words_per_paragraph = 4096;

struct Hash {
  using is_transparent = void;  // looks a string_view up without making a string
  std::size_t operator()(std::string_view word) const {
    return std::hash<std::string_view>()(word);
  }
};
using Text = std::pmr::vector<std::pmr::string>;
using Counts = std::pmr::unordered_map<std::pmr::string, std::size_t, Hash, std::equal_to<>>;

// Threads count as the device from when they enter TBB's arena until they leave it.
class Attacher final : public tbb::task_scheduler_observer {
 public:
  Attacher(tbb::task_arena& arena, int device)
      : tbb::task_scheduler_observer(arena), device_(device) {
    observe(true);
  }
  ~Attacher() override { observe(false); }

  void on_scheduler_entry(bool) override {
    if (wherryThreadAttach(device_) != CUDA_SUCCESS) failed_ = true;
  }
  void on_scheduler_exit(bool) override { wherryThreadDetach(); }
  bool failed() const { return failed_; }

 private:
  int device_;
  std::atomic<bool> failed_ = false;
};

// A device: the threads of an arena, and memory. Containers of different devices use different
// memory, so that no page is needed by both.
class Node {
 public:
  explicit Node(int device) : attacher_(arena_, device) {}

  std::pmr::memory_resource* memory() { return &pool_; }
  // Runs the function on the node's threads, until wait() returns.
  template <typename Function>
  void start(const Function& function) {
    arena_.execute([&] { group_.run(function); });
  }
  void wait() {
    arena_.execute([&] { group_.wait(); });
    if (attacher_.failed()) throw std::runtime_error("a thread could not be attached");
  }

 private:
  wherry::managed_resource managed_;
  // Managed allocations are whole pages, so small objects come from a pool of them.
  std::pmr::synchronized_pool_resource pool_{&managed_};
  tbb::task_arena arena_{std::max(2, tbb::this_task_arena::max_concurrency() / devices)};
  Attacher attacher_;
  tbb::task_group group_;
};

// Waits for all nodes, also if the function of one has thrown: those of the others use what that
// exception destroys. Then throws the first exception.
void wait_for(std::span<Node> nodes) {
  std::exception_ptr first;
  for (Node& node : nodes) {
    try {
      node.wait();
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

// Words that many paragraphs have, and words that few have.
void write_paragraph(std::size_t number, std::pmr::string& text) {
  std::minstd_rand random(static_cast<unsigned>(number + 1));
  text.reserve(words_per_paragraph * 8);
  for (std::size_t i = 0; i < words_per_paragraph; ++i) {
    const double uniform = static_cast<double>(random()) / std::minstd_rand::max();
    for (auto word = static_cast<unsigned>(std::pow(30'000, uniform)); word > 0; word /= 20)
      text += "aeioubcdfghklmnprstv"[word % 20];
    text += ' ';
  }
}

template <typename Map>
void count_words(std::string_view text, Map& counts) {
  for (std::size_t end; (end = text.find(' ')) != text.npos; text.remove_prefix(end + 1)) {
    const std::string_view word = text.substr(0, end);
    const auto found = counts.find(word);
    if (found != counts.end())
      ++found->second;
    else
      counts.emplace(word, 1u);
  }
}

// Half of the text, and how often each word is in it. Its functions run on a node's threads.
struct Half {
  explicit Half(std::pmr::memory_resource* memory) : text(memory), counts(memory) {}

  void write(std::size_t first_paragraph, std::size_t paragraphs) {
    text.resize(paragraphs);
    tbb::parallel_for(std::size_t{0}, paragraphs,
                      [&](std::size_t i) { write_paragraph(first_paragraph + i, text[i]); });
  }
  void count() {
    tbb::enumerable_thread_specific<Counts> parts([&] { return Counts(counts.get_allocator()); });
    tbb::parallel_for(std::size_t{0}, text.size(),
                      [&](std::size_t i) { count_words(text[i], parts.local()); });
    for (const Counts& part : parts)
      for (const auto& [word, times] : part) counts[word] += times;
  }
  void locate(const wherry::runtime& runtime, int device) {
    example::Residency pages(runtime, device);
    for (const std::pmr::string& paragraph : text) pages.add(std::span<const char>(paragraph));
    for (const auto& entry : counts) pages.add(std::span(&entry, 1));
    found = pages.word();
  }

  Text text;
  Counts counts;
  const char* found = "none";  // "most": of the above is in the device's memory
};

// Returns whether the result is right.
bool run(std::size_t paragraphs) {
  setenv("WHERRY_DEVICES", "kind=coherent;kind=coherent", /*overwrite=*/0);
  wherry::runtime runtime;
  example::require_coherent_devices(runtime, devices);
  Node nodes[devices]{Node(0), Node(1)};
  Half halves[devices]{Half(nodes[0].memory()), Half(nodes[1].memory())};
  for (int device = 0; device < devices; ++device) {
    nodes[device].start([&runtime, &half = halves[device], device, paragraphs] {
      const std::size_t first = paragraphs * static_cast<std::size_t>(device) / devices;
      half.write(first, paragraphs * static_cast<std::size_t>(device + 1) / devices - first);
      half.count();
      half.locate(runtime, device);  // now: pages may follow the host when it uses them
    });
  }
  wait_for(nodes);
  for (int device = 0; device < devices; ++device)
    std::printf("%s of the text and of the counts of device %d are in its memory\n",
                halves[device].found, device);

  // The host adds up what the devices counted, and compares it with what it counts by itself.
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> total, expected;
  std::size_t words = 0;
  for (const Half& half : halves) {
    for (const auto& [word, times] : half.counts) {
      total[std::string(word)] += times;
      words += times;
    }
  }
  for (std::size_t number = 0; number < paragraphs; ++number) {
    std::pmr::string paragraph;
    write_paragraph(number, paragraph);
    count_words(paragraph, expected);
  }
  std::printf("%zu words, %zu different, %s without Wherry\n", words, total.size(),
              total == expected ? "as" : "NOT as");
  return total == expected;
}

}  // namespace

int main(int argc, char** argv) {
  return example::report_errors("pmr", [&] {
    if (argc > 2) throw std::invalid_argument("usage: pmr [PARAGRAPHS]");
    return run(argc == 2 ? example::number("PARAGRAPHS", argv[1], devices, 16'384) : 256) ? 0 : 1;
  });
}
