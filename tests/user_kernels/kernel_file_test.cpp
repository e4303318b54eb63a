#include "user_kernels/kernel_file.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

class KernelFileTest : public testing::Test {
 protected:
  std::string error_of_file(const std::string& name) const {
    folder_.write(name, "");
    return error_of<ConfigError>([&] { read_kernel_file(folder_ / name); });
  }

  const TemporaryFolder folder_;
};

TEST_F(KernelFileTest, IsNamedByLayerAndId) {
  folder_.write("conv2d_pool_relu_custom_my_own.cu", "text");
  const KernelFile file = read_kernel_file(folder_ / "conv2d_pool_relu_custom_my_own.cu");
  EXPECT_EQ(file.type, "conv2d_pool_relu");
  EXPECT_EQ(file.id, "custom_my_own");
  EXPECT_EQ(file.source, "text");
  EXPECT_EQ(file.hash.size(), 12u);
}

TEST_F(KernelFileTest, RefusesOtherNames) {
  EXPECT_TRUE(has(error_of_file("conv2d_mine.cu"), "conv2d_mine.cu: ", "LAYER_custom_NAME.cu"));
  EXPECT_TRUE(has(error_of_file("conv2d_custom_.cu"), "LAYER_custom_NAME.cu"));
  EXPECT_TRUE(has(error_of_file("conv2d_custom_a b.cu"), "small letters"));
  EXPECT_TRUE(has(error_of_file("conv2d_custom_mine.cpp"), "LAYER_custom_NAME.cu"));
  EXPECT_TRUE(has(error_of_file("convd_custom_mine.cu"), "no layer type 'convd'", "did you mean"));
}

TEST_F(KernelFileTest, RefusesWhatIsNoFile) {
  std::filesystem::create_directory(folder_ / "relu_custom_mine.cu");
  EXPECT_TRUE(has(error_of<DataError>([&] { read_kernel_file(folder_ / "relu_custom_mine.cu"); }),
                  "relu_custom_mine.cu"));
  EXPECT_TRUE(has(error_of<DataError>([&] { read_kernel_file(folder_ / "relu_custom_none.cu"); }),
                  "relu_custom_none.cu"));
}

TEST_F(KernelFileTest, ACopyHasAllHeaders) {
  folder_.write("common.h", "// common");
  folder_.write("own/relu_custom_mine.cu",
                "#include \"../common.h\"\n#include \"sub/a.h\"\n#include \"" +
                    (folder_ / "absolute.h").string() + "\"\n");
  folder_.write("own/sub/a.h", "#include \"b.h\"\n#include \"../../common.h\"\n");
  folder_.write("own/sub/b.h", "// b");
  folder_.write("absolute.h", "// absolute");
  const KernelFile file = read_kernel_file(folder_ / "own/relu_custom_mine.cu");
  EXPECT_EQ(file.headers.size(), 5u);
  for (const auto& [place, text] : copy_of(file)) {
    EXPECT_EQ(place.lexically_normal(), place);
    EXPECT_TRUE(place.string().starts_with("relu_custom_mine.")) << place;
    folder_.write("run/kernels/" + place.string(), text);
  }
  std::filesystem::remove_all(folder_ / "own");
  folder_.write("absolute.h", "// another");
  folder_.write("run/common.h", "// another");
  const KernelFile copy = read_kernel_file(folder_ / "run/kernels/relu_custom_mine.cu");
  EXPECT_EQ(copy.headers, file.headers);
  EXPECT_EQ(copy.hash, file.hash);
  EXPECT_EQ(kernel_files_in(folder_ / "run/kernels").size(), 1u);
}

TEST_F(KernelFileTest, RefusesTwoFilesOfOneName) {
  folder_.write("relu_custom_mine.cu", "#include \"sub/a.h\"\n#include \"b.h\"\n");
  folder_.write("sub/a.h", "#include \"b.h\"\n");
  folder_.write("sub/b.h", "// one");
  folder_.write("b.h", "// one");
  EXPECT_EQ(read_kernel_file(folder_ / "relu_custom_mine.cu").headers.size(), 2u);
  folder_.write("b.h", "// other");
  EXPECT_TRUE(has(error_of<ConfigError>([&] { read_kernel_file(folder_ / "relu_custom_mine.cu"); }),
                  "b.h", "rename one"));
}

TEST_F(KernelFileTest, OfAFolderThoseWithSuchNames) {
  folder_.write("relu_custom_b.cu", "");
  folder_.write("relu_custom_a.cu", "");
  folder_.write("main.cu", "");
  folder_.write("notes.txt", "");
  const auto files = kernel_files_in(folder_.path());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].filename(), "relu_custom_a.cu");
  EXPECT_EQ(kernel_files_in(files[0]), std::vector{files[0]});
}

TEST_F(KernelFileTest, AFileWithTheOtherDevicesEndIsTold) {
  for (const char* name : {"relu_custom_a.cu", "relu_custom_b.cpp", "relu_cpu_c.cu", "cpu_d.cu"}) {
    folder_.write(name, "");
  }
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(kernel_files_in(folder_.path()).size(), 1u);
  const std::string told =
      testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  EXPECT_TRUE(
      has(told, "relu_custom_b.cpp: is left out; kernels of that name are called relu_custom_b.cu",
          "relu_cpu_c.cu: is left out; kernels of that name are called relu_cpu_c.cpp"))
      << told;
  EXPECT_FALSE(has(told, "cpu_d.cu"));
}

TEST_F(KernelFileTest, AFolderMustBeOneAndHoldKernels) {
  EXPECT_TRUE(
      has(error_of<ConfigError>([&] { kernel_files_in(""); }), "the path of kernels is empty"));
  EXPECT_TRUE(has(error_of<ConfigError>([&] { kernel_files_in(folder_ / "none"); }),
                  "none: there is no such file or folder"));
  EXPECT_TRUE(has(error_of<ConfigError>([&] { kernel_files_in(folder_.path()); }),
                  "holds no kernels", "conv2d_custom_mine.cu"));
}

}  // namespace
}  // namespace duet
