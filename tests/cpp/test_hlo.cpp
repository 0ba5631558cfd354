// The builder: its modules compile on the plugin, and give the right values.
#include "hlo/hlo.h"

#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <map>
#include <numeric>

#include "chip.h"
#include "test.h"

namespace tpu::test {
namespace {

using namespace tpu::hlo;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Runs what `build` makes of parameters with these elements; gives the elements of its outputs.
template <class Out, class In>
std::vector<std::vector<Out>> outputs(const std::vector<Type>& types, const std::vector<std::vector<In>>& inputs,
                                      const Body& build, hlo::Options options = {}) {
  Builder b(options);
  Values params;
  for (const Type& type : types) params.push_back(b.param(type));
  if (params.empty()) params.push_back({&b, -1, {}, false});  // a builder is all that constants need
  std::string text = b.module(build(params));
  pjrt::Executable program = chip().compile(text, pjrt::default_options(chip().platform()));
  std::vector<pjrt::Buffer> buffers, results;
  std::vector<PJRT_Buffer*> in, out(program.output_count());
  for (size_t i = 0; i < types.size(); ++i) {
    CHECK_EQUAL(int64_t(inputs[i].size()), types[i].count());
    buffers.push_back(chip().from_host(inputs[i].data(), types[i], 0));
    in.push_back(buffers.back().get());
  }
  program.execute(in, out, chip().device(0).handle);
  for (PJRT_Buffer* handle : out) results.push_back(chip().adopt(handle));
  std::vector<std::vector<Out>> elements;
  for (const pjrt::Buffer& result : results) elements.push_back(host<Out>(result));
  return elements;
}

template <class Out = float, class In = float>
std::vector<Out> output(const std::vector<Type>& types, const std::vector<std::vector<In>>& inputs,
                        const std::function<Value(const Values&)>& build) {
  return outputs<Out, In>(types, inputs, [&](const Values& v) { return Values{build(v)}; })[0];
}

Type f32(Dims dims) { return {DType::F32, std::move(dims)}; }
Type i64(Dims dims) { return {DType::I64, std::move(dims)}; }

void near(const Floats& x, const Floats& y, double tolerance = 1e-5) {
  CHECK_EQUAL(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])) ||
                std::abs(x[i] - y[i]) <= tolerance * (1 + std::abs(y[i]));
    if (!same) failed(__FILE__, __LINE__, concat("element ", i, ": ", x[i], " is not ", y[i]));
  }
}

Floats count_up(int64_t n) {
  Floats x(static_cast<size_t>(n));
  std::iota(x.begin(), x.end(), 0.0f);
  return x;
}

