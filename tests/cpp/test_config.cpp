// Settings: how values are parsed, and what a bad one says.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/config.h"
#include "test.h"

namespace tpu::test {
namespace {

void set(const char* name, const char* value) { value ? setenv(name, value, 1) : unsetenv(name); }

int64_t bytes(const char* value) {
  set("TORCH_TPU_CACHE_SIZE", value);
  return config::parse::bytes("TORCH_TPU_CACHE_SIZE");
}

uint32_t words(const char* value) {
  set("TORCH_TPU_LOG", value);
  return config::parse::words("TORCH_TPU_LOG");
}

std::string cache_dir() {
  auto rows = config::table();
  auto row = std::find_if(rows.begin(), rows.end(),
                          [](const auto& s) { return std::string_view(s.name) == "TORCH_TPU_CACHE_DIR"; });
  return config::current(*row);
}

}  // namespace

void config() {
  test("the table is sorted, and every row says what it does", [] {
    auto rows = config::table();
    CHECK(rows.size() >= 9);
    for (size_t i = 0; i < rows.size(); ++i) {
      CHECK(i == 0 || std::string_view(rows[i - 1].name) < rows[i].name);
      CHECK(std::string_view(rows[i].name).starts_with("TORCH_TPU_"));
      CHECK(std::string_view(rows[i].sentence).ends_with("."));
    }
  });
  test("integers", [] {
    const char* name = "TORCH_TPU_CPU_DEVICES";
    set(name, nullptr);
    CHECK_EQUAL(config::parse::integer(name, 1, 8), 4);
    set(name, "");
    CHECK_EQUAL(config::parse::integer(name, 1, 8), 4);
    set(name, "7");
    CHECK_EQUAL(config::parse::integer(name, 1, 8), 7);
    for (const char* bad : {"0", "9", "x", "4 ", "4.5", "-1", "99999999999999999999"}) {
      set(name, bad);
      CHECK_ERROR(Code::Value, concat("TORCH_TPU_CPU_DEVICES: expected an integer from 1 to 8, got '", bad, "'"),
                  config::parse::integer(name, 1, 8));
    }
    set(name, nullptr);
  });
  test("bytes", [] {
    CHECK_EQUAL(bytes(nullptr), int64_t(4) << 30);
    CHECK_EQUAL(bytes("0"), 0);
    CHECK_EQUAL(bytes("1000"), 1000);
    CHECK_EQUAL(bytes("3k"), 3 << 10);
    CHECK_EQUAL(bytes("500M"), int64_t(500) << 20);
    CHECK_EQUAL(bytes("2GiB"), int64_t(2) << 30);
    for (const char* bad : {"-1", "G", "4X", "4GG", "99999999999T"}) {
      CHECK_ERROR(Code::Value, "TORCH_TPU_CACHE_SIZE: expected bytes, such as 500M or 4G, got", bytes(bad));
    }
    set("TORCH_TPU_CACHE_SIZE", nullptr);
  });
  test("choices", [] {
    const char* name = "TORCH_TPU_FALLBACK";
    set(name, nullptr);
    CHECK(config::Fallback(config::parse::choice(name)) == config::Fallback::Warn);
    set(name, "silent");
    CHECK(config::Fallback(config::parse::choice(name)) == config::Fallback::Silent);
    set(name, "loud");
    CHECK_ERROR(Code::Value, "TORCH_TPU_FALLBACK: expected one of warn|error|silent, got 'loud'",
                config::parse::choice(name));
    set(name, nullptr);
  });
  test("words", [] {
    CHECK_EQUAL(words(nullptr), 0u);
    CHECK_EQUAL(words("compile"), 1u);
    CHECK_EQUAL(words("plugin,compile"), 17u);
    CHECK_EQUAL(words("all"), 31u);
    CHECK_ERROR(Code::Value, "TORCH_TPU_LOG: expected all, or some of compile,cache", words("compile,nothing"));
    set("TORCH_TPU_LOG", nullptr);
  });
  test("the cache directory follows XDG_CACHE_HOME", [] {
    set("TORCH_TPU_CACHE_DIR", nullptr);
    set("XDG_CACHE_HOME", nullptr);
    CHECK_EQUAL(cache_dir(), "~/.cache/torch_tpu");
    set("XDG_CACHE_HOME", "relative");
    CHECK_EQUAL(cache_dir(), "~/.cache/torch_tpu");
    set("XDG_CACHE_HOME", "/somewhere");
    CHECK_EQUAL(cache_dir(), "/somewhere/torch_tpu");
    CHECK_EQUAL(config::cache_dir(), "/somewhere/torch_tpu");
    set("TORCH_TPU_CACHE_DIR", "/elsewhere");
    CHECK_EQUAL(cache_dir(), "/elsewhere");
    // Read once: a change later in the process does not split it in two.
    CHECK_EQUAL(config::cache_dir(), "/somewhere/torch_tpu");
    set("XDG_CACHE_HOME", nullptr);
    set("TORCH_TPU_CACHE_DIR", nullptr);
  });
  test("misspelled variables are found", [] {
    set("TORCH_TPU_CPU_DEVICE", "8");
    auto names = config::unknown();
    CHECK(names == std::vector<std::string>{"TORCH_TPU_CPU_DEVICE"});
    set("TORCH_TPU_CPU_DEVICE", nullptr);
    CHECK(config::unknown().empty());
  });
}

}  // namespace tpu::test
