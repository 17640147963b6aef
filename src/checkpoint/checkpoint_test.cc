#include "checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "checkpoint/testing/sample_checkpoint.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;
using testing::expect_whole;
using testing::FaultFileSystem;
using testing::find_quietly;
using testing::save;
using testing::steps_of;
using testing::Tensors;

TEST(Checkpoint, RoundTrip) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 12).is_ok());
  EXPECT_EQ(files.paths(),
            (std::vector<std::string>{
                "out", "out/checkpoints", "out/checkpoints/12", "out/checkpoints/12/model.safetensors",
                "out/checkpoints/12/optimizer.safetensors", "out/checkpoints/12/state.json"}));
  const auto all = list_checkpoints(files, "out");
  ASSERT_TRUE(all.is_ok());
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ((*all)[0].path, "out/checkpoints/12");
  expect_whole(files, (*all)[0]);
  EXPECT_TRUE(verify_checkpoint(files, (*all)[0].path).is_ok());
  EXPECT_EQ(read_checkpoint_state(files, (*all)[0].path).value(), (Json{{"seed", 7}, {"at", 12}}));
}

TEST(Checkpoint, ManifestNamesTheFilesTruthfully) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 3).is_ok());
  const auto manifest = read_checkpoint_manifest(files, "out/checkpoints/3");
  ASSERT_TRUE(manifest.is_ok());
  EXPECT_EQ(manifest->step, 3);
  ASSERT_EQ(manifest->files.size(), 2u);
  for (const CheckpointFile& file : manifest->files) {
    const std::string content = files.content("out/checkpoints/3/" + file.name).value_or("");
    EXPECT_EQ(file.bytes, content.size());
    EXPECT_EQ(file.xxh3_128, xxh3_hex(content));
  }
}

TEST(Checkpoint, StateJsonIsTheDocumentedOne) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 3).is_ok());
  const std::string text = files.content("out/checkpoints/3/state.json").value_or("");
  const Json document = Json::parse(text);  // its seal does not keep other readers out
  EXPECT_EQ(document.at("format"), "lockstep-checkpoint");
  EXPECT_EQ(document.at("version"), 1);
  EXPECT_EQ(document.at("step"), 3);
  EXPECT_EQ(document.at("state").at("seed"), 7);
  EXPECT_EQ(document.size(), 6u);
  const std::string seal = ",\n\"xxh3_128\":\"" + document.at("xxh3_128").get<std::string>() + "\"}\n";
  ASSERT_TRUE(text.ends_with(seal));
  EXPECT_EQ(document.at("xxh3_128"), xxh3_hex(text.substr(0, text.size() - seal.size())));
}

TEST(Checkpoint, TheSameContentGivesTheSameBytes) {
  FaultFileSystem a, b;
  ASSERT_TRUE(save(a, 5).is_ok());
  ASSERT_TRUE(save(b, 5).is_ok());
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const std::string path = std::string("out/checkpoints/5/") + name;
    EXPECT_EQ(a.content(path), b.content(path));
  }
}