void constants() {
  test("constants of every dtype", [] {
    Builder b;
    Values all;
    std::vector<Type> types;
    for (int i = 0; i <= int(DType::C128); ++i) {
      types.push_back({DType(i), {2}});
      all.push_back(hlo::constant(b, int64_t{1}, types.back()));
    }
    pjrt::Executable program = chip().compile(b.module(all), pjrt::default_options(chip().platform()));
    CHECK(program.compiled().outputs() == types);
    auto out = run(program, {});
    CHECK(host<uint16_t>(out[size_t(DType::BF16)]) == std::vector<uint16_t>(2, 0x3f80));
    CHECK(host<double>(out[size_t(DType::F64)]) == std::vector<double>(2, 1.0));
    CHECK(host<std::complex<double>>(out[size_t(DType::C128)]) == std::vector<std::complex<double>>(2, 1.0));
  });
  test("special floats", [] {
    auto build = [](const Values& v) {
      Values all;
      for (double x : {double(kInf), -double(kInf), double(kNan), -0.0, 1e-45, 3.4028234663852886e38, 0.1}) {
        all.push_back(hlo::constant(*v[0].builder, x, f32({1})));
      }
      return concatenate(all, 0);
    };
    Floats out = output({}, std::vector<Floats>{}, build);
    near(out, {kInf, -kInf, kNan, 0, 1e-45f, 3.4028234663852886e38f, 0.1f}, 0);
    CHECK(std::signbit(out[3]));
  });
  test("special floats of narrow types", [] {
    for (DType t : {DType::F64, DType::F16, DType::BF16, DType::F8E5M2}) {
      Floats out = output({}, std::vector<Floats>{}, [&](const Values& v) {
        Values all;
        for (double x : {double(kInf), -double(kInf), double(kNan), 0.5}) {
          all.push_back(hlo::constant(*v[0].builder, x, {t, {1}}));
        }
        return convert(concatenate(all, 0), DType::F32);
      });
      near(out, {kInf, -kInf, kNan, 0.5f}, 0);
    }
  });
  test("limits", [] {
    auto limits = [](DType t) {
      return output<int64_t, float>({}, {}, [&](const Values& v) {
        Builder& b = *v[0].builder;
        return convert(concatenate({reshape(lowest(b, t), {1}), reshape(highest(b, t), {1})}, 0), DType::I64);
      });
    };
    CHECK(limits(DType::I64) == (Ints{INT64_MIN, INT64_MAX}));
    CHECK(limits(DType::I32) == (Ints{INT32_MIN, INT32_MAX}));
    CHECK(limits(DType::I8) == (Ints{-128, 127}));
    CHECK(limits(DType::U8) == (Ints{0, 255}));
    CHECK(limits(DType::U32) == (Ints{0, UINT32_MAX}));
    CHECK(limits(DType::U64) == (Ints{0, -1}));
    CHECK(limits(DType::Pred) == (Ints{0, 1}));
    near(output({}, std::vector<Floats>{},
                [](const Values& v) {
                  Builder& b = *v[0].builder;
                  return concatenate({reshape(lowest(b, DType::F32), {1}), reshape(highest(b, DType::F32), {1})}, 0);
                }),
         {-kInf, kInf});
  });
  test("lists of integers and iota", [] {
    Ints list = {3, -1, INT64_MAX};
    CHECK(output<int64_t>({}, std::vector<Floats>{},
                          [&](const Values& v) { return hlo::constant(*v[0].builder, list, DType::I64); }) == list);
    CHECK(output({}, std::vector<Floats>{}, [](const Values& v) { return iota(*v[0].builder, f32({2, 3}), 1); }) ==
          (Floats{0, 1, 2, 0, 1, 2}));
  });
}

