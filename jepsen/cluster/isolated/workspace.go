package isolated

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ownerFile says in a cluster's directory which process made it.
const ownerFile = "owner"

// own writes that this process made the directory.
func own(base string) error {
	me, err := processIdentity(os.Getpid())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(base, ownerFile), []byte(me), 0o600)
}

// processIdentity is a text that no other process has or had: its id, when it began, and the boot.
func processIdentity(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	// The start is the 20th field behind the name, which is in brackets and may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
	return fmt.Sprintf("%d %s %s", pid, fields[19], strings.TrimSpace(string(boot))), nil
}

// ownerIsDead tells whether the process that made a directory is known to have ended.
func ownerIsDead(base string) bool {
	text, err := os.ReadFile(filepath.Join(base, ownerFile))
	if err != nil {
		return false // nobody says whose it is
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		return false
	}
	now, err := processIdentity(pid)
	return os.IsNotExist(err) || err == nil && now != string(text)
}
