#pragma once

#include <stdexcept>
#include <string>

#include "labelshift/core/base/error.hpp"
#include "labelshift/experiments/site_settings.hpp"

/// What the fuzzer and the test of its corpus do with the settings that a coordinator sends.
namespace labelshift::fuzz {

/// Reads the text, or lets it be refused by Error{kPeer} and nothing else. What was read must be written so that it is
/// read as the same. `model` is the TorchScript file that the site has: where it is empty, some texts ask for it.
inline void read_site_settings(const std::string& text, const std::string& model) {
  RunSettings read;
  try {
    read = labelshift::read_site_settings(text, model);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kPeer) throw std::logic_error("an error of the wrong kind");
    return;
  }
  const std::string written = site_settings_text(read, described_data(read.data));
  const RunSettings again = labelshift::read_site_settings(written, model);
  if (site_settings_text(again, described_data(again.data)) != written) throw std::logic_error("other settings");
}

}  // namespace labelshift::fuzz
