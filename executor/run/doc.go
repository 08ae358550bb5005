// Package run starts the host's own commands (mkfs and the like) so that none
// of them can disturb the node process: an absolute path looked up in fixed
// directories, arguments and never a shell, a fixed environment, a deadline after
// which the whole process group is killed, bounded output, and an error that
// carries the exit code. A stuck child, which survives SIGKILL because it waits for
// a device in the kernel (state D), is counted and reported, not waited for.
package run
