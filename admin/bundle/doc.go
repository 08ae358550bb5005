// Package bundle writes and reads the archive that goes with a bug report: the answers of the operators' API as JSON, the
// state as a dump, and the journal, from which the state at an earlier index is decided again.
//
// An archive is a tar, compressed by gzip or zstd after its name's ending. Its first file is the manifest, which names
// every other one with its sha256, what is missing and why. Nothing in it is secret, as nothing that the API answers is:
// certificates' keys, CSI's secrets and mount flags never enter the state.
//
// A reader trusts nothing: an archive that is cut, has a file that the manifest does not name or that differs from it is
// refused. What is read from it is printed by the same server and client that answer live.
package bundle
