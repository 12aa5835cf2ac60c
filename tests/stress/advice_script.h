// Scripts of what a program can do with managed memory and advice, and a plain model of what must come
// out: a value per page, and the advice per page. One script runs on the library and on the model side
// by side.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/session.h"
#include "support/witness.h"

namespace wherry::test {

struct Operation {
  enum class Kind {
    allocate,
    free,
    advise,
    write,  // every page of the range
    read,
    query,  // all attributes of the range, and where its first page is
  };

  Kind kind = Kind::read;
  unsigned slot = 0;   // which allocation
  unsigned first = 0;  // page of the slot
  unsigned count = 0;  // pages
  int processor = 0;   // who touches; what the advice names
  CUmem_advise advice{};
  bool node = false;  // the preferred location is the host's current node

  std::string describe() const;
};
using Script = std::vector<Operation>;

// What a program might do: bursts of touches by one processor, some advice and questions in between.
Script draw_script(std::mt19937_64& random, std::size_t operations);

struct ScriptFailure {
  std::size_t operation;  // in the script
  std::string what;
  bool repeatable;  // the library still works
};

class ScriptRunner {
 public:
  // The session has two devices. `table` is shared with its kernels: memory that nobody manages.
  ScriptRunner(const Session& session, void* table);

  static constexpr std::size_t table_bytes = 12288;

  // Runs it, with fresh allocations. An operation on memory that is not there does nothing, so that
  // every part of a script is a script.
  std::optional<ScriptFailure> run(const Script& script);

 private:
  struct Page {
    std::uint64_t value = 0;
    bool touched = false;
    bool read_mostly = false;
    CUmemLocation preferred{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
    std::uint32_t accessed_by = 0;
  };
  struct Slot {
    std::uint64_t* data = nullptr;
    std::vector<Page> pages;
  };
  struct Touch {
    std::uint64_t* page;
    std::uint64_t value;
    std::uint64_t write;
  };
  // What a kernel gets, and leaves.
  struct Table {
    std::uint64_t wrong;  // 1 + the first touch that saw something else
    std::uint64_t seen;
    Touch touches[(table_bytes - 2 * sizeof(std::uint64_t)) / sizeof(Touch)];
  };

  static void carry_out(Table& table, std::size_t count);
  void step(const Operation& operation);
  void touch(const Operation& operation, Slot& slot);
  void advise(const Operation& operation, Slot& slot);
  void query(const Operation& operation, const Slot& slot);
  // Has the touches that are waiting done.
  void flush();
  void release(Slot& slot);

  const Session& session_;
  const Witness witness_;
  Table& table_;
  std::vector<Slot> slots_;
  std::uint64_t last_value_ = 0;
  std::size_t current_ = 0;              // operation
  std::vector<std::size_t> touched_by_;  // which operation each waiting touch is of
  int waiting_for_ = 0;                  // whose they are
};

}  // namespace wherry::test
