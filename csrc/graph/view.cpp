// Views resolved inside programs: slice, transpose and reshape where the strides allow, gather otherwise.
#include "graph/view.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace tpu::graph {

using hlo::Value;
using hlo::Values;

namespace {

// Dims of the view that matter (size above one, stride not zero), by falling stride.
std::vector<size_t> by_stride(const View& v) {
  std::vector<size_t> order;
  for (size_t d = 0; d < v.sizes.size(); ++d)
    if (v.sizes[d] != 1 && v.strides[d] != 0) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return v.strides[a] > v.strides[b]; });
  return order;
}

// How a view cuts its base: the flat base, padded to a multiple of the first stride, is reshaped to `dims`, of which
// the box [start, start + sizes) is taken; the last dim is the step between neighbours and is cut to one element.
struct Box {
  std::vector<size_t> order;  // view dims, by falling stride
  Dims dims, sizes;           // one for each of order, and the step at the end
  Dims strides;               // of dims, in elements of the flat base
};

// None where the strides don't divide each other or a row of the view would cross a row of the base.
std::optional<Box> box(int64_t base_count, const View& v) {
  Box b{.order = by_stride(v), .dims = {}, .sizes = {}, .strides = {}};
  int64_t rest = v.offset;
  int64_t outer = -1;  // the stride of the dim before
  for (size_t d : b.order) {
    const int64_t stride = v.strides[d];
    if (stride < 0 || (outer >= 0 && outer % stride != 0)) return std::nullopt;
    const int64_t start = rest / stride;
    const int64_t dim = outer < 0 ? std::max((base_count + stride - 1) / stride, start + v.sizes[d]) : outer / stride;
    if (start + v.sizes[d] > dim) return std::nullopt;
    b.dims.push_back(dim);
    b.sizes.push_back(v.sizes[d]);
    b.strides.push_back(stride);
    rest %= stride;
    outer = stride;
  }
  // What is left is the place within the innermost stride.
  const int64_t step = outer < 0 ? std::max(base_count, v.offset + 1) : outer;
  b.dims.push_back(step);
  b.sizes.push_back(1);
  b.strides.push_back(1);
  return b;
}

Value flat(Value base, int64_t count) {
  base = hlo::reshape(base, {base.count()});
  if (count <= base.count()) return base;
  return hlo::pad(base, hlo::scalar(base, 0.0), {0}, {count - base.count()}, {0});
}

Value number(Value like, int64_t v) { return hlo::constant(*like.builder, v, {DType::I64, {}}); }

// Where the box starts: the offset in mixed radix of the strides.
Values starts(Value base, const Box& b, std::optional<Value> offset) {
  Values result;
  for (size_t i = 0; i < b.dims.size(); ++i) {
    if (!offset) {
      result.push_back(number(base, 0));
      continue;
    }
    Value s = *offset;
    if (i > 0) s = hlo::remainder(s, number(base, b.strides[i - 1]));
    result.push_back(b.strides[i] == 1 ? s : hlo::divide(s, number(base, b.strides[i])));
  }
  return result;
}

// Positions of the view's elements in the flat base.
Value positions(Value base, const View& v, std::optional<Value> offset) {
  const Type type{DType::I64, Dims(v.sizes.begin(), v.sizes.end())};
  Value p = offset ? hlo::broadcast(*offset, type.dims) : hlo::constant(*base.builder, int64_t{0}, type);
  for (size_t d = 0; d < v.sizes.size(); ++d)
    if (v.strides[d] != 0 && v.sizes[d] != 1)
      p = p + hlo::iota(*base.builder, type, int64_t(d)) * hlo::constant(*base.builder, v.strides[d], type);
  return p;
}

// Dims of the boxed view brought into the view's own order, size-one and repeated dims put back.
Value arrange(Value x, const View& v, const std::vector<size_t>& order) {
  Dims kept;
  for (size_t d : order) kept.push_back(v.sizes[d]);
  x = hlo::reshape(x, kept);
  Dims permutation(order.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::sort(permutation.begin(), permutation.end(),
            [&](int64_t a, int64_t b) { return order[size_t(a)] < order[size_t(b)]; });
  x = hlo::transpose(x, permutation);
  Dims single, positions;
  bool repeats = false;
  for (size_t d = 0; d < v.sizes.size(); ++d) {
    const bool repeated = v.strides[d] == 0 && v.sizes[d] != 1;
    repeats = repeats || repeated;
    single.push_back(repeated ? 1 : v.sizes[d]);
  }
  x = hlo::reshape(x, single);
  return repeats ? hlo::broadcast(x, Dims(v.sizes.begin(), v.sizes.end())) : x;
}

// The other way: from the view's order to the box's.
Value boxed(Value x, const View& v, const Box& b) {
  Dims kept;
  std::vector<size_t> natural = b.order;
  std::sort(natural.begin(), natural.end());
  for (size_t d : natural) kept.push_back(v.sizes[d]);
  x = hlo::reshape(x, kept);
  Dims permutation;
  for (size_t d : b.order) permutation.push_back(std::find(natural.begin(), natural.end(), d) - natural.begin());
  return hlo::reshape(hlo::transpose(x, permutation), b.sizes);
}

// A plain cut of a base in its own dims, with steps: x[:, ::3].
std::optional<Value> strided_slice(Value base, const View& v) {
  const std::vector<size_t> order = by_stride(v);
  const Dims natural = row_major_strides(base.dims());
  Dims start(base.dims().size(), 0), limit(base.dims().size(), 0), step(base.dims().size(), 1);
  int64_t rest = v.offset;
  size_t next = 0;
  for (size_t d = 0; d < natural.size(); ++d) {
    start[d] = base.dim(int64_t(d)) == 1 ? 0 : rest / natural[d];
    if (base.dim(int64_t(d)) != 1) rest %= natural[d];
    limit[d] = start[d] + 1;
    const int64_t row = natural[d] * base.dim(int64_t(d));
    if (next < order.size() && v.strides[order[next]] < row && v.strides[order[next]] % natural[d] == 0 &&
        v.strides[order[next]] >= natural[d] && base.dim(int64_t(d)) != 1) {
      step[d] = v.strides[order[next]] / natural[d];
      limit[d] = start[d] + (v.sizes[order[next]] - 1) * step[d] + 1;
      ++next;
    }
    if (limit[d] > base.dim(int64_t(d))) return std::nullopt;
  }
  if (next != order.size() || rest != 0) return std::nullopt;
  return arrange(hlo::slice(base, start, limit, step), v, order);
}

}  // namespace

