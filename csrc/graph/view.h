// A cell seen through sizes, strides and offset, and how such a view is read and written inside a program.
#pragma once

#include <optional>
#include <span>

#include "graph/shape.h"
#include "hlo/hlo.h"

namespace tpu::graph {

// Borrowed from the tensor that was given. Strides and offset are in elements.
struct View {
  DType dtype = DType::F32;
  std::span<const int64_t> sizes, strides;
  int64_t offset = 0;

  int64_t count() const { return element_count(sizes); }
  // One past the last element it reaches; 0 for an empty view.
  int64_t extent() const;
};

// The dims of v in the order of its memory when it covers one unbroken stretch: the permutation that sorts its dims by
// falling stride. None where the view overlaps itself or leaves gaps.
std::optional<Dims> memory_order(const View& v);

// Whether v is the array itself: same dims, row-major, no offset.
bool is_whole(const Shape& shape, const View& v);
// Whether v reaches every element of a storage of `bytes`, each once: what was there before does not matter.
bool covers(const View& v, int64_t bytes);

// Tells apart the ways in which views of equal sizes and strides but different offsets are cut out of an array of
// `base_count` elements; equal numbers share a program. Only for views with an offset.
int64_t cut(int64_t base_count, const View& v);

// `offset` is an i64 scalar of the program: views that differ only by it share a program.
hlo::Value read(hlo::Value base, const View& v, std::optional<hlo::Value> offset);
// The array after `value` was written through the view.
hlo::Value write(hlo::Value base, const View& v, std::optional<hlo::Value> offset, hlo::Value value);

}  // namespace tpu::graph
