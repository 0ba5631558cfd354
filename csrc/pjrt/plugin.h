// A PJRT plugin: a shared library that owns a compiler and the devices it compiles for.
//
// Plugins are loaded once a process and never unloaded, so references to them stay good. Loading is guarded by a lock;
// everything else is constant.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "pjrt/pjrt.h"

namespace tpu::pjrt {

enum class Kind : uint8_t { Tpu, Cuda, Cpu, Other };
const char* name(Kind kind);

// A file that may be a plugin; finding the wheels that ship one is Python's work.
struct Candidate {
  std::string kind;  // "tpu", "cuda" or "cpu"
  std::string path;
};
// In order of preference within a kind. Call before discover().
void set_candidates(std::vector<Candidate> candidates);

struct Version {
  int major = 0;
  int minor = 0;
};

class Plugin {
 public:
  // The plugin that `setting` names: "auto" (TPU where there is a chip, else CPU), a kind, or a path.
  // Throws Runtime where there is none, saying what to install.
  static const Plugin& discover(const std::string& setting);
  // Throws Runtime if the file is missing, is no plugin, or speaks a version of the API that is too old.
  static const Plugin& load(const std::string& path);
  // libtpu as a compiler without a chip. Sets what libtpu reads from the environment, where it is not set: without it,
  // libtpu asks a metadata server for minutes. `topology` such as "v5e:2x2".
  static const Plugin& load_compiler(const std::string& topology);

  const PJRT_Api* api() const { return api_; }
  const std::string& path() const { return path_; }
  Kind kind() const { return kind_; }
  Version version() const { return {api_->pjrt_api_version.major_version, api_->pjrt_api_version.minor_version}; }
  // What the plugin says of itself, e.g. "xla_version", "stablehlo_current_version".
  const Attributes& attributes() const { return attributes_; }
  // One line of all of this.
  std::string str() const;
  // Differs between any two builds of plugins, wherever they lie: part of the key of what is kept on disk.
  const std::string& fingerprint() const { return fingerprint_; }

  Plugin(const Plugin&) = delete;

 private:
  explicit Plugin(const std::string& path);
  static const Plugin& load_locked(const std::string& path);

  std::string path_;
  Kind kind_;
  const PJRT_Api* api_ = nullptr;
  Attributes attributes_;
  std::string fingerprint_;
};

// Whether this machine has a TPU chip.
bool has_tpu();

}  // namespace tpu::pjrt
