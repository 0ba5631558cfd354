// The one exception of the core: a code that says which Python type it becomes, and a text for the user.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace tpu {

enum class Code : uint8_t {
  Runtime,        // RuntimeError
  Value,          // ValueError
  Index,          // IndexError
  Type,           // TypeError
  Unimplemented,  // NotImplementedError
  OutOfMemory,    // torch.OutOfMemoryError
  Internal,       // RuntimeError, and a defect of this package
};

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& text) : std::runtime_error(text), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

// Writes the parts one after another, as a stream would.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

template <class... Parts>
[[noreturn]] void fail(Code code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}

template <class... Parts>
void check(bool holds, Code code, const Parts&... parts) {
  if (!holds) [[unlikely]]
    fail(code, parts...);
}

}  // namespace tpu
