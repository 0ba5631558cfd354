// Runs the groups named on the command line, or all: torch_tpu_test [group [part of a case's name]].
#include "test.h"

#include <cstdio>
#include <cstring>

namespace tpu::test {
namespace {

struct Failure {
  std::string text;
};

struct Group {
  const char* name;
  void (*run)();
};

constexpr Group kGroups[] = {
    {"config", config}, {"disk", disk}, {"graph", graph_tests}, {"hash", hash},
    {"hlo", hlo},       {"log", log},   {"pjrt", pjrt},         {"type", type},
};

std::string filter;
int passed = 0;
int failures = 0;

}  // namespace

void failed(const char* file, int line, const std::string& text) { throw Failure{concat(file, ":", line, ": ", text)}; }

void test(const std::string& name, const std::function<void()>& body) {
  if (name.find(filter) == std::string::npos) return;
  std::string reason;
  try {
    body();
    ++passed;
    return;
  } catch (const Failure& failure) {
    reason = failure.text;
  } catch (const std::exception& error) {
    reason = concat("unexpected exception: ", error.what());
  }
  ++failures;
  std::fprintf(stderr, "FAILED %s\n  %s\n", name.c_str(), reason.c_str());
}

void expect_error(Code code, const std::string& part, const std::function<void()>& action, const char* file, int line) {
  try {
    action();
  } catch (const Error& error) {
    std::string text = error.what();
    if (error.code() != code) failed(file, line, concat("code ", int(error.code()), " of: ", text));
    if (text.find(part) == std::string::npos) failed(file, line, concat("'", part, "' is not in: ", text));
    return;
  }
  failed(file, line, "no error");
}

int run(int count, char** arguments) {
  if (count > 2) filter = arguments[2];
  bool found = count < 2;
  for (const Group& group : kGroups) {
    if (count >= 2 && std::strcmp(group.name, arguments[1]) != 0) continue;
    found = true;
    group.run();
  }
  if (!found) std::fprintf(stderr, "no group is called %s\n", arguments[1]);
  std::fprintf(stderr, "%d passed, %d failed\n", passed, failures);
  return found && failures == 0 && passed > 0 ? 0 : 1;
}

}  // namespace tpu::test

int main(int count, char** arguments) { return tpu::test::run(count, arguments); }
