#include "labelshift/experiments/site_settings.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "fuzz/site_settings.hpp"
#include "labelshift/data/files/sha256.hpp"
#include "labelshift/experiments/experiment_file.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::HasSubstr;
using testing::Not;

class SiteSettings : public Scratch {
 protected:
  SiteSettings() {
    data_.nodes.resize(3);
    data_.shape = {1, 28, 28};
    data_.class_names = {"cat", "dog's \"toy\""};
    settings_.data.set = "/secret/place";
    settings_.data.partition = "iid";
    settings_.federation.seed = 12345678901;
    settings_.federation.algorithm = "scaffold";
    settings_.federation.local.steps = 3;
    settings_.federation.local.learning_rate = 1.0 / 3.0;
    settings_.federation.ratio.method = "vrls";
    settings_.federation.ratio.max_ratio = 7.5;
    settings_.federation.model.settings = {{"width", "8"}};
  }
  std::string text() const { return site_settings_text(settings_, data_); }
  void expect_refused(const std::string& text, const std::string& why, const std::string& model = "") const {
    expect_error(ErrorKind::kPeer, "the coordinator's settings: " + why, [&] { read_site_settings(text, model); });
  }
  std::string replaced(const std::string& what, const std::string& by) const {
    std::string changed = text();
    const std::size_t at = changed.find(what);
    EXPECT_NE(at, std::string::npos) << what << " in\n" << changed;
    return changed.replace(at, what.size(), by);
  }

  RunSettings settings_;
  FederatedData data_;
};

TEST_F(SiteSettings, ArriveWholeWithoutAnyPath) {
  const RunSettings read = read_site_settings(text(), "");
  EXPECT_EQ(read.data.nodes, 3);
  EXPECT_EQ(read.data.classes, data_.class_names);
  EXPECT_EQ(read.data.shape, data_.shape);
  EXPECT_EQ(read.federation.seed, 12345678901u);
  EXPECT_THAT(text(), Not(HasSubstr("secret")));
  // All but the data is as it was: the same file comes of both.
  RunSettings expected = settings_;
  expected.data = read.data;
  const Experiment experiment{.name = "e", .title = "e"};
  EXPECT_EQ(write_experiment(experiment, {.name = "e", .settings = read}, 1),
            write_experiment(experiment, {.name = "e", .settings = expected}, 1));
  EXPECT_EQ(site_settings_text(read, data_), text());
}

TEST_F(SiteSettings, NameTheColumnsOfTables) {
  settings_.data = {.nodes = 3, .classes = data_.class_names, .columns = {"age", "dose"}};
  data_.shape = {1, 1, 2};
  EXPECT_EQ(read_site_settings(text(), "").data.columns, settings_.data.columns);
}

TEST_F(SiteSettings, TakeNoPathFromTheNetwork) {
  const std::string hint = "; no file is looked for by a name that comes over the network";
  expect_refused(replaced("\"lenet\"", "\"/etc/passwd\""),
                 "model.net is \"/etc/passwd\", which is no net of this version" + hint);
  expect_refused(replaced("\"lenet\"", "\"model.pt\""),
                 "model.net is \"model.pt\", which is no net of this version" + hint);
  expect_refused(replaced("\"mlp\"", "\"../x\""), "ratio.net is \"../x\", which is no net of this version" + hint);
  expect_refused(replaced("\"mlp\"", "7"), "ratio.net is no text");
  expect_refused(replaced("\"mlp\"", "\"sha256:../x\""), "ratio.net is \"sha256:../x\", which is no SHA-256");
  expect_refused(replaced("[data]", "[data]\nset = \"/etc\""),
                 "data.\"set\" is nothing that a coordinator says to a site");
  expect_refused(replaced("[data]", "[data]\nfolders = [{train = \"/a\", test = \"/b\"}]"),
                 "data.\"folders\" is nothing that a coordinator says to a site");
  expect_refused(text() + "[[compare]]\nname = \"a\"\ndata.set = \"/etc\"\n",
                 "\"compare\" is nothing that a coordinator says to a site");
  expect_refused(replaced("[model]", "[model]\nstart = \"/etc/passwd\""),
                 "model.start is nothing that a coordinator says to a site");
  settings_.federation.start = "/home/me/model.safetensors";
  EXPECT_THAT(text(), Not(HasSubstr("home")));
}

TEST_F(SiteSettings, LoadTorchScriptFromTheLocalFileThatIsMeantAlone) {
  settings_.federation.model = {file("net.pt", "weights"), {}};
  const std::string sum = sha256_of("weights");
  EXPECT_THAT(text(), HasSubstr("\"sha256:" + sum + "\""));
  EXPECT_THAT(text(), Not(HasSubstr("net.pt")));
  EXPECT_EQ(read_site_settings(text(), file("local.pt", "weights")).federation.model.name, path("local.pt"));
  expect_refused(text(), "model.net is a TorchScript file with the SHA-256 " + sum +
                             "; get it from somebody you trust, and name it");
  expect_refused(text(),
                 "model.net is a TorchScript file with the SHA-256 " + sum + ", and the one that this site has has " +
                     sha256_of("other weights"),
                 file("other.pt", "other weights"));
}

TEST_F(SiteSettings, AreRefusedWhereTheyMakeNoSense) {
  expect_refused("", "they do not say what the data are like");
  expect_error(ErrorKind::kPeer,
               "the coordinator's settings, line 1: Error while parsing table header: encountered end-of-file",
               [] { read_site_settings("[data", ""); });
  expect_error(ErrorKind::kPeer,
               "the coordinator's settings, line 1: Error while parsing key: expected bare key starting character or "
               "string delimiter, saw '!'",
               [] { read_site_settings("[!data]", ""); });
  expect_refused("[data]\nnodes = 3\n", "they do not say which classes there are");
  expect_refused(std::string(1'000'001, ' '), "they have 1000001 bytes, expected fewer");
  try {
    read_site_settings(replaced("rounds = 5000", "rounds = -1"), "");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeer);
    EXPECT_THAT(error.what(), HasSubstr("training.rounds is -1, expected a whole number from 1 to 1000000000"));
  }
  EXPECT_THROW(read_site_settings(replaced("nodes = 3", "nodes = 0"), ""), Error);
  EXPECT_THROW(read_site_settings(replaced("\"scaffold\"", "\"magic\""), ""), Error);
}

TEST_F(SiteSettings, OfTheFuzzCorpusAreReadOrRefused) {
  int files = 0;
  const std::string model = file("empty.pt", "");
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(LABELSHIFT_EXAMPLES).parent_path() / "fuzz/corpus/site_settings")) {
    EXPECT_NO_THROW(fuzz::read_site_settings(bytes_of(entry.path()), model)) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 8);
}

}  // namespace
}  // namespace labelshift
