// Package run starts the host's own commands, such as mkfs, so that none of them can
// surprise the node process: an absolute path looked up in fixed directories, arguments and
// never a shell, a fixed environment, a deadline after which the whole process group is
// killed, bounded output, and an error that carries the exit code. A child that survives
// SIGKILL (it waits for a device in the kernel, in state D) is counted and reported, and
// not waited for.
package run
