//go:build bench

package bench

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc: USER_HZ, which is 100 on every Linux.
const tick = 10 * time.Millisecond

// QuietCores is how much CPU others may have used in a window that counts as quiet.
const QuietCores = 0.95

// cpuOf is the CPU time that the processes have used so far, and what the whole
// machine has.
func cpuOf(pids []int) (own, machine time.Duration) {
	for _, pid := range append(slices.Clone(pids), os.Getpid()) {
		own += processCPU(pid)
	}
	return own, machineCPU()
}

// processCPU is zero for a process that has ended.
func processCPU(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name may hold anything up to the last parenthesis; utime and stime are the 12th and 13th after it.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	fields := strings.Fields(rest)
	return ticks(fields[11]) + ticks(fields[12])
}

// machineCPU adds user, nice, system, irq and softirq of all cores.
func machineCPU() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	f := strings.Fields(line)
	return ticks(f[1]) + ticks(f[2]) + ticks(f[3]) + ticks(f[6]) + ticks(f[7])
}

func ticks(s string) time.Duration {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * tick
}
