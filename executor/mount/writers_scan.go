package mount

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
)

// writerScan is one look at all processes.
type writerScan struct {
	devices     map[uint64]bool
	mounts      *mountIDs
	reached     map[mountsKey]processMounts
	containers  *containers
	hangingMaps *atomic.Int32
}

// newWriterScan takes over the mounts, which have to be closed with it.
func newWriterScan(devices map[uint64]bool, mounts []processMounts, hangingMaps *atomic.Int32) (*writerScan, error) {
	s := &writerScan{devices: devices, mounts: newMountIDs(mounts), reached: map[mountsKey]processMounts{}, hangingMaps: hangingMaps}
	for _, m := range mounts {
		s.reached[m.mountsKey] = m
	}
	var err error
	s.containers, err = newContainers(mounts, devices)
	return s, err
}

func (s *writerScan) close() { closeAll(slices.Collect(maps.Values(s.reached))) }

// lookAtAll returns the processes that have any of the devices open for writing.
func (s *writerScan) lookAtAll(ctx context.Context, pids []int) (writers []executor.Process, err error) {
	for _, pid := range pids {
		if pid == firstPID {
			continue
		}
		p, writes, err := s.lookAt(pid)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && !isGone(err):
			return nil, fmt.Errorf("look at process %d: %w", pid, err)
		case writes && err == nil:
			writers = append(writers, p)
		}
	}
	return writers, nil
}

// lookAt looks at one process, and tells whether it has any of the devices open for writing.
func (s *writerScan) lookAt(pid int) (p executor.Process, writes bool, err error) {
	folder := filepath.Join(procFolder, strconv.Itoa(pid))
	threads, err := numbersIn(folder + "/task")
	if err != nil {
		return p, false, err
	}
	if writes, err = s.writes(folder, threads); !writes || err != nil {
		return p, false, err
	}
	first, err := readThreadStat(folder)
	if err != nil {
		return p, false, err
	}
	p = executor.Process{PID: pid, Start: first.start, Name: first.name, Own: isOwn(pid)}
	p.Dying, err = allDying(folder, threads)
	return p, true, err
}

// writes looks at each table of open files that the threads have: the first thread may have ended before the others, and
// threads may have tables of their own.
func (s *writerScan) writes(folder string, threads []int) (bool, error) {
	looked := 0 // a thread whose table was looked at
	for _, thread := range threads {
		if looked != 0 && sharesFiles(looked, thread) {
			continue
		}
		at := filepath.Join(folder, "task", strconv.Itoa(thread))
		fds, err := numbersIn(at + "/fd")
		if isGone(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		if len(fds) > 0 {
			looked = thread
		}
		if found, err := s.anyWrites(at, fds); found || err != nil {
			return found, err
		}
	}
	return s.asyncWrites(folder, threads)
}

// sharesFiles tells whether two threads have one table of open files. A kernel that does not know says no.
func sharesFiles(one, other int) bool {
	const kcmpFiles = 2
	different, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(one), uintptr(other), kcmpFiles, 0, 0, 0)
	return errno == 0 && different == 0
}

func (s *writerScan) anyWrites(thread string, fds []int) (bool, error) {
	for _, fd := range fds {
		found, err := s.fdWrites(thread, strconv.Itoa(fd))
		if found || err != nil && !isGone(err) {
			return found, err
		}
	}
	return false, nil
}

// fdWrites tells whether a descriptor is of the devices, and for writing. An xfs that is shut down answers EIO to the
// look, and to every write that was in flight, too.
func (s *writerScan) fdWrites(thread, fd string) (bool, error) {
	info, err := readFDInfo(filepath.Join(thread, "fdinfo", fd))
	if err != nil || !info.forWriting() {
		return false, err
	}
	if remote, err := s.mounts.isRemote(thread, info.mount); remote || err != nil {
		return false, err
	}
	var st unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, filepath.Join(thread, "fd", fd), unix.AT_STATX_DONT_SYNC, 0, &st) // asks no server and no device
	switch {
	case errors.Is(err, unix.EIO), isOfServer(err):
		return false, nil
	case err != nil:
		return false, err
	case st.Mode&unix.S_IFMT == unix.S_IFBLK:
		return s.devices[unix.Mkdev(st.Rdev_major, st.Rdev_minor)], nil
	case st.Mode&unix.S_IFMT == 0:
		return s.ringWrites(thread, fd, info)
	case st.Mode&unix.S_IFMT != unix.S_IFREG: // a pipe, or another device, has its name there at most
		return false, nil
	}
	return s.devices[unix.Mkdev(st.Dev_major, st.Dev_minor)] || s.devices[s.mounts.numbers[info.mount]], nil
}

// isOfServer: a filesystem that a server keeps, whose mount is in no table any more, does not answer. Those of devices have no such errors.
func isOfServer(err error) bool {
	return slices.ContainsFunc([]error{unix.EACCES, unix.EPERM, unix.ENOTCONN, unix.ESTALE, unix.ECONNABORTED, unix.EHOSTDOWN}, func(e error) bool { return errors.Is(err, e) })
}

// numbersIn lists the entries of a folder that are numbers.
func numbersIn(folder string) (all []int, err error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			all = append(all, n)
		}
	}
	return all, err
}

// fdInfo is what /proc says of an open file.
type fdInfo struct {
	flags, mount int
	registered   []string // the files of an io_uring
}

func readFDInfo(path string) (info fdInfo, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return info, err
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if path, named := registeredFile(key, strings.TrimSpace(value)); named {
			info.registered = append(info.registered, path)
		}
		switch key {
		case "flags":
			flags, err := strconv.ParseInt(strings.TrimSpace(value), 8, 64)
			if err != nil {
				return info, err
			}
			info.flags = int(flags)
		case "mnt_id":
			if info.mount, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return info, err
			}
		}
	}
	return info, nil
}

// registeredFile is the path in a line of an io_uring's table of files, whose key is the file's number there.
func registeredFile(key, path string) (string, bool) {
	if _, err := strconv.Atoi(key); err != nil || !strings.HasPrefix(path, "/") {
		return "", false
	}
	return unescape(path), true
}

// unescape is for what /proc writes as a backslash and three octal digits.
func unescape(text string) string {
	return escaped.ReplaceAllStringFunc(text, func(digits string) string {
		n, err := strconv.ParseUint(digits[1:], 8, 8)
		if err != nil {
			return digits
		}
		return string([]byte{byte(n)})
	})
}

var escaped = regexp.MustCompile(`\\[0-3][0-7]{2}`)

func (i fdInfo) forWriting() bool {
	mode := i.flags & unix.O_ACCMODE
	return i.flags&unix.O_PATH == 0 && (mode == unix.O_WRONLY || mode == unix.O_RDWR)
}
