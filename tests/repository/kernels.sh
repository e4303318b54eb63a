#!/usr/bin/env bash
# A kernel that overlaps the one before it (device/launch.h) waits for what that writes: each either
# calls wait_for_primary() or is launched by <<<>>> alone, in a file that names it there.
# usage: kernels.sh SOURCE_DIRECTORY
set -euo pipefail

cd "$1"
git ls-files 'framework/*.cu' 'framework/*.cuh' | xargs perl -0777 -e '
  my (%launched, %without, $kernels);
  foreach my $file (@ARGV) {
    open(my $in, "<", $file) or die "$file: $!";
    my $text = <$in>;
    $text =~ s{//[^\n]*}{}g;
    my $template = qr/(<(?:[^<>]++|(?-1))*>)/;
    $launched{$1} = 1 while $text =~ /\b(\w+)\s*$template?\s*<<</g;
    while ($text =~ /__global__\s+(?:void\s+)?(?:__launch_bounds__\s*(\((?:[^()]++|(?1))*\))\s*)?(?:void\s+)?(\w+)\s*(\((?:[^()]++|(?3))*\))\s*(\{(?:[^{}]++|(?4))*\})/g) {
      ++$kernels;
      my ($name, $body) = ($2, $4);
      $without{$name} = $file unless $body =~ /\bwait_for_primary\(\)/;
    }
  }
  die "no kernel was found\n" unless $kernels;
  my @wrong = grep { !$launched{$_} } sort keys %without;
  print "$without{$_}: $_ has no wait_for_primary(), and no <<<>>> launches it\n" foreach @wrong;
  print "$kernels kernels, ", scalar(keys %without), " of them launched by <<<>>> alone\n";
  exit(@wrong ? 1 : 0);'
