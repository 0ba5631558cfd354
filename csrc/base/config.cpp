// The table of settings, and how a value is read and checked.
#include "base/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/error.h"

extern char** environ;

namespace tpu::config {
namespace {

constexpr Setting kTable[] = {
    {"TORCH_TPU_CACHE_DIR", "path", "~/.cache/torch_tpu",
     "Where compiled programs are kept between runs (under XDG_CACHE_HOME where that is set); off keeps none."},
    {"TORCH_TPU_CACHE_SIZE", "bytes", "4G",
     "How large that directory may grow, with K, M or G; the programs unused for longest go first."},
    {"TORCH_TPU_COMPILE_THREADS", "integer", "0", "How many programs may compile at once; 0 is one for each core."},
    {"TORCH_TPU_CPU_DEVICES", "integer", "4", "How many virtual chips the CPU plugin shows."},
    {"TORCH_TPU_DUMP_DIR", "path", "", "Where the StableHLO of every compiled program is written; empty writes none."},
    {"TORCH_TPU_EAGER_MODE", "strict|debug", "strict",
     "strict dispatches each op at once and asynchronously; debug waits after each op, so that errors show at their "
     "line."},
    {"TORCH_TPU_FALLBACK", "warn|error|silent", "warn",
     "What happens when an op has no lowering: it runs on the CPU with one warning or silently, or it is an error."},
    {"TORCH_TPU_LOG", "compile,cache,execute,fallback,plugin", "",
     "Which events write a line to stderr: a list with commas, or all."},
    {"TORCH_TPU_PLUGIN", "auto|tpu|cuda|cpu or path", "auto",
     "Which PJRT plugin runs the programs: auto takes the TPU where there is one, else the CPU."},
};

constexpr std::string_view kPrefix = "TORCH_TPU_";

const Setting& row(std::string_view name) {
  auto found = std::find_if(std::begin(kTable), std::end(kTable), [&](const Setting& s) { return s.name == name; });
  check(found != std::end(kTable), Code::Internal, name, " is not a row of config.cpp");
  return *found;
}

// An empty value counts as not set.
const char* environment(const char* name) {
  const char* text = std::getenv(name);
  return text && *text ? text : nullptr;
}

std::string value_of(const char* name) {
  const char* text = environment(name);
  return text ? text : row(name).default_value;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= text.size();) {
    size_t end = std::min(text.find(separator, start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

[[noreturn]] void bad(const char* name, std::string_view expected, std::string_view value) {
  fail(Code::Value, name, ": expected ", expected, ", got '", value, "'");
}

// The number at the front of text, or false.
bool number(std::string_view text, int64_t& value, std::string_view& rest) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  rest = text.substr(size_t(end - text.data()));
  return error == std::errc();
}

std::string default_cache_dir() {
  const char* base = environment("XDG_CACHE_HOME");
  // The standard says that a relative path here is to be ignored.
  return base && *base == '/' ? std::string(base) + "/torch_tpu" : "~/.cache/torch_tpu";
}

std::string home(std::string path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const char* directory = environment("HOME");
  return directory ? directory + path.substr(1) : "";
}

}  // namespace

std::span<const Setting> table() { return kTable; }

std::string current(const Setting& setting) {
  if (std::string_view(setting.name) == "TORCH_TPU_CACHE_DIR" && !environment(setting.name)) return default_cache_dir();
  return value_of(setting.name);
}

std::vector<std::string> unknown() {
  std::vector<std::string> names;
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view name(*entry);
    name = name.substr(0, name.find('='));
    auto same = [&](const Setting& s) { return s.name == name; };
    if (name.starts_with(kPrefix) && std::none_of(std::begin(kTable), std::end(kTable), same)) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

namespace parse {

int64_t integer(const char* name, int64_t low, int64_t high) {
  std::string text = value_of(name);
  int64_t value = 0;
  std::string_view rest;
  if (!number(text, value, rest) || !rest.empty() || value < low || value > high) {
    bad(name, concat("an integer from ", low, " to ", high), text);
  }
  return value;
}

int64_t bytes(const char* name) {
  std::string text = value_of(name);
  int64_t value = 0;
  std::string_view rest;
  bool good = number(text, value, rest) && value >= 0;
  constexpr std::string_view kSuffixes = "KMGT";
  int shift = 0;
  if (good && !rest.empty()) {
    size_t suffix = kSuffixes.find(char(std::toupper(static_cast<unsigned char>(rest[0]))));
    std::string_view unit = rest.substr(1);
    good = suffix != std::string_view::npos && (unit.empty() || unit == "B" || unit == "iB");
    shift = good ? 10 * (int(suffix) + 1) : 0;
  }
  if (!good || value > (INT64_MAX >> shift)) bad(name, "bytes, such as 500M or 4G", text);
  return value << shift;
}

size_t choice(const char* name) {
  std::string text = value_of(name);
  std::vector<std::string> words = split(row(name).type, '|');
  auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) bad(name, concat("one of ", row(name).type), text);
  return size_t(found - words.begin());
}

uint32_t words(const char* name) {
  std::string text = value_of(name);
  if (text.empty()) return 0;
  std::vector<std::string> known = split(row(name).type, ',');
  uint32_t bits = 0;
  for (const std::string& word : split(text, ',')) {
    if (word == "all") return (uint32_t(1) << known.size()) - 1;
    auto found = std::find(known.begin(), known.end(), word);
    if (found == known.end()) bad(name, concat("all, or some of ", row(name).type), text);
    bits |= uint32_t(1) << (found - known.begin());
  }
  return bits;
}

std::string path(const char* name) { return home(value_of(name)); }

}  // namespace parse

const std::string& plugin() {
  static const std::string value = parse::path("TORCH_TPU_PLUGIN");
  return value;
}

int64_t cpu_devices() {
  static const int64_t value = parse::integer("TORCH_TPU_CPU_DEVICES", 1, 1024);
  return value;
}

const std::string& cache_dir() {
  static const std::string value = [] {
    std::string text = current(row("TORCH_TPU_CACHE_DIR"));
    return text == "off" ? "" : home(text);
  }();
  return value;
}

int64_t cache_size() {
  static const int64_t value = parse::bytes("TORCH_TPU_CACHE_SIZE");
  return value;
}

uint32_t log_events() {
  static const uint32_t value = parse::words("TORCH_TPU_LOG");
  return value;
}

Fallback fallback() {
  static const Fallback value = Fallback(parse::choice("TORCH_TPU_FALLBACK"));
  return value;
}

EagerMode eager_mode() {
  static const EagerMode value = EagerMode(parse::choice("TORCH_TPU_EAGER_MODE"));
  return value;
}

int64_t compile_threads() {
  static const int64_t value = [] {
    int64_t threads = parse::integer("TORCH_TPU_COMPILE_THREADS", 0, 1024);
    return threads ? threads : std::max<int64_t>(1, std::thread::hardware_concurrency());
  }();
  return value;
}

const std::string& dump_dir() {
  static const std::string value = parse::path("TORCH_TPU_DUMP_DIR");
  return value;
}

}  // namespace tpu::config
