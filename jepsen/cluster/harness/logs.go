package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// logs are what `dev` and its children wrote.
type logs struct{ *workspace }

// tail is the last lines of a file, for error messages.
func tail(path string, lines int) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Logs is the end of what `dev` and every child wrote, at most so many lines of each.
func (l *logs) Logs(lines int) string {
	paths, _ := filepath.Glob(filepath.Join(l.Dir, "*.log"))
	more, _ := filepath.Glob(filepath.Join(l.Dir, "*", "*.log"))
	deeper, _ := filepath.Glob(filepath.Join(l.Dir, "*", "*", "*.log"))
	paths = append(append(append([]string{l.LogPath()}, paths...), more...), deeper...)
	var all strings.Builder
	for _, path := range paths {
		fmt.Fprintf(&all, "==> %s <==\n%s\n", strings.TrimPrefix(path, l.Base+"/"), tail(path, lines))
	}
	return all.String()
}

// ChildLog is all that one child logged.
func (l *logs) ChildLog(id string) string {
	raw, err := os.ReadFile(filepath.Join(l.Dir, "log", id+".log"))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// Panics returns an error when a child's log contains a panic or a data race.
func (l *logs) Panics() error {
	paths, err := filepath.Glob(filepath.Join(l.Dir, "log", "*.log"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, word := range []string{"\npanic: ", "\nfatal error: ", "WARNING: DATA RACE"} {
			if i := strings.Index("\n"+string(raw), word); i >= 0 {
				return fmt.Errorf("%s: %s", path, string(raw[i:min(len(raw), i+3000)]))
			}
		}
	}
	return nil
}
