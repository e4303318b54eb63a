# 'cmake --install': the library, its headers, the applications, and a package that
# find_package(duet) finds; it defines duet::duet.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/duet)

install(TARGETS duet EXPORT duetTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT duetTargets NAMESPACE duet:: DESTINATION ${package_dir})
# Of compare/ and lab/ what the Python package calls.
foreach(header compare/arms_options.h compare/compare.h compare/results/results.h lab/bench.h lab/bench_problems.h)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES framework/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/duet/${folder})
endforeach()
# Headers that speak JSON are the library's own: its users need none of the libraries behind it.
install(DIRECTORY framework/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/duet
  FILES_MATCHING PATTERN *.h PATTERN *.cuh
  PATTERN compare EXCLUDE PATTERN lab EXCLUDE PATTERN net/table.h EXCLUDE PATTERN net/json_file.h EXCLUDE PATTERN train/step/profile.h EXCLUDE
  PATTERN train/step/profiler.h EXCLUDE PATTERN train/step/trace.h EXCLUDE PATTERN train/run/run_folder.h EXCLUDE
  PATTERN train/run/training_run.h EXCLUDE PATTERN train/evaluate/class_report.h EXCLUDE
  PATTERN train/run/goal.h EXCLUDE PATTERN train/run/training_events.h EXCLUDE)

if(TARGET duet_recorder)
  install(TARGETS duet_recorder LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/duet)  # of `trainer explain`
endif()

get_property(applications DIRECTORY apps PROPERTY BUILDSYSTEM_TARGETS)
foreach(application IN LISTS applications)
  get_target_property(type ${application} TYPE)
  if(type STREQUAL "EXECUTABLE")
    install(TARGETS ${application} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

configure_package_config_file(cmake/duetConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/duetConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/duetConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/duetConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/duetConfigVersion.cmake cmake/FindCUDNN.cmake
  DESTINATION ${package_dir})
