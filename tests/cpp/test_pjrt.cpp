// Plugin, client, buffers and executables against the CPU plugin.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include "chip.h"
#include "pjrt/client.h"
#include "test.h"

namespace tpu::test {
namespace {

using namespace pjrt;

constexpr const char* kAdd = R"(module @add {
  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.add %a, %b : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
})";

constexpr const char* kTransposeAndSum = R"(module @both {
  func.func public @main(%a: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>) {
    %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %1 = stablehlo.add %a, %a : tensor<2x3xf32>
    return %0, %1 : tensor<3x2xf32>, tensor<2x3xf32>
  }
})";

constexpr const char* kDonate = R"(module @donate {
  func.func public @main(%a: tensor<1024xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1024xf32> {
    %0 = stablehlo.add %a, %a : tensor<1024xf32>
    return %0 : tensor<1024xf32>
  }
})";

const Type kType{DType::F32, {2, 3}};
const std::vector<float> kData = {1, 2, 3, 4, 5, 6};

Executable compile(const char* text) { return chip().compile(text, default_options(chip().platform())); }

// A file with this content, removed at the end.
struct Scratch {
  explicit Scratch(const std::string& content) {
    int file = mkstemp(path.data());
    std::ofstream(path) << content;
    close(file);
  }
  ~Scratch() { std::remove(path.c_str()); }
  std::string path = "/tmp/torch_tpu_test_XXXXXX";
};

void plugin_cases() {
  test("a plugin is loaded once", [] {
    const Plugin& plugin = chip().plugin();
    CHECK(&Plugin::load(plugin.path()) == &plugin);
    CHECK(plugin.version().minor >= 70);
    CHECK(plugin.kind() == Kind::Cpu);
    CHECK(plugin.attributes().contains("stablehlo_current_version"));
    CHECK(plugin.str().find("stablehlo_current_version") != std::string::npos);
  });
  test("what is no plugin says so", [] {
    CHECK_ERROR(Code::Runtime, "PJRT plugin /nowhere/plugin.so: no such file", Plugin::load("/nowhere/plugin.so"));
    Scratch text("this is not a library");
    CHECK_ERROR(Code::Runtime, "cannot be loaded", Plugin::load(text.path));
    Dl_info library;
    CHECK(dladdr(reinterpret_cast<void*>(&getpid), &library) != 0);
    CHECK_ERROR(Code::Runtime, "is not a PJRT plugin: it has no function GetPjrtApi", Plugin::load(library.dli_fname));
  });
  test("discovery", [] {
    std::string path = chip().plugin().path();
    set_candidates({});
    CHECK_ERROR(Code::Runtime, "no PJRT plugin for cpu found; install one (pip install lammps-jax-pjrt-cpu)",
                Plugin::discover("cpu"));
    CHECK_ERROR(Code::Runtime, "pip install jax-cuda13-pjrt", Plugin::discover("cuda"));
    CHECK_ERROR(Code::Value, "TORCH_TPU_PLUGIN: expected auto, tpu, cuda, cpu or a path, got 'gpu'",
                Plugin::discover("gpu"));
    set_candidates({{"tpu", "/nowhere/libtpu.so"}, {"cpu", "/nowhere/cpu.so"}, {"cpu", path}});
    CHECK(&Plugin::discover("cpu") == &chip().plugin());
    CHECK(&Plugin::discover(path) == &chip().plugin());
    if (has_tpu()) return;
    CHECK(&Plugin::discover("auto") == &chip().plugin());
    CHECK_ERROR(Code::Runtime, "this machine has no TPU chip", Plugin::discover("tpu"));
  });
}

