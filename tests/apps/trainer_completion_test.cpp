// Completion of the trainer's command line, by the shells themselves as far as they are here.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/error.h"
#include "core/shell_word.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

// What a command of bash prints, in lines.
std::vector<std::string> bash(const std::string& command) {
  FILE* pipe = popen(("bash -c " + shell_word(command) + " 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> part;
  while (size_t count = std::fread(part.data(), 1, part.size(), pipe)) {
    text.append(part.data(), count);
  }
  EXPECT_EQ(pclose(pipe), 0) << text;
  return lines_of(text);
}

// What bash offers in place of the last word, sorted.
std::vector<std::string> completed(const TrainerFolder& folder,
                                   const std::vector<std::string>& words) {
  std::string command = "cd " + folder.path().string() +
                        " && source <(" DUET_TRAINER " completion bash) && COMP_WORDS=(trainer";
  for (const std::string& word : words) command += " " + shell_word(word);
  command += ") COMP_CWORD=" + std::to_string(words.size()) +
             " && _trainer && printf '%s\\n' \"${COMPREPLY[@]}\"";
  std::vector<std::string> lines = bash(command);
  std::erase(lines, "");
  std::sort(lines.begin(), lines.end());
  return lines;
}

using Words = std::vector<std::string>;

TEST(TrainerCompletion, BashOffersCommandsAndOptions) {
  const TrainerFolder folder;
  EXPECT_EQ(completed(folder, {"ev"}), Words{"evaluate"});
  EXPECT_EQ(completed(folder, {"--conf"}), Words{"--config"});
  EXPECT_EQ(completed(folder, {"--re"}), Words{"--resume"});
  EXPECT_EQ(completed(folder, {"show", "--s"}), (Words{"--set", "--svg"}));
  EXPECT_EQ(completed(folder, {"evaluate", "--checkpoint", "run", "--ba"}),
            (Words{"--backend", "--batch"}));
  EXPECT_EQ(completed(folder, {"doctor", "--ba"}), Words{});
  // Every command and option that --help knows.
  const Outcome help = folder.run("--help");
  for (const char* start : {"", "-"}) {
    const Words offered = completed(folder, {start});
    EXPECT_GE(offered.size(), 7u);
    for (const std::string& word : offered) {
      EXPECT_NE(help.out.find(word), std::string::npos) << word;
    }
  }
}

TEST(TrainerCompletion, BashOffersFilesFoldersAndValues) {
  const TrainerFolder folder;
  folder.write("tiny folder/tiny net.yaml", "");
  EXPECT_EQ(completed(folder, {"--config", "ti"}), (Words{"tiny folder", "tiny.yaml"}));
  EXPECT_EQ(completed(folder, {"--config", "tiny folder/"}), Words{"tiny folder/tiny net.yaml"});
  EXPECT_EQ(completed(folder, {"--out", "ti"}), Words{"tiny folder"});
  EXPECT_EQ(completed(folder, {"report", "ti"}), Words{"tiny folder"});
  EXPECT_EQ(completed(folder, {"predict", "--checkpoint", "run", "ti"}),
            (Words{"tiny folder", "tiny.yaml"}));
  EXPECT_EQ(completed(folder, {"--epochs", ""}), Words{});
  EXPECT_EQ(completed(folder, {"list", "o"}), Words{"optimizers"});
  EXPECT_EQ(completed(folder, {"completion", ""}), (Words{"bash", "fish", "zsh"}));
  // The value of an option is no command.
  EXPECT_EQ(completed(folder, {"--out", "list", "--tens"}), Words{"--tensorboard"});
}

// Of every shell that is here: it reads its script.
TEST(TrainerCompletion, ShellsReadTheirScripts) {
  const TrainerFolder folder;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Outcome script = folder.run("completion " + shell);
    EXPECT_OUTCOME(script, kExitDone);
    for (const char* word : {"evaluate", "checkpoint", "tensorboard", "optimizers"}) {
      EXPECT_NE(script.out.find(word), std::string::npos) << shell << ": " << word;
    }
    folder.write(shell, script.out);
    const std::string file = (folder / shell).string();
    bash("! command -v " + shell + " >/dev/null || " + shell + " -n " + file);
  }
  EXPECT_OUTCOME(folder.run("completion tcsh"), kExitUsage, "tcsh", "{bash,zsh,fish}");
  EXPECT_OUTCOME(folder.run("completion"), kExitUsage, "shell is required");
}

}  // namespace
}  // namespace duet