TEST(Checkpoint, RetentionKeepsTheNewest) {
  FaultFileSystem files;
  for (const int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(save(files, step, 2).is_ok());
  EXPECT_EQ(steps_of(files), (std::vector<int64_t>{40, 30}));
  ASSERT_TRUE(save(files, 50, 1).is_ok());
  EXPECT_EQ(steps_of(files), std::vector<int64_t>{50});
  EXPECT_EQ(files.list("out/checkpoints").value(), std::vector<std::string>{"50"});
}

TEST(Checkpoint, RetentionSortsByNumberNotByText) {
  FaultFileSystem files;
  for (const int64_t step : {8, 9, 10, 100}) ASSERT_TRUE(save(files, step, 2).is_ok());
  EXPECT_EQ(steps_of(files), (std::vector<int64_t>{100, 10}));
}

TEST(Checkpoint, RetentionLeavesLaterStepsAndCountsOnlyWholeOnes) {
  FaultFileSystem files;
  for (const int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(save(files, step, 9).is_ok());
  // A run that resumed from step 10 because 30 and 40 are broken, and 20 too:
  files.overwrite("out/checkpoints/20/model.safetensors", "short");
  files.overwrite("out/checkpoints/30/state.json", "{}");
  ASSERT_TRUE(save(files, 25, 2).is_ok());
  EXPECT_EQ(steps_of(files), (std::vector<int64_t>{40, 30, 25, 20, 10}));
  // keep = 2 means 25 and 10, for 20 is none; what is older than the last kept goes.
  ASSERT_TRUE(save(files, 26, 2).is_ok());
  EXPECT_EQ(steps_of(files), (std::vector<int64_t>{40, 30, 26, 25}));
}

TEST(Checkpoint, OtherNamesInTheFolderAreLeftAlone) {
  FaultFileSystem files;
  for (const char* name : {"007", "-3", "12x", "notes", "99999999999999999999", "5 ", "1e3"}) {
    const std::string path = std::string("out/checkpoints/") + name;
    ASSERT_TRUE(files.create_directories(path).is_ok());
    ASSERT_TRUE(files.create(path + "/state.json").is_ok());
  }
  for (const int64_t step : {100, 200}) ASSERT_TRUE(save(files, step, 1).is_ok());
  EXPECT_EQ(steps_of(files), std::vector<int64_t>{200});
  EXPECT_EQ(files.list("out/checkpoints").value().size(), 8u);
}

TEST(Checkpoint, LeftoversOfACrashAreRemoved) {
  FaultFileSystem files;
  ASSERT_TRUE(files.create_directories("out/checkpoints/7.tmp").is_ok());
  ASSERT_TRUE(files.create("out/checkpoints/7.tmp/junk").is_ok());
  ASSERT_TRUE(files.create_directories("out/checkpoints/3.old.tmp").is_ok());
  EXPECT_TRUE(steps_of(files).empty());
  ASSERT_TRUE(save(files, 7).is_ok());
  EXPECT_EQ(files.list("out/checkpoints").value(), std::vector<std::string>{"7"});
  EXPECT_EQ(files.list("out/checkpoints/7").value().size(), 3u);
}

TEST(Checkpoint, AValidOneOfTheSameStepIsKept) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 7).is_ok());
  const auto before = files.content("out/checkpoints/7/model.safetensors");
  Tensors other(1234);
  other.content.step = 7;
  ASSERT_TRUE(save_checkpoint(files, "out", other.content, Json::object(), 2).is_ok());
  EXPECT_EQ(files.content("out/checkpoints/7/model.safetensors"), before);
}

TEST(Checkpoint, AnInvalidOneOfTheSameStepIsReplaced) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 7).is_ok());
  files.overwrite("out/checkpoints/7/model.safetensors", "rotten");
  ASSERT_TRUE(save(files, 7).is_ok());
  expect_whole(files, {"out/checkpoints/7", 7});
  EXPECT_EQ(files.list("out/checkpoints").value(), std::vector<std::string>{"7"});
  // The same when nothing but an empty directory is there.
  ASSERT_TRUE(files.remove_all("out/checkpoints/7").is_ok());
  ASSERT_TRUE(files.create_directories("out/checkpoints/7").is_ok());
  ASSERT_TRUE(save(files, 7).is_ok());
  expect_whole(files, {"out/checkpoints/7", 7});
}

TEST(Checkpoint, NoneAtAll) {
  FaultFileSystem files;
  EXPECT_TRUE(steps_of(files).empty());
  const auto found = find_quietly(files);
  EXPECT_EQ(found.status().code(), Code::kData);
  EXPECT_EQ(found.status().message(), "no checkpoint in out/checkpoints");
  EXPECT_NE(found.status().hint(), "");
}

TEST(Checkpoint, FallsBackToTheNewestWholeOneAloud) {
  FaultFileSystem files;
  for (const int64_t step : {10, 20, 30}) ASSERT_TRUE(save(files, step, 9).is_ok());
  files.overwrite("out/checkpoints/30/optimizer.safetensors", "x");
  ASSERT_TRUE(files.remove_all("out/checkpoints/20/model.safetensors").is_ok());
  std::vector<std::string> warnings;
  const auto found = find_quietly(files, &warnings);
  ASSERT_TRUE(found.is_ok());
  EXPECT_EQ(found->step, 10);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].find("skipping checkpoint out/checkpoints/30: cannot use "
                             "out/checkpoints/30/optimizer.safetensors: it has 1 bytes, state.json says "),
            0u)
      << warnings[0];
  EXPECT_EQ(warnings[1],
            "skipping checkpoint out/checkpoints/20: cannot open "
            "out/checkpoints/20/model.safetensors: No such file or directory");
  files.overwrite("out/checkpoints/10/state.json", "");
  const auto none = find_quietly(files);
  EXPECT_EQ(none.status().code(), Code::kData);
  EXPECT_EQ(none.status().message(), "none of the 3 checkpoints in out/checkpoints is whole");
}

