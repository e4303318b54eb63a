# The report's page, style and scripts, and Chart.js, become constants of the library. Without
# Chart.js everything builds, but no report can be written.
set(DUET_CHART_JS_VERSION 3.9.1)
set(DUET_CHART_JS_SHA256 fbc45926e6b46845a0f905552a0e0b1331049bff1115ecf94dbe0904d895e710)

# Sets `result` to a Chart.js 3 of the system, a fetched one, or "".
function(duet_find_chart_js result)
  find_file(DUET_CHART_JS chart.min.js PATH_SUFFIXES share/javascript/chart.js
    DOC "Chart.js 3, minified, for the report")
  if(DUET_CHART_JS)
    file(READ ${DUET_CHART_JS} head LIMIT 200)
    if(head MATCHES "Chart\\.js v3\\.")
      set(${result} ${DUET_CHART_JS} PARENT_SCOPE)
      return()
    endif()
    message(STATUS "${DUET_CHART_JS} is no Chart.js 3")
  endif()
  set(fetched ${CMAKE_BINARY_DIR}/_deps/chart.js/chart-${DUET_CHART_JS_VERSION}.min.js)
  # Tried once a build folder: a machine without network shall not wait each time.
  if(NOT EXISTS ${fetched} AND NOT FETCHCONTENT_FULLY_DISCONNECTED AND NOT DUET_CHART_JS_TRIED)
    set(DUET_CHART_JS_TRIED TRUE CACHE INTERNAL "")
    set(url https://cdn.jsdelivr.net/npm/chart.js@${DUET_CHART_JS_VERSION}/dist/chart.min.js)
    message(STATUS "Chart.js was not found; fetching ${url}")
    file(DOWNLOAD ${url} ${fetched}.part TIMEOUT 30 STATUS status)
    set(found "")
    if(EXISTS ${fetched}.part)
      file(SHA256 ${fetched}.part found)
    endif()
    if(found STREQUAL DUET_CHART_JS_SHA256)
      file(RENAME ${fetched}.part ${fetched})
    else()
      message(STATUS "fetching Chart.js failed (${status})")
      file(REMOVE ${fetched}.part)
    endif()
  endif()
  set(${result} "" PARENT_SCOPE)
  if(EXISTS ${fetched})
    set(${result} ${fetched} PARENT_SCOPE)
  endif()
endfunction()

duet_find_chart_js(chart_js)
if(NOT chart_js)
  message(STATUS "Duet: no HTML reports will be written, as Chart.js 3 is missing (libjs-chart.js)")
endif()

set(report_folder ${CMAKE_CURRENT_SOURCE_DIR}/compare/report)
set(report_source ${CMAKE_CURRENT_BINARY_DIR}/report_parts.cpp)
# Constant and its files; those of the script in the order in which they run.
set(report_parts
  kReportPage ${report_folder}/page.html
  kReportStyle ${report_folder}/report.css ${report_folder}/print.css
  kReportScript ${report_folder}/page.js ${report_folder}/charts.js
  kComparisonSections ${report_folder}/comparison.html
  kComparisonScript ${report_folder}/layer_charts.js ${report_folder}/run_charts.js
    ${report_folder}/comparison.js
  kTrainingSections ${report_folder}/training.html
  kTrainingScript ${report_folder}/training.js
  kReportLicence ${report_folder}/chart_js_licence.txt
  kChartLibrary ${chart_js})
set(report_files ${report_parts})
list(FILTER report_files EXCLUDE REGEX "^k[A-Za-z]+$")
add_custom_command(OUTPUT ${report_source}
  COMMAND ${CMAKE_COMMAND} -D OUTPUT=${report_source} -D HEADER=compare/report/report_parts.h
    -D "PARTS=${report_parts}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${report_files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  COMMENT "Embedding the report" VERBATIM)
target_sources(duet PRIVATE ${report_source})
