// Writes log lines.
#include "base/log.h"

#include <unistd.h>

#include <iterator>

#include "base/config.h"

namespace tpu::log {
namespace {

constexpr const char* kNames[] = {"compile", "cache", "execute", "fallback", "plugin"};
static_assert(std::size(kNames) == size_t(Event::Plugin) + 1);

// One write call keeps lines of several processes apart.
void put(const std::string& line) {
  const char* rest = line.data();
  size_t left = line.size();
  while (left > 0) {
    ssize_t written = ::write(STDERR_FILENO, rest, left);
    if (written <= 0) return;
    rest += written;
    left -= size_t(written);
  }
}

}  // namespace

bool enabled(Event event) { return (config::log_events() >> unsigned(event)) & 1; }

void write(Event event, const std::string& text) { put(concat("torch_tpu ", kNames[size_t(event)], ": ", text, "\n")); }

void warn(const std::string& text) { put(concat("torch_tpu warning: ", text, "\n")); }

}  // namespace tpu::log
