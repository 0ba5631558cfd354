// Gets the executable of a module: from memory, from the disk, or from the plugin's compiler, on threads of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "graph/disk.h"
#include "graph/program.h"
#include "pjrt/client.h"

namespace tpu::graph {

struct CompileStats {
  int64_t compiles = 0;     // by the plugin
  double seconds = 0;       // spent in the plugin's compiler, summed over threads
  int64_t disk_hits = 0;    // loaded instead
  int64_t memory_hits = 0;  // the same module under another key
};

// Any thread may call its functions.
class Compiler {
 public:
  Compiler(pjrt::Client& client, Disk& disk);
  ~Compiler();

  // Returns at once; the binary arrives. Equal texts share one.
  Ref<Binary> compile(const std::string& name, std::string text);
  // Ends the threads: compiles under way are waited for, the others fail.
  void stop();
  // Waits for the compiles that are under way.
  void drain();
  void forget();
  CompileStats stats() const;
  void reset_stats();

 private:
  struct Job {
    std::string key, name, text;
    Ref<Binary> binary;
  };
  void work();
  pjrt::Executable build(const Job& job);
  void dump(const Job& job) const;
  const pjrt::CompileOptions& options(const std::string& text);

  pjrt::Client& client_;
  Disk& disk_;
  const pjrt::CompileOptions options_;
  pjrt::CompileOptions quick_;  // for programs that compile faster by other means and run as fast
  std::once_flag quick_made_;
  const std::string fingerprint_;  // of plugin, machine and options: part of every key on disk
  mutable std::mutex mutex_;       // guards all below
  std::condition_variable wake_, idle_;
  std::deque<Job> jobs_;
  std::unordered_map<std::string, Ref<Binary>> binaries_;  // by key
  std::vector<std::thread> threads_;                       // started with the first job
  CompileStats stats_;
  int busy_ = 0;
  bool stop_ = false;
};

}  // namespace tpu::graph
