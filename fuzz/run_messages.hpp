#pragma once

#include "fuzz/messages.hpp"
#include "labelshift/experiments/mpi/run_messages.hpp"

/// What the fuzzer and the test of its corpus do with what ranks say to each other between runs.
namespace labelshift::fuzz {

inline void read_run_message(std::span<const std::byte> bytes) {
  read_as<NextRun>(bytes);
  read_as<FoundData>(bytes);
  read_as<AllData>(bytes);
  read_as<StartRun>(bytes);
}

}  // namespace labelshift::fuzz
