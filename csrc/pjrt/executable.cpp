// Compile options as bytes, questions to the compiler, and execution.
#include "pjrt/executable.h"

#include <bit>

namespace tpu::pjrt {
namespace {

// The few kinds of protobuf fields that CompileOptionsProto needs. Field numbers are those of XLA's
// xla/pjrt/proto/compile_options.proto and xla/xla_data.proto.
class Message {
 public:
  void integer(int field, int64_t value) {
    varint(uint64_t(field) << 3);
    varint(uint64_t(value));
  }
  void real(int field, double value) {
    varint(uint64_t(field) << 3 | 1);
    for (uint64_t bits = std::bit_cast<uint64_t>(value), i = 0; i < 8; ++i) bytes_ += char(bits >> (8 * i));
  }
  void bytes(int field, std::string_view value) {
    varint(uint64_t(field) << 3 | 2);
    varint(value.size());
    bytes_ += value;
  }
  void packed(int field, std::span<const int64_t> values) {
    Message list;
    for (int64_t v : values) list.varint(uint64_t(v));
    bytes(field, list.text());
  }
  const std::string& text() const { return bytes_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += char(value | 0x80);
    bytes_ += char(value);
  }
  std::string bytes_;
};

// replica_count 1, computation_count 2, computation_devices 3 { replica_device_ids 1 }
std::string device_assignment(std::span<const int64_t> devices, int64_t partitions) {
  int64_t replicas = int64_t(devices.size()) / partitions;
  Message assignment;
  assignment.integer(1, replicas);
  assignment.integer(2, partitions);
  for (int64_t p = 0; p < partitions; ++p) {
    std::vector<int64_t> ids;
    for (int64_t r = 0; r < replicas; ++r) ids.push_back(devices[size_t(r * partitions + p)]);
    Message column;
    column.packed(1, ids);
    assignment.bytes(3, column.text());
  }
  return assignment.text();
}

// A map entry: key 1, value 2 { string_field 1, bool_field 2, int_field 3, double_field 4 }
std::string override_entry(const std::string& name, const CompileOptions::Override& value) {
  Message field;
  if (auto* text = std::get_if<std::string>(&value)) field.bytes(1, *text);
  if (auto* flag = std::get_if<bool>(&value)) field.integer(2, *flag);
  if (auto* number = std::get_if<int64_t>(&value)) field.integer(3, *number);
  if (auto* number = std::get_if<double>(&value)) field.real(4, *number);
  Message entry;
  entry.bytes(1, name);
  entry.bytes(2, field.text());
  return entry.text();
}

double number(const PJRT_NamedValue& v) {
  return v.type == PJRT_NamedValue_kFloat   ? v.float_value
         : v.type == PJRT_NamedValue_kInt64 ? double(v.int64_value)
                                            : 0;
}

// Like check, but gives false where the plugin does not implement the call.
bool offered(const PJRT_Api* api, PJRT_Error* error, std::string_view what) {
  if (!error) return true;
  Error reason = translate(api, error, what);
  if (reason.code() != Code::Unimplemented) throw reason;
  return false;
}

}  // namespace

std::string CompileOptions::serialize() const {
  tpu::check(partitions >= 1 && devices.size() % size_t(partitions) == 0, Code::Value,
             "compile options: ", devices.size(), " devices do not divide into ", partitions, " partitions");
  // device_ordinal 1, debug_options 3, num_replicas 4, num_partitions 5, use_spmd_partitioning 6, device_assignment 9
  Message build;
  build.integer(1, -1);
  build.integer(4, devices.empty() ? 1 : int64_t(devices.size()) / partitions);
  build.integer(5, partitions);
  if (partitions > 1) build.integer(6, 1);
  if (!debug.empty()) build.bytes(3, debug);
  if (!devices.empty()) build.bytes(9, device_assignment(devices, partitions));
  // executable_build_options 3, compile_portable_executable 4, env_option_overrides 7
  Message options;
  options.bytes(3, build.text());
  if (portable && devices.empty()) options.integer(4, 1);
  for (const auto& [name, value] : overrides) options.bytes(7, override_entry(name, value));
  return options.text();
}

std::string with_backend_flags(std::string debug, std::span<const std::string> flags) {
  // xla_backend_extra_options 500: a map of flags to values
  for (const std::string& flag : flags) {
    Message entry, options;
    entry.bytes(1, flag);
    entry.bytes(2, "");
    options.bytes(500, entry.text());
    debug += options.text();
  }
  return debug;
}

CompileOptions default_options(std::string_view platform) {
  CompileOptions options;
  // XLA's default lets max(NaN, 1) be 1 on the CPU; PyTorch and the TPU say NaN.
  if (platform == "cpu") {
    options.overrides["xla_cpu_enable_fast_min_max"] = false;
    // The rewriter doubles what a matrix-vector product takes to compile, and slows it in bfloat16.
    options.overrides["xla_disable_hlo_passes"] = std::string("gemv-rewriter");
  }
  return options;
}

Compiled::~Compiled() {
  if (!executable_) return;
  TPU_PJRT_ARGS(PJRT_Executable_Destroy_Args, a);
  a.executable = executable_;
  if (PJRT_Error* error = api_->PJRT_Executable_Destroy(&a)) translate(api_, error, "");
}

std::string Compiled::name() const {
  TPU_PJRT_ARGS(PJRT_Executable_Name_Args, a);
  a.executable = executable_;
  check(api_, api_->PJRT_Executable_Name(&a), "executable");
  return {a.executable_name, a.executable_name_size};
}

size_t Compiled::output_count() const {
  TPU_PJRT_ARGS(PJRT_Executable_NumOutputs_Args, a);
  a.executable = executable_;
  check(api_, api_->PJRT_Executable_NumOutputs(&a), "executable");
  return a.num_outputs;
}

std::vector<Type> Compiled::outputs() const {
  TPU_PJRT_ARGS(PJRT_Executable_OutputElementTypes_Args, types);
  types.executable = executable_;
  check(api_, api_->PJRT_Executable_OutputElementTypes(&types), "executable");
  TPU_PJRT_ARGS(PJRT_Executable_OutputDimensions_Args, dims);
  dims.executable = executable_;
  check(api_, api_->PJRT_Executable_OutputDimensions(&dims), "executable");
  std::vector<Type> result;
  const int64_t* next = dims.dims;
  for (size_t i = 0; i < types.num_output_types; ++i) {
    result.push_back({dtype(types.output_types[i]), Dims(next, next + dims.dim_sizes[i])});
    next += dims.dim_sizes[i];
  }
  return result;
}

std::string Compiled::serialize() const {
  TPU_PJRT_ARGS(PJRT_Executable_Serialize_Args, a);
  a.executable = executable_;
  check(api_, api_->PJRT_Executable_Serialize(&a), "serialize");
  std::string bytes(a.serialized_bytes, a.serialized_bytes_size);
  a.serialized_executable_deleter(a.serialized_executable);
  return bytes;
}

std::string Compiled::fingerprint() const {
  TPU_PJRT_ARGS(PJRT_Executable_Fingerprint_Args, a);
  a.executable = executable_;
  if (!offered(api_, api_->PJRT_Executable_Fingerprint(&a), "fingerprint")) return "";
  return {a.executable_fingerprint, a.executable_fingerprint_size};
}

std::map<std::string, double> Compiled::cost() const {
  TPU_PJRT_ARGS(PJRT_Executable_GetCostAnalysis_Args, a);
  a.executable = executable_;
  if (!offered(api_, api_->PJRT_Executable_GetCostAnalysis(&a), "cost analysis")) return {};
  std::map<std::string, double> costs;
  for (size_t i = 0; i < a.num_properties; ++i) {
    const PJRT_NamedValue& v = a.properties[i];
    costs.emplace(std::string(v.name, v.name_size), number(v));
  }
  return costs;
}

CompiledMemory Compiled::memory() const {
  TPU_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, a);
  a.executable = executable_;
  if (!offered(api_, api_->PJRT_Executable_GetCompiledMemoryStats(&a), "memory analysis")) return {};
  return {.code = a.generated_code_size_in_bytes,
          .arguments = a.argument_size_in_bytes,
          .outputs = a.output_size_in_bytes,
          .aliased = a.alias_size_in_bytes,
          .temporaries = a.temp_size_in_bytes,
          .peak = a.peak_memory_in_bytes};
}

