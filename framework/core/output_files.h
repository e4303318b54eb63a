// The files that a command is asked to write: checked before anything is done for them, so that
// nothing is lost.
#pragma once

#include <string>
#include <vector>

namespace duet {

/// A file and what names it in messages: an option, or "arm mine.yaml". An empty one was not asked for.
struct NamedFile {
  std::string option, file;
  bool updated = false;  // of an output: it is read, and its content is part of the new one
};

/// That each of `outputs` can be written later, and that writing it destroys nothing that belongs to
/// the command: it is not another one of them, nor standard output's file, nor one of `inputs`, nor a
/// file that this process has read so far (InputFile::was_read()). Files are compared as files, whatever
/// their paths, so that a link counts as what it leads to. Devices and pipes hold nothing: several
/// outputs may go there. The folders of outputs are made. Throws ConfigError.
void check_outputs(const std::vector<NamedFile>& outputs,
                   const std::vector<NamedFile>& inputs = {});

}  // namespace duet
