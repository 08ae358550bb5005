package place

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Processes are all processes of the guests in or below a directory: the kernel, its disk
// threads and the processes of the guest.
func Processes(dir string) []int {
	found, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	var pids []int
	for _, proc := range found {
		pid, err := strconv.Atoi(filepath.Base(proc))
		if err == nil && pid != os.Getpid() && isInside(proc, dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isInside looks at the command line, and for a process that lost it at program and directory.
func isInside(proc, dir string) bool {
	cmdline, _ := os.ReadFile(filepath.Join(proc, "cmdline")) // it may have ended meanwhile
	for word := range bytes.SplitSeq(cmdline, []byte{0}) {
		if value, ok := strings.CutPrefix(string(word), "uml_dir="); ok {
			return isBelow(value, dir)
		}
	}
	exe, _ := os.Readlink(filepath.Join(proc, "exe"))
	cwd, _ := os.Readlink(filepath.Join(proc, "cwd"))
	return (filepath.Base(exe) == "linux.uml" || exe == guestProgram) && isBelow(cwd, dir)
}

// guestProgram is what a process of a guest executes on the host where the kernel does not trace it: a file in memory.
const guestProgram = "/memfd:uml-userspace (deleted)"

func isBelow(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// Kill kills all processes of the guests in or below a directory, and returns when none is
// left. Killing only the kernel's first process would leave the others with the disks and taps.
func Kill(dir string) error {
	end := time.Now().Add(time.Minute)
	for {
		left := Processes(dir)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("kill the guests in %s: processes %v are left", dir, left)
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
		time.Sleep(10 * time.Millisecond)
	}
}
