// The Python module torch_tpu._C: what the Python side asks of the core.
#include <ATen/core/Generator.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include "base/config.h"
#include "base/error.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/generator.h"
#include "device/guard.h"
#include "dispatch/dispatch.h"
#include "graph/runtime.h"
#include "graph/scalar.h"
#include "hlo/hlo.h"

namespace py = pybind11;

namespace tpu {
namespace {

using device::translated;

// For functions that may wait: Python's lock is given up, and errors become PyTorch's.
template <class F>
decltype(auto) unlocked(F f) {
  py::gil_scoped_release release;
  return translated(f);
}

py::dict disk_stats() {
  const graph::DiskStats s = graph::runtime().disk.stats();
  py::dict d;
  d["hits"] = s.hits;
  d["misses"] = s.misses;
  d["stores"] = s.stores;
  d["files"] = s.files;
  d["bytes"] = s.bytes;
  return d;
}

py::dict stats() {
  py::dict d;
  graph::CompileStats s;
  int64_t executions = 0, programs = 0;
  if (graph::started()) {
    graph::Runtime& r = graph::runtime();
    s = r.compiler.stats();
    executions = r.scheduler.executions();
    programs = r.cache.size();
    d["disk"] = disk_stats();
  }
  d["compiles"] = s.compiles;
  d["compile_seconds"] = s.seconds;
  d["memory_hits"] = s.memory_hits;
  d["disk_hits"] = s.disk_hits;
  d["executions"] = executions;
  d["programs"] = programs;
  return d;
}

void reset_stats() {
  if (!graph::started()) return;
  graph::runtime().compiler.reset_stats();
  graph::runtime().scheduler.reset_executions();
  graph::runtime().disk.reset_stats();
}

py::dict device_properties(int i) {
  const int index = device::index(device::device(i));
  graph::Runtime& r = translated([]() -> graph::Runtime& { return graph::runtime(); });
  const pjrt::Device& chip = r.client->devices()[size_t(index)];
  py::dict d;
  d["name"] = chip.kind;
  d["description"] = chip.description;
  d["platform"] = r.client->platform();
  d["kind"] = pjrt::name(r.client->plugin().kind());
  d["id"] = chip.id;
  d["total_memory"] = translated([&] { return graph::memory_info(index).second; });
  d["plugin"] = r.client->plugin().path();
  d["api_version"] = py::make_tuple(r.client->plugin().version().major, r.client->plugin().version().minor);
  return d;
}

py::dict plugin_info() {
  graph::Runtime& r = unlocked([]() -> graph::Runtime& { return graph::runtime(); });
  const pjrt::Plugin& plugin = r.client->plugin();
  py::dict d;
  d["kind"] = pjrt::name(plugin.kind());
  d["path"] = plugin.path();
  d["api_version"] = py::make_tuple(plugin.version().major, plugin.version().minor);
  d["platform"] = r.client->platform();
  d["platform_version"] = r.client->platform_version();
  py::list devices;
  for (const pjrt::Device& chip : r.client->devices()) devices.append(chip.description);
  d["devices"] = devices;
  return d;
}

py::dict memory_stats(int i) {
  const graph::MemoryStats s = graph::memory_stats(device::index(device::device(i)));
  py::dict d;
  d["allocated_bytes"] = s.bytes;
  d["peak_bytes"] = s.peak_bytes;
  d["live_buffers"] = s.arrays;
  d["total_allocations"] = s.total_allocations;
  return d;
}

py::list settings() {
  py::list rows;
  for (const config::Setting& s : config::table())
    rows.append(py::make_tuple(s.name, s.type, s.default_value, s.sentence, config::current(s)));
  return rows;
}

py::list coverage() {
  py::list rows;
  for (const dispatch::Kernel& k : dispatch::kernels()) rows.append(py::make_tuple(k.op, k.row, k.kind));
  return rows;
}

std::string eager_mode() {
  return unlocked([] { return graph::runtime().scheduler.mode() == graph::EagerMode::Debug ? "debug" : "strict"; });
}

void set_eager_mode(const std::string& mode) {
  TORCH_CHECK_VALUE(mode == "strict" || mode == "debug", "eager mode: expected 'strict' or 'debug', got '", mode, "'");
  unlocked([&] {
    graph::runtime().scheduler.set_mode(mode == "debug" ? graph::EagerMode::Debug : graph::EagerMode::Strict);
  });
}

// Seconds that the plugin itself takes for n runs of x + y * alpha over 16 floats, each waiting for none: what eager
// dispatch of torch.add(x, y) is measured against.
double bare_execute_seconds(int64_t n) {
  return unlocked([n] {
    graph::Runtime& r = graph::runtime();
    const Type type{DType::F32, {16}};
    hlo::Builder b;
    hlo::Value x = b.param(type), y = b.param(type), alpha = b.param({DType::I64, {}});
    const hlo::Value outputs[] = {x + hlo::broadcast(hlo::convert(alpha, DType::F32), {16}) * y};
    const pjrt::Executable program = r.client->compile(b.module(outputs), pjrt::default_options(r.client->platform()));
    const float data[16] = {};
    pjrt::Buffer first = r.client->from_host(data, type, 0), other = r.client->from_host(data, type, 0);
    const graph::ArrayRef one = graph::scalar(DType::I64, int64_t{1}, 0);
    PJRT_Device* chip = r.client->devices()[0].handle;
    auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < n; ++i) {
      PJRT_Buffer* in[] = {first.get(), other.get(), one->buffer().get()};
      PJRT_Buffer* out[1];
      program.execute(in, out, chip);
      first = r.client->adopt(out[0]);
    }
    first.ready().await();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  m.doc() = "The core of torch_tpu. Private: use torch.tpu.";
  m.def("set_plugin_candidates", [](const std::vector<std::pair<std::string, std::string>>& candidates) {
    std::vector<pjrt::Candidate> list;
    for (const auto& [kind, path] : candidates) list.push_back({kind, path});
    pjrt::set_candidates(std::move(list));
  });
  m.def("initialize", [] { unlocked([] { graph::runtime(); }); });
  m.def("finish", [] { unlocked([] { graph::finish(); }); });
  m.def("is_initialized", &graph::started);
  m.def("in_bad_fork", &graph::in_bad_fork);
  m.def("device_count", [] { return unlocked([] { return device::count(); }); });
  m.def("current_device", &device::current);
  m.def("set_device", [](int i) { unlocked([i] { device::set_current(i); }); });
  m.def("exchange_device", [](int i) {
    const int before = device::current();
    if (i >= 0) unlocked([i] { device::set_current(i); });
    return before;
  });
  m.def("synchronize", [](int i) { unlocked([i] { device::synchronize(i); }); });
  m.def("device_properties", &device_properties);
  m.def("memory_stats", &memory_stats);
  m.def("reset_peak_memory_stats", [](int i) { graph::reset_peak_memory(device::index(device::device(i))); });
  m.def("empty_cache", [] { graph::clear_scalars(); });
  m.def("mem_get_info",
        [](int i) { return unlocked([i] { return graph::memory_info(device::index(device::device(i))); }); });
  m.def("stats", &stats);
  m.def("reset_stats", &reset_stats);
  m.def("fallback_stats", &dispatch::fallback_counts);
  m.def("reset_fallback_stats", &dispatch::reset_fallback_counts);
  m.def("default_generator", [](int i) {
    at::Generator g = device::default_generator(device::index(device::device(i)));
    return py::reinterpret_steal<py::object>(THPGenerator_Wrap(std::move(g)));
  });
  m.def("seed_defaults", [](uint64_t seed) { unlocked([seed] { device::seed_defaults(seed); }); });
  m.def("eager_mode", &eager_mode);
  m.def("set_eager_mode", &set_eager_mode);
  m.def("plugin_info", &plugin_info);
  m.def("settings", &settings);
  m.def("coverage", &coverage);
  m.def("cache_directory", []() -> std::optional<std::string> {
    const std::string& directory = translated([]() -> const std::string& { return config::cache_dir(); });
    return directory.empty() ? std::nullopt : std::optional(directory);
  });
  m.def("clear_memory_cache", [] {
    unlocked([] {
      graph::runtime().compiler.drain();
      graph::runtime().cache.clear();
      graph::runtime().compiler.forget();
    });
  });
  m.def("bare_execute_seconds", &bare_execute_seconds);
  device::register_hooks();
  dispatch::register_kernels();
}

}  // namespace tpu