void buffer_cases() {
  test("to the device and back, every dtype", [] {
    for (int i = 0; i <= int(DType::C128); ++i) {
      Type type{DType(i), {3, 5}};
      std::vector<char> in(size_t(type.bytes())), out(in.size());
      std::iota(in.begin(), in.end(), char(0));
      if (type.dtype == DType::Pred) {
        for (char& c : in) c &= 1;
      }
      Buffer buffer = chip().from_host(in.data(), type, 1);
      CHECK(buffer.type() == type);
      buffer.to_host(out.data(), type.bytes()).await();
      CHECK(in == out);
    }
  });
  test("scalars and empty arrays", [] {
    float x = 7, y = 0;
    Buffer scalar = chip().from_host(&x, {DType::F32, {}}, 0);
    scalar.to_host(&y, 4).await();
    CHECK_EQUAL(y, 7);
    Buffer empty = chip().from_host(&x, {DType::F32, {0, 4}}, 0);
    empty.to_host(&y, 0).await();
    CHECK(empty.type() == (Type{DType::F32, {0, 4}}));
  });
  test("the source may change after from_host", [] {
    std::vector<float> data(1 << 20, 1.0f);
    Buffer buffer = chip().from_host(data.data(), {DType::F32, {1 << 20}}, 0);
    std::fill(data.begin(), data.end(), 2.0f);
    CHECK(host<float>(buffer) == std::vector<float>(1 << 20, 1.0f));
  });
  test("the source may change once the copy is done", [] {
    std::vector<float> data(1 << 20, 1.0f);
    Event done;
    Buffer buffer = chip().from_host(data.data(), {DType::F32, {1 << 20}}, 0, done);
    done.await();
    std::fill(data.begin(), data.end(), 2.0f);
    CHECK(host<float>(buffer) == std::vector<float>(1 << 20, 1.0f));
  });
  test("from chip to chip", [] {
    Buffer x = chip().from_host(kData.data(), kType, 0);
    Buffer y = x.copy_to(chip().device(2).handle);
    x = Buffer();
    CHECK(host<float>(y) == kData);
  });
  test("freed buffers", [] {
    Buffer x = chip().from_host(kData.data(), kType, 0);
    CHECK(!x.is_deleted());
    CHECK(x.device_bytes() >= 24);
    x.free();
    CHECK(x.is_deleted());
    float out[6];
    CHECK_ERROR(Code::Runtime, "", x.to_host(out, sizeof out).await());
  });
  test("devices", [] {
    CHECK_EQUAL(chip().devices().size(), 4u);
    CHECK_EQUAL(chip().device(3).id, 3);
    CHECK_EQUAL(chip().platform(), "cpu");
    CHECK_ERROR(Code::Runtime, "invalid device index 4: there are 4 devices", chip().device(4));
    CHECK_ERROR(Code::Runtime, "invalid device index -1", chip().from_host(kData.data(), kType, -1));
    chip().memory_stats(0);
  });
}

