// Bytes between host and chips.
#pragma once

#include "graph/array.h"

namespace tpu::device {

// An array with these row-major elements, which are copied before the call returns.
graph::ArrayRef upload(const void* data, const Type& type, int device);
// Waits for the array and copies all of its elements. Python's lock is given up meanwhile.
void download(const graph::ArrayRef& array, void* data);
// The same array on another chip; does not wait for it to be computed.
graph::ArrayRef transfer(const graph::ArrayRef& array, int device);

}  // namespace tpu::device
