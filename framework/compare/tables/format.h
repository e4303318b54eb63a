// How compare and bench write numbers, alike in the console, in Markdown and in the report.
#pragma once

#include <cstdint>
#include <string>

namespace duet {

/// Stands for what was not measured.
inline constexpr const char* kNotMeasured = "-";
/// The number as `format` writes it, or kNotMeasured of NaN.
std::string shown(double value, std::string (*format)(double));

/// Three significant digits and never fewer than the integer has, with commas between thousands:
/// "0.412", "41.2", "41,234". What is not a number is "nan", "inf" or "-inf".
std::string format_significant(double value);
/// "2.11x"; three significant digits below 1 ("0.0474x"), two decimals above.
std::string format_speedup(double ratio);
/// "2.08 to 2.13", in the digits of format_speedup.
std::string format_interval(double low, double high);
/// A share as a percentage: "37%", "4.1%", "0.02%".
std::string format_share(double share);
/// Errors and differences: "3.1e-07", 0 as "0".
std::string format_error(double value);
/// A cosine with the digits that tell it from 1, at most nine: "0.9999998", "1".
std::string format_near_one(double value);
/// Counts, batch sizes and rates of images: "1,024".
std::string format_whole(double value);
/// An accuracy as a percentage with two decimals: "91.27%".
std::string format_accuracy(double accuracy);
/// "4.10 ms", "0.31 s", "48.3 s", "4 min 8 s".
std::string format_seconds(double seconds);
/// "12.3 us", "1.23 ms", "2.50 s".
std::string format_time(double microseconds);

}  // namespace duet
