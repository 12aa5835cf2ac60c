// Heat spreads in a plate: the 2D heat equation on two devices, each with half of the rows.
//
//   heat            the program's own OpenMP threads, each of which counts as one of the devices
//   heat --kernels  the same with kernels (parallel_for), which also run on isolated devices
//   heat --rows N --columns N --steps N   another size;  --time: also how long the steps took
//
// Without WHERRY_DEVICES it uses two coherent devices.
#include <chrono>
#include <utility>
#include <vector>

#include "example.h"

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

// Where the device's rows are.
example::Residency residency(const wherry::runtime& runtime, const double* grid, const Plate& plate,
                             int device) {
  example::Residency pages(runtime, device);
  pages.add(std::span(grid + plate.first_row(device) * plate.columns,
                      grid + plate.first_row(device + 1) * plate.columns));
  return pages;
}

// Returns whether the result is right.
bool run(const Plate& plate, bool kernels, bool times) {
  setenv("WHERRY_DEVICES", "kind=coherent;kind=coherent", /*overwrite=*/0);
  wherry::runtime runtime;
  if (kernels)
    example::require_devices(runtime, devices);
  else
    // In a parallel region nothing could catch an error.
    example::require_coherent_devices(runtime, devices, ", or run heat --kernels");
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
                residency(runtime, result, plate, device).word(), device);
  const double sum = sum_of(result, plate), expected = sum_without_wherry(plate);
  std::printf("sum %.6f, %s without Wherry\n", sum, sum == expected ? "as" : "NOT as");
  return sum == expected;
}

}  // namespace

int main(int argc, char** argv) {
  return example::report_errors("heat", [&] {
    Plate plate;
    bool kernels = false, times = false;
    for (int i = 1; i < argc; ++i) {
      const std::string option = argv[i];
      const auto number = [&](std::size_t least, std::size_t most) {
        return example::number(option, i + 1 < argc ? argv[++i] : "", least, most);
      };
      if (option == "--kernels")
        kernels = true;
      else if (option == "--time")
        times = true;
      else if (option == "--rows")
        plate.rows = number(4, 1 << 15);
      else if (option == "--columns")
        plate.columns = number(3, 1 << 15);
      else if (option == "--steps")
        plate.steps = static_cast<int>(number(1, 1'000'000));
      else
        throw std::invalid_argument("unknown option " + option);
    }
    return run(plate, kernels, times) ? 0 : 1;
  });
}
