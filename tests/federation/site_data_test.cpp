#include "labelshift/federation/site_data.hpp"

#include <gmock/gmock.h>

#include "labelshift/federation/setting_error.hpp"
#include "tests/data/image_bytes.hpp"
#include "tests/data/scratch.hpp"

namespace labelshift {
namespace {

using testing::ElementsAre;

class SiteDataFolder : public Scratch {
 protected:
  SiteDataFolder() {
    std::filesystem::create_directory(path("site"));
    file("site/train.csv", "age,dose,label\n1,2,ill\n3,4,well\n5,6,ill\n");
    file("site/test.csv", "age,dose\n7,8\n");
  }
  SiteData read(std::vector<std::string> lacks = {}) const { return SiteData(path("site"), std::move(lacks)); }

  DataSettings like_this_{.nodes = 3, .classes = {"well", "ill"}, .columns = {"age", "dose"}};
};

TEST_F(SiteDataFolder, IsMatchedByNameInTheOrderOfTheFederation) {
  SiteData site = read();
  const SiteNode node = site.in_terms_of(like_this_);
  EXPECT_THAT(node.data.train->labels, ElementsAre(1, 0, 1));
  EXPECT_THAT(node.data.train->class_names, ElementsAre("well", "ill"));
  EXPECT_THAT(node.data.train_rows, ElementsAre(0, 1, 2));
  EXPECT_THAT(node.data.test->labels, testing::IsEmpty());
  EXPECT_THAT(node.data.test->class_names, ElementsAre("well", "ill"));
  like_this_.classes = {"ill", "well"};  // of another run; who uses the data as they were keeps them so
  EXPECT_THAT(site.in_terms_of(like_this_).data.train->labels, ElementsAre(0, 1, 0));
  EXPECT_THAT(node.data.train->labels, ElementsAre(1, 0, 1));
}

TEST_F(SiteDataFolder, LeavesColumnsOutThatAreNoPartOfAnExample) {
  file("site/train.csv", "id,age,dose,label\n901,1,2,ill\n902,3,4,well\n");
  file("site/test.csv", "id,age,dose\n903,7,8\n");
  const SiteNode node = SiteData(path("site"), {}, {"id"}).in_terms_of(like_this_);
  EXPECT_THAT(std::get<std::vector<float>>(node.data.train->values), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(std::get<std::vector<float>>(node.data.test->values), ElementsAre(7, 8));
  EXPECT_THROW(SiteData(path("site"), {}, {"ident"}), Error);
}

TEST_F(SiteDataFolder, TakesImagesForNoTableThatLacksColumns) {
  for (const char* name : {"images/train/ill/1.png", "images/train/well/1.png", "images/test/ill/1.png"}) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    file(name, grey_png(2, 3, 7));
  }
  expect_error(ErrorKind::kInput,
               "the training data of this site have examples of 1 x 3 x 2 values (channels x height x width), expected "
               "1 x 1 x 2; bring all to one shape, or have the federation's mended",
               [&] { SiteData(path("images"), {}).in_terms_of(like_this_); });
}

TEST_F(SiteDataFolder, RefusesAClassThatIsNoneOfTheFederation) {
  like_this_.classes = {"well", "sick"};
  expect_error(ErrorKind::kInput,
               "the training data of this site have the class ill, which is none of the federation's (well, sick); "
               "agree on the names",
               [&] { read().in_terms_of(like_this_); });
  file("site/test.csv", "age,dose,label\n7,8,dead\n");
  like_this_.classes = {"well", "ill"};
  expect_error(ErrorKind::kInput,
               "the test data of this site have the class dead, which is none of the federation's (well, ill); agree "
               "on the names",
               [&] { read().in_terms_of(like_this_); });
}

TEST_F(SiteDataFolder, RefusesToLackAClassUnlessItWasSaid) {
  like_this_.classes = {"well", "ill", "dead"};
  expect_error(ErrorKind::kInput,
               "the training data of this site have no example of the class dead; spell it as the others do, or say "
               "that the site lacks it",
               [&] { read().in_terms_of(like_this_); });
  SiteData site = read({"dead"});
  EXPECT_EQ(site.in_terms_of(like_this_).data.train->classes(), 3);
  expect_error(ErrorKind::kUsage,
               "this site is said to lack a class that the federation has not: unknown class \"ded\"; did you mean "
               "\"dead\"? (known: well, ill, dead)",
               [&] { read({"ded"}).in_terms_of(like_this_); });
  expect_error(ErrorKind::kUsage, "this site is said to lack the class ill, and its training data have it",
               [&] { read({"ill"}); });
}

TEST_F(SiteDataFolder, RefusesAnotherShapeAndOtherColumns) {
  like_this_.columns = {"dose", "age"};
  expect_error(ErrorKind::kInput,
               "column 1 of the training data of this site is age, expected dose; give all columns the same names in "
               "the same order",
               [&] { read().in_terms_of(like_this_); });
  like_this_.columns = {"age", "dose", "weight"};
  expect_error(
      ErrorKind::kInput,
      "the training data of this site lack the column weight; the federation's columns are age, dose, weight: look "
      "at the first line of the table, and at its separator",
      [&] { read().in_terms_of(like_this_); });
  like_this_.columns.clear();
  like_this_.shape = ExampleShape{1, 28, 28};
  expect_error(
      ErrorKind::kInput,
      "the training data of this site have examples of 1 x 1 x 2 values (channels x height x width), expected 1 x "
      "28 x 28; bring all to one shape, or have the federation's mended",
      [&] { read().in_terms_of(like_this_); });
}

TEST_F(SiteDataFolder, MustHaveOneOfEachPart) {
  file("site/train.tsv", "age\tdose\tlabel\n1\t2\till\n");
  expect_error(ErrorKind::kInput,
               "found both DIR/site/train.csv and DIR/site/train.tsv, expected one; take the other away",
               [&] { read(); });
  std::filesystem::remove(path("site/train.tsv"));
  std::filesystem::remove(path("site/test.csv"));
  expect_error(ErrorKind::kInput,
               "DIR/site has no test, expected a folder test with one sub-folder of images a class, or a table "
               "test.csv",
               [&] { read(); });
  std::filesystem::rename(path("site/train.csv"), path("site/test.csv"));
  file("site/train.csv", "age,dose\n7,8\n");
  expect_error(ErrorKind::kInput,
               "DIR/site/train: found no labels, expected one folder of images a class or a column called label: a "
               "node trains on them",
               [&] { read(); });
  expect_error(ErrorKind::kInput, "DIR/none is no folder, expected one that has train and test",
               [&] { SiteData(path("none"), {}); });
}

TEST_F(SiteDataFolder, IsDescribedWithoutData) {
  const FederatedData described = described_data(like_this_);
  EXPECT_EQ(described.nodes.size(), 3u);
  EXPECT_EQ(described.shape, (ExampleShape{1, 1, 2}));
  EXPECT_THAT(described.class_names, ElementsAre("well", "ill"));
  const auto expect_refused = [&](const std::string& key, const std::string& why, auto change) {
    DataSettings changed = like_this_;
    change(changed);
    try {
      check_data_settings(changed);
      ADD_FAILURE() << why;
    } catch (const SettingError& error) {
      EXPECT_EQ(error.key(), key);
      EXPECT_EQ(error.what(), why);
    }
  };
  expect_refused("data.classes", "data: found the class a only, expected at least 2",
                 [](DataSettings& data) { data.classes = {"a"}; });
  expect_refused("data.classes", "data: the class a is there twice; give each once", [](DataSettings& data) {
    data.classes = {"a", "b", "a"};
  });
  expect_refused("data.columns", "data: the column a is there twice; give each once", [](DataSettings& data) {
    data.columns = {"a", "a"};
  });
  const std::string what_example =
      "data: nothing says what one example is, or two things do; give shape, such as [1, 28, 28], for images, or "
      "columns for tables";
  expect_refused("data.classes", what_example, [](DataSettings& data) { data.columns.clear(); });
  expect_refused("data.classes", what_example, [](DataSettings& data) { data.shape = ExampleShape{1, 28, 28}; });
  expect_refused("data.classes",
                 "data: classes say what the data of sites are like, and here are data; leave one of them out",
                 [](DataSettings& data) { data.set = "mnist"; });
  expect_refused("data.partition", "data: sites have the data that they have, and need no partition; leave it out",
                 [](DataSettings& data) { data.partition = "iid"; });
  expect_refused("data.fraction", "data: a fraction goes with a data set, not with the data of sites; leave it out",
                 [](DataSettings& data) { data.fraction = 0.5; });
  const std::string elsewhere =
      "data: the data of this experiment are at sites; run it with labelshift coordinator, or give a data set or "
      "folders of nodes";
  expect_refused("data.classes", elsewhere, [](DataSettings& data) { data.nodes = 0; });
  expect_error(ErrorKind::kUsage, elsewhere, [&] { make_federated_data(like_this_, 0); });
  expect_refused("data.shape",
                 "data: data that are here are like what they are; leave it out, or give classes too for a federation "
                 "between sites",
                 [](DataSettings& data) {
                   data.classes.clear();
                   data.shape = ExampleShape{1, 28, 28};
                 });
}

}  // namespace
}  // namespace labelshift
