// Conjugate gradients by the program's own threads: each of two devices has half of the threads, of
// the matrix and of the vectors.
//
//   cg_threads [ROWS COLUMNS [THREADS]]
//
// The sparse matrix is that of an implicit time step of the heat equation on a plate of ROWS x
// COLUMNS points: the identity plus the 2D Poisson matrix. Without WHERRY_DEVICES it uses two
// coherent devices.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <thread>

#include "example.h"

namespace {

constexpr int devices = 2;

struct Plate {
  std::size_t rows = 1024, columns = 512;

  std::size_t points() const { return rows * columns; }
  // How many elements of the matrix precede those of this point. A point has a row of five, itself
  // and its neighbours, less the neighbours that are outside of the plate.
  std::size_t elements_before(std::size_t point) const {
    const std::size_t top = std::min(point, columns);
    const std::size_t bottom = point - std::min(point, points() - columns);
    const std::size_t left = (point + columns - 1) / columns, right = point / columns;
    return 5 * point - top - bottom - left - right;
  }
};

// The system A x = b, A as compressed sparse rows, and the vectors of the method.
template <template <typename...> class Array>
struct System {
  explicit System(const Plate& plate)
      : plate(plate),
        first(plate.points() + 1),
        column(plate.elements_before(plate.points())),
        value(column.size()),
        b(plate.points()),
        x(plate.points()),
        residual(plate.points()),
        direction(plate.points()),
        product(plate.points()) {}

  // Writes the matrix's row and the right side of one point.
  void fill(std::size_t point) {
    const std::size_t row = point / plate.columns, left = point % plate.columns;
    std::size_t next = plate.elements_before(point);
    const auto put = [&](bool exists, std::size_t neighbour, double number) {
      if (!exists) return;
      column[next] = static_cast<unsigned>(neighbour);
      value[next++] = number;
    };
    first[point] = plate.elements_before(point);
    put(row > 0, point - plate.columns, -1);
    put(left > 0, point - 1, -1);
    put(true, point, 1 + 4);
    put(left + 1 < plate.columns, point + 1, -1);
    put(row + 1 < plate.rows, point + plate.columns, -1);
    if (point + 1 == plate.points()) first[point + 1] = next;
    b[point] = (row / 64 + left / 64) % 2 == 0 ? 100 : 0;  // hot and cold squares
    x[point] = 0;
    residual[point] = direction[point] = b[point];
  }

  double row_times(const Array<double>& vector, std::size_t row) const {
    double sum = 0;
    for (std::size_t i = first[row]; i < first[row + 1]; ++i) sum += value[i] * vector[column[i]];
    return sum;
  }

  const Plate plate;
  Array<std::size_t> first;
  Array<unsigned> column;
  Array<double> value, b, x, residual, direction, product;
};

// A number that each thread contributes to. sum() returns the same total to all of them: it adds up
// in the order of the threads.
class Sum {
 public:
  explicit Sum(std::size_t threads) : parts_(threads), all_(static_cast<std::ptrdiff_t>(threads)) {}

  double sum(std::size_t thread, double part) {
    parts_[thread].number = part;
    all_.arrive_and_wait();
    double total = 0;
    for (const Part& each : parts_) total += each.number;
    all_.arrive_and_wait();
    return total;
  }

