#include "labelshift/sites/node_list_watch.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "labelshift/core/base/error.hpp"

namespace labelshift {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBetweenLooks = std::chrono::milliseconds(500);

}  // namespace

NodeListWatch::NodeListWatch(std::string path, GrpcEngine& engine, std::vector<std::string> names, GrpcLog log)
    : path_(std::move(path)), engine_(engine), names_(std::move(names)), log_(std::move(log)), out_(names_.size()) {}

NodeListWatch::Stamp NodeListWatch::stamp() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return {};
  return {status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_size, status.st_ino};
}

void NodeListWatch::look(std::size_t fewest) {
  if (Clock::now() < looked_ + kBetweenLooks) return;
  looked_ = Clock::now();
  const Stamp now = stamp();
  if (now == known_) return;
  known_ = now;
  try {
    if (apply(read_node_list(path_), fewest)) return;
    known_ = {};
    if (waits_ == now) return;
    waits_ = now;
    log_(fmt::format("{} leaves {}; who is in stays as it was", path_,
                     fewest > 1
                         ? fmt::format("fewer than {} nodes in, and until training begins masks need as many", fewest)
                         : "no node in"));
  } catch (const Error& error) {
    log_(fmt::format("{}; who is in stays as it was", error.what()));
  }
}

bool NodeListWatch::apply(const std::vector<ListedNode>& list, std::size_t fewest) {
  std::set<std::string_view> in, known(names_.begin(), names_.end());
  known.insert(too_late_.begin(), too_late_.end());
  for (const ListedNode& node : list)
    if (!node.excluded) in.insert(node.name);
  const auto left = std::count_if(names_.begin(), names_.end(), [&](const auto& name) { return in.contains(name); });
  if (static_cast<std::size_t>(left) < fewest) return false;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const bool out = !in.contains(names_[i]);
    if (out == out_[i]) continue;
    out_[i] = out;
    out ? engine_.lock_out(names_[i]) : engine_.readmit(names_[i]);
    log_(fmt::format("{} is {} by {}", names_[i], out ? "locked out" : "let in again", path_));
  }
  for (const ListedNode& node : list) {
    if (node.excluded || known.contains(node.name)) continue;
    too_late_.push_back(node.name);
    log_(fmt::format("{} is new in {}, and can take part in a run that is not begun yet", node.name, path_));
  }
  return true;
}

}  // namespace labelshift