/// Changes one file of a good checkpoint and expects that loading names it and changes nothing.
void expect_refused(FaultFileSystem& files, const std::string& name, const std::string& content,
                    const std::string& what) {
  const std::string path = "out/checkpoints/4/" + name;
  const std::string good = files.content(path).value_or("");
  files.overwrite(path, content);
  Tensors target(99);
  target.content.step = 77;
  const Status status = load_checkpoint(files, "out/checkpoints/4", target.content);
  EXPECT_EQ(status.code(), Code::kData) << what;
  EXPECT_NE(status.message().find(path), std::string::npos) << what << ": " << status.message();
  EXPECT_NE(status.hint(), "") << what;
  EXPECT_EQ(target.all(), Tensors(99).all()) << what;
  EXPECT_EQ(target.content.step, 77) << what;
  EXPECT_FALSE(verify_checkpoint(files, "out/checkpoints/4").is_ok()) << what;
  files.overwrite(path, good);
}

TEST(Checkpoint, EveryFlippedByteIsFound) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 4).is_ok());
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const std::string good = files.content(std::string("out/checkpoints/4/") + name).value_or("");
    ASSERT_GT(good.size(), 100u);
    for (size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
      expect_refused(files, name, bad, fmt::format("{} byte {}", name, at));
    }
  }
  expect_whole(files, {"out/checkpoints/4", 4});
}

TEST(Checkpoint, EveryTruncationIsFound) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 4).is_ok());
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const std::string good = files.content(std::string("out/checkpoints/4/") + name).value_or("");
    for (size_t bytes = 0; bytes < good.size(); ++bytes)
      expect_refused(files, name, good.substr(0, bytes), fmt::format("{} cut to {}", name, bytes));
    expect_refused(files, name, good + "x", fmt::format("{} with a tail", name));
  }
}

TEST(Checkpoint, AFlippedBitNamesBothHashes) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 4).is_ok());
  const std::string path = "out/checkpoints/4/model.safetensors";
  std::string bad = files.content(path).value_or("");
  const std::string expected = xxh3_hex(bad);
  bad.back() = static_cast<char>(bad.back() ^ 1);
  files.overwrite(path, bad);
  Tensors target;
  const Status status = load_checkpoint(files, "out/checkpoints/4", target.content);
  EXPECT_EQ(status.message(), fmt::format("cannot use {}: its XXH3-128 is {}, state.json says {}", path,
                                          xxh3_hex(bad), expected));
}

TEST(Checkpoint, SwappedFilesAreFound) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 4).is_ok());
  ASSERT_TRUE(save(files, 5, 9).is_ok());
  const auto of = [&](const std::string& path) {
    return files.content("out/checkpoints/" + path).value_or("");
  };
  expect_refused(files, "model.safetensors", of("4/optimizer.safetensors"), "the other file");
  expect_refused(files, "model.safetensors", of("5/model.safetensors"), "another step's model");
  expect_refused(files, "state.json", of("5/state.json").substr(0, 40), "a part of another state");
  // A whole state of another step is sound in itself; then the tensors are the ones that do not fit.
  files.overwrite("out/checkpoints/4/state.json", of("5/state.json"));
  EXPECT_EQ(verify_checkpoint(files, "out/checkpoints/4").code(), Code::kData);
}

TEST(Checkpoint, AMissingFileIsNamed) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    FaultFileSystem files;
    ASSERT_TRUE(save(files, 4).is_ok());
    const std::string path = std::string("out/checkpoints/4/") + name;
    ASSERT_TRUE(files.remove_all(path).is_ok());
    Tensors target;
    const Status status = load_checkpoint(files, "out/checkpoints/4", target.content);
    EXPECT_EQ(status.code(), Code::kIo);
    EXPECT_EQ(status.message(), "cannot open " + path + ": No such file or directory");
  }
}

/// state.json with other text and a seal that fits.
std::string sealed(const std::string& text) {
  return fmt::format("{},\n\"xxh3_128\":\"{}\"}}\n", text, xxh3_hex(text));
}

