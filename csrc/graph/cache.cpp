// The table of programs.
#include "graph/cache.h"

namespace tpu::graph {

const Program* Cache::find(std::string_view key) {
  std::lock_guard lock(mutex_);
  auto it = programs_.find(key);
  return it == programs_.end() ? nullptr : it->second.get();
}

const Program* Cache::insert(std::string_view key, Program program) {
  std::lock_guard lock(mutex_);
  auto [it, added] = programs_.try_emplace(std::string(key));
  if (added) it->second = std::make_unique<Program>(std::move(program));
  return it->second.get();
}

void Cache::clear() {
  std::lock_guard lock(mutex_);
  for (auto& [key, program] : programs_) retired_.push_back(std::move(program));
  programs_.clear();
}

int64_t Cache::size() {
  std::lock_guard lock(mutex_);
  return int64_t(programs_.size());
}

}  // namespace tpu::graph
