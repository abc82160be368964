#include "labelshift/core/base/cpu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

TEST(Cpu, IsLoweredAndNeverRaised) {
  for (const Cpu native : {Cpu::kBaseline, Cpu::kAvx2, Cpu::kAvx512}) {
    EXPECT_EQ(lowered_cpu(native, nullptr), native);
    EXPECT_EQ(lowered_cpu(native, "avx512"), native);
    EXPECT_EQ(lowered_cpu(native, "avx2"), native == Cpu::kBaseline ? Cpu::kBaseline : Cpu::kAvx2);
    EXPECT_EQ(lowered_cpu(native, "baseline"), Cpu::kBaseline);
  }
}

TEST(Cpu, RefusesANameThatIsNone) {
  for (const char* name : {"", "AVX2", "avx", "avx512 "}) {
    try {
      lowered_cpu(Cpu::kAvx512, name);
      ADD_FAILURE() << '"' << name << "\" was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), testing::HasSubstr(std::string("LABELSHIFT_CPU is \"") + name +
                                                   "\", expected avx512, avx2 or baseline"));
    }
  }
}

TEST(Cpu, IsAtMostWhatTheProcessorHas) {
  EXPECT_LE(cpu(), native_cpu());
}

TEST(Cpu, RunsALoopOnce) {
  std::vector<double> values(1003, 1.0);
  on_this_cpu([&]() LABELSHIFT_INLINE {
    for (double& value : values) value *= 3.0;
  });
  EXPECT_THAT(values, testing::Each(3.0));
}

}  // namespace
}  // namespace labelshift