void elementwise() {
  test("one operand", [] {
    struct Case {
      Value (*op)(Value);
      float (*truth)(float);
    };
    auto half_even = [](float x) { return std::nearbyint(x); };
    const std::vector<Case> cases = {
        {hlo::abs, std::fabs},
        {hlo::cbrt, std::cbrt},
        {hlo::ceil, std::ceil},
        {cosine, std::cos},
        {exponential, std::exp},
        {hlo::expm1, std::expm1},
        {hlo::floor, std::floor},
        {hlo::log, std::log},
        {hlo::log1p, std::log1p},
        {logistic, [](float x) { return 1 / (1 + std::exp(-x)); }},
        {negate, [](float x) { return -x; }},
        {round_half_away, std::round},
        {round_half_even, half_even},
        {hlo::rsqrt, [](float x) { return 1 / std::sqrt(x); }},
        {hlo::sign, [](float x) { return float((x > 0) - (x < 0)); }},
        {sine, std::sin},
        {hlo::sqrt, std::sqrt},
        {hlo::tan, std::tan},
        {hlo::tanh, std::tanh},
    };
    Floats x = {-2.5f, -1, -0.5f, 0, 0.5f, 1.5f, 2, 7.25f};
    auto results = outputs<float, float>({f32({8})}, {x}, [&](const Values& v) {
      Values all;
      for (const Case& c : cases) all.push_back(c.op(v[0]));
      return all;
    });
    for (size_t i = 0; i < cases.size(); ++i) {
      Floats truth;
      for (float e : x) truth.push_back(cases[i].truth(e));
      near(results[i], truth, 1e-4);
    }
  });
  test("two operands", [] {
    struct Case {
      Value (*op)(Value, Value);
      float (*truth)(float, float);
    };
    const std::vector<Case> cases = {
        {hlo::add, [](float x, float y) { return x + y; }},
        {hlo::atan2, std::atan2},
        {hlo::divide, [](float x, float y) { return x / y; }},
        {hlo::maximum, std::fmax},
        {hlo::minimum, std::fmin},
        {hlo::multiply, [](float x, float y) { return x * y; }},
        {hlo::power, std::pow},
        {hlo::remainder, std::fmod},
        {hlo::subtract, [](float x, float y) { return x - y; }},
    };
    Floats x = {1, 2, 7.5f, -3, 0.25f}, y = {2, -3, 2, 2, 4};
    auto results = outputs<float, float>({f32({5}), f32({5})}, {x, y}, [&](const Values& v) {
      Values all;
      for (const Case& c : cases) all.push_back(c.op(v[0], v[1]));
      return all;
    });
    for (size_t i = 0; i < cases.size(); ++i) {
      Floats truth;
      for (size_t k = 0; k < x.size(); ++k) truth.push_back(cases[i].truth(x[k], y[k]));
      near(results[i], truth, 1e-4);
    }
  });
  test("NaN wins in maximum and minimum", [] {
    auto results = outputs<float, float>({f32({2}), f32({2})}, {{kNan, 1}, {1, kNan}}, [](const Values& v) {
      return Values{maximum(v[0], v[1]), minimum(v[0], v[1])};
    });
    for (const Floats& r : results) CHECK(std::isnan(r[0]) && std::isnan(r[1]));
  });
  test("bits", [] {
    auto results = outputs<int64_t, int64_t>({i64({3}), i64({3})}, {{12, -1, -8}, {10, 1, 2}}, [](const Values& v) {
      return Values{and_(v[0], v[1]),
                    or_(v[0], v[1]),
                    xor_(v[0], v[1]),
                    shift_left(v[0], v[1]),
                    shift_right_arithmetic(v[0], v[1]),
                    shift_right_logical(v[0], v[1]),
                    not_(v[0]),
                    popcnt(v[0]),
                    count_leading_zeros(v[0])};
    });
    CHECK(results[0] == (Ints{8, 1, 0}));
    CHECK(results[1] == (Ints{14, -1, -6}));
    CHECK(results[2] == (Ints{6, -2, -6}));
    CHECK(results[3] == (Ints{12288, -2, -32}));
    CHECK(results[4] == (Ints{0, -1, -2}));
    CHECK(results[5] == (Ints{0, INT64_MAX, int64_t(uint64_t(-8) >> 2)}));
    CHECK(results[6] == (Ints{-13, 0, 7}));
    CHECK(results[7] == (Ints{2, 64, 61}));
    CHECK(results[8] == (Ints{60, 0, 0}));
  });
  test("comparisons and select", [] {
    const std::vector<std::pair<Compare, std::array<bool, 4>>> cases = {
        {Compare::EQ, {false, true, false, false}}, {Compare::NE, {true, false, true, true}},
        {Compare::GE, {false, true, true, false}},  {Compare::GT, {false, false, true, false}},
        {Compare::LE, {true, true, false, false}},  {Compare::LT, {true, false, false, false}},
    };
    auto results = outputs<float, float>({f32({4}), f32({4})}, {{1, 2, 3, kNan}, {2, 2, 2, 2}}, [&](const Values& v) {
      Values all;
      for (auto& [direction, truth] : cases) {
        all.push_back(select(compare(v[0], v[1], direction), like(v[0], 1.0), like(v[0], 0.0)));
      }
      return all;
    });
    for (size_t i = 0; i < cases.size(); ++i) {
      for (size_t k = 0; k < 4; ++k) CHECK_EQUAL(results[i][k], float(cases[i].second[k]));
    }
    CHECK(output({f32({}), f32({3}), f32({})}, std::vector<Floats>{{0}, {-1, 0.5f, 9}, {1}},
                 [](const Values& v) { return clamp(v[0], v[1], v[2]); }) == (Floats{0, 0.5f, 1}));
  });
  test("complex numbers", [] {
    auto results = outputs<float, float>({f32({2}), f32({2})}, {{3, 0}, {4, -2}}, [](const Values& v) {
      Value z = hlo::complex(v[0], v[1]);
      Value square = z * z;
      return Values{hlo::abs(z), hlo::real(square), hlo::imag(square), convert(z, DType::F32)};
    });
    near(results[0], {5, 2});
    near(results[1], {-7, -4});
    near(results[2], {24, 0});
    near(results[3], {3, 0});
  });
  test("chlo", [] {
    const std::vector<std::pair<std::string, float (*)(float)>> cases = {
        {"erf", std::erf},     {"lgamma", std::lgamma}, {"acos", std::acos}, {"asin", std::asin}, {"atan", std::atan},
        {"asinh", std::asinh}, {"atanh", std::atanh},   {"cosh", std::cosh}, {"sinh", std::sinh},
    };
    Floats x = {0.1f, 0.5f, 0.9f};
    auto results = outputs<float, float>({f32({3})}, {x}, [&](const Values& v) {
      Values all;
      for (auto& [name, truth] : cases) all.push_back(chlo(name, {v[0]}));
      for (const char* name : {"digamma", "erf_inv", "bessel_i1e"}) all.push_back(chlo(name, {v[0]}));
      all.push_back(chlo("zeta", {v[0] + 2.0, v[0]}));
      all.push_back(chlo("polygamma", {like(v[0], 1.0), v[0]}));
      all.push_back(chlo("next_after", {v[0], like(v[0], 2.0)}));
      all.push_back(chlo("acosh", {v[0] + 1.0}));
      return all;
    });
    for (size_t i = 0; i < cases.size(); ++i) {
      Floats truth;
      for (float e : x) truth.push_back(cases[i].second(e));
      near(results[i], truth, 1e-4);
    }
    near(results.back(), {std::acosh(1.1f), std::acosh(1.5f), std::acosh(1.9f)}, 1e-4);
  });
  test("casts as PyTorch's", [] {
    Floats x = {0, -0.5f, 2.7f, -2.7f, 300};
    auto cast = [&](DType t) {
      return output<int64_t>({f32({5})}, std::vector<Floats>{x},
                             [&](const Values& v) { return convert(convert(v[0], t), DType::I64); });
    };
    CHECK(cast(DType::I32) == (Ints{0, 0, 2, -2, 300}));
    CHECK(cast(DType::Pred) == (Ints{0, 1, 1, 1, 1}));
    CHECK(output({f32({1})}, std::vector<Floats>{{1.00390625f}},
                 [](const Values& v) { return convert(convert(v[0], DType::BF16), DType::F32); }) == Floats{1.0f});
    CHECK(output<int32_t>({f32({1})}, std::vector<Floats>{{1}}, [](const Values& v) {
            return bitcast(v[0], {DType::I32, {1}});
          }) == std::vector<int32_t>{0x3f800000});
  });
}

