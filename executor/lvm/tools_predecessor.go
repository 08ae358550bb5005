package lvm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// waitPredecessors waits until the lvm commands of an earlier process of this node have exited:
// they are not killed with it, and one that waits for LVM's lock would take effect later, when it
// is no longer wanted. It reports whether there were any.
func (t *tools) waitPredecessors(ctx context.Context) (waited bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		pids := t.predecessors("/proc", os.Getpid())
		if len(pids) == 0 {
			return waited, nil
		}
		waited = true
		select {
		case <-ctx.Done():
			return waited, fmt.Errorf("wait for the lvm commands %v of an earlier process: %w", pids, ctx.Err())
		case <-ticker.C:
		}
	}
}

// predecessors returns the pids of the lvm commands with this pool's settings that are not
// children of this process. A command that exits meanwhile is left out.
func (t *tools) predecessors(proc string, self int) []int {
	folders, _ := filepath.Glob(proc + "/[0-9]*")
	var found []int
	for _, folder := range folders {
		command, err := os.ReadFile(folder + "/cmdline")
		if err != nil || !bytes.Contains(command, []byte("\x00"+t.config+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err == nil && parentPID(folder) != self {
			found = append(found, pid)
		}
	}
	return found
}

// parentPID reads the fourth field of /proc/PID/stat, behind the command's name in parentheses.
func parentPID(folder string) int {
	stat, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	pid, _ := strconv.Atoi(string(fields[1])) // 0 is no process's pid
	return pid
}
