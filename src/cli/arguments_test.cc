#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cli/command.h"

namespace lockstep::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Command& command(const std::string& name) {
  for (const Command& candidate : commands())
    if (candidate.name == name) return candidate;
  ADD_FAILURE() << "no command " << name;
  return commands()[0];
}

ParsedCommand parse(const std::string& name, const std::vector<std::string>& words) {
  auto parsed = parse_arguments(command(name), words);
  EXPECT_TRUE(parsed.is_ok()) << parsed.status().message();
  return parsed.is_ok() ? *parsed : ParsedCommand();
}

Status failure(const std::string& name, const std::vector<std::string>& words) {
  auto parsed = parse_arguments(command(name), words);
  EXPECT_FALSE(parsed.is_ok());
  return parsed.status();
}

TEST(Arguments, KebabAndSnakeWithAndWithoutEquals) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--batch-size", "7"}, {"--batch-size=7"}, {"--batch_size", "7"}, {"--batch_size=7"}}) {
    EXPECT_EQ(parse("train", words).value("batch-size", ""), "7") << words[0];
  }
}

TEST(Arguments, BoolsInEverySpelling) {
  EXPECT_EQ(parse("train", {"--bias"}).value("bias", "?"), "true");
  EXPECT_EQ(parse("train", {"--no-bias"}).value("bias", "?"), "false");
  EXPECT_EQ(parse("train", {"--bias=False"}).value("bias", "?"), "False");
  EXPECT_EQ(parse("train", {"--decay_lr=True"}).value("decay-lr", "?"), "True");
  EXPECT_EQ(parse("train", {"--no-decay_lr"}).value("decay-lr", "?"), "false");
  const ParsedCommand parsed = parse("train", {"--bias", "shakespeare-char"});
  EXPECT_THAT(parsed.arguments, ElementsAre("shakespeare-char")) << "a bool does not eat the recipe";
}

TEST(Arguments, NanogptsCommandLineParses) {
  const ParsedCommand parsed = parse(
      "train", {"config/train_shakespeare_char.py", "--device=cpu", "--compile=False", "--eval_iters=20",
                "--log_interval=1", "--block_size=64", "--batch_size=12", "--n_layer=4", "--n_head=4",
                "--n_embd=128", "--max_iters=2000", "--lr_decay_iters=2000", "--dropout=0.0"});
  EXPECT_THAT(parsed.arguments, ElementsAre("config/train_shakespeare_char.py"));
  EXPECT_EQ(parsed.value("device", ""), "cpu");
  EXPECT_EQ(parsed.value("compile", ""), "False");
  EXPECT_EQ(parsed.value("dropout", ""), "0.0");
  EXPECT_EQ(parsed.values.size(), 12u);
}

TEST(Arguments, LastOneCountsAndListsKeepAll) {
  const ParsedCommand parsed =
      parse("train", {"--seed", "1", "--data-path", "a", "--seed=2", "--data-path=b"});
  EXPECT_EQ(parsed.value("seed", ""), "2");
  EXPECT_THAT(parsed.list("data-path"), ElementsAre("a", "b"));
}

TEST(Arguments, ValuesMayBeginWithADash) {
  EXPECT_EQ(parse("sample", {"out", "--prompt", "-x"}).value("prompt", ""), "-x");
  EXPECT_EQ(parse("sample", {"out", "--prompt=--x"}).value("prompt", ""), "--x");
  EXPECT_EQ(parse("train", {"--learning-rate", "-1"}).value("learning-rate", ""), "-1");
}

TEST(Arguments, EmptyValueIsAValue) {
  const ParsedCommand parsed = parse("sample", {"out", "--prompt", ""});
  ASSERT_EQ(parsed.values.size(), 1u);
  EXPECT_EQ(parsed.value("prompt", "?"), "");
}

TEST(Arguments, UnknownFlagOffersTheNearest) {
  const Status status = failure("train", {"--learning-rat=1"});
  EXPECT_EQ(status.code(), Code::kUsage);
  EXPECT_EQ(status.message(), "lockstep train has no flag --learning-rat");
  EXPECT_EQ(status.hint(), "did you mean --learning-rate?");
  EXPECT_EQ(failure("train", {"--batchsize", "3"}).hint(), "did you mean --batch-size?");
  EXPECT_THAT(failure("train", {"--qqqqqqqqqqqqqqq"}).hint(), HasSubstr("--help"));
  EXPECT_THAT(failure("sample", {"out", "-q"}).message(), HasSubstr("no flag -q"));
}

TEST(Arguments, MissingValueAndWrongCountOfArguments) {
  EXPECT_THAT(failure("train", {"--seed"}).message(), HasSubstr("--seed"));
  EXPECT_THAT(failure("sample", {}).message(), HasSubstr("takes 1 argument, got none"));
  EXPECT_THAT(failure("sample", {"a", "b"}).message(), HasSubstr("'a' 'b'"));
  EXPECT_THAT(failure("train", {"a", "b"}).hint(), HasSubstr("usage: lockstep train"));
}

TEST(Arguments, HelpWinsOverMissingArguments) {
  EXPECT_TRUE(parse("sample", {"--help"}).help);
  EXPECT_TRUE(parse("train", {"-h"}).help);
}

TEST(Help, CoversEveryFlagWithinTheWidth) {
  for (const Command& candidate : commands()) {
    const std::string help = command_help(candidate, 80);
    EXPECT_THAT(help, HasSubstr("usage: lockstep " + candidate.name));
    std::set<std::string> names;
    for (const Flag& flag : candidate.flags) {
      EXPECT_TRUE(names.insert(flag.name).second) << candidate.name << " --" << flag.name;
      if (flag.hidden()) continue;
      EXPECT_THAT(help, HasSubstr("--" + flag.name)) << candidate.name;
      EXPECT_FALSE(flag.help.empty()) << candidate.name << " --" << flag.name;
    }
  }
}

TEST(Wrap, BreaksAtSpacesAndKeepsLines) {
  EXPECT_EQ(wrap("aaaa bbbb cccc dddd eeee", 2, 22), "  aaaa bbbb cccc dddd\n  eeee\n");
  EXPECT_EQ(wrap("one\ntwo", 0, 30), "one\ntwo\n");
  EXPECT_EQ(wrap("", 0, 30), "");
  const std::string word(100, 'x');
  EXPECT_EQ(wrap(word, 0, 20), word + "\n");
}

TEST(FlagValues, NumbersAreWholeOrRefused) {
  EXPECT_EQ(*whole_number(parse("sample", {"o", "--count", "3"}), "count", 1), 3);
  EXPECT_EQ(*whole_number(parse("sample", {"o"}), "count", 9), 9);
  for (const char* text : {"3x", "1.5", "three", "99999999999999999999"})
    EXPECT_EQ(whole_number(parse("sample", {"o", "--count", text}), "count", 1).status().code(), Code::kUsage)
        << text;
  EXPECT_EQ(*real_number(parse("sample", {"o", "--temperature", "1e-1"}), "temperature", 1.0), 0.1);
}

}  // namespace
}  // namespace lockstep::cli