 private:
  struct alignas(64) Part {
    double number = 0;
  };
  std::vector<Part> parts_;
  std::barrier<> all_;
};

// Fills and solves the system. Each thread calls attach(thread), keeps what that returns, and works
// on the points of its own. Returns the number of iterations.
template <typename System, typename Attach>
int solve(System& system, std::size_t threads, const Attach& attach) {
  Sum team(threads);
  int iterations = 0;
  const auto work = [&](std::size_t thread) {
    [[maybe_unused]] const auto attached = attach(thread);
    const std::size_t begin = system.plate.points() * thread / threads;
    const std::size_t end = system.plate.points() * (thread + 1) / threads;
    // The sum of part(i) over the points of all threads.
    const auto sum = [&](const auto& part) {
      double mine = 0;
      for (std::size_t i = begin; i < end; ++i) mine += part(i);
      return team.sum(thread, mine);
    };
    auto &x = system.x, &r = system.residual, &p = system.direction, &q = system.product;

    // The thread that touches a page first decides in which device's memory it is created.
    for (std::size_t i = begin; i < end; ++i) system.fill(i);
    double square = sum([&](std::size_t i) { return r[i] * r[i]; });
    const double enough = 1e-20 * square;
    for (int done = 0; square > enough && done < 1000; ++done) {
      for (std::size_t i = begin; i < end; ++i) q[i] = system.row_times(p, i);
      const double step = square / sum([&](std::size_t i) { return p[i] * q[i]; });
      for (std::size_t i = begin; i < end; ++i) x[i] += step * p[i];
      for (std::size_t i = begin; i < end; ++i) r[i] -= step * q[i];
      const double before = square;
      square = sum([&](std::size_t i) { return r[i] * r[i]; });
      for (std::size_t i = begin; i < end; ++i) p[i] = r[i] + square / before * p[i];
      team.sum(thread, 0);  // the next product needs the neighbours' directions
      if (thread == 0) iterations = done + 1;
    }
  };
  std::vector<std::jthread> team_threads;
  for (std::size_t thread = 0; thread < threads; ++thread) team_threads.emplace_back(work, thread);
  team_threads.clear();
  return iterations;
}

// |b - A x| / |b|
template <typename System>
double relative_residual(const System& system) {
  double left = 0, all = 0;
  for (std::size_t i = 0; i < system.plate.points(); ++i) {
    const double difference = system.b[i] - system.row_times(system.x, i);
    left += difference * difference;
    all += system.b[i] * system.b[i];
  }
  return std::sqrt(left / all);
}

// Where the device's half of the system is.
example::Residency residency(const wherry::runtime& runtime,
                             const System<wherry::managed_array>& system, int device) {
  const std::size_t begin = system.plate.points() * static_cast<std::size_t>(device) / devices;
  const std::size_t end = system.plate.points() * static_cast<std::size_t>(device + 1) / devices;
  const std::size_t elements = system.plate.elements_before(begin);
  const std::size_t elements_end = system.plate.elements_before(end);
  example::Residency pages(runtime, device);
  pages.add(system.first.span().subspan(begin, end - begin));
  pages.add(system.column.span().subspan(elements, elements_end - elements));
  pages.add(system.value.span().subspan(elements, elements_end - elements));
  for (const auto* vector :
       {&system.b, &system.x, &system.residual, &system.direction, &system.product})
    pages.add(vector->span().subspan(begin, end - begin));
  return pages;
}

// Returns whether the result is right.
bool run(const Plate& plate, std::size_t threads) {
  setenv("WHERRY_DEVICES", "kind=coherent;kind=coherent", /*overwrite=*/0);
  wherry::runtime runtime;
  example::require_coherent_devices(runtime, devices);  // in a thread nothing could catch an error
  System<wherry::managed_array> system(plate);
  const int iterations = solve(system, threads, [&](std::size_t thread) {
    return wherry::attached(runtime.device(static_cast<int>(thread * devices / threads)));
  });
  const char* found[devices];  // now: pages may follow the host when it uses them
  for (int device = 0; device < devices; ++device)
    found[device] = residency(runtime, system, device).word();
  std::printf("%d iterations, residual %.1e\n", iterations, relative_residual(system));
  for (int device = 0; device < devices; ++device)
    std::printf("%s of the rows of device %d are in its memory\n", found[device], device);

  System<std::vector> ordinary(plate);
  solve(ordinary, threads, [](std::size_t) { return 0; });
  double difference = 0;
  for (std::size_t i = 0; i < plate.points(); ++i)
    difference = std::max(difference, std::abs(system.x[i] - ordinary.x[i]));
  std::printf("the solution differs by %g from the one without Wherry\n", difference);
  return difference == 0;
}

}  // namespace

int main(int argc, char** argv) {
  return example::report_errors("cg_threads", [&] {
    if (argc != 1 && argc != 3 && argc != 4)
      throw std::invalid_argument("usage: cg_threads [ROWS COLUMNS [THREADS]]");
    Plate plate;
    std::size_t threads = 4;
    if (argc > 2) {
      plate.rows = example::number("ROWS", argv[1], 2, 4096);
      plate.columns = example::number("COLUMNS", argv[2], 2, 4096);
    }
    if (argc > 3) threads = example::number("THREADS", argv[3], 2, 256);
    if (threads % devices != 0) throw std::invalid_argument("THREADS must be even");
    return run(plate, threads) ? 0 : 1;
  });
}
