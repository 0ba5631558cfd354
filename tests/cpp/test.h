// The few checks the C++ tests are written with, and the groups they come in.
//
// A group is a function that calls test() for each of its cases; test.cpp lists the groups.
#pragma once

#include <functional>
#include <sstream>
#include <string>

#include "base/error.h"

namespace tpu::test {

// Runs one case. A failed check or an exception fails it, and the next case runs.
void test(const std::string& name, const std::function<void()>& body);

[[noreturn]] void failed(const char* file, int line, const std::string& text);

template <class X, class Y>
void expect_equal(const X& x, const Y& y, const char* what, const char* file, int line) {
  if (!(x == y)) failed(file, line, concat(what, ": ", x, " is not ", y));
}

// The action must throw a tpu::Error of this code whose text has `part` in it.
void expect_error(Code code, const std::string& part, const std::function<void()>& action, const char* file, int line);

void config();
void log();
void hash();
void type();
void pjrt();
void hlo();
void disk();
void graph_tests();

}  // namespace tpu::test

#define CHECK(...) \
  if (!(__VA_ARGS__)) ::tpu::test::failed(__FILE__, __LINE__, #__VA_ARGS__)
#define CHECK_EQUAL(x, y) ::tpu::test::expect_equal(x, y, #x, __FILE__, __LINE__)
#define CHECK_ERROR(code, part, ...) \
  ::tpu::test::expect_error(code, part, [&] { (void)(__VA_ARGS__); }, __FILE__, __LINE__)
