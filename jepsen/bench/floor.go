//go:build bench

package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// floorVolume is a volume made by floorSteps, with what close must undo.
type floorVolume struct {
	image, device, target string
	loop                  *os.File
}

// floorSteps makes and mounts an ext4 volume with system calls and mkfs alone: the lower bound for any
// driver on this machine.
func floorSteps(dir, name string, size int64) (m floorVolume, err error) {
	m = floorVolume{image: filepath.Join(dir, name+".img"), target: filepath.Join(dir, name)}
	image, err := os.OpenFile(m.image, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return m, err
	}
	defer func() { _ = image.Close() }()
	if err := image.Truncate(size); err != nil {
		return m, err
	}
	if m.loop, m.device, err = attachLoop(image); err != nil {
		return m, err
	}
	if err := mkfs(m.device); err != nil {
		return m, err
	}
	if err := os.Mkdir(m.target, 0o700); err != nil {
		return m, err
	}
	return m, unix.Mount(m.device, m.target, "ext4", unix.MS_NOSUID|unix.MS_NODEV, "")
}

// attachLoop retries when another process took the free number first.
func attachLoop(image *os.File) (*os.File, string, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = control.Close() }()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, "", fmt.Errorf("find a free loop device: %w", err)
		}
		device := fmt.Sprintf("/dev/loop%d", n)
		loop, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			return nil, "", err
		}
		cfg := unix.LoopConfig{Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_DIRECT_IO}}
		if err = unix.IoctlLoopConfigure(int(loop.Fd()), &cfg); err == nil {
			return loop, device, nil
		}
		_ = loop.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, "", fmt.Errorf("bind %s: %w", device, err)
		}
	}
}

func mkfs(device string) error {
	out, err := exec.Command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", device).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.ext4 %s: %w: %s", device, err, out)
	}
	return nil
}

// close undoes everything, however far the steps came.
func (m floorVolume) close() {
	_ = unix.Unmount(m.target, 0)
	if m.loop != nil {
		_ = unix.IoctlSetInt(int(m.loop.Fd()), unix.LOOP_CLR_FD, 0)
		_ = m.loop.Close()
	}
	_ = os.Remove(m.target)
	_ = os.Remove(m.image)
}

// shellSteps does the same with the tools that a driver of shell commands calls.
func shellSteps(dir, name string, size int64) (m floorVolume, err error) {
	m = floorVolume{image: filepath.Join(dir, name+".img"), target: filepath.Join(dir, name)}
	steps := [][]string{
		{"truncate", "-s", fmt.Sprint(size), m.image},
		{"losetup", "-f", "--show", "--direct-io=on", m.image},
		{"blkid", "DEVICE"},
		{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", "DEVICE"},
		{"mkdir", m.target},
		{"mount", "-t", "ext4", "DEVICE", m.target},
	}
	for _, argv := range steps {
		for i := range argv {
			argv[i] = strings.Replace(argv[i], "DEVICE", m.device, 1)
		}
		out, err := exec.Command(argv[0], argv[1:]...).Output()
		if err != nil && argv[0] != "blkid" { // blkid says 2 for a blank device
			return m, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
		}
		if argv[0] == "losetup" {
			m.device = strings.TrimSpace(string(out))
			if m.loop, err = os.OpenFile(m.device, os.O_RDWR, 0); err != nil {
				return m, err
			}
		}
	}
	return m, nil
}
