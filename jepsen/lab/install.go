package lab

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed init.sh
var initScript []byte

// buildAgent builds the lab's own program into the lab.
func (l *Lab) buildAgent(ctx context.Context) error {
	return Build(ctx, l.agent(), "jepsen/lab/agent")
}

// Build builds a package of this module, such as "cmd/holdfast", to a static program.
func Build(ctx context.Context, to, pkg string) error { return runGo(ctx, to, pkg, "build") }

// runGo has the go command write a static program of a package of this module.
func runGo(ctx context.Context, to, pkg string, command ...string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", append(command, "-o", to, "./"+pkg)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", pkg, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// moduleRoot is the nearest directory above the working directory with a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no go.mod above the working directory: the lab builds its agent from the module")
}

// install puts into the lab what the guests run. They get a copy of holdfast: the file
// that it was built as may be replaced under them.
func (l *Lab) install(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(l.bin(), "init.sh"), initScript, 0o700); err != nil {
		return err
	}
	if l.config.NoHoldfast {
		return nil
	}
	binary := l.config.Holdfast
	if binary == "" {
		binary = os.Getenv(BinaryVariable)
	}
	if binary == "" {
		return Build(ctx, l.Holdfast(), "cmd/holdfast")
	}
	return copyFile(binary, l.Holdfast())
}

// Holdfast is the binary under test, on the host.
func (l *Lab) Holdfast() string { return filepath.Join(l.bin(), "holdfast") }

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
