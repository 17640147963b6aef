#include "train/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

namespace lockstep {
namespace {

using testing::Contains;
using testing::HasSubstr;

Recipe builtin(const std::string& name) {
  auto loaded = load_recipe(real_file_system(), name);
  EXPECT_TRUE(loaded.is_ok()) << loaded.status().message();
  return loaded.is_ok() ? loaded->recipe : Recipe();
}

class RecipeFiles : public testing::Test {
 protected:
  RecipeFiles() : folder_(testing::TempDir() + "recipe_test_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~RecipeFiles() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    EXPECT_TRUE(write_file_atomically(real_file_system(), path, text).is_ok());
    return path;
  }
  std::string folder_;
};

TEST(Recipe, EveryBuiltinIsValidAndSaysWhatItIs) {
  ASSERT_GE(builtin_recipes().size(), 4u);
  for (const BuiltinRecipe& embedded : builtin_recipes()) {
    const Recipe recipe = builtin(embedded.name);
    EXPECT_TRUE(validate_recipe(recipe).is_ok()) << embedded.name;
    EXPECT_EQ(recipe.name, embedded.name);
    EXPECT_FALSE(recipe_summary(embedded).empty()) << embedded.name;
  }
}

TEST(Recipe, CpuVariantHasThePublishedNumbers) {
  const Recipe recipe = builtin("shakespeare-char-cpu");
  EXPECT_EQ(recipe.n_layer, 4);
  EXPECT_EQ(recipe.n_embd, 128);
  EXPECT_EQ(recipe.block_size, 64);
  EXPECT_EQ(recipe.rows_per_step(), 12);
  EXPECT_EQ(recipe.max_iters, 2000);
  EXPECT_EQ(recipe.lr_decay_iters, 2000);
  EXPECT_DOUBLE_EQ(recipe.learning_rate, 1e-3);
  EXPECT_DOUBLE_EQ(recipe.beta2, 0.99);
  EXPECT_EQ(recipe.warmup_iters, 100);
  EXPECT_EQ(recipe.eval_interval, 250);
  EXPECT_EQ(recipe.eval_iters, 20);
  EXPECT_DOUBLE_EQ(recipe.dropout, 0.0);
  EXPECT_FALSE(recipe.bias);
}

TEST(Recipe, GptRecipeHasNanogptsTokensPerStep) {
  const Recipe recipe = builtin("gpt2-124m");
  EXPECT_EQ(recipe.rows_per_step() * recipe.block_size, 491520);
}

TEST(Recipe, JsonKeepsEveryOption) {
  Recipe recipe = builtin("shakespeare-char");
  recipe.seed = 9007199254740991;
  recipe.learning_rate = 1.0 / 3.0;
  recipe.out_dir = "some where";
  const auto back = recipe_from_json(nlohmann::json::parse(recipe_to_json(recipe).dump()));
  ASSERT_TRUE(back.is_ok()) << back.status().message();
  EXPECT_EQ(back->name, recipe.name);
  for (const RecipeOption& option : recipe_options())
    EXPECT_EQ(option_value(*back, option), option_value(recipe, option)) << option.name;
}

TEST(Recipe, StoredNonsenseIsData) {
  for (const char* text : {R"([])", R"({"n_layer": "four"})", R"({"dropout": 7})", R"({"bias": 1})"}) {
    const auto result = recipe_from_json(nlohmann::json::parse(text));
    ASSERT_FALSE(result.is_ok()) << text;
    EXPECT_EQ(result.status().code(), Code::kData);
  }
}

TEST(RecipeOptions, NamesAreUniqueAndHelpIsAParagraph) {
  std::set<std::string> names;
  for (const RecipeOption& option : recipe_options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_GE(option.help.size(), 40u) << option.name;
    EXPECT_EQ(option.help.back(), '.') << option.name;
    EXPECT_EQ(find_recipe_option(option.flag()), &option);
    EXPECT_THAT((std::vector<std::string>{"model", "training", "run"}), Contains(option.section));
  }
}

TEST(RecipeOptions, BoundsHoldOnBothSides) {
  for (const RecipeOption& option : recipe_options()) {
    if (option.type() != OptionType::kInteger && option.type() != OptionType::kReal) continue;
    Recipe recipe;
    const auto set = [&](double value) { return set_option(recipe, option, value, "test"); };
    EXPECT_EQ(set(option.min).is_ok(), !option.open) << option.name;
    EXPECT_EQ(set(option.max).is_ok(), !option.open) << option.name;
    EXPECT_FALSE(set(option.min - 1).is_ok()) << option.name;
    EXPECT_FALSE(set(option.max * 2).is_ok()) << option.name;
    EXPECT_FALSE(set(NAN).is_ok()) << option.name;
    EXPECT_FALSE(set_option(recipe, option, std::string("much"), "test").is_ok()) << option.name;
    EXPECT_FALSE(set_option(recipe, option, true, "test").is_ok()) << option.name;
  }
}

TEST(RecipeOptions, ErrorNamesPlaceValueAndBounds) {
  Recipe recipe;
  const Status status = set_option(recipe, *find_recipe_option("n-head"), int64_t{0}, "--n-head");
  EXPECT_EQ(status.code(), Code::kUsage);
  EXPECT_EQ(status.message(), "cannot set n_head to 0 (--n-head): it must be a whole number from 1 to 1024");
  EXPECT_FALSE(status.hint().empty());
}

TEST(Recipe, SettingsThatContradictEachOtherAreRefused) {
  const auto broken = [](auto change) {
    Recipe recipe = builtin("shakespeare-char-cpu");
    change(recipe);
    return validate_recipe(recipe).message();
  };
  EXPECT_THAT(broken([](Recipe& r) { r.min_lr = 1.0; }), HasSubstr("min_lr 1 is above learning_rate 0.001"));
  EXPECT_THAT(broken([](Recipe& r) { r.warmup_iters = 3000; }), HasSubstr("warmup_iters 3000"));
  EXPECT_THAT(broken([](Recipe& r) { r.device_type = "cuda"; }), HasSubstr("CPU only"));
  EXPECT_NE(broken([](Recipe& r) { r.n_head = 3; }), "");
  EXPECT_EQ(broken([](Recipe&) {}), "");
}

TEST(LoadRecipe, UnknownNameOffersTheNearest) {
  const auto result = load_recipe(real_file_system(), "shakespear-char");
  ASSERT_FALSE(result.is_ok());
  EXPECT_EQ(result.status().code(), Code::kUsage);
  EXPECT_EQ(result.status().hint(), "did you mean shakespeare-char?");
}

TEST(LoadRecipe, NanogptsFileNameStandsForItsTwin) {
  const auto result = load_recipe(real_file_system(), "config/train_shakespeare_char.py");
  ASSERT_TRUE(result.is_ok()) << result.status().message();
  EXPECT_EQ(result->recipe.name, "shakespeare-char");
  ASSERT_EQ(result->notes.size(), 1u);
  EXPECT_THAT(result->notes[0], HasSubstr("shakespeare-char"));
}

TEST_F(RecipeFiles, NanogptConfigurationSetsItsKeys) {
  const std::string path = write("train_mine.py",
                                 "# mine\nout_dir = 'out-mine'\nwandb_log = False\ncompile = False\n"
                                 "dataset = 'shakespeare_char'\ndevice = 'cpu'\ndtype = 'float32'\n"
                                 "gradient_accumulation_steps = 5 * 8\nmax_iters = 6e2\n");
  const auto result = load_recipe(real_file_system(), path);
  ASSERT_TRUE(result.is_ok()) << result.status().message();
  EXPECT_EQ(result->recipe.out_dir, "out-mine");
  EXPECT_EQ(result->recipe.data, "shakespeare");
  EXPECT_EQ(result->recipe.device_type, "cpu");
  EXPECT_EQ(result->recipe.dtype, "fp32");
  EXPECT_EQ(result->recipe.gradient_accumulation_steps, 40);
  EXPECT_EQ(result->recipe.max_iters, 600);
  EXPECT_EQ(result->recipe.n_embd, 768) << "nanoGPT's own default";
  EXPECT_EQ(result->recipe.name, "train_mine");
  EXPECT_THAT(result->ignored, testing::ElementsAre("wandb_log", "compile"));
}

TEST_F(RecipeFiles, TomlExtendsABuiltin) {
  const std::string path = write(
      "big.toml", "extends = \"shakespeare-char-cpu\"\n[model]\nn_layer = 7\n[training]\nmax_iters = 3\n");
  const auto result = load_recipe(real_file_system(), path);
  ASSERT_TRUE(result.is_ok()) << result.status().message();
  EXPECT_EQ(result->recipe.n_layer, 7);
  EXPECT_EQ(result->recipe.n_embd, 128);
  EXPECT_EQ(result->recipe.max_iters, 3);
}

TEST_F(RecipeFiles, MistakesNameFileAndLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"[model]\nn_layers = 7\n", ".toml:2"},
      {"[model]\nmax_iters = 7\n", "max_iters belongs into [training], not [model]"},
      {"extends = \"nothing\"\n", "no built-in recipe"},
      {"[training]\nlearning_rate = \"high\"\n", ".toml:2"},
      {"init_from = \"gpt2-xl\"\n", "does not load OpenAI's weights"},
      {"device = \"tpu\"\n", "it must be cpu"},
  };
  for (const auto& [text, message] : cases) {
    const auto result = load_recipe(real_file_system(), write("bad.toml", text));
    ASSERT_FALSE(result.is_ok()) << text;
    EXPECT_EQ(result.status().code(), Code::kUsage);
    EXPECT_THAT(result.status().message(), HasSubstr(message));
  }
}