TEST(Checkpoint, ANewerVersionIsRefusedWithAHint) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 4).is_ok());
  const std::string path = "out/checkpoints/4/state.json";
  std::string text = files.content(path).value_or("");
  text.resize(text.rfind(",\n\"xxh3_128\""));
  text.replace(text.find("\"version\":1"), 11, "\"version\":2");
  files.overwrite(path, sealed(text));
  const auto state = read_checkpoint_state(files, "out/checkpoints/4");
  EXPECT_EQ(state.status().code(), Code::kData);
  EXPECT_EQ(state.status().message(),
            "cannot use out/checkpoints/4/state.json: its format is version 2, this build reads up to 1");
  EXPECT_EQ(state.status().hint(), "use the lockstep that wrote it, or a newer one");
}

TEST(Checkpoint, SoundlySealedNonsenseIsRefused) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 4).is_ok());
  const std::string entry = R"({"bytes":1,"xxh3_128":"0"})";
  const std::string both = fmt::format(R"({{"model.safetensors":{0},"optimizer.safetensors":{0}}})", entry);
  const std::string begin = R"({"format":"lockstep-checkpoint","version":1,"step":4,"files":)";
  for (const std::string& text : std::vector<std::string>{
           "", "{", "[1", R"({"format":"other","version":1,"step":4,"files":{},"state":{})",
           R"({"version":1,"step":4,"files":{},"state":{})",
           R"({"format":"lockstep-checkpoint","step":4,"files":{},"state":{})",
           R"({"format":"lockstep-checkpoint","version":"1","step":4,"files":{},"state":{})",
           R"({"format":"lockstep-checkpoint","version":0,"step":4,"files":)" + both + R"(,"state":{})",
           R"({"format":"lockstep-checkpoint","version":1,"step":-4,"files":)" + both + R"(,"state":{})",
           R"({"format":"lockstep-checkpoint","version":1,"step":1e9,"files":)" + both + R"(,"state":{})",
           begin + "[]" + R"(,"state":{})", begin + "{}" + R"(,"state":{})", begin + both,
           begin + R"({"model.safetensors":3,"optimizer.safetensors":4},"state":{})",
           begin + R"({"model.safetensors":{"bytes":-1,"xxh3_128":"0"},"optimizer.safetensors":)" + entry +
               R"(},"state":{})",
           begin + both + R"(,"state":)" + std::string(100000, '[') + std::string(100000, ']')}) {
    files.overwrite("out/checkpoints/4/state.json", sealed(text));
    const auto state = read_checkpoint_state(files, "out/checkpoints/4");
    EXPECT_EQ(state.status().code(), Code::kData) << text.substr(0, 200);
  }
  // The same frame with nothing wrong is read, so it was the contents that were refused.
  files.overwrite("out/checkpoints/4/state.json", sealed(begin + both + R"(,"state":{"a":[[1]]})"));
  const auto good = read_checkpoint_state(files, "out/checkpoints/4");
  ASSERT_TRUE(good.is_ok()) << good.status().message();
  EXPECT_EQ(good->dump(), R"({"a":[[1]]})");
}

TEST(Checkpoint, AnotherModelIsNamedByItsFirstWrongTensor) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 4).is_ok());
  const auto load = [&](const std::function<void(CheckpointContent&)>& alter) {
    Tensors target(99);
    alter(target.content);
    const Status status = load_checkpoint(files, "out/checkpoints/4", target.content);
    EXPECT_EQ(status.code(), Code::kData);
    EXPECT_EQ(target.all(), Tensors(99).all());
    EXPECT_NE(status.hint(), "");
    return status.message();
  };
  EXPECT_EQ(
      load([](CheckpointContent& c) { c.model[0].shape = {4, 5}; }),
      "cannot load out/checkpoints/4/model.safetensors: tensor transformer.wte.weight has shape (5, 4), the "
      "model needs (4, 5)");
  EXPECT_EQ(load([](CheckpointContent& c) { c.model[1].name = "transformer.ln_f.bias"; }),
            "cannot load out/checkpoints/4/model.safetensors: it has no tensor transformer.ln_f.bias (4,)");
  EXPECT_EQ(load([](CheckpointContent& c) { c.model.pop_back(); }),
            "cannot load out/checkpoints/4/model.safetensors: its tensor transformer.ln_f.weight (4,) is not "
            "one of "
            "the model's");
  // The optimizer's file is checked before the model's is copied.
  EXPECT_EQ(load([](CheckpointContent& c) { c.optimizer[1].shape = {20}; }),
            "cannot load out/checkpoints/4/optimizer.safetensors: tensor exp_avg_sq.transformer.wte.weight "
            "has shape "
            "(5, 4), the model needs (20,)");
}

