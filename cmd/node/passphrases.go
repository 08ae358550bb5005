package node

import (
	"log/slog"

	"golang.org/x/sys/unix"
)

// protectPassphrases keeps this process's memory, where passphrases of encrypted volumes pass through, from
// core files and debuggers, and the commands that it starts from core files (S63). A limit of one byte is none for
// the kernel: it writes no file that small, and gives a program that takes cores nothing, which it does at zero.
func protectPassphrases(log *slog.Logger) {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}); err != nil {
		log.Warn("a core file of this process or of its commands could hold passphrases", "error", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		log.Warn("a debugger could read passphrases from this process", "error", err)
	}
}