void shapes() {
  const Type grid = f32({2, 3});
  auto with_grid = [grid](const std::function<Value(Value)>& build) {
    return output({grid}, std::vector<Floats>{count_up(6)}, [&](const Values& v) { return build(v[0]); });
  };
  test("moving elements", [=] {
    CHECK(with_grid([](Value x) { return transpose(x, {1, 0}); }) == (Floats{0, 3, 1, 4, 2, 5}));
    CHECK(with_grid([](Value x) { return reshape(x, {3, 2, 1}); }) == count_up(6));
    CHECK(with_grid([](Value x) { return slice(x, {0, 0}, {2, 3}, {1, 2}); }) == (Floats{0, 2, 3, 5}));
    CHECK(with_grid([](Value x) { return slice(x, 0, 1, 2); }) == (Floats{3, 4, 5}));
    CHECK(with_grid([](Value x) { return reverse(x, {1}); }) == (Floats{2, 1, 0, 5, 4, 3}));
    CHECK(with_grid([](Value x) { return concatenate({slice(x, 1, 2, 3), slice(x, 1, 0, 1)}, 1); }) ==
          (Floats{2, 0, 5, 3}));
    CHECK(with_grid([](Value x) { return pad(slice(x, 0, 0, 1), scalar(x, 9.0), {0, 1}, {0, -1}, {0, 1}); }) ==
          (Floats{9, 0, 9, 1, 9}));
    CHECK(with_grid([](Value x) { return broadcast(slice(x, 1, 0, 1), {2, 2, 2}); }) ==
          (Floats{0, 0, 3, 3, 0, 0, 3, 3}));
    CHECK(with_grid([](Value x) { return broadcast_in_dim(x, {3, 2}, {1, 0}); }) == (Floats{0, 3, 1, 4, 2, 5}));
  });
  test("slices at run time", [=] {
    CHECK(with_grid([](Value x) {
            Value one = hlo::constant(*x.builder, int64_t{1}, i64({}));
            return dynamic_update_slice(x, dynamic_slice(x, {one, one}, {1, 2}) + 10.0,
                                        {hlo::constant(*x.builder, int64_t{0}, i64({})), one});
          }) == (Floats{0, 14, 15, 3, 4, 5}));
  });
}

