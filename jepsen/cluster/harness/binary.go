package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// BinaryVariable names a binary to use instead of building one.
const BinaryVariable = "HOLDFAST_BINARY"

// Builder builds the binary at most once and forgets it on Close.
type Builder struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Path is the binary under test: $HOLDFAST_BINARY, or a fresh build in a directory of its own.
func (b *Builder) Path(ctx context.Context) (string, error) {
	b.once.Do(func() { b.path, b.err = b.build(ctx) })
	return b.path, b.err
}

// Close removes what was built.
func (b *Builder) Close() error {
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}

func (b *Builder) build(ctx context.Context) (string, error) {
	if given := os.Getenv(BinaryVariable); given != "" {
		return filepath.Abs(given)
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if b.dir, err = os.MkdirTemp("", "holdfast-binary-"); err != nil {
		return "", err
	}
	path := filepath.Join(b.dir, "holdfast")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/holdfast")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cmd/holdfast: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return path, nil
}

// BuildTagged builds the binary with a build tag in a directory.
func BuildTagged(ctx context.Context, tag, dir string) (string, error) {
	return buildWith(ctx, dir, "-tags", tag)
}

// BuildVersion builds the binary in a directory, with another version. Nothing but the link is done anew.
func BuildVersion(ctx context.Context, version, dir string) (string, error) {
	return buildWith(ctx, dir, "-ldflags", "-X github.com/holdfast-storage/holdfast/cmd/daemon.version="+version)
}

func buildWith(ctx context.Context, dir, flag, value string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "holdfast")
	if out, err := runIn(ctx, root, "go", "build", flag, value, "-o", path, "./cmd/holdfast"); err != nil {
		return "", fmt.Errorf("build cmd/holdfast with %s %s: %w: %s", flag, value, err, out)
	}
	return path, nil
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
	return "", errors.New("no go.mod above the working directory: set " + BinaryVariable)
}

// WhyUnavailable says why a cluster cannot run here, empty when it can.
func WhyUnavailable() string {
	if os.Geteuid() != 0 {
		return "needs root for loop devices and mounts"
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return "needs loop devices: " + err.Error()
	}
	for _, tool := range []string{"mkfs.ext4", "mkfs.xfs"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "needs " + tool + ": apt-get install e2fsprogs xfsprogs"
		}
	}
	return ""
}
