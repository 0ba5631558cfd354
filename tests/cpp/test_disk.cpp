// The store of compiled programs: damage, crowding, dead writers, directories that can't be used.
#include "graph/disk.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "test.h"

namespace tpu::test {
namespace {

namespace fs = std::filesystem;
using graph::Disk;

constexpr int64_t kLarge = int64_t(1) << 30;

// A directory that is not there yet, and not there any more at the end.
struct Scratch {
  Scratch() {
    std::string name = (fs::temp_directory_path() / "torch_tpu_disk_XXXXXX").string();
    root = mkdtemp(name.data());
    path = root / "some" / "cache";
  }
  ~Scratch() {
    std::error_code ignored;
    fs::permissions(path, fs::perms::owner_all, ignored);
    fs::remove_all(root, ignored);
  }
  fs::path file(const std::string& key) const { return path / (key + ".program"); }
  fs::path root, path;
};

std::string key(int i) { return hash128(std::to_string(i)); }

// Differs for each key, and for each size.
std::string contents(int i, size_t size) {
  std::string bytes(size, '\0');
  for (size_t k = 0; k < size; ++k) bytes[k] = char(k * 31 + size_t(i) * 7 + k / 256);
  return bytes;
}

void overwrite(const fs::path& file, std::streamoff position, char byte) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(position);
  stream.put(byte);
}

void set_age(const fs::path& file, std::chrono::minutes age) {
  fs::last_write_time(file, fs::file_time_type::clock::now() - age);
}

size_t file_count(const fs::path& path) {
  return size_t(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

// Runs the action in a process of its own; gives what waitpid gives. Fork only while this process has one thread.
pid_t in_process(const std::function<void()>& action) {
  pid_t child = fork();
  if (child != 0) return child;
  action();
  _exit(0);
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

void round_trips() {
  test("what was stored is loaded, also by others and after a restart", [] {
    Scratch scratch;
    Disk disk(scratch.path, kLarge);
    CHECK(disk.enabled());
    CHECK(!disk.load(key(1)));
    for (size_t size : {0, 1, 47, 48, 49, 100000}) {
      disk.store(key(int(size)), contents(int(size), size));
      CHECK(disk.load(key(int(size))) == contents(int(size), size));
    }
    disk.store(key(1), "newer");
    CHECK(disk.load(key(1)) == "newer");
    Disk other(scratch.path, kLarge);
    CHECK(other.load(key(100000)) == contents(100000, 100000));
    auto stats = disk.stats();
    CHECK_EQUAL(stats.hits, 7);
    CHECK_EQUAL(stats.misses, 1);
    CHECK_EQUAL(stats.stores, 7);
    CHECK_EQUAL(stats.files, 6);
    CHECK(stats.bytes > 100000);
    disk.reset_stats();
    CHECK_EQUAL(disk.stats().hits, 0);
    CHECK_EQUAL(disk.stats().files, 6);
  });
  test("switched off", [] {
    Scratch scratch;
    for (Disk* disk : {new Disk("", kLarge), new Disk(scratch.path, 0)}) {
      CHECK(!disk->enabled());
      disk->store(key(1), "x");
      CHECK(!disk->load(key(1)));
      disk->prune();
      CHECK_EQUAL(disk->stats().files, 0);
      delete disk;
    }
    CHECK(!fs::exists(scratch.path));
  });
}

void damage() {
  test("a flipped byte anywhere is a miss, and the file goes", [] {
    Scratch scratch;
    Disk disk(scratch.path, kLarge);
    std::string bytes = contents(1, 300);
    for (std::streamoff position = 0; position < 348; ++position) {
      disk.store(key(1), bytes);
      std::ifstream stream(scratch.file(key(1)), std::ios::binary);
      stream.seekg(position);
      char old = char(stream.get());
      overwrite(scratch.file(key(1)), position, char(old ^ 4));
      CHECK(!disk.load(key(1)));
      CHECK(!fs::exists(scratch.file(key(1))));
    }
    disk.store(key(1), bytes);
    CHECK(disk.load(key(1)) == bytes);
  });
  test("a file cut short or grown is a miss", [] {
    Scratch scratch;
    Disk disk(scratch.path, kLarge);
    for (uintmax_t size : {0, 1, 47, 48, 49, 347, 349, 1000}) {
      disk.store(key(1), contents(1, 300));
      fs::resize_file(scratch.file(key(1)), size);
      CHECK(!disk.load(key(1)));
      CHECK(!fs::exists(scratch.file(key(1))));
    }
  });
  test("a file under another's name is a miss", [] {
    Scratch scratch;
    Disk disk(scratch.path, kLarge);
    disk.store(key(1), "one");
    fs::rename(scratch.file(key(1)), scratch.file(key(2)));
    CHECK(!disk.load(key(2)));
  });
  test("other files are left alone", [] {
    Scratch scratch;
    Disk disk(scratch.path, 1000);
    disk.store(key(0), "x");
    std::ofstream(scratch.path / "notes.txt") << std::string(5000, 'n');
    set_age(scratch.path / "notes.txt", std::chrono::minutes(600));
    for (int i = 0; i < 10; ++i) disk.store(key(i), contents(i, 300));
    CHECK(fs::exists(scratch.path / "notes.txt"));
    CHECK(disk.stats().bytes <= 1000);
  });
}

// The warning goes to stderr; `warnings` counts the lines that say so.
int warnings(const std::function<void()>& action) {
  std::FILE* file = std::tmpfile();
  int saved = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  action();
  dup2(saved, STDERR_FILENO);
  close(saved);
  std::rewind(file);
  int count = 0;
  char line[1000];
  while (std::fgets(line, sizeof line, file)) count += std::string(line).find("cannot be kept in") != std::string::npos;
  std::fclose(file);
  return count;
}

void unusable_directories() {
  test("a file in the directory's place costs one warning", [] {
    Scratch scratch;
    std::ofstream(scratch.root / "some") << "a file";
    Disk disk(scratch.path, kLarge);
    int count = warnings([&] {
      for (int i = 0; i < 5; ++i) {
        disk.store(key(i), "x");
        CHECK(!disk.load(key(i)));
      }
    });
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(disk.stats().stores, 0);
  });
  test("a directory that can't be written still serves what it has", [] {
    Scratch scratch;
    Disk(scratch.path, kLarge).store(key(1), "one");
    fs::permissions(scratch.path, fs::perms::owner_read | fs::perms::owner_exec);
    // Root may write anywhere, so another user tries.
    int status = wait_for(in_process([&] {
      if (getuid() == 0 &&
          (chmod(scratch.root.c_str(), 0755) != 0 || chmod((scratch.root / "some").c_str(), 0755) != 0 ||
           chmod(scratch.path.c_str(), 0555) != 0 || setuid(65534) != 0)) {
        _exit(10);
      }
      Disk disk(scratch.path, kLarge);
      bool loaded = disk.load(key(1)) == "one";
      int count = warnings([&] {
        disk.store(key(2), "two");
        disk.store(key(3), "three");
      });
      bool missed = !disk.load(key(2));
      disk.prune();
      _exit(loaded && missed && count == 1 ? 0 : 1);
    }));
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
  });
  test("a full disk costs one warning and leaves nothing behind", [] {
    Scratch scratch;
    int status = wait_for(in_process([&] {
      // The same errors as a full disk, as far as the writer can tell: writes stop at a limit.
      signal(SIGXFSZ, SIG_IGN);
      rlimit limit{1000, 1000};
      Disk disk(scratch.path, kLarge);
      disk.store(key(1), "small");
      if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(10);
      // stderr may be a file, and over the limit itself.
      int count = 0;
      int pipes[2];
      if (pipe(pipes) != 0) _exit(11);
      dup2(pipes[1], STDERR_FILENO);
      disk.store(key(2), contents(2, 5000));
      disk.store(key(3), contents(3, 5000));
      close(pipes[1]);
      close(STDERR_FILENO);
      char text[2000];
      ssize_t size = read(pipes[0], text, sizeof text);
      std::string warning(text, size_t(std::max<ssize_t>(size, 0)));
      for (size_t at = 0; (at = warning.find("cannot be kept", at)) != std::string::npos; ++at) ++count;
      _exit(disk.load(key(1)) == "small" && !disk.load(key(2)) && count == 1 && file_count(scratch.path) == 1 ? 0 : 1);
    }));
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
  });
}

void crowding() {
  test("the files unused for longest go first", [] {
    Scratch scratch;
    Disk disk(scratch.path, 10000);
    for (int i = 0; i < 9; ++i) {
      disk.store(key(i), contents(i, 1000));
      set_age(scratch.file(key(i)), std::chrono::minutes(100 - i));
    }
    CHECK(disk.load(key(0)).has_value());  // used now
    disk.store(key(9), contents(9, 1000));
    CHECK(disk.stats().bytes <= 10000);
    CHECK(disk.load(key(0)).has_value());
    CHECK(!disk.load(key(1)));
    CHECK(disk.load(key(8)).has_value());
    CHECK(disk.load(key(9)).has_value());
  });
  test("a program larger than the capacity is not kept", [] {
    Scratch scratch;
    Disk disk(scratch.path, 1000);
    disk.store(key(1), contents(1, 500));
    disk.store(key(2), contents(2, 2000));
    CHECK(disk.load(key(1)).has_value());
    CHECK(!disk.load(key(2)));
  });
  test("a directory grown by others is cut at the first store", [] {
    Scratch scratch;
    Disk big(scratch.path, kLarge);
    for (int i = 0; i < 20; ++i) big.store(key(i), contents(i, 1000));
    Disk small(scratch.path, 5000);
    small.store(key(100), contents(100, 100));
    CHECK(small.stats().bytes <= 5000);
    CHECK(small.load(key(100)).has_value());
  });
  test("two processes fill one directory", [] {
    Scratch scratch;
    constexpr int kFiles = 400;
    constexpr int64_t kCapacity = 200000;
    auto fill = [&](int seed) {
      Disk disk(scratch.path, kCapacity);
      for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < kFiles; ++i) {
          int k = (i * 37 + seed * 11) % kFiles;
          disk.store(key(k), contents(k, size_t(1000 + k)));
          int other = (i * 53 + seed) % kFiles;
          auto bytes = disk.load(key(other));
          if (bytes && *bytes != contents(other, size_t(1000 + other))) _exit(1);
        }
      }
      _exit(disk.stats().hits > 0 ? 0 : 2);
    };
    pid_t children[] = {in_process([&] { fill(1); }), in_process([&] { fill(2); })};
    for (pid_t child : children) {
      int status = wait_for(child);
      CHECK(WIFEXITED(status));
      CHECK_EQUAL(WEXITSTATUS(status), 0);
    }
    Disk disk(scratch.path, kCapacity);
    disk.prune();
    CHECK(disk.stats().bytes <= kCapacity);
    CHECK(disk.stats().files > 50);
  });
  test("many threads share one store", [] {
    Scratch scratch;
    Disk disk(scratch.path, 100000);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) {
          int k = (i * 7 + t) % 150;
          disk.store(key(k), contents(k, 1000));
          auto bytes = disk.load(key(k));
          if (bytes && *bytes != contents(k, 1000)) ++wrong;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK_EQUAL(wrong.load(), 0);
    CHECK_EQUAL(disk.stats().stores, 800);
  });
}

void killed_writers() {
  test("a writer that is killed leaves nothing that can be loaded", [] {
    Scratch scratch;
    int complete = 0;
    for (int round = 0; round < 20; ++round) {
      pid_t child = in_process([&] {
        Disk disk(scratch.path, kLarge);
        std::string bytes = contents(7, 8 << 20);
        for (int i = 0;; ++i) disk.store(key(i % 3), bytes);
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20 + round * 3));
      kill(child, SIGKILL);
      wait_for(child);
      Disk disk(scratch.path, kLarge);
      for (int i = 0; i < 3; ++i) {
        bool there = fs::exists(scratch.file(key(i)));
        auto bytes = disk.load(key(i));
        CHECK_EQUAL(there, bytes.has_value());
        if (bytes) CHECK(*bytes == contents(7, 8 << 20));
        complete += there;
      }
    }
    CHECK(complete > 0);
    // What they left behind goes once it is old, and not before: its writer may be alive.
    Disk disk(scratch.path, kLarge);
    std::ofstream(scratch.path / "1-2.unfinished") << "half";
    disk.prune();
    CHECK(fs::exists(scratch.path / "1-2.unfinished"));
    for (const auto& entry : fs::directory_iterator(scratch.path)) {
      if (entry.path().extension() == ".unfinished") set_age(entry.path(), std::chrono::minutes(61));
    }
    disk.prune();
    CHECK_EQUAL(int64_t(file_count(scratch.path)), disk.stats().files);
  });
}

}  // namespace

void disk() {
  round_trips();
  damage();
  unusable_directories();
  crowding();
  killed_writers();
  test("the features of a machine are the same each time", [] {
    CHECK_EQUAL(graph::machine_features().size(), 32u);
    CHECK_EQUAL(graph::machine_features(), graph::machine_features());
  });
}

}  // namespace tpu::test