int64_t View::extent() const {
  int64_t last = offset;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

int64_t cut(int64_t base_count, const View& v) {
  const std::optional<Box> b = box(base_count, v);
  if (!b) return -1;
  return b->strides[0] == 1 && b->order.empty() ? b->dims[0] : b->dims[0] * b->strides[0] - base_count;
}

std::optional<Dims> memory_order(const View& v) {
  Dims order(v.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (v.count() == 0) return order;
  // Size-one dims may sit anywhere, so sort only those that matter and keep the others in their place.
  std::vector<size_t> matter = by_stride(v);
  for (size_t d = 0; d < v.sizes.size(); ++d)
    if (v.sizes[d] != 1 && v.strides[d] == 0) return std::nullopt;
  size_t next = 0;
  for (size_t d = 0; d < v.sizes.size(); ++d) order[d] = v.sizes[d] == 1 ? int64_t(d) : int64_t(matter[next++]);
  int64_t expected = 1;
  for (size_t i = matter.size(); i-- > 0;) {
    if (v.strides[matter[i]] != expected) return std::nullopt;
    expected *= v.sizes[matter[i]];
  }
  return order;
}

bool is_whole(const Shape& shape, const View& v) {
  if (v.offset != 0 || v.sizes.size() != shape.logical.size()) return false;
  int64_t step = 1;
  for (size_t d = v.sizes.size(); d-- > 0;) {
    if (v.sizes[d] != shape.logical[d]) return false;
    if (v.sizes[d] != 1 && v.strides[d] != step) return false;
    step *= v.sizes[d];
  }
  return true;
}

bool covers(const View& v, int64_t bytes) {
  return v.offset == 0 && v.count() * element_size(v.dtype) == bytes && (v.count() == 0 || memory_order(v));
}

Value read(Value base, const View& v, std::optional<Value> offset) {
  const Dims sizes(v.sizes.begin(), v.sizes.end());
  if (element_count(v.sizes) == 0) return hlo::constant(*base.builder, 0.0, {base.dtype(), sizes});
  if (v.extent() > base.count()) base = flat(base, v.extent());
  if (v.offset == 0 && v.count() == base.count() && memory_order(v)) return arrange(base, v, by_stride(v));
  if (!offset) {
    if (auto x = strided_slice(base, v)) return *x;
  }
  if (auto b = box(base.count(), v)) {
    Value x = hlo::reshape(flat(base, element_count(b->dims)), b->dims);
    if (!offset) {
      Dims limit = b->sizes;
      return arrange(hlo::slice(x, Dims(limit.size(), 0), limit, Dims(limit.size(), 1)), v, b->order);
    }
    return arrange(hlo::dynamic_slice(x, starts(base, *b, offset), b->sizes), v, b->order);
  }
  Value p = positions(base, v, offset);
  Dims index = p.dims();
  index.push_back(1);
  const hlo::GatherDims dims{.offset = {},
                             .collapsed = {0},
                             .operand_batch = {},
                             .index_batch = {},
                             .start_map = {0},
                             .index_vector = int64_t(v.sizes.size())};
  return hlo::gather(flat(base, 0), hlo::reshape(p, index), dims, {1}, sizes);
}

Value write(Value base, const View& v, std::optional<Value> offset, Value value) {
  if (element_count(v.sizes) == 0) return base;
  const int64_t count = std::max(base.count(), v.extent());
  const Dims dims = count == base.count() ? base.dims() : Dims{count};
  if (auto b = box(base.count(), v); b && !std::any_of(v.strides.begin(), v.strides.end(), [&](const int64_t& s) {
                                       return s == 0 && v.sizes[size_t(&s - v.strides.data())] != 1;
                                     })) {
    const int64_t padded = element_count(b->dims);
    Value x = hlo::reshape(flat(base, padded), b->dims);
    x = hlo::dynamic_update_slice(x, boxed(value, v, *b), starts(base, *b, offset));
    x = hlo::reshape(x, {padded});
    return hlo::reshape(hlo::slice(x, 0, 0, count), dims);
  }
  const int64_t n = v.count();
  Value p = hlo::reshape(positions(base, v, offset), {n, 1});
  const hlo::ScatterDims scatter{
      .window = {}, .inserted = {0}, .operand_batch = {}, .index_batch = {}, .to_operand = {0}, .index_vector = 1};
  Value x = hlo::scatter(
      flat(base, count), p, hlo::reshape(value, {n}), scatter, [](const Values& pair) { return Values{pair[1]}; },
      true);
  return hlo::reshape(x, dims);
}

}  // namespace tpu::graph
