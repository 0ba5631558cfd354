// Translation of errors, element types and named values.
#include "pjrt/pjrt.h"

#include <iterator>
#include <type_traits>

namespace tpu::pjrt {
namespace {

Code code_of(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_RESOURCE_EXHAUSTED:
      return Code::OutOfMemory;
    case PJRT_Error_Code_UNIMPLEMENTED:
      return Code::Unimplemented;
    default:
      return Code::Runtime;
  }
}

// In the order of DType.
constexpr PJRT_Buffer_Type kTypes[] = {
    PJRT_Buffer_Type_PRED, PJRT_Buffer_Type_S8,       PJRT_Buffer_Type_S16,    PJRT_Buffer_Type_S32,
    PJRT_Buffer_Type_S64,  PJRT_Buffer_Type_U8,       PJRT_Buffer_Type_U16,    PJRT_Buffer_Type_U32,
    PJRT_Buffer_Type_U64,  PJRT_Buffer_Type_F8E4M3FN, PJRT_Buffer_Type_F8E5M2, PJRT_Buffer_Type_BF16,
    PJRT_Buffer_Type_F16,  PJRT_Buffer_Type_F32,      PJRT_Buffer_Type_F64,    PJRT_Buffer_Type_C64,
    PJRT_Buffer_Type_C128,
};
static_assert(std::size(kTypes) == size_t(DType::C128) + 1);

Attribute attribute(const PJRT_NamedValue& v) {
  switch (v.type) {
    case PJRT_NamedValue_kString:
      return std::string(v.string_value, v.value_size);
    case PJRT_NamedValue_kInt64:
      return v.int64_value;
    case PJRT_NamedValue_kInt64List:
      return std::vector<int64_t>(v.int64_array_value, v.int64_array_value + v.value_size);
    case PJRT_NamedValue_kFloat:
      return v.float_value;
    case PJRT_NamedValue_kBool:
      return v.bool_value;
  }
  return std::string();  // a kind newer than the header
}

}  // namespace

Error translate(const PJRT_Api* api, PJRT_Error* error, std::string_view what) {
  TPU_PJRT_ARGS(PJRT_Error_Message_Args, message);
  message.error = error;
  api->PJRT_Error_Message(&message);
  std::string text = concat(what, ": ", std::string_view(message.message, message.message_size));

  TPU_PJRT_ARGS(PJRT_Error_GetCode_Args, code);
  code.error = error;
  // Asking for the code can fail itself; then the message is all there is.
  PJRT_Error* second = api->PJRT_Error_GetCode(&code);
  Code result = second ? Code::Runtime : code_of(code.code);

  for (PJRT_Error* e : {error, second}) {
    TPU_PJRT_ARGS(PJRT_Error_Destroy_Args, destroy);
    destroy.error = e;
    if (e) api->PJRT_Error_Destroy(&destroy);
  }
  return Error(result, text);
}

void check(const PJRT_Api* api, PJRT_Error* error, std::string_view what) {
  if (error) [[unlikely]]
    throw translate(api, error, what);
}

PJRT_Buffer_Type buffer_type(DType dtype) { return kTypes[size_t(dtype)]; }

DType dtype(PJRT_Buffer_Type type) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i] == type) return DType(i);
  }
  fail(Code::Unimplemented, "the plugin returned elements of PJRT type ", int(type), ", which has no PyTorch dtype");
}

Attributes attributes(const PJRT_NamedValue* values, size_t count) {
  Attributes result;
  for (size_t i = 0; i < count; ++i) {
    result.emplace(std::string(values[i].name, values[i].name_size), attribute(values[i]));
  }
  return result;
}

std::string str(const Attribute& attribute) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          return tpu::str(v);
        } else if constexpr (std::is_same_v<T, bool>) {
          return v ? "true" : "false";
        } else {
          return concat(v);
        }
      },
      attribute);
}

}  // namespace tpu::pjrt
