#include "labelshift/federation/algorithms.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

TEST(Algorithms, HaveDifferentNamesAndAreFoundByThem) {
  std::set<std::string> names;
  for (const AlgorithmEntry& entry : algorithms()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(&find_algorithm(entry.name), &entry);
  }
}

TEST(Algorithms, SuggestANameForAMisspeltOne) {
  try {
    find_algorithm("FedAvg");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("did you mean \"fedavg\"?"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace labelshift
