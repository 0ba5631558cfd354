// Files of compiled programs: their format, how they get into the directory, and which have to leave it.
#include "graph/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

namespace tpu::graph {
namespace {

namespace fs = std::filesystem;

// A new format gets a new number: readers take files of another one for damaged.
constexpr char kMagic[8] = {'T', 'P', 'U', 'P', 'R', 'O', 'G', '1'};
constexpr size_t kHashSize = 32;

struct Header {
  char magic[sizeof kMagic];
  uint64_t length;           // of what follows
  char checksum[kHashSize];  // of key and contents
};
static_assert(sizeof(Header) == 48);

constexpr const char* kSuffix = ".program";
constexpr const char* kUnfinished = ".unfinished";
constexpr std::chrono::hours kDead{1};  // a writer that takes longer has died
constexpr int64_t kStoresBetweenLooks = 256;

class File {
 public:
  File(const fs::path& path, int flags) : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  File(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int operator*() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  // False if the file system took it back at the last moment.
  bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

bool write_all(int descriptor, const void* data, size_t size) {
  for (const char* p = static_cast<const char*>(data); size > 0;) {
    ssize_t count = ::write(descriptor, p, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    p += count;
    size -= size_t(count);
  }
  return true;
}

bool read_all(int descriptor, void* data, size_t size) {
  for (char* p = static_cast<char*>(data); size > 0;) {
    ssize_t count = ::read(descriptor, p, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    p += count;
    size -= size_t(count);
  }
  return true;
}

std::string checksum(const std::string& key, std::string_view bytes) { return hash128(key + hash128(bytes)); }

// Nothing if the file is not what was stored under the key.
std::optional<std::string> contents(const File& file, const std::string& key) {
  struct stat status;
  Header header;
  if (fstat(*file, &status) != 0 || !read_all(*file, &header, sizeof header)) return std::nullopt;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return std::nullopt;
  if (header.length != uint64_t(status.st_size) - sizeof header) return std::nullopt;
  std::string bytes(header.length, '\0');
  if (!read_all(*file, bytes.data(), bytes.size())) return std::nullopt;
  if (checksum(key, bytes) != std::string_view(header.checksum, kHashSize)) return std::nullopt;
  return bytes;
}

// No two writers share one, on whatever machines they run.
std::string unfinished_name() {
  std::random_device random;
  return concat(random(), "-", random(), kUnfinished);
}

struct Entry {
  fs::path path;
  fs::file_time_type used;
  int64_t bytes;
  bool unfinished;
};

std::vector<Entry> entries(const std::string& directory) {
  std::vector<Entry> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::string file = it->path().filename().string();
    bool unfinished = file.ends_with(kUnfinished);
    if (!unfinished && !file.ends_with(kSuffix)) continue;
    // Others remove files meanwhile.
    std::error_code gone;
    auto used = it->last_write_time(gone);
    if (gone) continue;
    auto bytes = it->file_size(gone);
    if (!gone) found.push_back({it->path(), used, int64_t(bytes), unfinished});
  }
  return found;
}

}  // namespace

Disk::Disk() : Disk(config::cache_dir(), config::cache_size()) {}

Disk::Disk(std::string directory, int64_t capacity)
    : directory_(capacity > 0 ? std::move(directory) : ""), capacity_(capacity) {}

std::optional<std::string> Disk::load(const std::string& key) {
  if (!enabled()) return std::nullopt;
  fs::path path = fs::path(directory_) / (key + kSuffix);
  File file(path, O_RDONLY);
  if (!file) {
    ++misses_;
    return std::nullopt;
  }
  std::optional<std::string> bytes = contents(file, key);
  if (!bytes) {
    ++misses_;
    log::line(log::Event::Cache, path.string(), " is damaged, removed");
    ::unlink(path.c_str());
    return std::nullopt;
  }
  ++hits_;
  // Marks it as used now. Where that is not allowed, pruning is not either.
  futimens(*file, nullptr);
  return bytes;
}

void Disk::store(const std::string& key, std::string_view bytes) {
  if (!enabled() || !writable_.load() || int64_t(bytes.size() + sizeof(Header)) > capacity_) return;
  if (!write(key, bytes)) return;
  ++stores_;
  bool due;
  {
    std::lock_guard guard(mutex_);
    if (estimate_ >= 0) estimate_ += int64_t(bytes.size() + sizeof(Header));
    due = estimate_ < 0 || estimate_ > capacity_ || ++stores_unchecked_ >= kStoresBetweenLooks;
  }
  if (due) prune();
}

bool Disk::write(const std::string& key, std::string_view bytes) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) {
    give_up(error.message());
    return false;
  }
  Header header;
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.length = bytes.size();
  std::memcpy(header.checksum, checksum(key, bytes).data(), kHashSize);

