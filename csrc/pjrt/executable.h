// A compiled program: what the compiler says of it, and, once it is loaded on a client, how it is run.
//
// Both own their handles and must be destroyed before their client. All functions may be called from any thread, also
// at the same time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pjrt/event.h"
#include "pjrt/pjrt.h"

namespace tpu::pjrt {

struct CompileOptions {
  // Runs on any one device of the client, named at each execution. Otherwise on `devices`.
  bool portable = true;
  // For a program over several devices: their ids, replica by replica.
  std::vector<int64_t> devices;
  int64_t partitions = 1;  // devices of each replica, for programs with sharded arrays
  // XLA's debug options, by their names without dashes in front: {"xla_cpu_enable_fast_math", false}.
  using Override = std::variant<std::string, bool, int64_t, double>;
  std::map<std::string, Override> overrides;
  // The whole of XLA's debug options, serialized, in place of the defaults; see Client::debug_options.
  std::string debug = {};

  // As the API wants them: a serialized CompileOptionsProto. Equal options give equal bytes, so it can be part of a
  // key.
  std::string serialize() const;
};

// Serialized debug options with flags added for the platform's own code generator, such as
// "xla_cpu_disable_loop_unrolling".
std::string with_backend_flags(std::string debug, std::span<const std::string> flags);

// What this package compiles with on a platform ("cpu", "tpu", "cuda").
CompileOptions default_options(std::string_view platform);

struct CompiledMemory {  // bytes
  int64_t code = 0, arguments = 0, outputs = 0, aliased = 0, temporaries = 0, peak = 0;
};

// What the compiler made; need not be loaded anywhere.
class Compiled {
 public:
  Compiled() = default;
  Compiled(const PJRT_Api* api, PJRT_Executable* executable) : api_(api), executable_(executable) {}
  Compiled(Compiled&& other) noexcept : api_(other.api_), executable_(std::exchange(other.executable_, nullptr)) {}
  Compiled& operator=(Compiled&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(executable_, other.executable_);
    return *this;
  }
  ~Compiled();

  std::string name() const;
  size_t output_count() const;
  std::vector<Type> outputs() const;
  // Bytes that the same plugin version on a machine with the same features can load again.
  std::string serialize() const;
  // Equal for equal programs, options and compilers; empty where the plugin has none.
  std::string fingerprint() const;
  // What one run costs, by the compiler's names: "flops", "bytes accessed", on TPU "optimal_seconds". Empty where the
  // plugin does not say (the CPU plugin).
  std::map<std::string, double> cost() const;
  CompiledMemory memory() const;
  // The program after the compiler's passes, as a serialized HloModuleProtoWithConfig.
  std::string optimized() const;
  // The debug options it was compiled with, serialized.
  std::string debug_options() const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Executable* executable_ = nullptr;
};

// A program loaded on a client.
class Executable {
 public:
  Executable() = default;
  // Takes over the handle.
  Executable(const PJRT_Api* api, PJRT_LoadedExecutable* executable);
  Executable(Executable&& other) noexcept
      : api_(other.api_),
        executable_(std::exchange(other.executable_, nullptr)),
        compiled_(std::move(other.compiled_)),
        output_count_(other.output_count_) {}
  Executable& operator=(Executable&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(executable_, other.executable_);
    std::swap(compiled_, other.compiled_);
    std::swap(output_count_, other.output_count_);
    return *this;
  }
  ~Executable();

  explicit operator bool() const { return executable_ != nullptr; }
  const Compiled& compiled() const { return compiled_; }
  size_t output_count() const { return output_count_; }

  // Starts the program on one device and fills `outputs`, whose handles belong to the caller (see Buffer); does not
  // wait. `device` is needed for a portable program; null means the device it was compiled for. Inputs that the program
  // donates are deleted, but for those whose indices are in `non_donatable`. Errors of the run itself show in the
  // outputs' ready() events.
  void execute(std::span<PJRT_Buffer* const> inputs, std::span<PJRT_Buffer*> outputs, PJRT_Device* device,
               std::span<const int64_t> non_donatable = {}) const;
  // The same, and gives the event of the run's end, also for programs without outputs.
  Event execute_with_event(std::span<PJRT_Buffer* const> inputs, std::span<PJRT_Buffer*> outputs, PJRT_Device* device,
                           std::span<const int64_t> non_donatable = {}) const;
  // Starts a program over several devices on all of them, in the order of CompileOptions::devices. Only so do its
  // collectives find each other within one process. Resizes the output lists; their handles belong to the caller.
  void execute_on_all(std::span<const std::vector<PJRT_Buffer*>> inputs,
                      std::span<std::vector<PJRT_Buffer*>> outputs) const;

 private:
  void run(std::span<PJRT_Buffer* const> inputs, std::span<PJRT_Buffer*> outputs, PJRT_Device* device,
           std::span<const int64_t> non_donatable, PJRT_Event** done) const;

  const PJRT_Api* api_ = nullptr;
  PJRT_LoadedExecutable* executable_ = nullptr;
  Compiled compiled_;
  size_t output_count_ = 0;
};

}  // namespace tpu::pjrt
