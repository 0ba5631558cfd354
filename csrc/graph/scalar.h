// Numbers that flow into programs at run time, as 0-d device arrays that are kept and shared.
#pragma once

#include <complex>

#include "graph/array.h"

namespace tpu::graph {

// The array that holds `v` in dtype t. May be called from any thread.
ArrayRef scalar(DType t, int64_t v, int device);
ArrayRef scalar(DType t, double v, int device);
ArrayRef scalar(DType t, std::complex<double> v, int device);
// Forgets what is kept.
void clear_scalars();

}  // namespace tpu::graph