void contractions() {
  test("dot", [] {
    Floats x = count_up(6), y = count_up(12);
    near(output({f32({2, 3}), f32({3, 4})}, std::vector<Floats>{x, y},
                [](const Values& v) { return dot(v[0], v[1], {{}, {}, {1}, {0}}, DType::F32); }),
         {20, 23, 26, 29, 56, 68, 80, 92});
    // Batch first, then the free dims of x, then those of y.
    near(output({f32({2, 3}), f32({4, 3})}, std::vector<Floats>{x, y},
                [](const Values& v) { return dot(v[0], v[1], {{1}, {1}, {}, {}}, DType::F32); }),
         {0, 0, 0, 0, 0, 9, 18, 27, 1, 4, 7, 10, 4, 16, 28, 40, 4, 10, 16, 22, 10, 25, 40, 55});
  });
  test("dot with a wide accumulator, under each precision", [] {
    for (Precision precision : {Precision::Default, Precision::High, Precision::Highest}) {
      auto results = outputs<float, float>({f32({1, 512}), f32({512, 1})}, {Floats(512, 1.0f), Floats(512, 1.0f)},
                                           [](const Values& v) {
                                             Value x = convert(v[0], DType::BF16), y = convert(v[1], DType::BF16);
                                             return Values{dot(v[0], v[1], {{}, {}, {1}, {0}}, DType::F32),
                                                           dot(x, y, {{}, {}, {1}, {0}}, DType::F32)};
                                           },
                                           {.precision = precision});
      CHECK_EQUAL(results[0][0], 512);
      CHECK_EQUAL(results[1][0], 512);
    }
  });
  test("convolution", [] {
    Convolution c{.stride = {1},
                  .low = {1},
                  .high = {1},
                  .dilation = {1},
                  .input_dilation = {1},
                  .input_order = {},
                  .kernel_order = {},
                  .output_order = {},
                  .reverse = {}};
    auto convolve = [](const Convolution& how, Type kernel, const Floats& weights) {
      return output({f32({1, 2, 4}), kernel}, std::vector<Floats>{count_up(8), weights},
                    [&](const Values& v) { return convolution(v[0], v[1], how, DType::F32); });
    };
    near(convolve(c, f32({1, 2, 3}), {1, 0, 0, 0, 0, 1}), {5, 6, 8, 2});
    c.groups = 2;
    near(convolve(c, f32({2, 1, 3}), {1, 0, 0, 0, 0, 1}), {0, 0, 1, 2, 5, 6, 7, 0});
    c.groups = 1;
    c.stride = {2};
    near(convolve(c, f32({1, 2, 3}), {1, 0, 0, 0, 0, 1}), {5, 8});
    c.stride = {1};
    c.reverse = {true};
    near(convolve(c, f32({1, 2, 3}), {0, 0, 1, 1, 0, 0}), {5, 6, 8, 2});
  });
}

