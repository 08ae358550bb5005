// Package run starts the host's own commands (mkfs and the like) so that none
// of them can surprise the node process: an absolute path looked up in fixed
// folders, arguments and never a shell, a fixed environment, a deadline after
// which the whole process group is killed, bounded output, and an error that
// carries the exit code. A child that survives SIGKILL (it waits for a device
// in the kernel, state D) is counted and reported, not waited for.
package run