  fs::path unfinished = fs::path(directory_) / unfinished_name();
  fs::path path = fs::path(directory_) / (key + kSuffix);
  File file(unfinished, O_WRONLY | O_CREAT | O_EXCL);
  bool good = file && write_all(*file, &header, sizeof header) && write_all(*file, bytes.data(), bytes.size()) &&
              file.close() && ::rename(unfinished.c_str(), path.c_str()) == 0;
  if (!good) {
    std::string reason = std::strerror(errno);
    ::unlink(unfinished.c_str());
    give_up(reason);
  }
  return good;
}

void Disk::prune() {
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard || !enabled()) return;
  std::vector<Entry> all = entries(directory_);
  int64_t total = 0, removed = 0;
  auto now = fs::file_time_type::clock::now();
  std::error_code ignored;
  for (const Entry& e : all) {
    if (!e.unfinished) {
      total += e.bytes;
    } else if (now - e.used > kDead) {
      fs::remove(e.path, ignored);
    }
  }
  if (total > capacity_) {
    std::sort(all.begin(), all.end(), [](const Entry& x, const Entry& y) { return x.used < y.used; });
    // Well below, so that the next store does not come here again.
    for (const Entry& e : all) {
      if (total <= capacity_ - capacity_ / 10) break;
      if (e.unfinished) continue;
      std::error_code kept;
      fs::remove(e.path, kept);
      if (kept) continue;
      total -= e.bytes;
      ++removed;
    }
    log::line(log::Event::Cache, "removed ", removed, " programs from ", directory_, ", ", total, " bytes are left");
  }
  estimate_ = total;
  stores_unchecked_ = 0;
}

void Disk::give_up(const std::string& reason) {
  if (!writable_.exchange(false)) return;
  log::warn(concat("compiled programs cannot be kept in ", directory_, " (", reason,
                   "); the next run compiles them again. Set TORCH_TPU_CACHE_DIR to another directory, or to off"));
}

DiskStats Disk::stats() const {
  DiskStats stats{.hits = hits_, .misses = misses_, .stores = stores_};
  if (!enabled()) return stats;
  for (const Entry& e : entries(directory_)) {
    if (e.unfinished) continue;
    ++stats.files;
    stats.bytes += e.bytes;
  }
  return stats;
}

void Disk::reset_stats() { hits_ = misses_ = stores_ = 0; }

const std::string& machine_features() {
  static const std::string features = [] {
    // What compilers look at when they are asked to compile for this machine. ARM says Features for flags.
    const std::set<std::string> names = {"vendor_id", "cpu family",      "model",   "flags",
                                         "Features",  "CPU implementer", "CPU part"};
    struct utsname machine = {};
    uname(&machine);
    std::string text = machine.machine;
    std::ifstream file("/proc/cpuinfo");
    // The first processor speaks for all.
    for (std::string line; std::getline(file, line) && !line.empty();) {
      std::string name = line.substr(0, line.find_first_of("\t:"));
      if (names.contains(name)) text += "\n" + line;
    }
    return hash128(text);
  }();
  return features;
}

}  // namespace tpu::graph
