// The text of modules, regions, constants and attributes.
#include "hlo/hlo.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"

namespace tpu::hlo {

std::string Value::name() const { return "%" + std::to_string(id); }

Value Builder::param(Type type, bool number) {
  params_.push_back({next_, type});
  return {this, next_++, std::move(type), number};
}

void Builder::alias(int param, int output) { params_[size_t(param)].output = output; }

void Builder::require(Value holds, std::string text) {
  if (!options_.checks || depth_ > 0) return;
  Dims all;
  for (int64_t d = 0; d < holds.rank(); ++d) all.push_back(d);
  checks_.push_back({reduce(holds, "and", constant(*this, int64_t{1}, {DType::Pred, {}}), all), std::move(text)});
}

Value Builder::emit(const std::string& rhs, Type type) {
  body_ += "%" + std::to_string(next_) + " = " + rhs + "\n";
  return {this, next_++, std::move(type)};
}

Values Builder::emit(const std::string& rhs, const std::vector<Type>& types) {
  // Each result gets a name of its own, so that a Value needs no result number.
  Values results;
  std::string names;
  for (const Type& type : types) {
    names += (names.empty() ? "%" : ", %") + std::to_string(next_);
    results.push_back({this, next_++, type});
  }
  body_ += names + " = " + rhs + "\n";
  return results;
}

std::string Builder::region(const std::vector<Type>& arguments, const Body& body) {
  std::string outer = std::move(body_);
  body_.clear();
  ++depth_;
  Values values;
  std::string head;
  for (const Type& type : arguments) {
    head += (head.empty() ? "%" : ", %") + std::to_string(next_) + ": " + type.str();
    values.push_back({this, next_++, type});
  }
  Values results = body(values);
  std::string names, types;
  for (const Value& r : results) {
    names += (names.empty() ? "" : ", ") + r.name();
    types += (types.empty() ? "" : ", ") + r.type.str();
  }
  std::string text = (head.empty() ? "{\n" : "{\n^bb0(" + head + "):\n") + body_ + "\"stablehlo.return\"(" + names +
                     ") : (" + types + ") -> ()\n}";
  body_ = std::move(outer);
  --depth_;
  return text;
}

std::string Builder::module(std::span<const Value> outputs) const {
  std::string head, names, types;
  for (const Param& p : params_) {
    head += (head.empty() ? "%" : ", %") + std::to_string(p.id) + ": " + p.type.str();
    if (p.output >= 0) head += " {tf.aliasing_output = " + std::to_string(p.output) + " : i32}";
  }
  for (const Value& v : outputs) {
    names += (names.empty() ? "" : ", ") + v.name();
    types += (types.empty() ? "" : ", ") + v.type.str();
  }
  return "module @program {\nfunc.func public @main(" + head + ") -> (" + types + ") {\n" + body_ + "return " + names +
         (names.empty() ? "" : " : ") + types + "\n}\n}\n";
}

std::string list(std::span<const int64_t> v) { return str(v); }

std::string array(std::span<const int64_t> v) {
  if (v.empty()) return "array<i64>";
  std::string s = str(v);
  return "array<i64: " + s.substr(1, s.size() - 2) + ">";
}

std::string array(const std::vector<bool>& v) {
  std::string s;
  for (bool x : v) s += std::string(s.empty() ? ": " : ", ") + (x ? "true" : "false");
  return "array<i1" + s + ">";
}

std::string matrix(std::span<const std::pair<int64_t, int64_t>> v) {
  std::string s;
  for (auto [x, y] : v) s += (s.empty() ? "[" : ", [") + std::to_string(x) + ", " + std::to_string(y) + "]";
  return "dense<" + (v.empty() ? "" : "[" + s + "]") + "> : tensor<" + std::to_string(v.size()) + "x2xi64>";
}

namespace {

std::string call(std::string_view name, std::span<const Value> operands, const std::string& attributes,
                 const std::string& regions) {
  std::string names, types;
  for (const Value& v : operands) {
    names += (names.empty() ? "" : ", ") + v.name();
    types += (types.empty() ? "" : ", ") + v.type.str();
  }
  std::string text = "\"" + std::string(name) + "\"(" + names + ")";
  if (!regions.empty()) text += " (" + regions + ")";
  if (!attributes.empty()) text += " {" + attributes + "}";
  return text + " : (" + types + ") -> ";
}

// Bit patterns that decimal text cannot spell.
const char* special(DType t, double v) {
  const bool nan = std::isnan(v), negative = v < 0;
  switch (t) {
    case DType::F64:
      return nan ? "0x7FF8000000000000" : negative ? "0xFFF0000000000000" : "0x7FF0000000000000";
    case DType::F32:
      return nan ? "0x7FC00000" : negative ? "0xFF800000" : "0x7F800000";
    case DType::F16:
      return nan ? "0x7E00" : negative ? "0xFC00" : "0x7C00";
    case DType::BF16:
      return nan ? "0x7FC0" : negative ? "0xFF80" : "0x7F80";
    case DType::F8E5M2:
      return nan ? "0x7E" : negative ? "0xFC" : "0x7C";
    default:
      return nan ? "0x7F" : negative ? "0xFF" : "0x7F";  // F8E4M3 has no infinity
  }
}

std::string literal(DType t, double v) {
  char text[64];
  if (is_complex(t)) return "(" + literal(real_type(t), v) + ", " + literal(real_type(t), 0.0) + ")";
  if (t == DType::Pred) return v != 0 ? "true" : "false";
  if (is_integer(t)) return std::to_string(int64_t(v));
  if (!std::isfinite(v)) return special(t, v);
  std::snprintf(text, sizeof text, "%.17e", v);
  return text;
}

Value dense(Builder& b, const std::string& text, Type type) {
  return b.emit("stablehlo.constant dense<" + (type.count() ? text : "") + "> : " + type.str(), type);
}

}  // namespace

Value op(std::string_view name, std::span<const Value> operands, Type type, const std::string& attributes) {
  return operands[0].builder->emit(call(name, operands, attributes, "") + type.str(), type);
}

Value op(std::string_view name, std::initializer_list<Value> operands, Type type, const std::string& attributes) {
  return op(name, std::span(operands.begin(), operands.size()), std::move(type), attributes);
}

Values op(std::string_view name, std::span<const Value> operands, const std::vector<Type>& types,
          const std::string& attributes, const std::string& regions) {
  std::string results;
  for (const Type& t : types) results += (results.empty() ? "(" : ", ") + t.str();
  return operands[0].builder->emit(call(name, operands, attributes, regions) + (results.empty() ? "()" : results + ")"),
                                   types);
}

Value constant(Builder& b, double v, Type type) {
  std::string text = literal(type.dtype, v);
  return dense(b, text, std::move(type));
}

Value constant(Builder& b, int64_t v, Type type) {
  if (!is_integer(type.dtype)) return constant(b, double(v), std::move(type));
  return dense(b, type.dtype == DType::U64 ? std::to_string(uint64_t(v)) : std::to_string(v), std::move(type));
}

Value constant(Builder& b, std::span<const int64_t> v, DType dtype) {
  return dense(b, str(v), {dtype, {int64_t(v.size())}});
}

Value like(Value x, double v) { return constant(*x.builder, v, x.type); }
Value like(Value x, int64_t v) { return constant(*x.builder, v, x.type); }
Value scalar(Value x, double v) { return constant(*x.builder, v, {x.dtype(), {}}); }

Value iota(Builder& b, Type type, int64_t dim) {
  return b.emit("\"stablehlo.iota\"() {iota_dimension = " + std::to_string(dim) + " : i64} : () -> " + type.str(),
                type);
}

namespace {

Value limit(Builder& b, DType t, bool high) {
  const Type type{t, {}};
  if (t == DType::Pred) return constant(b, int64_t(high), type);
  if (!is_integer(t)) return constant(b, high ? HUGE_VAL : -HUGE_VAL, type);
  const int bits = int(element_size(t)) * 8;
  if (is_unsigned(t)) return constant(b, high ? int64_t(~uint64_t{0} >> (64 - bits)) : int64_t{0}, type);
  const int64_t top = int64_t(~uint64_t{0} >> (65 - bits));
  return constant(b, high ? top : -top - 1, type);
}

}  // namespace

Value lowest(Builder& b, DType t) { return limit(b, t, false); }
Value highest(Builder& b, DType t) { return limit(b, t, true); }

}  // namespace tpu::hlo
