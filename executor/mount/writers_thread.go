package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// threadStat is what /proc says of a thread.
type threadStat struct {
	name    string
	state   byte
	parent  int
	flags   uint64
	start   uint64
	pending uint64 // signals of this thread, the first one lowest
}

const (
	// exiting is the kernel's PF_EXITING.
	exiting = 4
	// killPending is SIGKILL among the pending signals.
	killPending = 1 << (unix.SIGKILL - 1)
	// statFields is how many fields behind the name are read.
	statFields = 29
)

func readThreadStat(folder string) (s threadStat, err error) {
	text, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return s, err
	}
	return parseThreadStat(string(text))
}

// parseThreadStat reads the fields behind the name, which may have blanks and parentheses itself.
func parseThreadStat(text string) (s threadStat, err error) {
	from, to := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[max(to+1, 0):])
	if from < 0 || to < from || len(fields) < statFields {
		return s, fmt.Errorf("what /proc says of a process is not understood: %q", text)
	}
	s.name, s.state = text[from+1:to], fields[0][0]
	for at, value := range map[int]*uint64{6: &s.flags, 19: &s.start, 28: &s.pending} {
		if *value, err = strconv.ParseUint(fields[at], 10, 64); err != nil {
			return s, err
		}
	}
	s.parent, err = strconv.Atoi(fields[1])
	return s, err
}

// dying tells that the thread runs its own code no more: it ended, is ending, or sleeps in the kernel and finds that it
// was killed when it wakes.
func (s *threadStat) dying() bool {
	switch s.state {
	case 'Z', 'X':
		return true
	case 'D':
		return s.pending&killPending != 0 || s.flags&exiting != 0
	}
	return s.flags&exiting != 0
}

// allDying tells whether all threads of a process are. One that began after they were listed is not: who began it may have ended since.
func allDying(folder string, threads []int) (bool, error) {
	for _, thread := range threads {
		s, err := readThreadStat(filepath.Join(folder, "task", strconv.Itoa(thread)))
		if isGone(err) {
			continue
		}
		if err != nil || !s.dying() {
			return false, err
		}
	}
	now, err := numbersIn(folder + "/task")
	if isGone(err) {
		return true, nil
	}
	return !slices.ContainsFunc(now, func(thread int) bool { return !slices.Contains(threads, thread) }), err
}

// isOwn tells whether a process is this one, or was started by it or by what it started. One that is gone is not.
func isOwn(pid int) bool {
	for own := os.Getpid(); pid > firstPID; {
		if pid == own {
			return true
		}
		s, err := readThreadStat(filepath.Join(procFolder, strconv.Itoa(pid)))
		if err != nil {
			return false
		}
		pid = s.parent
	}
	return false
}
