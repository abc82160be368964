#include "labelshift/experiments/node_list.hpp"

#include <fmt/format.h>

#include <set>

#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/named_entries.hpp"
#include "labelshift/data/files/input_file.hpp"
#include "labelshift/experiments/toml_values.hpp"
#include "labelshift/tls/node_name.hpp"

namespace labelshift {
namespace {

constexpr std::size_t kMostListed = 10'000;  // every node has a stream, and masks with every other

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  std::vector<ListedNode> read(const toml::table& file) const {
    for (const auto& [key, value] : file)
      if (key.str() != "node") unknown("key", key, value, {"node"});
    const toml::node* list = file.get("node");
    const auto* entries = list ? list->as_array() : nullptr;
    if (!entries || entries->empty())
      throw Error(ErrorKind::kUsage,
                  fmt::format("{} lists no node; write [[node]] and name = \"...\" below it for each", name_));
    if (entries->size() > kMostListed)
      throw Error(ErrorKind::kUsage, fmt::format("{} lists {} nodes, expected at most {}; split them into several "
                                                 "federations",
                                                 name_, entries->size(), kMostListed));
    std::vector<ListedNode> result;
    std::set<std::string> names;
    for (const toml::node& entry : *entries) {
      ListedNode node = read_node(entry);
      if (!names.insert(node.name).second)
        fail(entry, fmt::format("the node {} is there twice; list each once", node.name));
      result.push_back(std::move(node));
    }
    return result;
  }

 private:
  ListedNode read_node(const toml::node& entry) const {
    const auto* table = entry.as_table();
    if (!table) fail(entry, "node is no list of tables; write [[node]] above each");
    ListedNode node;
    for (const auto& [key, value] : *table) {
      if (key.str() == "name") {
        const auto* text = value.as_string();
        if (!text) fail(value, "name is no text; write it in quotes");
        if (!is_node_name(text->get())) refuse_name(value, text->get());
        node.name = text->get();
      } else if (key.str() == "exclude") {
        const auto* flag = value.as_boolean();
        if (!flag) fail(value, "exclude is neither true nor false; write one of them");
        node.excluded = flag->get();
      } else {
        unknown("key of [[node]]", key, value, {"name", "exclude"});
      }
    }
    if (node.name.empty()) fail(entry, "a [[node]] has no name; give it the common name of its certificate");
    return node;
  }

  void refuse_name(const toml::node& value, const std::string& name) const {
    try {
      check_node_name(name);
    } catch (const Error& error) {
      fail(value, error.what());
    }
  }
  [[noreturn]] void fail(const toml::node& value, const std::string& why) const {
    throw Error(ErrorKind::kUsage, fmt::format("{}, line {}: {}", name_, value.source().begin.line, why));
  }
  void unknown(const char* kind, const toml::key& key, const toml::node& value,
               const std::vector<std::string>& known) const {
    fail(value, unknown_name(kind, std::string(key.str()), known).what());
  }

  const std::string& name_;
};

}  // namespace

std::vector<ListedNode> parse_node_list(const std::string& text, const std::string& name) {
  return Reader(name).read(parse_toml(text, name, "a list of nodes"));
}

std::vector<ListedNode> read_node_list(const std::string& path) {
  return parse_node_list(read_file(path), path);
}

}  // namespace labelshift