void executable_cases() {
  test("a portable program runs on every chip", [] {
    Executable add = compile(kAdd);
    CHECK_EQUAL(add.output_count(), 1u);
    CHECK(add.compiled().outputs() == std::vector<Type>{kType});
    for (int64_t i = 0; i < 4; ++i) {
      Buffer x = chip().from_host(kData.data(), kType, i);
      std::vector<Buffer> y = run(add, {&x, &x}, i);
      CHECK(host<float>(y[0]) == (std::vector<float>{2, 4, 6, 8, 10, 12}));
    }
  });
  test("several outputs, row-major", [] {
    Buffer x = chip().from_host(kData.data(), kType, 0);
    std::vector<Buffer> y = run(compile(kTransposeAndSum), {&x});
    CHECK(host<float>(y[0]) == (std::vector<float>{1, 4, 2, 5, 3, 6}));
    CHECK(host<float>(y[1]) == (std::vector<float>{2, 4, 6, 8, 10, 12}));
  });
  test("a program for one chip", [] {
    CompileOptions options;
    options.portable = false;
    options.devices = {2};
    Executable add = chip().compile(kAdd, options);
    Buffer x = chip().from_host(kData.data(), kType, 2);
    PJRT_Buffer* in[] = {x.get(), x.get()};
    PJRT_Buffer* out[1];
    Event done = add.execute_with_event(in, out, nullptr);
    Buffer y = chip().adopt(out[0]);
    done.await();
    CHECK(y.is_ready());
    CHECK_EQUAL(host<float>(y)[5], 12);
  });
  test("donation", [] {
    Executable donate = compile(kDonate);
    std::vector<float> ones(1024, 1.0f);
    Buffer x = chip().from_host(ones.data(), {DType::F32, {1024}}, 0);
    x.ready().await();
    uintptr_t address = x.address();
    std::vector<Buffer> y = run(donate, {&x});
    CHECK(x.is_deleted());
    CHECK_EQUAL(y[0].address(), address);
    CHECK_EQUAL(host<float>(y[0])[0], 2);
    // Used a second time, it is an error and not a wrong result.
    CHECK_ERROR(Code::Runtime, "deleted or donated", run(donate, {&x}));

    Buffer z = chip().from_host(ones.data(), {DType::F32, {1024}}, 0);
    std::array<int64_t, 1> keep = {0};
    std::vector<Buffer> w = run(donate, {&z}, 0, keep);
    CHECK(!z.is_deleted());
    CHECK_EQUAL(host<float>(z)[0], 1);
    CHECK_EQUAL(host<float>(w[0])[0], 2);
  });
  test("serialized and loaded again", [] {
    Executable add = compile(kAdd);
    std::string bytes = add.compiled().serialize();
    Executable loaded = chip().deserialize(bytes);
    CHECK_EQUAL(loaded.compiled().fingerprint(), add.compiled().fingerprint());
    Buffer x = chip().from_host(kData.data(), kType, 3);
    CHECK_EQUAL(host<float>(run(loaded, {&x, &x}, 3)[0])[5], 12);
    CHECK_ERROR(Code::Runtime, "load a compiled program: ", chip().deserialize("nonsense"));
    CHECK_ERROR(Code::Runtime, "load a compiled program: ", chip().deserialize(bytes.substr(0, bytes.size() / 2)));
  });
  test("what the compiler says of a program", [] {
    Executable add = compile(kAdd);
    CHECK_EQUAL(add.compiled().memory().arguments, 48);
    CHECK(add.compiled().name().find("add") != std::string::npos);
    CHECK(!add.compiled().optimized().empty());
    add.compiled().cost();
  });
  test("errors", [] {
    CHECK_ERROR(Code::Runtime, "compile: ", compile("module { nonsense }"));
    Buffer x = chip().from_host(kData.data(), kType, 0);
    CHECK_ERROR(Code::Runtime, "execute: ", run(compile(kAdd), {&x}));
    PJRT_Buffer* in[] = {x.get(), x.get()};
    CHECK_ERROR(Code::Internal, "expected room for 1 outputs, got 0", compile(kAdd).execute(in, {}, nullptr));
    float one = 1;
    Buffer scalar = chip().from_host(&one, {DType::F32, {}}, 0);
    CHECK_ERROR(Code::OutOfMemory, "",
                run(compile(R"(module {
      func.func public @main(%a: tensor<f32>) -> tensor<1099511627776xf32> {
        %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<1099511627776xf32>
        return %0 : tensor<1099511627776xf32>
      }
    })"),
                    {&scalar})[0]
                    .ready()
                    .await());
  });
  test("compile options", [] {
    CompileOptions options = default_options("cpu");
    std::string plain = options.serialize();
    CHECK_EQUAL(plain, default_options("cpu").serialize());
    options.overrides["xla_cpu_enable_fast_math"] = false;
    options.overrides["xla_backend_optimization_level"] = int64_t(1);
    CHECK(options.serialize() != plain);
    Buffer x = chip().from_host(kData.data(), kType, 0);
    CHECK_EQUAL(host<float>(run(chip().compile(kAdd, options), {&x, &x})[0])[5], 12);
    options.overrides["xla_no_such_option"] = true;
    CHECK_ERROR(Code::Runtime, "xla_no_such_option", chip().compile(kAdd, options));
    CompileOptions uneven{.devices = {0, 1, 2}, .partitions = 2, .overrides = {}};
    CHECK_ERROR(Code::Value, "3 devices do not divide into 2 partitions", uneven.serialize());
  });
  test("a program over four chips", [] {
    CompileOptions options = default_options("cpu");
    options.devices = {0, 1, 2, 3};
    Executable sum = chip().compile(R"(module @sum attributes {mhlo.num_replicas = 4 : i32} {
      func.func public @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
        %0 = "stablehlo.all_reduce"(%a) ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %s = stablehlo.add %x, %y : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
        return %0 : tensor<2x3xf32>
      }
    })",
                                    options);
    std::vector<Buffer> buffers;
    std::vector<std::vector<PJRT_Buffer*>> inputs(4), outputs(4);
    for (size_t i = 0; i < 4; ++i) {
      buffers.push_back(chip().from_host(kData.data(), kType, int64_t(i)));
      inputs[i] = {buffers[i].get()};
    }
    sum.execute_on_all(inputs, outputs);
    for (auto& list : outputs) CHECK_EQUAL(host<float>(chip().adopt(list[0]))[5], 24);
  });
  test("many threads run one program", [] {
    Executable add = compile(kAdd);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        Buffer x = chip().from_host(kData.data(), kType, t);
        for (int i = 0; i < 200; ++i) {
          if (host<float>(run(add, {&x, &x}, t)[0])[5] != 12) ++wrong;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK_EQUAL(wrong.load(), 0);
  });
}

void event_cases() {
  test("events", [] {
    Event empty;
    CHECK(!empty && empty.is_ready());
    empty.await();
    bool called = false;
    empty.on_ready([&](const std::optional<Error>& error) { called = !error; });
    CHECK(called);

    Buffer x = chip().from_host(kData.data(), kType, 0);
    std::atomic<int> done{0};
    x.ready().on_ready([&](const std::optional<Error>& error) { done = error ? 2 : 1; });
    for (int i = 0; i < 5000 && !done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK_EQUAL(done.load(), 1);
  });
  test("the event of a freed buffer is an error", [] {
    Buffer x = chip().from_host(kData.data(), kType, 0);
    x.free();
    CHECK_ERROR(Code::Runtime, "", x.ready().await());
  });
}

}  // namespace

void pjrt() {
  plugin_cases();
  buffer_cases();
  executable_cases();
  event_cases();
}

}  // namespace tpu::test
