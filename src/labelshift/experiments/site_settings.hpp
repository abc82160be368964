#pragma once

#include <string>

#include "labelshift/experiments/experiment.hpp"

namespace labelshift {

/// What nodes at sites are told of a run: all its settings, as text, but what its data are like instead of where they
/// are. A TorchScript file is named by its SHA-256.
///
/// Throws Error{kInput} if that file cannot be read.
std::string site_settings_text(const RunSettings& settings, const FederatedData& data);

/// Reads that text at a site, which believes nobody: no path is taken from it. Where it asks for a TorchScript file,
/// `model` is the local one, if there is any, and it must be the one that is asked for.
///
/// Throws Error{kPeer} for anything that site_settings_text() does not write.
RunSettings read_site_settings(const std::string& text, const std::string& model);

}  // namespace labelshift
