// A client: the devices of a plugin, what compiles for them, and what brings data to them.
//
// Buffers and executables must be destroyed before their client. All functions may be called from any thread; those
// that compile or copy may block for long, so release Python's lock first.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/buffer.h"
#include "pjrt/executable.h"
#include "pjrt/plugin.h"

namespace tpu::pjrt {

struct Device {
  PJRT_Device* handle = nullptr;
  int64_t id = 0;           // as in CompileOptions::devices
  std::string kind;         // "cpu", "TPU v5 lite"
  std::string description;  // "CpuDevice(id=0)"
};

struct MemoryStats {  // bytes; zero where the plugin does not say
  int64_t in_use = 0, peak = 0, limit = 0, largest_allocation = 0, allocations = 0;
};

struct ClientOptions {
  int64_t cpu_devices = 4;  // for the CPU plugin only
};

class Client {
 public:
  // May be called once for each plugin where the devices allow one owner (a TPU).
  static std::unique_ptr<Client> create(const Plugin& plugin, const ClientOptions& options = {});
  ~Client();
  Client(const Client&) = delete;

  const Plugin& plugin() const { return plugin_; }
  const PJRT_Api* api() const { return plugin_.api(); }
  const std::string& platform() const { return platform_; }  // "cpu", "tpu", "cuda"
  const std::string& platform_version() const { return platform_version_; }
  // Those of this process, in order of id.
  const std::vector<Device>& devices() const { return devices_; }
  const Device& device(int64_t index) const;

  // Throws what the compiler says.
  Executable compile(std::string_view module, const CompileOptions& options) const;
  // Loads what Compiled::serialize gave. Throws if the bytes are not of this plugin's version.
  Executable deserialize(std::string_view bytes) const;

  // An array with these row-major elements. They are copied before the call returns.
  Buffer from_host(const void* data, const Type& type, int64_t device) const;
  // The same without waiting: `data` must stay as it is until `done` has happened.
  Buffer from_host(const void* data, const Type& type, int64_t device, Event& done) const;
  // Takes ownership of a handle that execute() gave.
  Buffer adopt(PJRT_Buffer* buffer) const { return {api(), buffer}; }

  // Nothing where the plugin keeps no account (the CPU plugin).
  std::optional<MemoryStats> memory_stats(int64_t device) const;

 private:
  explicit Client(const Plugin& plugin) : plugin_(plugin) {}
  void describe();
  Buffer from_host(const void* data, const Type& type, int64_t device, PJRT_HostBufferSemantics semantics,
                   Event& done) const;

  const Plugin& plugin_;
  PJRT_Client* client_ = nullptr;
  std::string platform_, platform_version_;
  std::vector<Device> devices_;
};

}  // namespace tpu::pjrt
