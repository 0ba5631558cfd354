// Making a client, compiling, and copying from the host.
#include "pjrt/client.h"

#include <algorithm>

#include "base/log.h"

namespace tpu::pjrt {
namespace {

Device device_of(const PJRT_Api* api, PJRT_Device* handle) {
  TPU_PJRT_ARGS(PJRT_Device_GetDescription_Args, description);
  description.device = handle;
  check(api, api->PJRT_Device_GetDescription(&description), "device");
  TPU_PJRT_ARGS(PJRT_DeviceDescription_Id_Args, id);
  id.device_description = description.device_description;
  check(api, api->PJRT_DeviceDescription_Id(&id), "device");
  TPU_PJRT_ARGS(PJRT_DeviceDescription_Kind_Args, kind);
  kind.device_description = description.device_description;
  check(api, api->PJRT_DeviceDescription_Kind(&kind), "device");
  TPU_PJRT_ARGS(PJRT_DeviceDescription_ToString_Args, text);
  text.device_description = description.device_description;
  check(api, api->PJRT_DeviceDescription_ToString(&text), "device");
  return {.handle = handle,
          .id = id.id,
          .kind = {kind.device_kind, kind.device_kind_size},
          .description = {text.to_string, text.to_string_size}};
}

}  // namespace

std::unique_ptr<Client> Client::create(const Plugin& plugin, const ClientOptions& options) {
  std::unique_ptr<Client> client(new Client(plugin));
  constexpr std::string_view kCount = "cpu_device_count";
  TPU_PJRT_ARGS(PJRT_NamedValue, count);
  count.name = kCount.data();
  count.name_size = kCount.size();
  count.type = PJRT_NamedValue_kInt64;
  count.int64_value = options.cpu_devices;
  count.value_size = 1;
  TPU_PJRT_ARGS(PJRT_Client_Create_Args, a);
  if (plugin.kind() == Kind::Cpu) {  // any other plugin would refuse the option
    a.create_options = &count;
    a.num_options = 1;
  }
  check(plugin.api(), plugin.api()->PJRT_Client_Create(&a), concat("PJRT plugin ", plugin.path()));
  client->client_ = a.client;
  client->describe();
  log::line(log::Event::Plugin, "platform ", client->platform_, " (", client->platform_version_, "), ",
            client->devices_.size(), " devices, the first is ", client->devices_[0].description);
  return client;
}

void Client::describe() {
  TPU_PJRT_ARGS(PJRT_Client_PlatformName_Args, name);
  name.client = client_;
  check(api(), api()->PJRT_Client_PlatformName(&name), "client");
  platform_.assign(name.platform_name, name.platform_name_size);
  TPU_PJRT_ARGS(PJRT_Client_PlatformVersion_Args, version);
  version.client = client_;
  check(api(), api()->PJRT_Client_PlatformVersion(&version), "client");
  platform_version_.assign(version.platform_version, version.platform_version_size);
  TPU_PJRT_ARGS(PJRT_Client_AddressableDevices_Args, devices);
  devices.client = client_;
  check(api(), api()->PJRT_Client_AddressableDevices(&devices), "client");
  for (size_t i = 0; i < devices.num_addressable_devices; ++i) {
    devices_.push_back(device_of(api(), devices.addressable_devices[i]));
  }
  tpu::check(!devices_.empty(), Code::Runtime, "PJRT plugin ", plugin_.path(), " shows no device");
  std::sort(devices_.begin(), devices_.end(), [](const Device& x, const Device& y) { return x.id < y.id; });
}

Client::~Client() {
  if (!client_) return;
  TPU_PJRT_ARGS(PJRT_Client_Destroy_Args, a);
  a.client = client_;
  if (PJRT_Error* error = api()->PJRT_Client_Destroy(&a)) translate(api(), error, "");
}

const Device& Client::device(int64_t index) const {
  tpu::check(index >= 0 && size_t(index) < devices_.size(), Code::Runtime, "invalid device index ", index,
             ": there are ", devices_.size(), " devices");
  return devices_[size_t(index)];
}

Executable Client::compile(std::string_view module, const CompileOptions& options) const {
  constexpr std::string_view kFormat = "mlir";
  std::string bytes = options.serialize();
  TPU_PJRT_ARGS(PJRT_Program, program);
  program.code = const_cast<char*>(module.data());  // only read
  program.code_size = module.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  TPU_PJRT_ARGS(PJRT_Client_Compile_Args, a);
  a.client = client_;
  a.program = &program;
  a.compile_options = bytes.data();
  a.compile_options_size = bytes.size();
  check(api(), api()->PJRT_Client_Compile(&a), "compile");
  return {api(), a.executable};
}

Executable Client::deserialize(std::string_view bytes) const {
  TPU_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad_Args, a);
  a.client = client_;
  a.serialized_executable = bytes.data();
  a.serialized_executable_size = bytes.size();
  check(api(), api()->PJRT_Executable_DeserializeAndLoad(&a), "load a compiled program");
  return {api(), a.loaded_executable};
}

Buffer Client::from_host(const void* data, const Type& type, int64_t device, PJRT_HostBufferSemantics semantics,
                         Event& done) const {
  TPU_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, a);
  a.client = client_;
  a.data = data;
  a.type = buffer_type(type.dtype);
  a.dims = type.dims.data();
  a.num_dims = type.dims.size();
  a.host_buffer_semantics = semantics;
  a.device = this->device(device).handle;
  check(api(), api()->PJRT_Client_BufferFromHostBuffer(&a), "copy to the device");
  done = Event(api(), a.done_with_host_buffer);
  return {api(), a.buffer};
}

Buffer Client::from_host(const void* data, const Type& type, int64_t device) const {
  Event done;
  return from_host(data, type, device, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall, done);
}

Buffer Client::from_host(const void* data, const Type& type, int64_t device, Event& done) const {
  return from_host(data, type, device, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes, done);
}

std::optional<MemoryStats> Client::memory_stats(int64_t device) const {
  TPU_PJRT_ARGS(PJRT_Device_MemoryStats_Args, a);
  a.device = this->device(device).handle;
  if (PJRT_Error* error = api()->PJRT_Device_MemoryStats(&a)) {
    Error reason = translate(api(), error, "memory statistics");
    if (reason.code() == Code::Unimplemented) return std::nullopt;
    throw reason;
  }
  return MemoryStats{.in_use = a.bytes_in_use,
                     .peak = a.peak_bytes_in_use_is_set ? a.peak_bytes_in_use : 0,
                     .limit = a.bytes_limit_is_set ? a.bytes_limit : 0,
                     .largest_allocation = a.largest_alloc_size_is_set ? a.largest_alloc_size : 0,
                     .allocations = a.num_allocs_is_set ? a.num_allocs : 0};
}

}  // namespace tpu::pjrt
