// Programs by key: the first tier of caching, in memory.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "graph/program.h"

namespace tpu::graph {

// Any thread may call its functions. Programs are never dropped while others may run them: clear() keeps them aside.
class Cache {
 public:
  // Null where the key is new.
  const Program* find(std::string_view key);
  // Keeps the first program of a key and gives it back.
  const Program* insert(std::string_view key, Program program);
  void clear();
  int64_t size();

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
  };
  using Map = std::unordered_map<std::string, std::unique_ptr<Program>, Hash, std::equal_to<>>;
  std::mutex mutex_;  // guards all below
  Map programs_;
  std::vector<std::unique_ptr<Program>> retired_;
};

}  // namespace tpu::graph
