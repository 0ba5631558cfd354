// Every environment variable of the package: one row each, read nowhere else.
//
// Adding a setting takes a row in config.cpp and an accessor here. An accessor reads the environment once, at its first
// call, and throws a ValueError that names the variable if the value is bad. Any thread may call any of these.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tpu::config {

struct Setting {
  const char* name;
  const char* type;           // "integer", "bytes", "path", "text", or the words it may be: "warn|error|silent"
  const char* default_value;  // as one would write it in the environment
  const char* sentence;       // what it does
};

std::span<const Setting> table();

// What the environment says now, or the default. Does not check the value.
std::string current(const Setting& setting);

// Variables that begin like ours and are in no row: most likely misspelled.
std::vector<std::string> unknown();

enum class Fallback : uint8_t { Warn, Error, Silent };
enum class EagerMode : uint8_t { Strict, Debug };

const std::string& plugin();     // "auto", "tpu", "cuda", "cpu", or a path
int64_t cpu_devices();           // virtual chips of the CPU plugin
const std::string& cache_dir();  // empty: no persistent cache
int64_t cache_size();            // bytes
uint32_t log_events();           // bit i: the i-th word of TORCH_TPU_LOG's row is to be logged
Fallback fallback();
EagerMode eager_mode();
int64_t compile_threads();      // at least 1
const std::string& dump_dir();  // empty: nothing is dumped

// ---- what the accessors are made of; they throw a ValueError that names the setting
namespace parse {
int64_t integer(const char* name, int64_t low, int64_t high);
int64_t bytes(const char* name);
// Which of the row's words the value is.
size_t choice(const char* name);
// Bit i for the i-th word of the row; "all" sets every bit.
uint32_t words(const char* name);
// With a leading ~ replaced by the home directory.
std::string path(const char* name);
}  // namespace parse

}  // namespace tpu::config
