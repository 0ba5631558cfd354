// The compile threads.
#include "graph/compiler.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/config.h"
#include "base/hash.h"
#include "base/log.h"
#include "hlo/hlo.h"

namespace tpu::graph {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Flags of XLA's CPU code generator that cut the time of a compile to a half or a quarter: its newer way to emit fused
// loops costs most of it. Programs run as fast without, but for those that slow_without() names.
const std::vector<std::string> kQuickFlags = {"xla_cpu_disable_new_fusion_emitters", "xla_cpu_disable_loop_unrolling",
                                              "xla_cpu_disable_slp_vectorizer"};
constexpr const char* kQuickVersion = "quick 1";  // part of every key on disk: change it with the flags

// An update in place would walk the whole operand, and a large transpose would lose its blocking.
bool slow_without(const std::string& text) {
  if (text.find("stablehlo.dynamic_update_slice") != std::string::npos ||
      text.find("stablehlo.scatter") != std::string::npos)
    return true;
  constexpr int64_t kLarge = 1 << 16;
  const std::string op = "\"stablehlo.transpose\"";
  const bool folds = text.find("stablehlo.dot_general") != std::string::npos;
  for (size_t at = text.find(op); at != std::string::npos; at = text.find(op, at + 1)) {
    const size_t type = text.find("-> tensor<", at);
    if (type == std::string::npos) break;
    int64_t count = 1, rank = 0;
    for (const char* c = text.c_str() + type + 10; *c >= '0' && *c <= '9';) {
      char* end;
      count *= std::strtoll(c, &end, 10);
      ++rank;
      c = *end == 'x' ? end + 1 : end;
    }
    if (count > kLarge && !(folds && rank == 2)) return true;
  }
  return false;
}

// A compile that takes longer than this is announced on a terminal.
constexpr double kLongSeconds = 3;

}  // namespace

Compiler::Compiler(pjrt::Client& client, Disk& disk)
    : client_(client),
      disk_(disk),
      options_(pjrt::default_options(client.platform())),
      fingerprint_(client.plugin().fingerprint() + "\n" + client.platform_version() + "\n" + machine_features() + "\n" +
                   options_.serialize() + kQuickVersion) {}

Compiler::~Compiler() { stop(); }

void Compiler::stop() {
  std::deque<Job> left;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    left.swap(jobs_);
  }
  wake_.notify_all();
  for (Job& job : left)
    job.binary->set(
        std::make_exception_ptr(Error(Code::Runtime, job.name + ": the process ends before it is compiled")));
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

Ref<Binary> Compiler::compile(const std::string& name, std::string text) {
  std::string key = hash128(fingerprint_ + "\n" + text);
  std::lock_guard lock(mutex_);
  Ref<Binary>& slot = binaries_[key];
  if (slot) {
    ++stats_.memory_hits;
    return slot;
  }
  slot = Ref<Binary>(new Binary);
  if (stop_) {
    slot->set(std::make_exception_ptr(Error(Code::Runtime, name + ": the process ends before it is compiled")));
    return slot;
  }
  if (threads_.empty())
    for (int64_t i = 0; i < config::compile_threads(); ++i) threads_.emplace_back([this] { work(); });
  jobs_.push_back({std::move(key), name, std::move(text), slot});
  wake_.notify_one();
  return slot;
}

void Compiler::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    ++busy_;
    lock.unlock();
    try {
      job.binary->set(build(job));
    } catch (...) {
      job.binary->set(std::current_exception());
    }
    lock.lock();
    if (--busy_ == 0 && jobs_.empty()) idle_.notify_all();
  }
}

pjrt::Executable Compiler::build(const Job& job) {
  if (!config::dump_dir().empty()) dump(job);
  if (std::optional<std::string> bytes = disk_.load(job.key)) {
    try {
      pjrt::Executable executable = client_.deserialize(*bytes);
      log::line(log::Event::Cache, job.name, " from disk, ", job.key);
      std::lock_guard lock(mutex_);
      ++stats_.disk_hits;
      return executable;
    } catch (const Error& error) {
      log::line(log::Event::Cache, job.name, " on disk is not usable: ", error.what());
    }
  }
  const auto start = Clock::now();
  pjrt::Executable executable = [&] {
    try {
      return client_.compile(job.text, options(job.text));
    } catch (const Error& error) {
      fail(error.code(), job.name, ": the compiler refused its program: ", error.what());
    }
  }();
  const double seconds = seconds_since(start);
  log::line(log::Event::Compile, job.name, " in ", int(seconds * 1000), " ms, ", job.key);
  if (seconds > kLongSeconds && isatty(STDERR_FILENO) && !log::enabled(log::Event::Compile))
    log::write(log::Event::Compile, concat(job.name, " took ", int(seconds), " s to compile"));
  {
    std::lock_guard lock(mutex_);
    ++stats_.compiles;
    stats_.seconds += seconds;
  }
  if (disk_.enabled()) {
    try {
      disk_.store(job.key, executable.compiled().serialize());
    } catch (const Error& error) {
      log::line(log::Event::Cache, job.name, " can't be kept on disk: ", error.what());
    }
  }
  return executable;
}

const pjrt::CompileOptions& Compiler::options(const std::string& text) {
  if (client_.platform() != "cpu" || slow_without(text)) return options_;
  std::call_once(quick_made_, [this] {
    quick_ = options_;
    hlo::Builder b;
    const hlo::Value same[] = {b.param({DType::F32, {}})};
    // Debug options replace the defaults as a whole, so they start from those of a program compiled with none.
    std::string defaults = client_.compile(b.module(same), options_).compiled().debug_options();
    if (!defaults.empty()) quick_.debug = pjrt::with_backend_flags(std::move(defaults), kQuickFlags);
  });
  return quick_;
}

void Compiler::dump(const Job& job) const {
  std::error_code ignored;
  std::filesystem::create_directories(config::dump_dir(), ignored);
  std::string name = job.name;
  std::replace_if(name.begin(), name.end(), [](char c) { return c == ':' || c == '/'; }, '_');
  std::ofstream(std::filesystem::path(config::dump_dir()) / (name + "." + job.key.substr(0, 8) + ".mlir")) << job.text;
}

void Compiler::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return busy_ == 0 && jobs_.empty(); });
}

void Compiler::forget() {
  std::lock_guard lock(mutex_);
  binaries_.clear();
}

CompileStats Compiler::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Compiler::reset_stats() {
  std::lock_guard lock(mutex_);
  stats_ = {};
}

}  // namespace tpu::graph
