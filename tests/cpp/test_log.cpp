// Log lines: which are written, and that lines of many threads stay whole.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "base/log.h"
#include "test.h"

namespace tpu::test {
namespace {

// What the action writes to stderr.
std::string captured(const std::function<void()>& action) {
  std::FILE* file = std::tmpfile();
  int saved = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  action();
  dup2(saved, STDERR_FILENO);
  close(saved);
  std::string text(size_t(std::ftell(file) + lseek(fileno(file), 0, SEEK_END)), '\0');
  lseek(fileno(file), 0, SEEK_SET);
  text.resize(size_t(read(fileno(file), text.data(), text.size())));
  std::fclose(file);
  return text;
}

}  // namespace

void log() {
  setenv("TORCH_TPU_LOG", "cache,fallback", 1);
  test("only the events asked for are written", [] {
    CHECK(log::enabled(log::Event::Cache) && log::enabled(log::Event::Fallback));
    CHECK(!log::enabled(log::Event::Compile) && !log::enabled(log::Event::Plugin));
    std::string text = captured([] {
      log::line(log::Event::Compile, "not this");
      log::line(log::Event::Cache, "miss ", 7);
      log::warn("the disk is full");
    });
    CHECK_EQUAL(text, "torch_tpu cache: miss 7\ntorch_tpu warning: the disk is full\n");
  });
  test("lines of many threads stay whole", [] {
    std::string text = captured([] {
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([t] {
          for (int i = 0; i < 200; ++i) log::line(log::Event::Cache, t, " ", i, " ", std::string(100, 'x'));
        });
      }
      for (auto& thread : threads) thread.join();
    });
    std::set<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.insert(line);
    CHECK_EQUAL(lines.size(), 800u);
    CHECK(lines.contains(concat("torch_tpu cache: 3 199 ", std::string(100, 'x'))));
  });
}

}  // namespace tpu::test
