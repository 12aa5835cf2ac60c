// Containers with a memory space: views that the host's threads and a device's kernels use by the
// same pointer. Each element is incremented on the host, then doubled on a device.
#include "memory_space.h"

#include <memory>
#include <thread>
#include <vector>

#include "example.h"

namespace {

// A one-dimensional view. Copies refer to the same elements; the last one frees them.
template <typename T, typename Space>
class View {
 public:
  View(const char* label, std::size_t size)
      : elements_(static_cast<T*>(Space().allocate(label, size * sizeof(T))),
                  [size](T* elements) { Space().deallocate(elements, size * sizeof(T)); }),
        size_(size) {}

  T* data() const { return elements_.get(); }
  std::size_t size() const { return size_; }
  std::span<T> span() const { return {data(), size_}; }

 private:
  std::shared_ptr<T> elements_;
  std::size_t size_;
};

// Two execution spaces: each calls function(i) for every i below `items`, and waits.
struct HostThreads {
  template <typename Function>
  void parallel_for(std::size_t items, const Function& function) {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < 2; ++thread)
      threads.emplace_back([=] {
        for (std::size_t i = thread; i < items; i += 2) function(i);
      });
  }
};
struct Device {
  template <typename Function>
  void parallel_for(std::size_t items, const Function& function) {
    stream.parallel_for(items, function);
    stream.synchronize();
  }
  wherry::stream stream{wherry::device(0)};
};

// Returns whether the result is right.
bool run() {
  const wherry::runtime runtime;
  const View<long, ManagedSpace> view("numbers", 100'000);
  const std::span<long> numbers = view.span();
  HostThreads host;
  Device device;
  host.parallel_for(numbers.size(), [numbers](std::size_t i) { numbers[i] += long(i); });
  device.parallel_for(numbers.size(), [numbers](std::size_t i) { numbers[i] *= 2; });
  example::Residency pages(runtime, 0);
  pages.add(std::span<const long>(numbers));
  std::printf("%s of the pages are in the memory of device 0\n", pages.word());
  bool right = true;
  for (std::size_t i = 0; i < numbers.size(); ++i) right = right && numbers[i] == 2 * long(i);
  std::printf("space %s: %s\n", ManagedSpace::name(), right ? "as expected" : "NOT as expected");
  return right;
}

}  // namespace

int main() {
  return example::report_errors("memory_space", [] { return run() ? 0 : 1; });
}
