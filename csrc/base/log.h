// One line an event to stderr, for the events TORCH_TPU_LOG names; and warnings, which always show.
//
// Any thread may call these; a line is written at once and whole.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace tpu::log {

// In the order of the words in TORCH_TPU_LOG's row.
enum class Event : uint8_t { Compile, Cache, Execute, Fallback, Plugin };

bool enabled(Event event);
// Writes the line whether the event is enabled or not.
void write(Event event, const std::string& text);
void warn(const std::string& text);

template <class... Parts>
void line(Event event, const Parts&... parts) {
  if (enabled(event)) [[unlikely]]
    write(event, concat(parts...));
}

}  // namespace tpu::log
