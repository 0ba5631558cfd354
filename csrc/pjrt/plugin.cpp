// Finding and loading plugins.
#include "pjrt/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>

#include "base/hash.h"
#include "base/log.h"

namespace tpu::pjrt {
namespace {

namespace fs = std::filesystem;

// The oldest API with everything this folder calls.
constexpr int kOldestMinor = 70;

struct Registry {
  std::mutex lock;  // guards both
  std::vector<Candidate> candidates;
  std::map<std::string, std::unique_ptr<const Plugin>> plugins;  // by path
};

Registry& registry() {
  static auto* instance = new Registry;  // plugins outlive static destructors
  return *instance;
}

std::vector<Candidate> candidates_of(Kind kind) {
  std::lock_guard guard(registry().lock);
  std::vector<Candidate> found;
  std::error_code ignored;
  for (const Candidate& c : registry().candidates) {
    if (c.kind == name(kind) && fs::exists(c.path, ignored)) found.push_back(c);
  }
  return found;
}

// A file that no one announced is judged by its name: options differ between the kinds.
Kind kind_of(const std::string& path) {
  for (Kind kind : {Kind::Tpu, Kind::Cuda, Kind::Cpu}) {
    for (const Candidate& c : registry().candidates) {
      if (c.path == path && c.kind == name(kind)) return kind;
    }
  }
  std::string file = fs::path(path).filename().string();
  if (file.find("libtpu") != std::string::npos) return Kind::Tpu;
  if (file.find("cuda") != std::string::npos) return Kind::Cuda;
  if (file.find("cpu") != std::string::npos) return Kind::Cpu;
  return Kind::Other;
}

const char* advice(Kind kind) {
  switch (kind) {
    case Kind::Tpu:
      return "pip install libtpu";
    case Kind::Cuda:
      return "pip install jax-cuda13-pjrt";
    default:
      return "pip install lammps-jax-pjrt-cpu";
  }
}

const Plugin& first(Kind kind) {
  std::vector<Candidate> found = candidates_of(kind);
  tpu::check(!found.empty(), Code::Runtime, "no PJRT plugin for ", name(kind), " found; install one (", advice(kind),
             ") or name its file in TORCH_TPU_PLUGIN");
  return Plugin::load(found[0].path);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Whether the folder has an entry of this prefix and a number.
bool has_entry(const char* folder, std::string_view prefix) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string file = it->path().filename().string();
    if (file.starts_with(prefix) && is_number(std::string_view(file).substr(prefix.size()))) return true;
  }
  return false;
}

// True also where the devices of the bus cannot be listed.
bool may_have_google_device() {
  std::error_code error;
  bool listed = false;
  for (fs::directory_iterator it("/sys/bus/pci/devices", error), end; !error && it != end; it.increment(error)) {
    listed = true;
    std::string vendor;
    std::ifstream(it->path() / "vendor") >> vendor;
    if (vendor == "0x1ae0") return true;
  }
  return !listed;
}

// The size of a file and a few hundred pieces spread over it. Versions that plugins report are shared by many builds,
// and reading all of a file of hundreds of megabytes would take longer than the start of the process.
std::string sample(const std::string& path) {
  constexpr int64_t kPieces = 256;
  std::array<char, 1024> piece;
  std::ifstream file(path, std::ios::binary);
  std::error_code ignored;
  int64_t size = int64_t(fs::file_size(path, ignored));
  std::string text = concat(size, "\n");
  for (int64_t i = 0; i < kPieces; ++i) {
    file.seekg(std::max<int64_t>(0, size - int64_t(piece.size())) * i / (kPieces - 1));
    file.read(piece.data(), piece.size());
    text.append(piece.data(), size_t(file.gcount()));
    file.clear();
  }
  return hash128(text);
}

// libtpu's name for a slice: "v5e:2x2" is "v5litepod-4".
std::string accelerator_type(const std::string& topology) {
  size_t colon = topology.find(':');
  std::string generation = topology.substr(0, colon);
  int64_t chips = 1, factor = 0;
  std::string shape = colon == std::string::npos ? "" : topology.substr(colon + 1);
  for (char c : shape + "x") {
    if (c == 'x') {
      chips *= std::max<int64_t>(factor, 1);
      factor = 0;
    } else {
      tpu::check(c >= '0' && c <= '9' && factor < 100000, Code::Value,
                 "topology: expected one such as 'v5e:2x2', got '", topology, "'");
      factor = factor * 10 + (c - '0');
    }
  }
  // Up to v5p a slice is counted in cores, two a chip.
  bool cores = generation == "v2" || generation == "v3" || generation == "v4" || generation == "v5p";
  return concat(generation == "v5e" ? "v5litepod" : generation, "-", cores ? 2 * chips : chips);
}

}  // namespace

const char* name(Kind kind) {
  constexpr const char* kNames[] = {"tpu", "cuda", "cpu", "other"};
  return kNames[size_t(kind)];
}

