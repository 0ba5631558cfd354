// The table of interned shapes.
#include "graph/shape.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tpu::graph {

const Shape* shape(const Type& physical, const Dims& logical) {
  static std::mutex mutex;  // guards table
  static auto* table = new std::unordered_map<std::string, std::unique_ptr<const Shape>>;
  std::string name(1, char(physical.dtype));
  name.append(reinterpret_cast<const char*>(physical.dims.data()), physical.dims.size() * sizeof(int64_t));
  name.append(reinterpret_cast<const char*>(logical.data()), logical.size() * sizeof(int64_t));
  std::lock_guard lock(mutex);
  auto& slot = (*table)[std::move(name)];
  if (!slot) slot = std::make_unique<const Shape>(Shape{physical, logical});
  return slot.get();
}

}  // namespace tpu::graph
