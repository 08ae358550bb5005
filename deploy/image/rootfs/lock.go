package rootfs

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Lock is the exact content of the base: each package's version by its name, and the time that all its files have.
type Lock struct {
	Versions map[string]string
	Epoch    time.Time
}

const epochPrefix = "# SOURCE_DATE_EPOCH="

// ReadLock reads what Lock.String writes.
func ReadLock(file string) (Lock, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return Lock{}, fmt.Errorf("read the locked packages: %w", err)
	}
	lock := Lock{Versions: map[string]string{}}
	for line := range strings.Lines(string(content)) {
		if err := lock.add(strings.TrimSpace(line)); err != nil {
			return Lock{}, fmt.Errorf("%s: %w", file, err)
		}
	}
	if lock.Epoch.IsZero() || len(lock.Versions) == 0 {
		return Lock{}, fmt.Errorf("%s has no packages or no line %q", file, epochPrefix)
	}
	return lock, nil
}

func (l *Lock) add(line string) error {
	if seconds, ok := strings.CutPrefix(line, epochPrefix); ok {
		n, err := strconv.ParseInt(seconds, 10, 64)
		l.Epoch = time.Unix(n, 0).UTC()
		return err
	}
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	name, version, ok := strings.Cut(line, "=")
	if _, twice := l.Versions[name]; !ok || twice || version == "" {
		return fmt.Errorf("line %q: want name=version, each name once", line)
	}
	l.Versions[name] = version
	return nil
}

func (l Lock) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The packages of the image; `make image-lock` makes this file again.\n%s%d\n", epochPrefix, l.Epoch.Unix())
	for _, name := range slices.Sorted(maps.Keys(l.Versions)) {
		fmt.Fprintf(&b, "%s=%s\n", name, l.Versions[name])
	}
	return b.String()
}

// Names reads a file of one name a line, with comments.
func Names(file string) ([]string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var names []string
	for s := bufio.NewScanner(bytes.NewReader(content)); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" && !strings.HasPrefix(line, "#") {
			names = append(names, line)
		}
	}
	return names, nil
}

// Changed names the packages that are not alike in both, sorted.
func (l Lock) Changed(other Lock) []string {
	all := maps.Clone(l.Versions)
	maps.Copy(all, other.Versions)
	maps.DeleteFunc(all, func(name, _ string) bool { return l.Versions[name] == other.Versions[name] })
	return slices.Sorted(maps.Keys(all))
}
