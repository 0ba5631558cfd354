// Compiled programs kept between runs: a directory of files named by key, shared by processes and limited in size.
//
// A file is written beside its place and renamed into it, so readers see all of it or nothing. What is damaged counts
// as missing and is removed. Trouble with the directory never stops the work: it costs one warning, and compile time.
// Any thread may call any of these.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace tpu::graph {

struct DiskStats {
  int64_t hits = 0, misses = 0, stores = 0;  // of this process
  int64_t files = 0, bytes = 0;              // in the directory now, by anyone
};

class Disk {
 public:
  // As TORCH_TPU_CACHE_DIR and TORCH_TPU_CACHE_SIZE say.
  Disk();
  // An empty directory or no capacity: loads nothing, stores nothing. Touches no file until it is used.
  Disk(std::string directory, int64_t capacity);

  bool enabled() const { return !directory_.empty(); }
  const std::string& directory() const { return directory_; }

  // What was stored under the key, which is 32 hex digits (see base/hash.h).
  std::optional<std::string> load(const std::string& key);
  void store(const std::string& key, std::string_view bytes);
  // Removes what was unused for longest until the directory is well below its capacity, and what writers that died
  // left behind. store() calls it when due.
  void prune();

  DiskStats stats() const;  // reads the directory
  void reset_stats();

 private:
  bool write(const std::string& key, std::string_view bytes);
  // Warns once, and stops storing.
  void give_up(const std::string& reason);

  std::string directory_;
  int64_t capacity_ = 0;
  std::atomic<int64_t> hits_{0}, misses_{0}, stores_{0};
  std::atomic<bool> writable_{true};
  std::mutex mutex_;       // guards the two below, and lets one thread prune at a time
  int64_t estimate_ = -1;  // bytes in the directory, as far as this process knows; negative before the first look
  int64_t stores_unchecked_ = 0;  // since the last look
};

// What the processor of this machine can do, hashed. A compiled program may need all of it, so it is part of the key.
const std::string& machine_features();

}  // namespace tpu::graph
