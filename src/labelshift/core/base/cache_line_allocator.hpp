#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace labelshift {

/// For vectors of types aligned to cache lines. The language's own way ends in memalign, which in glibc before 2.38
/// does not find freed blocks again: a thousand nets made one after another would leave a thousand holes.
template <typename Value>
struct CacheLineAllocator {
  using value_type = Value;
  static constexpr std::size_t kLine = 64;
  static_assert(alignof(Value) == kLine);

  CacheLineAllocator() = default;
  template <typename Other>
  CacheLineAllocator(const CacheLineAllocator<Other>&) {}

  Value* allocate(std::size_t count) {
    if (count > (SIZE_MAX - kLine) / sizeof(Value)) throw std::bad_array_new_length();
    char* whole = static_cast<char*>(::operator new(count * sizeof(Value) + kLine));
    // At least 8 bytes lie before the next line, since operator new aligns to 16: room for where the block begins.
    char* line = whole + (kLine - reinterpret_cast<std::uintptr_t>(whole) % kLine);
    reinterpret_cast<void**>(line)[-1] = whole;
    return reinterpret_cast<Value*>(line);
  }
  void deallocate(Value* values, std::size_t) { ::operator delete(reinterpret_cast<void**>(values)[-1]); }

  bool operator==(const CacheLineAllocator&) const { return true; }
};

}  // namespace labelshift