std::string Compiled::optimized() const {
  TPU_PJRT_ARGS(PJRT_Program, program);
  TPU_PJRT_ARGS(PJRT_Executable_OptimizedProgram_Args, a);
  a.executable = executable_;
  a.program = &program;
  check(api_, api_->PJRT_Executable_OptimizedProgram(&a), "optimized program");
  std::string code(program.code_size, '\0');
  program.code = code.data();
  check(api_, api_->PJRT_Executable_OptimizedProgram(&a), "optimized program");
  return code;
}

namespace {

// The first length-delimited field with this number in a serialized message; empty if there is none.
std::string_view field(std::string_view message, uint64_t number) {
  auto varint = [&message] {
    uint64_t value = 0;
    for (int shift = 0; !message.empty() && shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(message[0]);
      message.remove_prefix(1);
      value |= uint64_t(byte & 0x7F) << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (!message.empty()) {
    const uint64_t key = varint();
    uint64_t length = 0;
    switch (key & 7) {
      case 0:
        varint();
        continue;
      case 1:
        length = 8;
        break;
      case 2:
        length = varint();
        break;
      case 5:
        length = 4;
        break;
      default:
        return {};
    }
    if (length > message.size()) return {};
    if ((key & 7) == 2 && key >> 3 == number) return message.substr(0, length);
    message.remove_prefix(length);
  }
  return {};
}

}  // namespace

std::string Compiled::debug_options() const {
  const std::string program = optimized();
  return std::string(field(field(program, 2), 14));  // config 2, debug_options 14
}

Executable::Executable(const PJRT_Api* api, PJRT_LoadedExecutable* executable) : Executable() {
  // The delegated constructor has finished, so a throw below runs the destructor, which frees the handle.
  api_ = api;
  executable_ = executable;
  TPU_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, a);
  a.loaded_executable = executable_;
  check(api_, api_->PJRT_LoadedExecutable_GetExecutable(&a), "executable");
  compiled_ = Compiled(api_, a.executable);
  output_count_ = compiled_.output_count();
}

Executable::~Executable() {
  if (!executable_) return;
  TPU_PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, a);
  a.executable = executable_;
  if (PJRT_Error* error = api_->PJRT_LoadedExecutable_Destroy(&a)) translate(api_, error, "");
}