TEST_F(RecipeFiles, HugeRecipeIsRefusedBeforeItIsParsed) {
  // Every dot is a nested table: parsed, this overflows the stack when toml++ frees them.
  std::string text = "a";
  for (int i = 0; i < 100000; ++i) text += ".a";
  const auto result = load_recipe(real_file_system(), write("deep.toml", text + " = 1\n"));
  ASSERT_FALSE(result.is_ok());
  EXPECT_EQ(result.status().code(), Code::kUsage);
  EXPECT_THAT(result.status().message(), HasSubstr("200006 bytes"));
}

TEST_F(RecipeFiles, CudaCanBeOverriddenByALaterSetting) {
  const auto result = load_recipe(real_file_system(), write("gpu.py", "device = 'cuda:0'\nn_layer = 2\n"));
  ASSERT_TRUE(result.is_ok());
  Recipe recipe = result->recipe;
  EXPECT_FALSE(validate_recipe(recipe).is_ok());
  std::vector<std::string> ignored;
  const Setting cpu{"device", std::string("cpu"), "--device", ""};
  ASSERT_TRUE(apply_settings(recipe, real_file_system(), std::span(&cpu, 1), ignored).is_ok());
  EXPECT_TRUE(validate_recipe(recipe).is_ok());
}

}  // namespace
}  // namespace lockstep
