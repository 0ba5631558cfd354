// What an array looks like: the dims it has on the device, and the dims that count.
#pragma once

#include "base/type.h"

namespace tpu::graph {

// Interned: two equal shapes have one address, which stands for the shape in every key. Never freed.
struct Shape {
  Type physical;  // as the plugin sees it
  Dims logical;   // at most the physical dims; what lies beyond is padding

  DType dtype() const { return physical.dtype; }
  int64_t count() const { return element_count(logical); }
  int64_t bytes() const { return physical.bytes(); }
};

// May be called from any thread.
const Shape* shape(const Type& physical, const Dims& logical);
inline const Shape* shape(const Type& type) { return shape(type, type.dims); }

}  // namespace tpu::graph
