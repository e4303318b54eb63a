#include "compare/tables/markdown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "compare/results/results_json.h"
#include "compare/results_fixture.h"
#include "compare/tables/marked_text.h"
#include "compare/tables/result_table.h"
#include "core/error.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

using nlohmann::json;

size_t bars(const std::string& line) {
  size_t found = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '|' && (i == 0 || line[i - 1] != '\\')) ++found;
  }
  return found;
}

// The rows of each table have as many cells as its heading; returns the number of tables.
size_t check_tables(const std::string& text) {
  size_t tables = 0, cells = 0;
  for (const std::string& line : lines_of(text)) {
    if (line.empty() || line[0] != '|') {
      cells = 0;
      continue;
    }
    if (cells == 0) {
      ++tables;
      cells = bars(line);
    }
    EXPECT_EQ(bars(line), cells) << line;
  }
  return tables;
}

TEST(Markdown, HasAllSections) {
  const std::string text = results_markdown(results_from(results_fixture()));
  EXPECT_TRUE(has(text, "# Comparison of test_data\n", "- made-up headline: custom is faster",
                  "## Layers, batch 64\n", "## Layers, batch 1024\n",
                  "### Largest errors, batch 64\n", "### The whole step, batch 64\n",
                  "## Training\n", "### By seed\n", "## Throughput of training\n",
                  "## Throughput of inference\n", "## The machine and the run\n",
                  "| GPU | Invented GPU for tests |",
                  "Repeat it: `compare --config test_data.yaml --a custom --b cudnn`\n",
                  "| conv1+pool1+relu1 | backward_filter |"));
  EXPECT_EQ(text.find("What is wrong"), std::string::npos);
  EXPECT_EQ(check_tables(text), 14u);
  EXPECT_EQ(text.find("\n\n\n"), std::string::npos);
}

TEST(Markdown, SummaryIsTheLayersAndWhereTheyWereMeasured) {
  const Results results = results_from(results_fixture());
  const std::string text = results_summary(results);
  EXPECT_EQ(check_tables(text), 2 * results.layers.size());
  EXPECT_TRUE(has(text, results.command, results.date));
}

TEST(MarkedText, IsReplacedAndNothingElse) {
  const TemporaryFolder folder;
  const auto file = folder / "page.md";
  const auto write = [&](const std::string& text) { folder.write("page.md", text); };
  write("a\n<!-- compare -->\nold\n<!-- /compare -->\nb\n");
  const MarkedText marked = read_marked_text(file, "<!-- compare -->", "<!-- /compare -->");
  EXPECT_EQ(marked.text(), "old\n");
  EXPECT_EQ(marked.with("new\n"), "a\n<!-- compare -->\nnew\n<!-- /compare -->\nb\n");
  write("a\r\n<!-- compare -->\r\nold\r\n<!-- /compare -->\r\n");
  EXPECT_EQ(read_marked_text(file, "<!-- compare -->", "<!-- /compare -->").with("new\n"),
            "a\r\n<!-- compare -->\r\nnew\r\n<!-- /compare -->\r\n");
  for (const char* wrong :
       {"a\n", "<!-- compare -->\nold\n", "<!-- compare -->\n<!-- compare -->\n<!-- /compare -->\n",
        "<!-- /compare -->\n<!-- compare -->\n"}) {
    write(wrong);
    EXPECT_THROW(read_marked_text(file, "<!-- compare -->", "<!-- /compare -->"), ConfigError)
        << wrong;
  }
  std::filesystem::remove(file);
  EXPECT_THROW(read_marked_text(file, "<!-- compare -->", "<!-- /compare -->"), DataError);
}

TEST(Markdown, TellsAMismatchFirst) {
  const std::string text = results_markdown(results_from(mismatch_fixture()));
  EXPECT_EQ(
      text.find("**First mismatch:** conv2+pool2+relu2 forward by cudnn_test: y\\[0\\] is all"),
      text.find("\n\n") + 2);
  EXPECT_TRUE(has(text, "## What is wrong", "| **wrong** |"));
}

TEST(Markdown, TellsThatTheRunWasStopped) {
  Results results = results_from(results_fixture());
  results.stopped = "out of <memory>";
  const std::string text = results_markdown(results);
  EXPECT_EQ(text.find("**Stopped before its end:** out of &lt;memory&gt;; what had not been"),
            text.find("\n\n") + 2);
}

TEST(Markdown, NamesAreText) {
  EXPECT_EQ(markdown_text("a|b"), "a\\|b");
  EXPECT_EQ(markdown_text("<b>&"), "&lt;b&gt;&amp;");
  EXPECT_EQ(markdown_text("two\nlines"), "two lines");
  EXPECT_EQ(markdown_text("backward_filter _a_ *b* `c` [d](e)"),
            "backward_filter \\_a\\_ \\*b\\* \\`c\\` \\[d\\](e)");
  const std::string text = results_markdown(results_from(nasty_fixture()));
  EXPECT_EQ(check_tables(text), 15u);
  const std::string before_command = text.substr(0, text.find("Repeat it"));
  EXPECT_EQ(before_command.find('<'), std::string::npos);
}

TEST(Markdown, AnySectionMayBeMissing) {
  const json whole = results_fixture();
  for (const auto& [key, value] : whole.items()) {
    if (key == "arms") continue;
    json results = whole;
    results.erase(key);
    EXPECT_GT(check_tables(results_markdown(results_from(results))), 0u) << key;
  }
}

}  // namespace
}  // namespace duet
