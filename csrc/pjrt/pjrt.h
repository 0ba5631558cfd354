// What every part of this folder needs of the C API: sized arguments, translated errors, element types, named values.
#pragma once

#include <pjrt_c_api.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/type.h"

namespace tpu::pjrt {

// Declares zeroed arguments of an API call with the size by which the plugin knows their version.
#define TPU_PJRT_ARGS(T, name) \
  T name{};                    \
  name.struct_size = T##_STRUCT_SIZE

// Throws what the plugin reported, as "<what>: <its message>", and frees it. Nothing happens for null.
void check(const PJRT_Api* api, PJRT_Error* error, std::string_view what);

// The same without throwing; frees the error, which must not be null.
Error translate(const PJRT_Api* api, PJRT_Error* error, std::string_view what);

PJRT_Buffer_Type buffer_type(DType dtype);
// Throws Unimplemented for types that have no DType (4-bit integers, tokens).
DType dtype(PJRT_Buffer_Type type);

using Attribute = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
using Attributes = std::map<std::string, Attribute>;
Attributes attributes(const PJRT_NamedValue* values, size_t count);
std::string str(const Attribute& attribute);

}  // namespace tpu::pjrt
