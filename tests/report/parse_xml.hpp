#pragma once

#include <cctype>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace labelshift {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // its own character data, without that of its children

  double number(const std::string& attribute) const { return std::stod(attributes.at(attribute)); }
  bool has_class(const std::string& css_class) const {
    const auto found = attributes.find("class");
    return found != attributes.end() && found->second == css_class;
  }
};

/// The elements of a document in the order in which they start. Knows elements, attributes, character data and the five
/// predefined entities, and throws std::runtime_error at the first place that is not well formed in that subset.
class XmlParser {
 public:
  explicit XmlParser(std::string_view document) : rest_(document) {
    read_element();
    skip_space();
    require(rest_.empty(), "text after the root element");
  }
  std::vector<XmlElement> elements;

 private:
  void require(bool fine, const std::string& what) const {
    if (!fine) throw std::runtime_error("not well formed: " + what + " before " + std::string(rest_.substr(0, 30)));
  }

  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }

  std::string read_name() {
    std::string name;
    while (!rest_.empty() && (std::isalnum(static_cast<unsigned char>(rest_[0])) || rest_[0] == '-')) {
      name += rest_[0];
      rest_.remove_prefix(1);
    }
    require(!name.empty(), "no name");
    return name;
  }

  /// Character data up to, not including, the first `stop`.
  std::string read_text(char stop) {
    std::string text;
    while (!rest_.empty() && rest_[0] != stop) {
      if (take("&amp;")) {
        text += '&';
      } else if (take("&lt;")) {
        text += '<';
      } else if (take("&gt;")) {
        text += '>';
      } else if (take("&quot;")) {
        text += '"';
      } else if (take("&#39;")) {
        text += '\'';
      } else {
        const auto byte = static_cast<unsigned char>(rest_[0]);
        require(byte != '<' && byte != '&' && byte != '>', "a character that must be escaped");
        require(byte >= 0x20 || byte == '\n' || byte == '\t' || byte == '\r', "a control character");
        text += rest_[0];
        rest_.remove_prefix(1);
      }
    }
    return text;
  }

  void read_element() {
    require(take("<"), "no element");
    const std::size_t at = elements.size();
    elements.push_back({.name = read_name(), .attributes = {}, .text = {}});
    while (true) {
      skip_space();
      if (take("/>")) return;
      if (take(">")) break;
      const std::string attribute = read_name();
      require(take("=\""), "no value");
      const bool added = elements[at].attributes.emplace(attribute, read_text('"')).second;
      require(added && take("\""), "a repeated or endless attribute");
    }
    while (true) {
      elements[at].text += read_text('<');
      if (take("</")) break;
      read_element();
    }
    require(read_name() == elements[at].name && take(">"), "a wrong end tag");
  }

  std::string_view rest_;
};

inline std::vector<XmlElement> parse_xml(const std::string& document) {
  return XmlParser(document).elements;
}

inline std::vector<XmlElement> with_class(const std::vector<XmlElement>& elements, const std::string& css_class) {
  std::vector<XmlElement> found;
  for (const XmlElement& element : elements)
    if (element.has_class(css_class)) found.push_back(element);
  return found;
}

}  // namespace labelshift
