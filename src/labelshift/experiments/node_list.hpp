#pragma once

#include <string>
#include <vector>

namespace labelshift {

/// A node that may take part in a federation between sites.
struct ListedNode {
  std::string name;
  bool excluded = false;  // it is left out until it is not any more

  bool operator==(const ListedNode&) const = default;
};

/// Reads a list of nodes in TOML: a [[node]] with a name for each, in the order of their numbers, and `exclude = true`
/// for one that is to be left out.
///
/// Throws Error{kUsage} with file and line for text that is not TOML, an unknown key, a name that is none or comes
/// twice, and a list of nobody or of more than 10,000; Error{kInput} if the file cannot be read.
std::vector<ListedNode> read_node_list(const std::string& path);

/// The same of a text; `name` is what messages call it.
std::vector<ListedNode> parse_node_list(const std::string& text, const std::string& name);

}  // namespace labelshift
