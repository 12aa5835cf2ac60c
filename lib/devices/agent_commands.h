// The commands of the host to a device's agent: one type for each. A command is sent as one
// message, of as many bytes as it uses, perhaps with a descriptor; the reply has the command's
// number.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/page.h"
#include "devices/kernel_module.h"
#include "devices/module_image.h"
#include "os/memory/address_map.h"
#include "os/memory/mapping.h"
#include "pages/arena_layout.h"
#include "trap/view_changer.h"

namespace wherry::impl {

namespace command {

// Starts the workers.
struct Run {};

// Opens these pages of the arena: maps the pool's files there (trap/pool_view.h).
struct OpenArena {
  PageSpan pages;
};

// Makes the range inaccessible.
struct Forbid {
  AddressRange range;
};

// Maps the pool of `owner` at these addresses, in place of the pool that is mapped there.
struct ChangeView {
  FileView view;
  std::uint64_t owner = 0;
};

// Adds pages of managed variables to the layout, and maps the device's own pool there.
struct PlacePages {
  PlacedPages placed;
};

// Removes the page table entries of these runs, so that the next accesses to them fault.
struct ForgetEntries {
  std::uint64_t count = 0;
  PageSpan runs[ViewChanger::runs_max] = {};

  std::size_t used() const { return offsetof(ForgetEntries, runs) + count * sizeof runs[0]; }
};

// Maps the passed file in the annex (devices/annex.h).
struct MapFile {
  FileView view;
  Access access = Access::none;
};

struct UnmapFile {
  AddressRange range;
};

// Loads the module. The reply's value is its base. The error EINPROGRESS means: ask again later.
struct LoadModule {
  FileIdentity file;  // the one that the host has loaded
  char path[PATH_MAX] = {};

  std::size_t used() const { return offsetof(LoadModule, path) + std::strlen(path) + 1; }
};

// Maps an image of a module (ModuleImage). The passed file has its contents.
struct AdoptImage {
  AddressRange extent;
  std::uint64_t unwind_info = 0;
  std::uint64_t count = 0;
  ModuleImage::Segment segments[ModuleImage::segments_max] = {};

  std::size_t used() const { return offsetof(AdoptImage, segments) + count * sizeof segments[0]; }
};

// Ends the device.
struct Quit {};

}  // namespace command

// A command's number in messages and log lines is its position in this list.
using Command =
    std::variant<command::Run, command::OpenArena, command::Forbid, command::ChangeView,
                 command::PlacePages, command::ForgetEntries, command::MapFile, command::UnmapFile,
                 command::LoadModule, command::AdoptImage, command::Quit>;

// The message that carries a command.
class CommandMessage {
 public:
  // Empty, to receive a command.
  CommandMessage() = default;
  // Contains this command, to be sent.
  template <typename C>
  requires std::is_constructible_v<Command, C> CommandMessage(const C& content)
      : used_(used_bytes(content)) {
    static_assert(std::is_trivially_copyable_v<C> && sizeof(C) <= sizeof sent_.content);
    sent_.kind = static_cast<std::uint32_t>(Command(std::in_place_type<C>).index());
    std::memcpy(sent_.content, &content, used_);
  }

  std::uint32_t kind() const { return sent_.kind; }
  std::uint32_t number() const { return sent_.number; }
  void set_number(std::uint32_t number) { sent_.number = number; }

  static constexpr std::size_t bytes_min = 2 * sizeof(std::uint32_t);
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(&sent_, 1)).first(bytes_min + used_);
  }
  std::span<std::byte> room() { return std::as_writable_bytes(std::span(&sent_, 1)); }
  // The command that was received into room(), with `received` bytes; nullopt if it is invalid.
  std::optional<Command> content(std::size_t received) const {
    return content<0>(received - bytes_min);
  }

 private:
  struct Sent {
    std::uint32_t kind = 0;
    std::uint32_t number = 0;
    std::byte content[sizeof(command::LoadModule)];  // the largest
  };

  template <typename C>
  static std::size_t used_bytes(const C& content) {
    if constexpr (requires { content.used(); })
      return content.used();
    else
      return std::is_empty_v<C> ? 0 : sizeof content;
  }
  template <std::size_t Kind>
  std::optional<Command> content(std::size_t bytes) const {
    if constexpr (Kind == std::variant_size_v<Command>) {
      return std::nullopt;
    } else {
      using C = std::variant_alternative_t<Kind, Command>;
      if (sent_.kind != Kind) return content<Kind + 1>(bytes);
      C whole{};
      if (bytes > sizeof whole) return std::nullopt;
      std::memcpy(&whole, sent_.content, bytes);
      return whole;
    }
  }

  Sent sent_;
  std::size_t used_ = 0;
};

struct Reply {
  std::uint32_t number = 0;
  int error = 0;
  std::uint64_t value = 0;
};

}  // namespace wherry::impl
