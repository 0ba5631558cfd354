// A 128-bit hash of bytes, for the names of things that must not be mistaken for each other.
//
// Not for secrets: someone who wants two inputs to collide can find them. The result is the same in every process and
// on every machine of one byte order; it is stored on disk, so a change to it must change graph/disk's format number.
#pragma once

#include <string>
#include <string_view>

namespace tpu {

// 32 lower-case hex digits.
std::string hash128(std::string_view bytes);

}  // namespace tpu
