package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// request is a program that a guest is asked to run. Its files are of a folder that guest and host share.
type request struct{ Args []string }

// toItsEnd runs a program and leaves what it printed and its exit code beside the file that is its first argument.
const toItsEnd = `file=$1; shift; "$@" >"$file.out" 2>"$file.said"; echo $? >"$file.part"; mv "$file.part" "$file.code"`

func (c Config) requests() string { return c.path("requests") }

// ask has the guest run a program to its end.
func (c Config) ask(ctx context.Context, args []string) (string, error) {
	if err := os.MkdirAll(c.requests(), 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(c.requests(), fmt.Sprintf("%d.request", time.Now().UnixNano()))
	if err := writeJSON(file, request{args}); err != nil {
		return "", err
	}
	defer removeAll(file, file+".out", file+".said", file+".code") //nolint:errcheck // they go with the machine's folder
	for {
		code, err := os.ReadFile(file + ".code")
		if err == nil {
			return answerOf(c.Name, file, args[0], strings.TrimSpace(string(code)))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return "", fmt.Errorf("run %s on %s: %w", args[0], c.Name, err)
		}
	}
}

func answerOf(guest, file, program, code string) (string, error) {
	out, err := os.ReadFile(file + ".out")
	if err != nil {
		return "", err
	}
	said, err := os.ReadFile(file + ".said")
	if err == nil && code != "0" {
		err = fmt.Errorf("%s on %s: exit code %s: %s", program, guest, code, strings.TrimSpace(string(said)))
	}
	return string(out), err
}

// answer begins what the guest was asked for.
func (s *supervisor) answer() {
	asked, _ := filepath.Glob(filepath.Join(s.config.requests(), "*.request")) // the pattern is good
	for _, file := range asked {
		var r request
		if readJSON(file, &r) != nil || os.Remove(file) != nil {
			continue // its asker gave up
		}
		p, err := os.StartProcess("/bin/sh", append([]string{"sh", "-c", toItsEnd, "sh", file}, r.Args...), &os.ProcAttr{
			Env: os.Environ(), Files: []*os.File{nil, os.Stderr, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			fmt.Fprintf(os.Stderr, "run %s: %v\n", r.Args[0], err)
			continue
		}
		p.Release() //nolint:errcheck // reap waits for it
	}
}