void reductions() {
  test("reduce", [] {
    Floats x = count_up(6);
    auto reduced = [&](const char* op, double init, const Dims& dims) {
      return output({f32({2, 3})}, std::vector<Floats>{x},
                    [&](const Values& v) { return reduce(v[0], op, scalar(v[0], init), dims); });
    };
    CHECK(reduced("add", 0, {1}) == (Floats{3, 12}));
    CHECK(reduced("add", 0, {0, 1}) == (Floats{15}));
    CHECK(reduced("maximum", -1, {0}) == (Floats{3, 4, 5}));
    CHECK(reduced("multiply", 1, {0}) == (Floats{0, 4, 10}));
  });
  test("reduce of several arrays: the place of the largest", [] {
    auto results = outputs<float, float>({f32({4})}, {{3, 9, 2, 9}}, [](const Values& v) {
      Value place = iota(*v[0].builder, f32({4}), 0);
      return reduce({v[0], place}, {scalar(v[0], -1.0), scalar(v[0], -1.0)}, {0}, [](const Values& a) {
        Value keep = a[0] >= a[2];
        return Values{select(keep, a[0], a[2]), select(keep, a[1], a[3])};
      });
    });
    CHECK(results[0] == Floats{9});
    CHECK(results[1] == Floats{1});
  });
  test("windows", [] {
    CHECK(output({f32({5})}, std::vector<Floats>{count_up(5)}, [](const Values& v) {
            return reduce_window(v[0], "add", scalar(v[0], 0.0), {{2}, {2}, {0}, {1}, {1}});
          }) == (Floats{1, 5, 4}));
    CHECK(output({f32({4})}, std::vector<Floats>{count_up(4)}, [](const Values& v) {
            return reduce_window({v[0]}, {scalar(v[0], 0.0)}, {{4}, {1}, {3}, {0}, {1}},
                                 [](const Values& a) { return Values{a[0] + a[1]}; })[0];
          }) == (Floats{0, 1, 3, 6}));
  });
}

void indexing() {
  test("gather rows", [] {
    CHECK(output({f32({3, 2}), f32({2})}, std::vector<Floats>{count_up(6), {2, 0}}, [](const Values& v) {
            Value index = convert(v[1], DType::I64);
            return gather(v[0], index,
                          {.offset = {1},
                           .collapsed = {0},
                           .operand_batch = {},
                           .index_batch = {},
                           .start_map = {0},
                           .index_vector = 1},
                          {1, 2}, {2, 2});
          }) == (Floats{4, 5, 0, 1}));
  });
  test("scatter adds where places repeat", [] {
    CHECK(output({f32({3}), f32({3}), f32({3})}, std::vector<Floats>{{0, 10, 20}, {1, 1, 2}, {1, 2, 3}},
                 [](const Values& v) {
                   Value index = reshape(convert(v[1], DType::I64), {3, 1});
                   return scatter(v[0], index, v[2],
                                  {.window = {},
                                   .inserted = {0},
                                   .operand_batch = {},
                                   .index_batch = {},
                                   .to_operand = {0},
                                   .index_vector = 1},
                                  [](const Values& a) { return Values{a[0] + a[1]}; });
                 }) == (Floats{0, 13, 23}));
  });
  test("sort carries other arrays along, stable", [] {
    auto results = outputs<float, float>({f32({4})}, {{2, 1, 2, 0}}, [](const Values& v) {
      return sort({v[0], iota(*v[0].builder, f32({4}), 0)}, 0, true,
                  [](const Values& a) { return Values{a[0] < a[1]}; });
    });
    CHECK(results[0] == (Floats{0, 1, 2, 2}));
    CHECK(results[1] == (Floats{3, 1, 0, 2}));
  });
}