TEST(Checkpoint, AnotherElementTypeIsRefused) {
  FaultFileSystem files;
  Tensors tensors(4);
  ASSERT_TRUE(save(files, 4).is_ok());
  // A model file of the right names and shapes, but I32, under a state.json that vouches for it.
  std::vector<TensorEntry> entries;
  for (const NamedTensor& tensor : tensors.content.model) {
    const size_t count = tensor.shape.size() == 2 ? 20 : 4;
    entries.push_back({tensor.name, ElementType::kI32, tensor.shape,
                       std::as_bytes(std::span<const float>(tensor.data, count))});
  }
  const auto written = write_safetensors(files, "out/checkpoints/4/model.safetensors", entries);
  ASSERT_TRUE(written.is_ok());
  std::string text = files.content("out/checkpoints/4/state.json").value_or("");
  text.resize(text.rfind(",\n\"xxh3_128\""));
  const Json old = Json::parse(text + "}").at("files").at("model.safetensors");
  const std::string old_text = old.dump();
  const std::string new_text = Json{{"bytes", written->bytes}, {"xxh3_128", written->xxh3_128}}.dump();
  text.replace(text.find(old_text), old_text.size(), new_text);
  files.overwrite("out/checkpoints/4/state.json", sealed(text));
  const Status status = load_model(files, "out/checkpoints/4", tensors.content.model);
  EXPECT_EQ(status.message(),
            "cannot load out/checkpoints/4/model.safetensors: tensor transformer.wte.weight is I32, the "
            "model needs F32");
}

TEST(Checkpoint, TheModelAloneNeedsNoOptimizerFile) {
  FaultFileSystem files;
  ASSERT_TRUE(save(files, 4).is_ok());
  ASSERT_TRUE(files.remove_all("out/checkpoints/4/optimizer.safetensors").is_ok());
  Tensors loaded(0, false);
  const Status status = load_model(files, "out/checkpoints/4", loaded.content.model);
  ASSERT_TRUE(status.is_ok()) << status.message();
  const Tensors expected(4);
  EXPECT_TRUE(std::equal(loaded.content.model[0].data, loaded.content.model[0].data + 20,
                         expected.content.model[0].data));
  EXPECT_EQ(std::vector<float>(loaded.content.optimizer[0].data, loaded.content.optimizer[0].data + 20),
            std::vector<float>(20, 0.0f));
}

TEST(Checkpoint, StateWithBrokenUtf8OrNonFiniteNumbersIsStillSaved) {
  FaultFileSystem files;
  Tensors tensors(4);
  tensors.content.step = 4;
  const Json state{{"path", "caf\xe9"}, {"loss", std::nan("")}};
  ASSERT_TRUE(save_checkpoint(files, "out", tensors.content, state, 1).is_ok());
  const auto read = read_checkpoint_state(files, "out/checkpoints/4");
  ASSERT_TRUE(read.is_ok()) << read.status().message();
  EXPECT_EQ(read->at("path"), "caf\xef\xbf\xbd");
  EXPECT_TRUE(read->at("loss").is_null());
}

TEST(Checkpoint, OnTheRealFileSystem) {
  FileSystem& files = real_file_system();
  const std::string out = ::testing::TempDir() + "lockstep-checkpoint-test";
  ASSERT_TRUE(files.remove_all(out).is_ok());
  for (const int64_t step : {1, 2, 3}) {
    Tensors tensors(static_cast<uint64_t>(step));
    tensors.content.step = step;
    const Status status = save_checkpoint(files, out, tensors.content, Json{{"at", step}}, 2);
    ASSERT_TRUE(status.is_ok()) << status.message();
  }
  EXPECT_EQ(files.list(out + "/checkpoints").value(), (std::vector<std::string>{"2", "3"}));
  const auto found = find_latest_valid_checkpoint(files, out);
  ASSERT_TRUE(found.is_ok()) << found.status().message();
  EXPECT_EQ(found->step, 3);
  expect_whole(files, *found);
  EXPECT_TRUE(files.remove_all(out).is_ok());
}

}  // namespace
}  // namespace lockstep