void set_candidates(std::vector<Candidate> candidates) {
  std::lock_guard guard(registry().lock);
  registry().candidates = std::move(candidates);
}

bool has_tpu() {
  // Intel's NPUs are in the folder /dev/accel, a TPU is /dev/accel0; other cards may sit behind vfio as well.
  return has_entry("/dev", "accel") || (has_entry("/dev/vfio", "") && may_have_google_device());
}

const Plugin& Plugin::discover(const std::string& setting) {
  if (setting.find('/') != std::string::npos || setting.ends_with(".so")) return load(setting);
  if (setting == "cpu") return first(Kind::Cpu);
  if (setting == "cuda") return first(Kind::Cuda);
  if (setting == "tpu") {
    tpu::check(has_tpu(), Code::Runtime,
               "TORCH_TPU_PLUGIN=tpu, but this machine has no TPU chip (/dev/accel*, "
               "/dev/vfio/*); unset it to run on the CPU plugin");
    return first(Kind::Tpu);
  }
  tpu::check(setting == "auto", Code::Value, "TORCH_TPU_PLUGIN: expected auto, tpu, cuda, cpu or a path, got '",
             setting, "'");
  if (!has_tpu()) return first(Kind::Cpu);
  if (!candidates_of(Kind::Tpu).empty()) return first(Kind::Tpu);
  log::warn(concat("this machine has a TPU chip, but libtpu is not installed (", advice(Kind::Tpu),
                   "); running on the CPU plugin"));
  return first(Kind::Cpu);
}

const Plugin& Plugin::load(const std::string& path) {
  std::lock_guard guard(registry().lock);
  return load_locked(path);
}

const Plugin& Plugin::load_locked(const std::string& path) {
  std::unique_ptr<const Plugin>& slot = registry().plugins[path];
  if (!slot) {
    slot.reset(new Plugin(path));
    log::line(log::Event::Plugin, "loaded ", slot->str());
  }
  return *slot;
}

const Plugin& Plugin::load_compiler(const std::string& topology) {
  std::string type = accelerator_type(topology);
  std::vector<Candidate> found = candidates_of(Kind::Tpu);
  tpu::check(!found.empty(), Code::Runtime, "the TPU compiler is not installed (", advice(Kind::Tpu), ")");
  std::lock_guard guard(registry().lock);
  // On a TPU host these would hide the chips.
  if (!has_tpu()) {
    setenv("TPU_SKIP_MDS_QUERY", "1", 0);
    setenv("TPU_WORKER_HOSTNAMES", "localhost", 0);
    setenv("TPU_WORKER_ID", "0", 0);
    setenv("TPU_ACCELERATOR_TYPE", type.c_str(), 0);
  }
  return load_locked(found[0].path);
}

Plugin::Plugin(const std::string& path) : path_(path), kind_(kind_of(path)) {
  std::error_code ignored;
  tpu::check(fs::exists(path, ignored), Code::Runtime, "PJRT plugin ", path, ": no such file");
  // Else the plugin writes lines of its own to the user's terminal; warnings and errors still show.
  setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0);
  // Local symbols: several plugins, each with an LLVM of its own, live beside each other and PyTorch.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    fail(Code::Runtime, "PJRT plugin ", path, " cannot be loaded: ", reason ? reason : "unknown reason");
  }
  auto* entry = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  tpu::check(entry, Code::Runtime, path, " is not a PJRT plugin: it has no function GetPjrtApi");
  api_ = entry();
  tpu::check(api_, Code::Runtime, path, " is not a PJRT plugin: GetPjrtApi gave nothing");
  auto [major, minor] = version();
  tpu::check(major == PJRT_API_MAJOR && minor >= kOldestMinor, Code::Runtime, "PJRT plugin ", path, " speaks version ",
             major, ".", minor, " of the API, but torch_tpu needs ", PJRT_API_MAJOR, ".", kOldestMinor,
             " or later; install a newer plugin (", advice(kind_), ")");

  TPU_PJRT_ARGS(PJRT_Plugin_Initialize_Args, initialize);
  check(api_, api_->PJRT_Plugin_Initialize(&initialize), "PJRT plugin " + path);
  TPU_PJRT_ARGS(PJRT_Plugin_Attributes_Args, a);
  check(api_, api_->PJRT_Plugin_Attributes(&a), "PJRT plugin " + path);
  attributes_ = pjrt::attributes(a.attributes, a.num_attributes);
  fingerprint_ = concat(name(kind_), " ", major, ".", minor, " ", sample(path));
}

std::string Plugin::str() const {
  auto [major, minor] = version();
  std::string text = concat(name(kind_), " plugin ", path_, ", API ", major, ".", minor);
  for (const auto& [key, value] : attributes_) text += concat(", ", key, " ", pjrt::str(value));
  return text;
}

}  // namespace tpu::pjrt