void control() {
  test("while", [] {
    auto results = outputs<float, float>({f32({})}, {{1}}, [](const Values& v) {
      return while_loop(
          {v[0], scalar(v[0], 0.0)}, [](const Values& a) { return Values{a[0] < like(a[0], 100.0)}; },
          [](const Values& a) { return Values{a[0] * 2.0, a[1] + 1.0}; });
    });
    CHECK(results[0] == Floats{128});
    CHECK(results[1] == Floats{7});
  });
  test("random bits depend on the state alone", [] {
    for (RngAlgorithm algorithm : {RngAlgorithm::Philox, RngAlgorithm::ThreeFry}) {
      auto bits = [&](int64_t seed) {
        return outputs<int64_t, int64_t>({i64({2})}, {{seed, 0}}, [&](const Values& v) {
          auto [state, bits] = rng_bit_generator(bitcast(v[0], {DType::U64, {2}}), {DType::U64, {1000}}, algorithm);
          return Values{state, bits};
        });
      };
      CHECK(bits(1) == bits(1));
      CHECK(bits(1)[1] != bits(2)[1]);
      CHECK(bits(1)[0] != (Ints{1, 0}));
    }
  });
  test("linear algebra", [] {
    near(output({f32({2, 2})}, std::vector<Floats>{{4, 2, 2, 5}},
                [](const Values& v) {
                  Value lower = iota(*v[0].builder, f32({2, 2}), 0) >= iota(*v[0].builder, f32({2, 2}), 1);
                  return select(lower, cholesky(v[0], true), like(v[0], 0.0));
                }),
         {2, 0, 1, 2});
    near(output({f32({2, 2}), f32({2, 1})}, std::vector<Floats>{{2, 0, 1, 4}, {2, 9}},
                [](const Values& v) { return triangular_solve(v[0], v[1], true, true, false, false); }),
         {1, 2});
    near(output({f32({4})}, std::vector<Floats>{{1, 0, 0, 0}},
                [](const Values& v) { return hlo::real(fft(v[0], "RFFT", {4})); }),
         {1, 1, 1});
  });
  test("barriers change nothing", [] {
    CHECK(output({f32({6})}, std::vector<Floats>{count_up(6)},
                 [](const Values& v) { return optimization_barrier({v[0]})[0]; }) == count_up(6));
  });
}

void modules() {
  test("a parameter's memory goes to an output", [] {
    Builder b;
    Value x = b.param(f32({1000})), y = b.param(f32({1000}));
    b.alias(1, 0);
    Value sum = x + y;
    std::string text = b.module(std::array{sum});
    CHECK_EQUAL(b.param_count(), 2);
    pjrt::Executable program = chip().compile(text, pjrt::default_options(chip().platform()));
    Floats data = count_up(1000);
    pjrt::Buffer p = chip().from_host(data.data(), x.type, 0), q = chip().from_host(data.data(), y.type, 0);
    auto out = run(program, {&p, &q});
    CHECK(!p.is_deleted() && q.is_deleted());
    CHECK_EQUAL(host<float>(out[0])[999], 1998);
  });
  test("equal calls write equal text", [] {
    auto text = [] {
      Builder b;
      Value x = b.param(f32({2}));
      return b.module(std::array{tanh(x) + 1.0});
    };
    CHECK_EQUAL(text(), text());
  });
  test("checks are kept only where they are asked for", [] {
    for (bool checks : {false, true}) {
      Builder b({.checks = checks});
      Value x = b.param(f32({2}));
      b.require(x > like(x, 0.0), "x must be positive");
      CHECK_EQUAL(b.checks().size(), size_t(checks));
      if (!checks) continue;
      pjrt::Executable program =
          chip().compile(b.module(std::array{b.checks()[0].holds}), pjrt::default_options(chip().platform()));
      for (float last : {1.0f, -1.0f}) {
        Floats data = {1, last};
        pjrt::Buffer p = chip().from_host(data.data(), x.type, 0);
        CHECK_EQUAL(host<char>(run(program, {&p})[0])[0], last > 0);
      }
    }
  });
}

}  // namespace

void hlo() {
  constants();
  elementwise();
  shapes();
  contractions();
  reductions();
  indexing();
  control();
  modules();
}

}  // namespace tpu::test
