// What a lowering is: a plain function on values, and the row of a table that holds it.
//
// A lowering's parameters follow its op's schema, one for one; their types say how each argument takes part. Where the
// schema has a Generator the parameter is Rng; an op that draws numbers without one takes a last Rng of its own.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "hlo/hlo.h"

namespace tpu::ops {

using hlo::Value;
using hlo::Values;
using OptionalValues = std::vector<std::optional<Value>>;

// A Python number compiled into the program.
struct Number {
  double real = 0, imag = 0;
  int64_t integer = 0;  // the exact value where is_float is false
  bool is_float = false, is_bool = false, is_complex = false;
  double value() const { return is_float || is_complex ? real : double(integer); }
  bool operator==(const Number&) const = default;
};

// An argument that does not change the values.
struct Ignored {};

// The random state while a module is built. Copies share it; the state left at the end is written back.
struct Rng {
  std::shared_ptr<Value> state;
};

using Arg = std::variant<std::monostate, Value, Values, OptionalValues, Number, int64_t, double, bool, Dims,
                         std::vector<double>, std::vector<bool>, std::string, DType, Rng>;

// How an argument takes part: data flows in at run time, what is baked is part of the key.
enum class Kind : uint8_t { Data, DataList, Baked, Rng, Ignored };

template <class T>
struct Take {
  static constexpr Kind kind = Kind::Baked;
  static T from(const Arg& a) { return std::get<T>(a); }
};
template <>
struct Take<Value> {
  static constexpr Kind kind = Kind::Data;
  static Value from(const Arg& a) { return std::get<Value>(a); }
};
template <>
struct Take<Values> {
  static constexpr Kind kind = Kind::DataList;
  static Values from(const Arg& a) { return std::get<Values>(a); }
};
template <>
struct Take<OptionalValues> {
  static constexpr Kind kind = Kind::DataList;
  static OptionalValues from(const Arg& a) { return std::get<OptionalValues>(a); }
};
template <>
struct Take<Rng> {
  static constexpr Kind kind = Kind::Rng;
  static Rng from(const Arg& a) { return std::get<Rng>(a); }
};
template <>
struct Take<Ignored> {
  static constexpr Kind kind = Kind::Ignored;
  static Ignored from(const Arg&) { return {}; }
};
template <class T>
struct Take<std::optional<T>> {
  static constexpr Kind kind = Take<T>::kind;
  static std::optional<T> from(const Arg& a) {
    return std::holds_alternative<std::monostate>(a) ? std::nullopt : std::optional<T>(Take<T>::from(a));
  }
};

inline Values results(Value v) { return {std::move(v)}; }
inline Values results(Values v) { return v; }
template <class... T>
Values results(const std::tuple<T...>& t) {
  return std::apply([](const auto&... v) { return Values{v...}; }, t);
}
template <class A, class B>
Values results(const std::pair<A, B>& p) {
  return {p.first, p.second};
}

struct Lowering {
  Values (*call)(std::span<const Arg>);
  std::span<const Kind> kinds;
};

template <auto F>
struct Adapt;
template <class R, class... A, R (*F)(A...)>
struct Adapt<F> {
  static constexpr std::array<Kind, sizeof...(A)> kinds{Take<std::remove_cvref_t<A>>::kind...};
  static Values call(std::span<const Arg> args) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return results(F(Take<std::remove_cvref_t<A>>::from(args[I])...));
    }(std::index_sequence_for<A...>{});
  }
};
template <auto F>
constexpr Lowering op{&Adapt<F>::call, Adapt<F>::kinds};

struct Row {
  const char* name;  // "aten::add.Tensor"; the functional form
  Lowering lowering;
};

// Every row, family after family. The families are declared in tables.h.
std::span<const Row* const> rows();

}  // namespace tpu::ops
