package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/csi/mounthelper"
)

// mountOptions are what -o has.
type mountOptions struct {
	readOnly bool
	flags    []string // for the node
	secrets  string   // path
	wait     time.Duration
	// evenIfOrchestrated mounts a volume that no operator made.
	evenIfOrchestrated bool
}

// notForTheMount are options of mount(8), fstab and systemd, which say when something is mounted, and by whom.
var notForTheMount = []string{"defaults", "rw", "auto", "noauto", "fail", "nofail", "_netdev", "user", "nouser", "users", "owner", "group", "comment", "helper", "uhelper"}

// parseMountOptions reads the lists of -o. What is not known here is for the node, which refuses what it does not serve.
func parseMountOptions(lists []string) (o mountOptions, err error) {
	for _, option := range strings.Split(strings.Join(lists, ","), ",") {
		key, value, _ := strings.Cut(option, "=")
		switch {
		case key == "", slices.Contains(notForTheMount, key), strings.HasPrefix(key, "x-"), strings.HasPrefix(key, "X-"):
		case option == "ro":
			o.readOnly = true
		case key == "remount":
			return o, exit.Usagef("the options of a mounted volume are not changed: unmount it, and mount it with the others")
		case option == "even-if-orchestrated":
			o.evenIfOrchestrated = true
		case key == "secrets":
			o.secrets = value
		case key == "wait":
			if o.wait, err = time.ParseDuration(value); err != nil || o.wait <= 0 {
				return o, exit.Usagef("option wait=%s is no time such as 30s", value)
			}
		default:
			o.flags = append(o.flags, option)
		}
	}
	return o, nil
}

const maxSecretsFile = 16 << 10 // bytes

// readSecrets reads a YAML file of the secrets of NodeStageVolume, which only its owner can read: this user, or root.
func readSecrets(path string) (secrets map[string]string, err error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, exit.Usagef("read the secrets: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, exit.Usagef("read the secrets: %w", err)
	case !info.Mode().IsRegular():
		return nil, exit.Usagef("read the secrets: %s is no file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, exit.Usagef("read the secrets: %s has mode %#o, so others than its owner can reach it: chmod 600 %s", path, info.Mode().Perm(), path)
	case !ownedByUs(info):
		return nil, exit.Usagef("read the secrets: %s belongs to another user: chown root %s", path, path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSecretsFile))
	if err != nil {
		return nil, exit.Usagef("read the secrets: %w", err)
	}
	if yaml.Unmarshal(text, &secrets) != nil || len(secrets) == 0 { // its error repeats content
		return nil, exit.Usagef("read the secrets: %s has not the form `encryptionPassphrase: ...`", path)
	}
	return secrets, nil
}

// helperNames are the names of this program under which mount(8) and umount(8) call it.
var helperNames = map[string]string{"mount." + mounthelper.Suffix: "mount", "umount." + mounthelper.Suffix: "umount"}

// Args are the arguments of a command line, of which the first is the program's name: as a helper of mount(8) it is the
// command of that name, and as kubectl's plugin it asks the controllers in Kubernetes.
func Args(commandLine []string) []string {
	asPlugin(commandLine[0])
	if verb := helperNames[filepath.Base(commandLine[0])]; verb != "" {
		return append([]string{verb, "--helper"}, commandLine[1:]...)
	}
	return commandLine[1:]
}

// helperExitCode is mount(8)'s code of ours.
func helperExitCode(code int) int {
	switch code {
	case exit.OK:
		return 0
	case exit.Usage:
		return 1
	}
	return 32
}

// absoluteTarget is the path as the kernel's table of mounts has it. What is not there yet has a parent that is.
func absoluteTarget(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", exit.Wrap(exit.Usage, err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(absolute))
	if err != nil {
		return "", exit.Wrap(exit.Refused, fmt.Errorf("find %s: %w", path, err))
	}
	found := filepath.Join(dir, filepath.Base(absolute))
	if resolved, err := filepath.EvalSymlinks(found); err == nil {
		return resolved, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", exit.Wrap(exit.Refused, fmt.Errorf("find %s: %w", path, err))
	}
	return found, nil
}
