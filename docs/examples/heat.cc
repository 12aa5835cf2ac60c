// Heat spreads in a plate: the 2D heat equation on two devices, each with half of the rows.
//
//   heat            the program's own OpenMP threads, each of which counts as one of the devices
//   heat --kernels  the same with kernels (parallel_for), which also run on isolated devices
//   heat --rows N --columns N --steps N   another size;  --time: also how long the steps took
//
// Without WHERRY_DEVICES it uses two coherent devices.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>
#include <wherry/wherry.hpp>

namespace {

constexpr int devices = 2;

struct Plate {
  std::size_t rows = 1026, columns = 2048;
  int steps = 20;

  std::size_t size() const { return rows * columns; }
  // The first row of this device's part; the plate's edge keeps its temperature.
  std::size_t first_row(int device) const {
    return 1 + (rows - 2) * static_cast<std::size_t>(device) / devices;
  }
};

void fill(double* grid, const Plate& plate) {
  std::memset(grid, 0, plate.size() * sizeof(double));
  for (std::size_t i = 0; i < plate.columns; ++i) grid[i] = 100;  // the hot edge
}

void spread_row(const double* from, double* to, std::size_t columns, std::size_t row) {
  const double* const here = from + row * columns;
  const double *const above = here - columns, *const below = here + columns;
  for (std::size_t i = 1; i + 1 < columns; ++i)
    to[row * columns + i] =
        here[i] + 0.2 * (here[i - 1] + here[i + 1] + above[i] + below[i] - 4 * here[i]);
}

double sum_of(const double* grid, const Plate& plate) {
  double sum = 0;
  for (std::size_t i = 0; i < plate.size(); ++i) sum += grid[i];
  return sum;
}

double sum_without_wherry(const Plate& plate) {
  std::vector<double> from(plate.size()), to(plate.size());
  fill(from.data(), plate);
  fill(to.data(), plate);
  for (int step = 0; step < plate.steps; ++step) {
    for (std::size_t row = 1; row + 1 < plate.rows; ++row)
      spread_row(from.data(), to.data(), plate.columns, row);
    std::swap(from, to);
  }
  return sum_of(from.data(), plate);
}

// Each thread works on the rows of one device, and counts as that device meanwhile.
void run_threads(const wherry::runtime& runtime, const Plate& plate, double* from, double* to) {
#pragma omp parallel num_threads(devices)
  {
    double *mine = from, *next = to;
    for (int step = 0; step < plate.steps; ++step, std::swap(mine, next)) {
#pragma omp for schedule(static, 1)
      for (int device = 0; device < devices; ++device) {
        const wherry::attached counts(runtime.device(device));
        for (std::size_t row = plate.first_row(device); row < plate.first_row(device + 1); ++row)
          spread_row(mine, next, plate.columns, row);
      }
    }
  }
}

void run_kernels(const Plate& plate, double* from, double* to, wherry::stream (&streams)[devices]) {
  for (int step = 0; step < plate.steps; ++step, std::swap(from, to)) {
    for (int device = 0; device < devices; ++device) {
      const std::size_t first = plate.first_row(device);
      streams[device].parallel_for(plate.first_row(device + 1) - first,
                                   [from, to, columns = plate.columns, first](std::size_t i) {
                                     spread_row(from, to, columns, first + i);
                                   });
    }
    for (wherry::stream& stream : streams) stream.synchronize();
  }
}

// How much of the device's rows is in its memory.
double share_at_home(const wherry::runtime& runtime, const double* grid, const Plate& plate,
                     int device) {
  std::size_t pages = 0, home = 0;
  const char* const end =
      reinterpret_cast<const char*>(grid + plate.first_row(device + 1) * plate.columns);
  for (const char* page =
           reinterpret_cast<const char*>(grid + plate.first_row(device) * plate.columns);
       page < end; page += 4096, ++pages)
    home += runtime.page_state(page).resident == 1u << (1 + device) ? 1 : 0;
  return static_cast<double>(home) / static_cast<double>(pages);
}

// Returns whether the result is right.
bool run(const Plate& plate, bool kernels, bool times) {
  setenv("WHERRY_DEVICES", "kind=coherent;kind=coherent", /*overwrite=*/0);
  wherry::runtime runtime;
  wherry::managed_array<double> from(plate.size()), to(plate.size());
  wherry::stream streams[devices]{wherry::stream(runtime.device(0)),
                                  wherry::stream(runtime.device(1))};
  fill(from.data(), plate);
  fill(to.data(), plate);
  // Each device's rows go to its memory ahead of their use.
  for (int device = 0; device < devices; ++device) {
    const std::size_t first = plate.first_row(device) * plate.columns;
    const std::size_t count = plate.first_row(device + 1) * plate.columns - first;
    for (const auto* grid : {&from, &to})
      wherry::prefetch(grid->span().subspan(first, count), runtime.device(device), streams[device]);
    streams[device].synchronize();
  }
  // Throws if the devices are isolated. In a parallel region nothing could catch that.
  if (!kernels) const wherry::attached probe(runtime.device(0));
  const auto begun = std::chrono::steady_clock::now();
  if (kernels)
    run_kernels(plate, from.data(), to.data(), streams);
  else
    run_threads(runtime, plate, from.data(), to.data());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  if (times) std::printf("%d steps took %.3f s\n", plate.steps, took.count());

  const double* const result = plate.steps % 2 == 0 ? from.data() : to.data();
  for (int device = 0; device < devices; ++device)
    std::printf("%s of the rows of device %d are in its memory\n",
                share_at_home(runtime, result, plate, device) > 0.8 ? "most" : "few", device);
  const double sum = sum_of(result, plate), expected = sum_without_wherry(plate);
  std::printf("sum %.6f, %s without Wherry\n", sum, sum == expected ? "as" : "NOT as");
  return sum == expected;
}

}  // namespace

int main(int argc, char** argv) {
  Plate plate;
  bool kernels = false, times = false;
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(argv[i], name) == 0; };
    const auto number = [&] { return i + 1 < argc ? std::strtoul(argv[++i], nullptr, 10) : 0; };
    if (is("--kernels"))
      kernels = true;
    else if (is("--time"))
      times = true;
    else if (is("--rows"))
      plate.rows = number();
    else if (is("--columns"))
      plate.columns = number();
    else if (is("--steps"))
      plate.steps = static_cast<int>(number());
    else
      return std::fprintf(stderr, "heat: unknown option %s\n", argv[i]), 2;
  }
  if (plate.rows < 4 || plate.columns < 3 || plate.steps < 1)
    return std::fprintf(stderr, "heat: at least 4 rows, 3 columns and 1 step\n"), 2;

  try {
    return run(plate, kernels, times) ? 0 : 1;
  } catch (const wherry::error& error) {
    return std::fprintf(stderr, "heat: %s (isolated devices need --kernels)\n", error.what()), 2;
  }
}