void Executable::execute(std::span<PJRT_Buffer* const> inputs, std::span<PJRT_Buffer*> outputs, PJRT_Device* device,
                         std::span<const int64_t> non_donatable) const {
  run(inputs, outputs, device, non_donatable, nullptr);
}

Event Executable::execute_with_event(std::span<PJRT_Buffer* const> inputs, std::span<PJRT_Buffer*> outputs,
                                     PJRT_Device* device, std::span<const int64_t> non_donatable) const {
  PJRT_Event* done = nullptr;
  run(inputs, outputs, device, non_donatable, &done);
  return {api_, done};
}

void Executable::execute_on_all(std::span<const std::vector<PJRT_Buffer*>> inputs,
                                std::span<std::vector<PJRT_Buffer*>> outputs) const {
  tpu::check(!inputs.empty() && inputs.size() == outputs.size(), Code::Internal, "execute: inputs for ", inputs.size(),
             " devices and outputs for ", outputs.size());
  std::vector<PJRT_Buffer* const*> input_lists;
  std::vector<PJRT_Buffer**> output_lists;
  for (const std::vector<PJRT_Buffer*>& list : inputs) {
    tpu::check(list.size() == inputs[0].size(), Code::Internal, "execute: devices have unequal numbers of inputs");
    input_lists.push_back(list.data());
  }
  for (std::vector<PJRT_Buffer*>& list : outputs) {
    list.assign(output_count_, nullptr);
    output_lists.push_back(list.data());
  }
  TPU_PJRT_ARGS(PJRT_ExecuteOptions, options);
  TPU_PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, a);
  a.executable = executable_;
  a.options = &options;
  a.argument_lists = input_lists.data();
  a.num_devices = inputs.size();
  a.num_args = inputs[0].size();
  a.output_lists = output_lists.data();
  check(api_, api_->PJRT_LoadedExecutable_Execute(&a), "execute");
}

void Executable::run(std::span<PJRT_Buffer* const> inputs, std::span<PJRT_Buffer*> outputs, PJRT_Device* device,
                     std::span<const int64_t> non_donatable, PJRT_Event** done) const {
  tpu::check(outputs.size() == output_count_, Code::Internal, "execute: expected room for ", output_count_,
             " outputs, got ", outputs.size());
  TPU_PJRT_ARGS(PJRT_ExecuteOptions, options);
  options.non_donatable_input_indices = non_donatable.data();
  options.num_non_donatable_input_indices = non_donatable.size();
  PJRT_Buffer* const* input_list = inputs.data();
  PJRT_Buffer** output_list = outputs.data();
  TPU_PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, a);
  a.executable = executable_;
  a.options = &options;
  a.argument_lists = &input_list;
  a.num_devices = 1;
  a.num_args = inputs.size();
  a.output_lists = &output_list;
  a.device_complete_events = done;
  a.execute_device = device;
  check(api_, api_->PJRT_LoadedExecutable_Execute(&a), "execute");
}

}  // namespace tpu::pjrt
