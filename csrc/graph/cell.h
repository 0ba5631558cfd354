// What a storage holds.
#pragma once

#include "graph/array.h"

namespace tpu::graph {

// Owned by its storage and guarded as PyTorch guards storages: readers may share it, a writer needs it alone. Writing
// replaces the array, so that every tensor over the storage sees it.
struct Cell {
  ArrayRef array;     // null: never written, reads as zeros
  int64_t bytes = 0;  // of the storage; an array may hold fewer, what it lacks reads as zeros
  int device = 0;
};

}  // namespace tpu::graph
